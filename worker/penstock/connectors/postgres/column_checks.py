"""Which columns of a table take which columns of rows, and what the table would refuse of their values.

A value that is refused after the commit could never be published. So only pairs of types are allowed whose values all
fit, or for which a row can be checked when it is written.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown

DAYS = (-2_440_588, 2_145_042_905)  # those of PostgreSQL's date, from 1970 on
MICROSECONDS_MIN = -210_866_803_200_000_000  # of PostgreSQL's timestamp
VARCHAR_HEADER = 4  # what a type modifier has beside the length
SCALE_SIGN = 1024  # the bit of a type modifier that says that a scale is negative
DIGITS_MAX = 76  # of a decimal in Arrow; a column of PostgreSQL may have 1,000
DIGITS_OF_SECONDS = 6  # of a timestamp of PostgreSQL, unless its column has fewer
TAKES = (
    "whole numbers, float and double, booleans, texts, binary, dates, timestamps and decimals, in a column of"
    " PostgreSQL of the same kind; make another type of it in a step before"
)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table. ``filled``: the table fills it when a row does not."""

    name: str
    type: str
    modifier: int
    not_null: bool
    filled: bool
    generated: bool


@dataclass(frozen=True, slots=True)
class StagedType:
    """How a column of rows is staged: the type of Arrow and of PostgreSQL, and the columns that take it."""

    arrow: pa.DataType
    sql: str
    takes: tuple[str, ...]


def staged_as(field: pa.Field) -> StagedType:
    """Return how a column is staged. Raises ConfigError for a type without one."""
    kind, is_ = field.type, pa.types
    if is_.is_integer(kind):
        return StagedType(pa.int64(), "bigint", ("bigint", "integer", "smallint"))
    if is_.is_float32(kind):
        return StagedType(kind, "real", ("real", "double precision"))
    if is_.is_float64(kind):
        return StagedType(kind, "double precision", ("double precision",))
    if is_.is_boolean(kind):
        return StagedType(kind, "boolean", ("boolean",))
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        return StagedType(pa.string(), "text", ("text", "character varying"))
    if is_.is_binary(kind) or is_.is_large_binary(kind):
        return StagedType(pa.binary(), "bytea", ("bytea",))
    if is_.is_date32(kind):
        return StagedType(kind, "date", ("date",))
    if is_.is_timestamp(kind):
        zone = "with" if kind.tz else "without"
        name = f"timestamp {zone} time zone"
        return StagedType(pa.timestamp("us", kind.tz and "UTC"), name, (name,))
    if is_.is_decimal128(kind):
        return StagedType(kind, "numeric", ("numeric",))
    raise ConfigError(f"postgres sink: column {field.name!r} is {kind}: it takes {TAKES}")


def staged_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of staged files. Raises ConfigError for a type that cannot be written."""
    return pa.schema([pa.field(f.name, staged_as(f).arrow) for f in schema])


Check = Callable[[pa.Array], str | None]  # why the table would refuse one of the values


def checks_of(schema: pa.Schema, table: str, columns: Sequence[TableColumn], keys: Sequence[str]) -> list[Check]:
    """Return the check of each column of rows. Raises ConfigError when the table does not take them."""
    about, found = f"postgres sink: table {table}", {column.name: column for column in columns}
    for column in columns:
        if column.not_null and not column.filled and column.name not in schema.names:
            raise ConfigError(
                f"{about}: column {column.name!r} is NOT NULL and no row has it: give it a default, or add it in a step"
                " before"
            )
    for name in (n for n in schema.names if n not in found):
        raise ConfigError(f"{about}: {unknown('column', name, found)}: add it to the table")
    return [_fitting(field, found[field.name], about, filled=field.name in keys) for field in schema]


def _fitting(field: pa.Field, column: TableColumn, about: str, *, filled: bool) -> Check:
    if column.generated:
        raise ConfigError(f"{about}: column {field.name!r} is generated: take it out of the rows")
    if column.type not in (takes := staged_as(field).takes):
        raise ConfigError(
            f"{about}: column {field.name!r} is {column.type}, the rows have {field.type}: make it"
            f" {' or '.join(takes)}, or make another type of it in a step before"
        )
    return _check(column, column.not_null or filled)


def _check(column: TableColumn, filled: bool) -> Check:
    values = _VALUES.get(column.type)

    def check(array: pa.Array) -> str | None:
        if filled and array.null_count:
            return "null, and the table takes none"
        return None if values is None else values(array, column.modifier)

    return check


def _within(low: int | None, high: int | None) -> Callable[[pa.Array, int], str | None]:
    def check(array: pa.Array, _: int) -> str | None:
        whole = array.view(pa.int32()) if pa.types.is_date32(array.type) else array.cast(pa.int64())
        found = pc.min_max(whole).as_py()
        least, most = found["min"], found["max"]
        if least is None or ((low is None or least >= low) and (high is None or most <= high)):
            return None
        return f"a value from {least} to {most}: it has to be from {low} to {high}"

    return check


def _timestamp(array: pa.Array, digits: int) -> str | None:
    """Refuse what the column would round, in silence."""
    if 0 <= digits < DIGITS_OF_SECONDS:
        step = 10 ** (DIGITS_OF_SECONDS - digits)
        whole = array.cast(pa.int64())
        if pc.any(pc.not_equal(pc.multiply(pc.divide(whole, step), step), whole)).as_py():
            return f"a time with more than {digits} digits behind the second, which is what the column has"
    return _within(MICROSECONDS_MIN, None)(array, digits)


def _text(array: pa.Array, modifier: int) -> str | None:
    if pc.any(pc.match_substring(array, "\0")).as_py():
        return "a text with a NUL character, which PostgreSQL does not take"
    length_max = modifier - VARCHAR_HEADER
    longest = pc.max(pc.utf8_length(array)).as_py() or 0
    return f"{longest} characters: the column has {length_max}" if modifier >= 0 and longest > length_max else None


def _numeric(array: pa.Array, modifier: int) -> str | None:
    if modifier < 0:
        return None
    precision = (modifier - VARCHAR_HEADER) >> 16
    scale = (((modifier - VARCHAR_HEADER) & 0x7FF) ^ SCALE_SIGN) - SCALE_SIGN
    try:
        array.cast(pa.decimal256(min(precision, DIGITS_MAX), scale))
    except (pa.ArrowInvalid, ValueError) as error:
        return f"{error}: the column is numeric({precision},{scale})"
    return None


_VALUES: dict[str, Callable[[pa.Array, int], str | None]] = {
    "smallint": _within(-(2**15), 2**15 - 1),
    "integer": _within(-(2**31), 2**31 - 1),
    "date": _within(*DAYS),
    "timestamp without time zone": _timestamp,
    "timestamp with time zone": _timestamp,
    "text": _text,
    "character varying": _text,
    "numeric": _numeric,
}
