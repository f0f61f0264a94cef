"""Cells of state fields: how a field is shown to a function, written, and given its first value.

``CELLS`` has what makes the cell of each kind of field.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from penstock.model.declared.field_kinds import (
    HEAD,
    LENGTH,
    AggregateField,
    ListField,
    MapField,
    RingField,
    ScalarField,
    SetField,
    TimerField,
    TimersField,
)
from penstock.model.declared.state_types import KeptField, StateType
from penstock.model.declared.value_kinds import Instant, Item
from penstock.model.table_columns import NO_TIMER
from penstock.steps.typed.aggregate_cell import AggregateCell
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.entry_cells import ListCell, MapCell, SetCell, TimersCell
from penstock.steps.typed.value_cells import Cursor, kept_by, shown_by, value_cell
from penstock.steps.typed.value_rules import checked, rule_of

_NOTHING = memoryview(b"")


class FieldCell(Protocol):
    """A field of the row at which the cursor stands."""

    def bind(self, table: BoundTable) -> None:
        """Take the columns of a table. Called for each batch."""
        ...

    def shown(self) -> property:
        """Return the property by which a function reads the field, and assigns to it if it may."""
        ...

    def reset(self) -> None:
        """Write the first value of the field."""
        ...

    def is_first(self) -> bool:
        """Return whether the field has its first value."""
        ...


CellMaker = Callable[[str, KeptField, Cursor], FieldCell]


class ScalarCell:
    """A field with a single value."""

    def __init__(self, label: str, field: KeptField, cursor: Cursor) -> None:
        """Show ``field``. ``label`` names it in errors."""
        kind = field.kind
        assert isinstance(kind, ScalarField), "one cell for each kind"
        self._label = label
        self._item = Item(kind.kind, kind.nullable)
        self._rule = rule_of(self._item)
        self._first = self._rule(field.default)
        self._value = value_cell(field.name, self._item, self._first, cursor)

    def bind(self, table: BoundTable) -> None:
        """Take the columns of a table."""
        self._value.bind(table)

    def shown(self) -> property:
        """Return the property of the value."""
        get = self._value.get
        return property(lambda _: get(), self._assign)

    def _assign(self, _: object, value: Any) -> None:
        try:
            kept = self._rule(value)
        except (TypeError, ValueError, OverflowError):
            kept = checked(self._rule, value, self._item, self._label)
        self._value.put(kept)

    def reset(self) -> None:
        """Write the default."""
        self._value.put(self._first)

    def is_first(self) -> bool:
        """Return whether the value is the default. Zeros of both signs differ."""
        return repr(self._value.get()) == repr(self._first)


class RingCell:
    """The newest values of a ring. Functions get this object itself."""

    def __init__(self, label: str, field: KeptField, cursor: Cursor) -> None:
        """Show ``field``. ``label`` names it in errors."""
        kind = field.kind
        assert isinstance(kind, RingField), "one cell for each kind"
        self._label = label
        self._name = field.name
        self._width = kind.width
        self._item = Item(kind.item)
        self._rule = rule_of(self._item)
        self._shown, self._kept = shown_by(kind.item), kept_by(kind.item)
        self._cursor = cursor
        self._values: Any = _NOTHING
        self._heads: Any = _NOTHING
        self._lengths: Any = _NOTHING

    def bind(self, table: BoundTable) -> None:
        """Take the columns of a table."""
        self._values = table.fixed(self._name)
        self._heads = table.fixed(self._name + HEAD)
        self._lengths = table.fixed(self._name + LENGTH)

    def shown(self) -> property:
        """Return the property that shows this object."""
        return property(lambda _: self)

    def reset(self) -> None:
        """Remove all values."""
        self.clear()

    def is_first(self) -> bool:
        """Return whether the ring is empty."""
        return not len(self)

    def _place(self, slot: int) -> Any:
        return (self._cursor.row, slot) if self._width > 1 else self._cursor.row

    def append(self, value: Any) -> Any:
        """Add a value. Returns the one that fell out, or zero while the ring is not full."""
        kept = self._kept(checked(self._rule, value, self._item, self._label))
        row, write = self._cursor.row, self._cursor.log.write
        head, length = self._heads[row], self._lengths[row]
        place = self._place((head + length) % self._width)
        if length < self._width:
            fell = 0
            write(self._lengths, row, length + 1)
        else:
            fell = self._values[place]
            write(self._heads, row, (head + 1) % self._width)
        write(self._values, place, kept)
        return self._shown(fell)

    def __len__(self) -> int:
        """Return how many values there are."""
        found: int = self._lengths[self._cursor.row]
        return found

    def __getitem__(self, index: int) -> Any:
        """Return a value: 0 is the oldest one, -1 the newest one."""
        length = len(self)
        at = index + length if index < 0 else index
        if not 0 <= at < length:
            raise IndexError(f"{self._label} has {length} values, and none at {index}")
        return self._at(at)

    def _at(self, number: int) -> Any:
        slot = (self._heads[self._cursor.row] + number) % self._width
        return self._shown(self._values[self._place(slot)])

    def __iter__(self) -> Iterator[Any]:
        """Go through the values, the oldest first."""
        number = 0
        while number < len(self):
            yield self._at(number)
            number += 1

    def clear(self) -> None:
        """Remove all values."""
        row, write = self._cursor.row, self._cursor.log.write
        write(self._heads, row, 0)
        write(self._lengths, row, 0)

    def __repr__(self) -> str:
        """Spell the values."""
        return f"Ring({list(self)})"


class TimerCell:
    """A timer: its time, or None while it is not set."""

    def __init__(self, label: str, field: KeptField, cursor: Cursor) -> None:
        """Show ``field``. ``label`` names it in errors."""
        self._label = label
        self._name = field.name
        self._item = Item(Instant(), nullable=True)
        self._rule = rule_of(self._item)
        self._cursor = cursor
        self._times: Any = _NOTHING

    def bind(self, table: BoundTable) -> None:
        """Take the column of a table."""
        self._times = table.fixed(self._name)

    def shown(self) -> property:
        """Return the property of the time."""
        return property(self._get, self._assign)

    def _get(self, _: object) -> int | None:
        time: int = self._times[self._cursor.row]
        return None if time == NO_TIMER else time

    def _assign(self, _: object, value: Any) -> None:
        time = checked(self._rule, value, self._item, self._label)
        self._cursor.log.write(self._times, self._cursor.row, NO_TIMER if time is None else time)

    def reset(self) -> None:
        """Clear the timer."""
        self._cursor.log.write(self._times, self._cursor.row, NO_TIMER)

    def is_first(self) -> bool:
        """Return whether the timer is not set."""
        return bool(self._times[self._cursor.row] == NO_TIMER)


CELLS: Mapping[type, CellMaker] = {
    ScalarField: ScalarCell,
    RingField: RingCell,
    TimerField: TimerCell,
    ListField: ListCell,
    MapField: MapCell,
    SetField: SetCell,
    TimersField: TimersCell,
    AggregateField: AggregateCell,
}


def field_cell(state: StateType, field: KeptField, cursor: Cursor) -> FieldCell:
    """Make the cell of a field."""
    return CELLS[type(field.kind)](f"{state.name}.{field.name}", field, cursor)
