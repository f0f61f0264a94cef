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
_DECIMAL = re.compile(r"decimal128\((\d+), ?(-?\d+)\)")
_LIST = re.compile(r"list<(?:item: )?(.+)>")
_DICTIONARY = re.compile(r"dictionary<values=(.+), indices=(\w+), ordered=[01]>")


def arrow_schema(columns: Columns) -> pa.Schema:
    """Return the Arrow schema of columns. Raises ConfigError on a type that is none."""
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in columns])


def columns_of_schema(schema: pa.Schema) -> Columns:
    """Return the columns of an Arrow schema."""
    return tuple(Column(f.name, str(f.type)) for f in schema)


@cache
def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type that ``text`` spells; simple ones, lists, decimals, dictionaries."""
    name = normal_type(text)
    if name in _SIMPLE:
        return _SIMPLE[name]
    if match := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(match[1], tz=match[2])
    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := _LIST.fullmatch(name):
        return pa.list_(arrow_type(match[1]))
    if match := _DICTIONARY.fullmatch(name):
        return pa.dictionary(arrow_type(match[2]), arrow_type(match[1]))
    try:
        return pa.type_for_alias(name)
    except ValueError:
        raise ConfigError(unknown("column type", text, SIMPLE_TYPES)) from None
