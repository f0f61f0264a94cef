"""Columns of a stream: names and Arrow types as text, so that no Arrow is needed to check a graph.

A type is spelled as ``str(pyarrow.DataType)`` spells it: ``string``, ``timestamp[us]``,
``list<item: int64>``; a few common aliases are understood.
"""

from typing import Annotated

from penstock.contract.codec import Message
from penstock.contract.schema import Field

_ALIASES = {
    "float64": "double",
    "float32": "float",
    "float16": "halffloat",
    "utf8": "string",
    "str": "string",
    "large_utf8": "large_string",
    "boolean": "bool",
    "bytes": "binary",
    "int": "int64",
    "timestamp": "timestamp[us]",
    "date": "date32[day]",
    "date32": "date32[day]",
}
_INTEGERS = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float", "double")
KEY_TYPES = (
    *_INTEGERS,
    *_FLOATS,
    "bool",
    "string",
    "large_string",
    "string_view",
    "binary",
    "large_binary",
    "date32[day]",
    "timestamp[us]",
)
NUMERIC_TYPES = (*_INTEGERS, *_UNSIGNED, *_FLOATS)
_TIMES = (
    "date32[day]",
    "date64[ms]",
    *(f"{kind}[{unit}]" for kind in ("timestamp", "duration") for unit in ("s", "ms", "us", "ns")),
    "time32[s]",
    "time32[ms]",
    "time64[us]",
    "time64[ns]",
)
ORDERED_TYPES = (*NUMERIC_TYPES, "bool", *_TIMES)
_STATE_TYPES = (*ORDERED_TYPES, "string", "large_string", "binary", "large_binary")
SIMPLE_TYPES = tuple(dict.fromkeys((*KEY_TYPES, *_UNSIGNED, *_TIMES, "halffloat", "null", "binary_view")))
ColumnName = Annotated[
    str,
    Field(pattern=r"[^_\n].*|_([^_\n].*)?", rule="names that begin with __ belong to the engine"),
]
HIDDEN_PREFIX = "__"  # of the engine's own columns; no column of a user begins with it


class Column(Message, tag="Column"):
    """One column: its name and its Arrow type as text."""

    name: Annotated[ColumnName, Field("name", "name of the column")]
    type: Annotated[str, Field("type", "Arrow type, like int64, string or timestamp[us]")]


Columns = tuple[Column, ...]


def declared_column(name: str, type: str) -> Column:  # noqa: A002  the attributes' names
    """Build a column as a file declares it, with the usual name of its type."""
    return Column(name, normal_type(type))


DeclaredColumns = Annotated[Columns, Field(key="name", length_max=1024, make=declared_column)]


def normal_type(text: str) -> str:
    """Spell a type as Arrow does: ``float64`` is ``double``; unknown texts stay as they are."""
    plain = text.strip()
    return _ALIASES.get(plain, plain)


def value_type(text: str) -> str:
    """Return the type of the values: a dictionary's, else the type itself."""
    if text.startswith("dictionary<values="):
        return text.removeprefix("dictionary<values=").rpartition(", indices=")[0]
    return text


def without_zone(text: str) -> str:
    """Spell a timestamp's type without its time zone; other types stay as they are."""
    return text.partition(", tz=")[0] + "]" if text.startswith("timestamp[") and "," in text else text


def is_key_type(text: str) -> bool:
    """Say whether the key hash has a rule for this type (Spark's ``xxhash64`` knows it)."""
    plain = value_type(text)
    return plain in KEY_TYPES or plain.startswith("timestamp[us, tz=") or _is_small_decimal(plain)


def is_state_type(text: str) -> bool:
    """Say whether a process step can keep values of this type."""
    return without_zone(text) in _STATE_TYPES or text.startswith("decimal128(")


def _is_small_decimal(text: str) -> bool:
    if not text.startswith("decimal128("):
        return False
    digits = text.removeprefix("decimal128(").split(",", 1)[0]
    return digits.isdigit() and int(digits) <= 18


def names(columns: Columns) -> tuple[str, ...]:
    """List the names of columns, in order."""
    return tuple(c.name for c in columns)


def find(columns: Columns, name: str) -> Column | None:
    """Return the column of that name, or None."""
    return next((c for c in columns if c.name == name), None)
