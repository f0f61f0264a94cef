"""Cells of single values: they read and write one value of the row at which a cursor stands.

FixedCell      a number, bool, time or Enum: one column
SpanCell       a text, bytes or Decimal: one column of any length
GroupCell      a tuple or record: the cells of its parts
NullableCell   a FixedCell or GroupCell that may be None: it has the column ``.set``
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from decimal import Decimal
from typing import Any, Protocol

import pyarrow as pa

from penstock.model.declared.field_kinds import SET
from penstock.model.declared.value_kinds import (
    FIXED,
    SPANNED,
    Boolean,
    Choice,
    DecimalNumber,
    Fixed,
    Floating,
    Item,
    Spanned,
    Struct,
    Text,
    Tuple,
)
from penstock.steps.typed.bound_table import BoundTable, BoundTexts, Pack, Unpack
from penstock.steps.typed.enum_text import EnumText, enum_texts
from penstock.steps.typed.undo_log import UndoLog

_NOTHING = memoryview(b"")
_DECIMAL_BYTES = 16


class Cursor:
    """The row that a function sees, and the log of what it writes."""

    __slots__ = ("log", "row")

    def __init__(self, log: UndoLog) -> None:
        """Stand nowhere."""
        self.log = log
        self.row = -1


class ValueCell(Protocol):
    """One value of the row at which the cursor stands."""

    def bind(self, table: BoundTable) -> None:
        """Take the columns of a table."""
        ...

    def get(self) -> Any:
        """Return the value."""
        ...

    def put(self, value: Any) -> None:
        """Write a value that its rule has accepted. None stands for the first value of a text without None."""
        ...


def value_cell(column: str, item: Item, first: Any, cursor: Cursor) -> ValueCell:
    """Make the cell of a value. ``first`` is the value of a new key: a text that was not stored reads as it."""
    kind = item.kind
    if isinstance(kind, SPANNED):
        return SpanCell(column, kind, None if item.nullable else first, cursor)
    inner: ValueCell
    if isinstance(kind, FIXED):
        inner = FixedCell(column, kind, cursor)
    else:
        assert isinstance(kind, Struct | Tuple), "lists and dicts of a state were refused"
        inner = GroupCell(column, kind, first, cursor)
    return NullableCell(column, inner, cursor) if item.nullable else inner


class FixedCell:
    """A value in one column of a numpy type."""

    def __init__(self, column: str, kind: Fixed, cursor: Cursor) -> None:
        """Keep a value of ``kind`` in ``column``."""
        self._column = column
        self._cursor = cursor
        self._shown, self._kept = shown_by(kind), kept_by(kind)
        self._values: Any = _NOTHING

    def bind(self, table: BoundTable) -> None:
        """Take the column."""
        self._values = table.fixed(self._column)

    def get(self) -> Any:
        """Return the value."""
        return self._shown(self._values[self._cursor.row])

    def put(self, value: Any) -> None:
        """Write a value."""
        self._cursor.log.write(self._values, self._cursor.row, self._kept(value))


def shown_by(kind: Fixed) -> Callable[[Any], Any]:
    """Return how a number of a column becomes the value that a function gets."""
    match kind:
        case Boolean():
            return bool
        case Choice(values):
            return tuple(enum_texts(values).values()).__getitem__
        case Floating():
            return float
        case _:
            return int


def kept_by(kind: Fixed) -> Callable[[Any], Any]:
    """Return how a value becomes the number that a column keeps."""
    return _code if isinstance(kind, Choice) else _same


def _same(value: Any) -> Any:
    return value


def _code(value: EnumText) -> int:
    return value.code


class SpanCell:
    """A value in one column of any length."""

    def __init__(self, column: str, kind: Spanned, first: Any, cursor: Cursor) -> None:
        """Keep a value of ``kind`` in ``column``. A row in which nothing is stored reads as ``first``."""
        self._column = column
        self._packing = _packing(kind)
        self._first = first
        self._cursor = cursor
        self._values: BoundTexts | dict[int, Any] = {}

    def bind(self, table: BoundTable) -> None:
        """Take the column."""
        self._values = table.texts(self._column, *self._packing)

    def get(self) -> Any:
        """Return the value."""
        found = self._values[self._cursor.row]
        return self._first if found is None else found

    def put(self, value: Any) -> None:
        """Write a value. None removes what is stored."""
        self._cursor.log.write(self._values, self._cursor.row, value)


class GroupCell:
    """A tuple or record, whose parts are in columns of their own."""

    def __init__(self, column: str, kind: Struct | Tuple, first: Any, cursor: Cursor) -> None:
        """Keep the parts in columns whose names begin with ``column``."""
        names = [name for name, _ in kind.parts]
        self._take: Callable[[Any], Sequence[Any]] = list if isinstance(kind, Tuple) else _getter(names)
        self._make: Callable[..., Any] = constructor(kind.python) if isinstance(kind, Struct) else _tuple
        firsts = [None] * len(names) if first is None else self._take(first)
        self._parts = tuple(
            value_cell(f"{column}.{name}", part, value, cursor)
            for (name, part), value in zip(kind.parts, firsts, strict=True)
        )

    def bind(self, table: BoundTable) -> None:
        """Take the columns of all parts."""
        for part in self._parts:
            part.bind(table)

    def get(self) -> Any:
        """Return the tuple or record."""
        return self._make(*[part.get() for part in self._parts])

    def put(self, value: Any) -> None:
        """Write all parts."""
        for part, each in zip(self._parts, self._take(value), strict=True):
            part.put(each)


class NullableCell:
    """A value that may be None: its column ``.set`` says whether there is one."""

    def __init__(self, column: str, inner: ValueCell, cursor: Cursor) -> None:
        """Keep in ``column.set`` whether ``inner`` has a value."""
        self._column = column + SET
        self._inner = inner
        self._cursor = cursor
        self._set: Any = _NOTHING

    def bind(self, table: BoundTable) -> None:
        """Take the columns."""
        self._set = table.fixed(self._column)
        self._inner.bind(table)

    def get(self) -> Any:
        """Return the value, or None."""
        return self._inner.get() if self._set[self._cursor.row] else None

    def put(self, value: Any) -> None:
        """Write a value, or None. What was there before None stays in its columns unseen."""
        self._cursor.log.write(self._set, self._cursor.row, value is not None)
        if value is not None:
            self._inner.put(value)


# --- Making values ----------------------------------------------------------------------------


def constructor(cls: Any) -> Callable[..., Any]:
    """Return a function that makes a record of its values, in the order of the fields."""
    declared = fields(cls)
    if not any(f.kw_only for f in declared):
        made: Callable[..., Any] = cls
        return made
    names = [f.name for f in declared]
    return lambda *values: cls(**dict(zip(names, values, strict=True)))


def _getter(names: Sequence[str]) -> Callable[[Any], list[Any]]:
    return lambda value: [getattr(value, name) for name in names]


def _tuple(*values: Any) -> tuple[Any, ...]:
    return values


# --- Values of any length ---------------------------------------------------------------------


def _packing(kind: Spanned) -> tuple[Unpack, Pack]:
    match kind:
        case Text():
            return lambda found: found.cast(pa.string()).to_pylist(), lambda values: _binary(values, pa.string())
        case DecimalNumber(digits, scale):
            decimals = pa.decimal128(digits, scale)
            return lambda found: _decimals(found, decimals), lambda values: _of_decimals(values, decimals)
        case _:
            return lambda found: found.to_pylist(), lambda values: pa.array(values, pa.binary())


def _binary(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind).cast(pa.binary())


def _decimals(found: pa.Array, kind: pa.DataType) -> list[Decimal | None]:
    values: list[Decimal | None] = found.cast(pa.binary(_DECIMAL_BYTES)).view(kind).to_pylist()
    return values


def _of_decimals(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind).view(pa.binary(_DECIMAL_BYTES)).cast(pa.binary())
