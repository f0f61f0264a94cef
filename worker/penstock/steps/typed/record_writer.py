"""Makes batches of the records that a function emits.

A record is checked when it is emitted, so the error has the line of the user that emitted it. See
:mod:`penstock.steps.typed.value_rules` for what a field takes.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa

from penstock.model.declared.record_types import RecordType
from penstock.model.declared.value_kinds import Item, Listed, Mapped, Struct, Tuple, ValueKind
from penstock.steps.typed.value_rules import Rule, checked, rule_of

Values = Sequence[Any]


class RecordWriter:
    """Checks records of one class, and makes batches of them."""

    def __init__(self, record: RecordType, schema: pa.Schema) -> None:
        """Write the fields of ``record`` as rows of ``schema``."""
        self._class = record.python
        self._name = record.name
        self.schema = schema
        self._names = [f.name for f in record.fields]
        items = [Item(f.kind, f.nullable) for f in record.fields]
        self._items = items
        self._rules = [_arrow_rule(item) for item in items]
        self._fields = attrgetter(*self._names)

    def values(self, record: Any) -> Values:
        """Return the values of a record as Arrow takes them.

        Raises TypeError if it is none of the class, and TypeError or ValueError for a field that does not fit.
        """
        if not isinstance(record, self._class):
            given = "None" if record is None else type(record).__name__
            raise TypeError(f"{given} is no record of {self._name}")
        found = self._fields(record)
        fields = found if len(self._names) > 1 else (found,)
        try:
            return [rule(value) for rule, value in zip(self._rules, fields, strict=True)]
        except (TypeError, ValueError, OverflowError):
            for name, item, rule, value in zip(self._names, self._items, self._rules, fields, strict=True):
                checked(rule, value, item, f"{self._name}.{name}")
            raise

    def batch(self, rows: Sequence[Values]) -> pa.RecordBatch:
        """Make a batch of what :meth:`values` returned for each row."""
        columns = zip(*rows, strict=True) if rows else ((),) * len(self.schema)
        arrays = [pa.array(list(values), kind) for values, kind in zip(columns, self.schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _arrow_rule(item: Item) -> Rule:
    """Return the rule of a value, followed by its form for Arrow."""
    rule, form = rule_of(item), _form(item.kind)
    if form is None:
        return rule
    made: Callable[[Any], Any] = form

    def take(value: Any) -> Any:
        kept = rule(value)
        return None if kept is None else made(kept)

    return take


def _form(kind: ValueKind) -> Callable[[Any], Any] | None:
    """Return how a value is given to Arrow; None if as it is."""
    match kind:
        case Struct():
            return _struct_form([(name, attrgetter(name), _item_form(part)) for name, part in kind.parts])
        case Tuple():
            return _struct_form([(name, itemgetter(n), _item_form(part)) for n, (name, part) in enumerate(kind.parts)])
        case Listed(item):
            one = _item_form(item)
            return lambda value: [one(each) for each in value]
        case Mapped(key, item):
            of_key, of_value = _item_form(Item(key)), _item_form(item)
            return lambda value: [(of_key(k), of_value(v)) for k, v in value.items()]
        case _:
            return None


def _item_form(item: Item) -> Callable[[Any], Any]:
    form = _form(item.kind)
    if form is None:
        return lambda value: value
    made: Callable[[Any], Any] = form
    return lambda value: None if value is None else made(value)


def _struct_form(parts: Sequence[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]) -> Callable[[Any], Any]:
    return lambda value: {name: form(get(value)) for name, get, form in parts}
