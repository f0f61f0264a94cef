"""The cell of ``ps.Aggregate``: what is known of the values of a key, without the values.

A sum of whole numbers is exact in 64 bits, and one that does not fit is an error. The mean of whole numbers divides
their exact sum, which has 128 bits. Floats are added in double precision in the order of the calls. NaN is the largest
float. This is what the step ``aggregate`` computes (:mod:`penstock.steps.keyed`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from penstock.contract.graph import Function
from penstock.model.declared.field_kinds import HIGH, AggregateField, accumulator, has_high, kept_total, seen_column
from penstock.model.declared.state_types import KeptField
from penstock.model.declared.value_kinds import Boolean, Floating, Item
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.value_cells import Cursor
from penstock.steps.typed.value_rules import checked, rule_of

_NOTHING: Any = memoryview(b"")
_LOW_BITS, _SIGN = (1 << 64) - 1, 1 << 63


def _is_less(one: Any, other: Any) -> bool:
    return bool(one < other or (other != other and one == one))  # noqa: PLR0124  NaN differs from itself


_FOLDS: Mapping[str, Callable[[Any, Any], Any]] = {
    Function.SUM: lambda old, new: old + new,
    Function.MEAN: lambda old, new: old + new,
    Function.MIN: lambda old, new: new if _is_less(new, old) else old,
    Function.MAX: lambda old, new: new if _is_less(old, new) else old,
    Function.LAST: lambda _, new: new,
}


def aggregated(kind: AggregateField, count: int, total: Any) -> Any:
    """Return the value of an aggregate that has taken so many values; None of none, but a count of them is 0."""
    if kind.function == Function.COUNT:
        return count
    if not count:
        return None
    if kind.function == Function.MEAN:
        return float(total) / count
    is_one_of_them = kind.function in {Function.MIN, Function.MAX, Function.LAST}
    return bool(total) if is_one_of_them and isinstance(kind.item, Boolean) else total


class AggregateCell:
    """An aggregate of the row at which the cursor stands. Functions get this object itself."""

    def __init__(self, label: str, field: KeptField, cursor: Cursor) -> None:
        """Show ``field``. ``label`` names it in errors."""
        assert isinstance(field.kind, AggregateField), "one cell for each kind"
        self._label, self._name = label, field.name
        self._kind = kind = field.kind
        self._item = Item(kind.item)
        self._rule = rule_of(self._item)
        self._fold = _FOLDS.get(kind.function)
        unsigned = kept_total(kind).dtype == "uint64"
        self._bounds = (0, _LOW_BITS) if unsigned else (-_SIGN, _SIGN - 1)
        self._floating, self._wide = isinstance(kind.item, Floating), has_high(kind)
        self._cursor = cursor
        self._seen: Any = _NOTHING
        self._totals: Any = _NOTHING
        self._highs: Any = _NOTHING

    def bind(self, table: BoundTable) -> None:
        """Take the columns of a table."""
        self._seen = table.fixed(seen_column(self._name, self._kind))
        if self._fold is not None:
            self._totals = table.fixed(accumulator(self._name, self._kind))
        if self._wide:
            self._highs = table.fixed(accumulator(self._name, self._kind) + HIGH)

    def shown(self) -> property:
        """Return the property that shows this object."""
        return property(lambda _: self)

    def add(self, value: Any) -> None:
        """Take a value; a count takes any. Raises OverflowError if a sum of whole numbers leaves 64 bits."""
        seen = self._seen[self._cursor.row]
        if self._fold is not None:
            kept = checked(self._rule, value, self._item, f"a value of {self._label}")
            new = kept if self._floating else int(kept)
            total = self._fold(self._total(), new) if seen else new
            least, most = self._bounds
            if not self._floating and not self._wide and not least <= total <= most:
                raise OverflowError(f"{self._label}: {self._total()} + {new}: the sum leaves 64 bits")
            self._put(total)
        self._cursor.log.write(self._seen, self._cursor.row, seen + 1)

    @property
    def value(self) -> Any:
        """Return the result; None if no value was added, and 0 for a count."""
        return aggregated(self._kind, *self.export())

    def export(self) -> tuple[int, Any]:
        """Return how many values were added, and what is kept of them."""
        return self._seen[self._cursor.row], 0 if self._fold is None else self._total()

    def load(self, kept: tuple[int, Any]) -> None:
        """Replace what is kept."""
        self._cursor.log.write(self._seen, self._cursor.row, kept[0])
        if self._fold is not None:
            self._put(kept[1] if self._floating else int(kept[1]))

    def clear(self) -> None:
        """Forget all values."""
        self.load((0, 0))

    def reset(self) -> None:
        """Forget all values."""
        self.clear()

    def is_first(self) -> bool:
        """Return whether no value was added."""
        return not self._seen[self._cursor.row]

    def _total(self) -> Any:
        row = self._cursor.row
        return (self._highs[row] << 64) + (self._totals[row] & _LOW_BITS) if self._wide else self._totals[row]

    def _put(self, total: Any) -> None:
        row, write = self._cursor.row, self._cursor.log.write
        if self._wide:
            write(self._highs, row, total >> 64)
            total = ((total & _LOW_BITS) ^ _SIGN) - _SIGN  # the same bits, signed
        write(self._totals, row, total)

    def __repr__(self) -> str:
        """Spell the result."""
        return f"Aggregate({self.value})"
