"""Converts Python values to a declared Arrow type, exactly; a value that would change is refused.

A value is accepted when the type can hold it:

    whole numbers   int, or a float without a fraction, within the type's range
    floats          int that the type holds exactly; a float is rounded to the nearest of the type,
                    which is what the type promises, but never to infinity
    bool            bool, 0 and 1
    text, bytes     str that is UTF-8; bytes, bytearray, memoryview
    decimals        Decimal or int that needs no more digits than the type has, never a float
    dates, times    the class of ``datetime``, no finer than the unit; a zone where the type has
                    one, and none where it has none
    lists, structs  each value by its own type; a struct has all of its fields and no other

Arrow itself would silently turn 1.7 into 1 and 5 us into 0 s, and drop an unknown field.
"""

import datetime as dt
import decimal
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.model.arrays import as_type
from penstock.model.python_values import first_finer, python_values

Take = Callable[[Any], Any]

VALUE_CHARS_MAX = 80  # a refused value in an error text is cut to this length
_US_OF_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
_NS_OF_US = 1_000


def exact_array(values: Sequence[Any], kind: pa.DataType, what: str) -> pa.Array:
    """Return n Python values as an array of ``kind``; None is null.

    Raises ValueError or TypeError, whose texts begin with ``what`` and name the value and the type.
    """
    quick = _quick(kind)
    if quick is not None and quick.issuperset(map(type, values)):
        try:
            array = pa.array(values, kind)
        except (pa.ArrowException, ValueError, OverflowError):
            array = None  # the loop below finds the bad value
        if array is not None and not (pa.types.is_float32(kind) and _has_infinite(array)):
            return array
    take = taker(kind)
    kept = [None if v is None else taken(take, v, kind, what) for v in values]
    try:
        return as_type(pa.array(kept, kind.value_type if pa.types.is_dictionary(kind) else kind), kind)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ValueError(f"{what} ({kind}): {error}") from None


def taken(take: Take, value: Any, kind: object, what: str) -> Any:
    """Convert one value by a rule. An error names ``what``, the value and ``kind``, the spelled type."""
    try:
        return take(value)
    except (TypeError, ValueError, OverflowError) as error:
        refusal = TypeError if isinstance(error, TypeError) else ValueError
        raise refusal(f"{what} cannot hold {_shown(value)} as {kind}: {error}") from None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}..."


@cache
def _quick(kind: pa.DataType) -> frozenset[type] | None:
    """Return the classes whose values Arrow converts exactly or refuses; None if there are none."""
    t = pa.types
    for fits, plain in (
        (t.is_integer(kind), int),
        (t.is_float64(kind) or t.is_float32(kind), float),
        (t.is_boolean(kind), bool),
        (t.is_string(kind) or t.is_large_string(kind), str),
        (t.is_binary(kind) or t.is_large_binary(kind), bytes),
    ):
        if fits:
            return frozenset((plain, type(None)))
    return None


def _has_infinite(array: pa.Array) -> bool:
    return bool(np.isinf(array.to_numpy(zero_copy_only=False)).any())


@cache
def taker(kind: pa.DataType) -> Take:
    """Return the rule of a type, a function that converts a value other than None.

    Raises ConfigError for a type without a rule. The rule raises TypeError for a value of a wrong
    class, and ValueError for a value that the conversion would change.
    """
    t = pa.types
    if t.is_dictionary(kind):
        return taker(kind.value_type)
    if t.is_integer(kind):
        return _whole_taker(kind)
    if t.is_floating(kind):
        return _float_taker({16: "e", 32: "f", 64: "d"}[kind.bit_width])
    if t.is_decimal(kind):
        return _decimal_taker(kind.precision, kind.scale)
    if t.is_timestamp(kind):
        return _timestamp_taker(kind)
    rules: tuple[tuple[Callable[[pa.DataType], bool], Take], ...] = (
        (t.is_boolean, _take_bool),
        (_is_text, _take_text),
        (_is_bytes, _take_bytes),
        (t.is_date, _take_date),
        (t.is_null, _take_null),
    )
    for fits, rule in rules:
        if fits(kind):
            return rule
    if t.is_time(kind):
        return _time_taker(kind.unit)
    if t.is_duration(kind):
        return _duration_taker(kind.unit)
    return _nested_taker(kind)


def _is_text(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    t = pa.types
    view = t.is_binary_view(kind) or t.is_fixed_size_binary(kind)
    return bool(view or t.is_binary(kind) or t.is_large_binary(kind))


# --- Numbers ----------------------------------------------------------------------------------


def _integer(value: Any) -> int | None:
    """Return a whole number as an int; None for a value of another class."""
    if isinstance(value, np.bool_):
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        return None


def _whole_taker(kind: pa.DataType) -> Take:
    bits = kind.bit_width
    signed = pa.types.is_signed_integer(kind)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def take(value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        number = _integer(value)
        if number is None:
            if not isinstance(value, float | np.floating):
                raise TypeError(f"it is no number but {type(value).__name__}")
            if not float(value).is_integer():
                raise ValueError("it is no whole number")
            number = int(value)
        if not low <= number <= high:
            raise ValueError(f"it is outside of {low} .. {high}")
        return number

    return take


def _float_taker(code: str) -> Take:
    nearest = struct.Struct(f"<{code}")  # "<": only standard sizes refuse values that are too large

    def take(value: Any) -> float:
        if code == "d" and type(value) is float:
            return value
        number: float
        if isinstance(value, float | np.floating):
            number = float(value)
        else:
            whole = _integer(value)
            if whole is None:
                raise TypeError(f"it is no number but {type(value).__name__}")
            number = float(whole)
            if int(number) != whole:
                raise ValueError("it has more digits than that holds")
        try:
            kept: float = nearest.unpack(nearest.pack(number))[0]
        except OverflowError:
            raise ValueError("it is too large") from None
        if not isinstance(value, float | np.floating) and kept != number:
            raise ValueError("it has more digits than that holds")
        return kept

    return take


def _take_bool(value: Any) -> bool:
    if type(value) is bool:
        return value
    number = _integer(value)
    if number is None:
        raise TypeError(f"it is no bool but {type(value).__name__}")
    if number not in (0, 1):
        raise ValueError("it is neither 0 nor 1")
    return number == 1


def _decimal_taker(digits: int, scale: int) -> Take:
    context = decimal.Context(prec=digits, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])
    unit = decimal.Decimal(1).scaleb(-scale)

    def take(value: Any) -> decimal.Decimal:
        if not isinstance(value, decimal.Decimal):
            number = _integer(value)
            if number is None:
                raise TypeError(f"it is no Decimal but {type(value).__name__}")
            value = decimal.Decimal(number)
        if not value.is_finite():
            raise ValueError("it is not finite")
        try:
            kept: decimal.Decimal = value.quantize(unit, context=context)
        except (decimal.Inexact, decimal.InvalidOperation):
            shape = f"{digits} digits, {scale} of them behind the point"
            raise ValueError(f"it needs more than {shape}") from None
        return kept

    return take


# --- Texts, dates and times ---------------------------------------------------------------------


def _take_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"it is no str but {type(value).__name__}")
    if not value.isascii():
        value.encode()  # raises UnicodeEncodeError, a ValueError, for half of a surrogate pair
    return value if type(value) is str else str.__str__(value)


def _take_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"it is no bytes but {type(value).__name__}")
    return bytes(value)


def _take_null(value: Any) -> None:
    raise ValueError("only None is")


def _take_date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        raise TypeError(f"it is no date but {type(value).__name__}")
    return value if type(value) is dt.date else dt.date(value.year, value.month, value.day)


def _timestamp_taker(kind: pa.DataType) -> Take:
    step_us = _US_OF_UNIT[kind.unit]
    try:
        zone = None if kind.tz is None else pa.lib.string_to_tzinfo(kind.tz)
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise ConfigError(f"the time zone of {kind} is not known here: {error}") from error

    def take(value: Any) -> dt.datetime:
        if isinstance(value, np.datetime64):
            value = _of_numpy(value)
        if not isinstance(value, dt.datetime):
            raise TypeError(f"it is no datetime but {type(value).__name__}")
        if value.microsecond % step_us:
            raise ValueError(f"it is finer than {kind.unit}")
        aware = value.utcoffset() is not None
        if zone is None and aware:
            raise ValueError("its time zone would be lost: declare timestamp[us, tz=...]")
        if zone is not None and not aware:
            raise ValueError("it has no time zone: give it one (value.replace(tzinfo=...))")
        if getattr(value, "nanosecond", 0):  # a Timestamp of pandas
            if kind.unit != "ns":
                raise ValueError(f"it is finer than {kind.unit}")
            return value
        plain = value if zone is None else value.astimezone(zone)
        return dt.datetime.combine(plain.date(), plain.time(), zone)

    return take


def _of_numpy(value: np.datetime64) -> dt.datetime:
    plain = value.astype("datetime64[us]")
    found = plain.item()
    if plain != value or not isinstance(found, dt.datetime):
        raise ValueError("it is finer than us, or out of range")
    return found


def _time_taker(unit: str) -> Take:
    step_us = _US_OF_UNIT[unit]

    def take(value: Any) -> dt.time:
        if not isinstance(value, dt.time):
            raise TypeError(f"it is no time but {type(value).__name__}")
        if value.tzinfo is not None:
            raise ValueError("its time zone would be lost")
        if value.microsecond % step_us:
            raise ValueError(f"it is finer than {unit}")
        return value.replace(fold=0)

    return take


def _duration_taker(unit: str) -> Take:
    step_us = _US_OF_UNIT[unit]

    def take(value: Any) -> dt.timedelta:
        if not isinstance(value, dt.timedelta):
            raise TypeError(f"it is no timedelta but {type(value).__name__}")
        nanoseconds: int = getattr(value, "nanoseconds", 0)  # of a Timedelta of pandas
        if value.microseconds % step_us or (nanoseconds and unit != "ns"):
            raise ValueError(f"it is finer than {unit}")
        return value

    return take


# --- Lists, structs and maps --------------------------------------------------------------------


def _nested_taker(kind: pa.DataType) -> Take:
    t = pa.types
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return _list_taker(taker(kind.value_type))
    if t.is_struct(kind):
        return _struct_taker({f.name: taker(f.type) for f in kind})
    if t.is_map(kind):
        return _map_taker(taker(kind.key_type), taker(kind.item_type))
    raise ConfigError(f"values of Python cannot be put into a column of type {kind}")


def _or_none(take: Take, value: Any) -> Any:
    return None if value is None else take(value)


def _list_taker(item: Take) -> Take:
    def take(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple | np.ndarray):
            raise TypeError(f"it is no list but {type(value).__name__}")
        return [_or_none(item, v) for v in value]

    return take


def _struct_taker(fields: Mapping[str, Take]) -> Take:
    def take(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise TypeError(f"it is no dict but {type(value).__name__}")
        if value.keys() != fields.keys():
            raise ValueError(f"its fields are not {', '.join(fields)}")
        return {name: _or_none(rule, value[name]) for name, rule in fields.items()}

    return take


def _map_taker(key: Take, item: Take) -> Take:
    def take(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, Mapping | list | tuple):
            raise TypeError(f"it is no dict but {type(value).__name__}")
        pairs = value.items() if isinstance(value, Mapping) else value
        return [(key(k), _or_none(item, v)) for k, v in pairs]

    return take


# --- Arrays -------------------------------------------------------------------------------------


def exact_cast(array: pa.Array, kind: pa.DataType, what: str) -> pa.Array:
    """Convert an array to another type of the same family without changing a value.

    Families are numbers, texts, times and so on. A float may be rounded, as above. Raises
    ValueError or TypeError, whose texts begin with ``what`` and name the value.
    """
    if array.type == kind:
        return array
    if isinstance(array, pa.ChunkedArray):
        return exact_cast(array.combine_chunks(), kind, what)
    if pa.types.is_dictionary(array.type):
        return exact_cast(array.dictionary_decode(), kind, what)
    if pa.types.is_dictionary(kind):
        return as_type(exact_cast(array, kind.value_type, what), kind)
    if not pa.types.is_null(array.type) and _family(array.type) != _family(kind):
        raise TypeError(f"{what} is {kind}, and cannot be made of {array.type}")
    if not _cast_is_exact(array.type, kind):
        return exact_array(_python_values(array, kind, what), kind, what)
    try:
        cast = array.cast(kind)
    except pa.ArrowException as error:
        return _value_by_value(array, kind, what, error)
    rounded = pa.types.is_floating(kind) and kind.bit_width < 64
    return exact_array(array.to_pylist(), kind, what) if rounded and _has_infinite(cast) else cast


def _value_by_value(array: pa.Array, kind: pa.DataType, what: str, refused: Exception) -> pa.Array:
    """Convert value by value what Arrow's cast refuses: it also refuses some exact values."""
    if pa.types.is_temporal(array.type) and getattr(array.type, "unit", None) == "ns":
        # Python would cut it. The cast to a coarser unit refuses nothing that is exact.
        value = first_finer(array, _US_OF_UNIT[kind.unit] * _NS_OF_US)
        raise ValueError(f"{what} cannot hold {value} as {kind}: it is finer than {kind.unit}") from None
    try:
        values = array.to_pylist()
    except (ValueError, OverflowError):  # a time that no class of Python can hold
        raise ValueError(f"{what} ({kind}): {refused}") from None
    return exact_array(values, kind, what)


def _python_values(array: pa.Array, kind: pa.DataType, what: str) -> list[Any]:
    try:
        return python_values(array)
    except ValueError as error:
        raise ValueError(f"{what} ({kind}): {error}") from None


def _cast_is_exact(found: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether Arrow's safe cast converts every value exactly or raises."""
    return not (pa.types.is_nested(kind) or (pa.types.is_boolean(kind) and found != kind))


def _family(kind: pa.DataType) -> object:
    """Return the family of a type: exact casts are possible within a family."""
    t = pa.types
    if t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind):
        return "number"
    if t.is_timestamp(kind):
        return "timestamp", kind.tz is None
    families: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
        ("text", _is_text),
        ("bytes", _is_bytes),
        ("decimal", t.is_decimal),
        ("date", t.is_date),
        ("time", t.is_time),
        ("duration", t.is_duration),
        ("struct", t.is_struct),
        ("map", t.is_map),
    )
    for name, fits in families:
        if fits(kind):
            return name
    return "list" if t.is_nested(kind) else str(kind)
