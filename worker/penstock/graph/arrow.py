"""Column types as text to Arrow types and back. Imports Arrow: only where rows are at hand."""

import re
from functools import cache

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.contract.columns import SIMPLE_TYPES, Column, Columns, normal_type

_SIMPLE = {
    "double": pa.float64(),
    "float": pa.float32(),
    "halffloat": pa.float16(),
    "date32[day]": pa.date32(),
    "date64[ms]": pa.date64(),
    "large_string": pa.large_string(),
    "large_binary": pa.large_binary(),
    "string_view": pa.string_view(),
    "binary_view": pa.binary_view(),
    "null": pa.null(),
    "bool": pa.bool_(),
}
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)\((\d+), ?(-?\d+)\)")
_BYTES = re.compile(r"fixed_size_binary\[(\d+)\]")
_NOT_NULL = " not null"
_OPENING, _CLOSING = "<([", ">)]"


def arrow_schema(columns: Columns) -> pa.Schema:
    """Return the Arrow schema of columns. Raises ConfigError on a type that is none."""
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in columns])


def columns_of_schema(schema: pa.Schema) -> Columns:
    """Return the columns of an Arrow schema."""
    return tuple(Column(f.name, str(f.type)) for f in schema)


@cache
def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type that ``text`` spells, as ``str`` of the type does.

    Names of a list's items and of a map's entries are not kept. Raises ConfigError.
    """
    found = _parsed(text)
    if found is None:
        raise ConfigError(unknown("column type", text, SIMPLE_TYPES))
    return found


def check_type(kind: pa.DataType) -> None:
    """Raise ConfigError for a type of which a column cannot pass through a job."""
    try:
        if arrow_type(str(kind)) != kind:
            pa.array([], kind).cast(arrow_type(str(kind)))
    except (ConfigError, pa.ArrowException):
        raise ConfigError(
            f"columns of type {kind} cannot pass through a job: name those to read (columns), "
            "without it"
        ) from None


def _parsed(text: str) -> pa.DataType | None:
    name = normal_type(text)
    if name in _SIMPLE:
        return _SIMPLE[name]
    if match := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(match[1], tz=match[2])
    try:
        if match := _DECIMAL.fullmatch(name):
            make = getattr(pa, f"decimal{match[1]}")
            return make(int(match[2]), int(match[3]))
        if match := _BYTES.fullmatch(name):
            return pa.binary(int(match[1]))
        kind, _, rest = name.partition("<")
        if rest:
            inside, closed, behind = rest.rpartition(">")
            return _nested(kind, inside, behind) if closed else None
        return pa.type_for_alias(name)
    except ValueError:
        return None


def _nested(kind: str, inside: str, behind: str) -> pa.DataType | None:
    parts = _split(inside)
    if kind == "struct":
        fields = [_field(part) for part in parts if part]
        known = [f for f in fields if f is not None]
        return pa.struct(known) if len(known) == len(fields) else None
    if kind == "dictionary":
        named = dict(part.partition("=")[::2] for part in parts)
        values, indices = _parsed(named.get("values", "")), _parsed(named.get("indices", ""))
        ordered = named.get("ordered") == "1"
        return (
            None if values is None or indices is None else pa.dictionary(indices, values, ordered)
        )
    if kind == "map":
        types = [_parsed(part.partition(" ('")[0]) for part in parts[:2]]
        if len(types) < 2 or types[0] is None or types[1] is None:
            return None
        return pa.map_(types[0], types[1], keys_sorted=parts[2:] == ["keys_sorted"])
    return _list(kind, parts, behind)


def _list(kind: str, parts: list[str], behind: str) -> pa.DataType | None:
    item = _field(parts[0]) if ": " in parts[0] else _field(f"item: {parts[0]}")
    if item is None or len(parts) != 1:
        return None
    item = item.with_name("item")
    if kind == "list":
        return pa.list_(item)
    if kind == "large_list":
        return pa.large_list(item)
    size = behind.removeprefix("[").removesuffix("]")
    return pa.list_(item, int(size)) if kind == "fixed_size_list" and size.isdigit() else None


def _field(text: str) -> pa.Field | None:
    name, _, kind = text.partition(": ")
    parsed = _parsed(kind.removesuffix(_NOT_NULL))
    return pa.field(name, parsed, not kind.endswith(_NOT_NULL)) if parsed is not None else None


def _split(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]
