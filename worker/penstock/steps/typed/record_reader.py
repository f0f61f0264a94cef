"""Makes records of the rows of a batch, column by column.

A column fits a field if each of its values is a value of the field:

    whole numbers   a column of whole numbers whose range is inside of the field's
    floats          floats that are not wider, and whole numbers that it holds exactly
    text, Enum      string, large_string, string_view
    bytes           binary, large_binary, binary_view, fixed_size_binary
    Time            timestamps of s, ms or us, with a zone or without: microseconds in UTC
    Decimal         decimals with no more digits before and behind the point
    tuple, record   a struct that has the fields of the parts; it may have more
    list, dict      a list or a map of values that fit

A dictionary column fits if its values do. A null where the hint has no None, an unknown text of an Enum
and a time beyond 64 bits are errors of that row alone. So is what a ``__post_init__`` of the user raises.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import ConfigError
from penstock.model.arrays import flat
from penstock.model.declared.record_types import RecordField, RecordType
from penstock.model.declared.value_kinds import (
    Binary,
    Boolean,
    Choice,
    DecimalNumber,
    Floating,
    Instant,
    Item,
    Listed,
    Mapped,
    Struct,
    Text,
    Tuple,
    ValueKind,
    Whole,
    kind_text,
)
from penstock.steps.fault_search import Search
from penstock.steps.typed.enum_text import enum_texts
from penstock.steps.typed.value_cells import constructor

Read = Callable[[pa.Array], list[Any]]
_TIME = pa.timestamp("us")
_FLOAT_DIGITS = {64: 53, 32: 24}


class RecordReader:
    """Makes records of one class from batches of one schema."""

    def __init__(self, record: RecordType, schema: pa.Schema) -> None:
        """Raise ConfigError, with the place of the record, for a column that is missing or does not fit."""
        self._record = record
        self._make = constructor(record.python)
        self._readers = [(f.name, _field_reader(record, f, schema)) for f in record.fields]

    def read(self, batch: pa.RecordBatch) -> "Records":
        """Read the values of all rows."""
        errors: dict[int, Exception] = {}
        columns = []
        for name, read in self._readers:
            column = flat(batch.column(name))
            try:
                columns.append(read(column))
            except UnfitError:
                columns.append(_read_searching(read, column, f"{self._record.name}.{name}", errors))
        return Records(self._make, list(zip(*columns, strict=True)), errors)


class Records:
    """The records of a batch. A record is made when it is asked for."""

    def __init__(self, make: Callable[..., Any], rows: Sequence[tuple[Any, ...]], errors: dict[int, Exception]) -> None:
        """Make records of ``rows``, the values of their fields. ``errors`` has the rows that are none."""
        self._make = make
        self._rows = rows
        self._errors = errors

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def record(self, row: int) -> Any:
        """Return the record of a row. Raises ValueError if the row has a value that does not fit."""
        if row in self._errors:
            raise self._errors[row]
        return self._make(*self._rows[row])


class UnfitError(ValueError):
    """A value of a column is no value of the field."""


def _read_searching(read: Read, column: pa.Array, what: str, errors: dict[int, Exception]) -> list[Any]:
    """Read a column in which some values do not fit. Adds their errors to ``errors``."""
    search, values = Search(len(column)), []
    while not search.over:
        at, tried = search.at, search.next(len(column))
        try:
            values += read(column.slice(at, tried))
        except UnfitError as error:
            search.failed(tried)
            if tried == 1:
                values.append(None)
                errors.setdefault(at, UnfitError(f"{what}: {error}"))
        else:
            search.passed(tried)
    return values


def _field_reader(record: RecordType, field: RecordField, schema: pa.Schema) -> Read:
    number = schema.get_field_index(field.name)
    wanted = kind_text(field.kind, field.nullable)
    if number < 0:
        known = ", ".join(schema.names)
        raise ConfigError(f"{record.place}: record {record.name} has {field.name!r}, and the rows have {known}")
    found = schema.field(number).type
    read = item_reader(Item(field.kind, field.nullable), found)
    if read is None:
        what = f"column {field.name!r} has type {found}, and {record.name}.{field.name} is {wanted}"
        raise ConfigError(f"{record.place}: record {record.name}: {what}")
    return read


def item_reader(item: Item, found: pa.DataType) -> Read | None:
    """Return what reads a column of type ``found``, or None if it does not fit."""
    if pa.types.is_dictionary(found):
        return item_reader(item, found.value_type)
    values = _reader(item.kind, found)
    if values is None:
        return None
    read = values

    def read_items(array: pa.Array) -> list[Any]:
        array = flat(array)
        if not array.null_count:
            return read(array)
        if not item.nullable:
            raise UnfitError(f"the value is null, and {kind_text(item.kind)} allows no None")
        present = iter(read(array.drop_null()))
        return [next(present) if valid else None for valid in array.is_valid().to_pylist()]

    return read_items


def _reader(kind: ValueKind, found: pa.DataType) -> Read | None:
    """Return what reads an array of ``found`` without nulls."""
    t = pa.types
    match kind:
        case Whole():
            return _plain if t.is_integer(found) and _is_inside(found, kind) else None
        case Floating(bits):
            return _floats if _is_exact(found, bits) else None
        case Boolean():
            return pa.Array.to_pylist if t.is_boolean(found) else None
        case Text():
            return pa.Array.to_pylist if _is_text(found) else None
        case Binary():
            return pa.Array.to_pylist if _is_bytes(found) else None
        case Instant():
            return _times if t.is_timestamp(found) and found.unit != "ns" else None
        case Choice(values):
            return _choices(values) if _is_text(found) else None
        case DecimalNumber(digits, scale):
            fits = t.is_decimal(found) and found.scale <= scale and found.precision - found.scale <= digits - scale
            return _decimals(scale) if fits else None
        case Struct() | Tuple():
            return _struct_reader(kind, found)
        case Listed(item):
            return _list_reader(item, found)
        case Mapped(key, item):
            return _map_reader(key, item, found)


def _is_inside(found: pa.DataType, kind: Whole) -> bool:
    column = Whole(found.bit_width, pa.types.is_signed_integer(found))
    return kind.least <= column.least and column.most <= kind.most


def _is_exact(found: pa.DataType, bits: int) -> bool:
    if pa.types.is_integer(found):
        return bool(found.bit_width <= _FLOAT_DIGITS[bits])
    return bool(pa.types.is_floating(found) and found.bit_width <= bits)


def _is_text(found: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(found) or t.is_large_string(found) or t.is_string_view(found))


def _is_bytes(found: pa.DataType) -> bool:
    t = pa.types
    sized = t.is_fixed_size_binary(found) and not t.is_decimal(found)
    return bool(sized or t.is_binary(found) or t.is_large_binary(found) or t.is_binary_view(found))


# --- Arrays without nulls ---------------------------------------------------------------------


def _plain(array: pa.Array) -> list[Any]:
    values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
    return values


def _floats(array: pa.Array) -> list[Any]:
    return list(map(float, _plain(array)))


def _times(array: pa.Array) -> list[Any]:
    try:
        return _plain(array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise UnfitError(f"the time leaves 64 bits of microseconds: {error}") from None


def _decimals(scale: int) -> Read:
    def read(array: pa.Array) -> list[Any]:
        return array.cast(pa.decimal128(38, scale)).to_pylist()  # type: ignore[no-any-return]

    return read


def _choices(values: tuple[str, ...]) -> Read:
    texts = enum_texts(values)

    def read(array: pa.Array) -> list[Any]:
        try:
            return [texts[value] for value in array.to_pylist()]
        except KeyError as error:
            raise UnfitError(f"{error} is none of the texts of the Enum") from None

    return read


def _struct_reader(kind: Struct | Tuple, found: pa.DataType) -> Read | None:
    if not pa.types.is_struct(found):
        return None
    readers: list[tuple[int, Read]] = []
    for name, part in kind.parts:
        place = found.get_field_index(name)
        read = item_reader(part, found.field(place).type) if place >= 0 else None
        if read is None:
            return None
        readers.append((place, read))
    make: Callable[..., Any] | None = constructor(kind.python) if isinstance(kind, Struct) else None

    def read_all(array: pa.Array) -> list[Any]:
        parts = array.flatten()
        rows: Iterator[tuple[Any, ...]] = zip(*[read(parts[place]) for place, read in readers], strict=True)
        return list(rows) if make is None else [make(*row) for row in rows]

    return read_all


def _list_reader(item: Item, found: pa.DataType) -> Read | None:
    t = pa.types
    if not (t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found)):
        return None
    inner = item_reader(item, found.value_type)
    if inner is None:
        return None
    read = inner
    return lambda array: list(_cut(read(array.flatten()), array))


def _cut(values: list[Any], lists: pa.Array) -> Iterator[list[Any]]:
    at = 0
    for length in pc.list_value_length(lists).to_pylist():
        yield values[at : at + length]
        at += length


def _map_reader(key: ValueKind, item: Item, found: pa.DataType) -> Read | None:
    if not pa.types.is_map(found):
        return None
    keys, values = item_reader(Item(key), found.key_type), item_reader(item, found.item_type)
    if keys is None or values is None:
        return None
    read_keys, read_values = keys, values
    entries = pa.list_(pa.struct([("key", found.key_type), ("value", found.item_type)]))

    def read(array: pa.Array) -> list[Any]:
        lists = array.cast(entries)
        parts = lists.flatten().flatten()
        pairs = list(zip(read_keys(parts[0]), read_values(parts[1]), strict=True))
        return [dict(each) for each in _cut(pairs, lists)]

    return read
