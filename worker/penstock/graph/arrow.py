"""Converts column types between text and Arrow types. Imports Arrow: import it only when needed."""

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
_VIEWS = {"string_view": "string", "binary_view": "binary"}
_NOT_NULL = " not null"
_OPENING, _CLOSING = "<([", ">)]"


def arrow_schema(columns: Columns) -> pa.Schema:
    """Return the Arrow schema of columns. Raises ConfigError for a type that does not exist."""
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in columns])


def columns_of_schema(schema: pa.Schema) -> Columns:
    """Return the columns of an Arrow schema."""
    return tuple(Column(f.name, str(f.type)) for f in schema)


@cache
def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type with this name. ``text`` is what ``str`` of an Arrow type returns.

    Names of a list's items and of a map's entries are not kept. Raises ConfigError for a type that
    does not exist.
    """
    found = _parse_type(text)
    if found is None:
        raise ConfigError(unknown("column type", text, SIMPLE_TYPES))
    return found


def check_views(kind: pa.DataType) -> None:
    """Raise ConfigError for a view, also within a type: Arrow selects no rows of columns of views."""
    inner = [kind.value_type] if pa.types.is_dictionary(kind) else [kind.field(i).type for i in range(kind.num_fields)]
    for each in inner:
        check_views(each)
    if (instead := _VIEWS.get(str(kind))) is not None:
        raise ConfigError(f"columns of type {kind} cannot pass through a job: declare {instead}")


def check_type(kind: pa.DataType) -> None:
    """Raise ConfigError if columns of this type cannot pass through a job."""
    check_views(kind)
    try:
        if arrow_type(str(kind)) != kind:
            pa.array([], kind).cast(arrow_type(str(kind)))
    except (ConfigError, pa.ArrowException):
        raise ConfigError(
            f"columns of type {kind} cannot pass through a job: name those to read (columns), without it"
        ) from None


def _parse_type(text: str) -> pa.DataType | None:
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
            inner, closing, suffix = rest.rpartition(">")
            return _nested(kind, inner, suffix) if closing else None
        return pa.type_for_alias(name)
    except ValueError:
        return None


def _nested(kind: str, inner: str, suffix: str) -> pa.DataType | None:
    parts = _split_outside_brackets(inner)
    if kind == "struct":
        fields = [_field(part) for part in parts if part]
        known = [f for f in fields if f is not None]
        return pa.struct(known) if len(known) == len(fields) else None
    if kind == "dictionary":
        named = dict(part.partition("=")[::2] for part in parts)
        values, indices = (
            _parse_type(named.get("values", "")),
            _parse_type(named.get("indices", "")),
        )
        ordered = named.get("ordered") == "1"
        return None if values is None or indices is None else pa.dictionary(indices, values, ordered)
    if kind == "map":
        types = [_parse_type(part.partition(" ('")[0]) for part in parts[:2]]
        if len(types) < 2 or types[0] is None or types[1] is None:
            return None
        return pa.map_(types[0], types[1], keys_sorted=parts[2:] == ["keys_sorted"])
    return _list(kind, parts, suffix)


def _list(kind: str, parts: list[str], suffix: str) -> pa.DataType | None:
    item = _field(parts[0]) if ": " in parts[0] else _field(f"item: {parts[0]}")
    if item is None or len(parts) != 1:
        return None
    item = item.with_name("item")
    if kind == "list":
        return pa.list_(item)
    if kind == "large_list":
        return pa.large_list(item)
    size = suffix.removeprefix("[").removesuffix("]")
    return pa.list_(item, int(size)) if kind == "fixed_size_list" and size.isdigit() else None


def _field(text: str) -> pa.Field | None:
    name, _, kind = text.partition(": ")
    parsed = _parse_type(kind.removesuffix(_NOT_NULL))
    return pa.field(name, parsed, not kind.endswith(_NOT_NULL)) if parsed is not None else None


def _split_outside_brackets(text: str) -> list[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in _OPENING) - (character in _CLOSING)
        if character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]
