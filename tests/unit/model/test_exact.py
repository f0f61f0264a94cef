"""Values in a declared type: exactly, or refused with the column, the value and the type."""

import datetime as dt
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.model.exact import exact_array, exact_cast, taker

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
WINTER = dt.datetime(2026, 1, 1, 12, 0, 0, 5)  # noqa: DTZ001  columns without a zone take these


class Grade(IntEnum):
    GOOD = 2


class Colour(StrEnum):
    RED = "red"


LOSSY: list[tuple[Any, pa.DataType, str]] = [
    (1.7, pa.int64(), "no whole number"),
    (float("nan"), pa.int64(), "no whole number"),
    (float("inf"), pa.int64(), "no whole number"),
    (200, pa.int8(), "outside of -128 .. 127"),
    (-1, pa.uint64(), "outside of 0 .."),
    (2**64, pa.uint64(), "outside of 0 .."),
    (Decimal("1.5"), pa.int64(), "no number but Decimal"),
    ("5", pa.int64(), "no number but str"),
    (2**53 + 1, pa.float64(), "more digits"),
    (10**400, pa.float64(), "too large"),
    (2**24 + 1, pa.float32(), "more digits"),
    (1e39, pa.float32(), "too large"),
    (70000.0, pa.float16(), "too large"),
    (Decimal("0.1"), pa.float64(), "no number but Decimal"),
    (2, pa.bool_(), "neither 0 nor 1"),
    ("yes", pa.bool_(), "no bool but str"),
    (b"a", pa.string(), "no str but bytes"),
    ("\ud800", pa.string(), "surrogates"),
    ("a", pa.binary(), "no bytes but str"),
    (b"abc", pa.binary(2), ""),
    (Decimal("1.005"), pa.decimal128(6, 2), "more than 6 digits, 2 of them"),
    (Decimal(10**5), pa.decimal128(6, 2), "more than 6 digits, 2 of them"),
    (Decimal("NaN"), pa.decimal128(6, 2), "not finite"),
    (1.5, pa.decimal128(6, 2), "no Decimal but float"),
    (WINTER, pa.timestamp("s"), "finer than s"),
    (NOON, pa.timestamp("us"), "time zone would be lost"),
    (WINTER, pa.timestamp("us", "Europe/Berlin"), "no time zone"),
    (5, pa.timestamp("us"), "no datetime but int"),
    (np.datetime64("2026-01-01T00:00:00.000000005"), pa.timestamp("us"), "finer than us"),
    (WINTER, pa.date32(), "no date but datetime"),
    (dt.timedelta(microseconds=5), pa.duration("s"), "finer than s"),
    (dt.time(1, 2, 3, 4), pa.time32("s"), "finer than s"),
    (dt.time(1, tzinfo=dt.UTC), pa.time32("s"), "time zone would be lost"),
    ([1.7], pa.list_(pa.int64()), "no whole number"),
    ("ab", pa.list_(pa.string()), "no list but str"),
    ({"x": 1, "z": 2}, pa.struct([("x", pa.int64())]), "fields are not x"),
    ({"a": 1.5}, pa.map_(pa.string(), pa.int64()), "no whole number"),
]

EXACT: list[tuple[Any, pa.DataType, Any]] = [
    (2.0, pa.int64(), 2),
    (-0.0, pa.int8(), 0),
    (True, pa.int8(), 1),
    (Grade.GOOD, pa.int64(), 2),
    (np.uint8(7), pa.int8(), 7),
    (2**64 - 1, pa.uint64(), 2**64 - 1),
    (2**60, pa.float64(), float(2**60)),
    (0.1, pa.float32(), float(np.float32(0.1))),
    (float("inf"), pa.float32(), float("inf")),
    (np.bool_(True), pa.bool_(), True),
    (Colour.RED, pa.string(), "red"),
    (bytearray(b"ab"), pa.large_binary(), b"ab"),
    (Decimal("1.1"), pa.decimal128(6, 2), Decimal("1.10")),
    (7, pa.decimal128(6, 2), Decimal("7.00")),
    (NOON, pa.timestamp("s", "Europe/Berlin"), NOON),
    (np.datetime64("2026-01-01T12", "h"), pa.timestamp("s"), WINTER.replace(microsecond=0)),
    ("a", pa.dictionary(pa.int8(), pa.string()), "a"),
    (WINTER, pa.dictionary(pa.int8(), pa.timestamp("us")), WINTER),
    ([2.0, None], pa.list_(pa.int64()), [2, None]),
    ({"x": 2.0}, pa.struct([("x", pa.int64())]), {"x": 2}),
    ({"a": 1}, pa.map_(pa.string(), pa.int64()), [("a", 1)]),
]


@pytest.mark.parametrize(("value", "kind", "why"), LOSSY, ids=str)
def test_a_lossy_value_is_refused_with_column_value_and_type(value: Any, kind: pa.DataType, why: str) -> None:
    with pytest.raises((ValueError, TypeError)) as refusal:
        exact_array([None, value], kind, "column 'n'")
    text = str(refusal.value)
    assert text.startswith("column 'n'")
    assert str(kind) in text
    assert why in text


@pytest.mark.parametrize(("value", "kind", "read"), EXACT, ids=str)
def test_what_is_taken_is_what_a_reader_gets(value: Any, kind: pa.DataType, read: Any) -> None:
    array = exact_array([value, None], kind, "column 'n'")
    assert array.type == kind
    assert array.to_pylist() == [read, None]
    assert taker(kind)(value) == read
    assert type(taker(kind)(value)) is type(read)


CASTS: list[tuple[pa.Array, pa.DataType, str | None]] = [
    (pa.array([1.7]), pa.int64(), "1.7"),
    (pa.array([2.0, None]), pa.int8(), None),
    (pa.array([1e39]), pa.float32(), "1e+39"),
    (pa.array([2**53 + 1]), pa.float64(), "9007199254740993"),
    (pa.array([2**60]), pa.float64(), None),  # exact, though beyond what Arrow's cast takes
    (pa.array([5]), pa.bool_(), "5"),
    (pa.array([1, 0]), pa.bool_(), None),
    (pa.array(["5"]), pa.int64(), "cannot be made of string"),
    (pa.array(["a"]), pa.large_string(), None),
    (pa.array(["a"]).dictionary_encode(), pa.string(), None),
    (pa.array(["a"]), pa.dictionary(pa.int8(), pa.string()), None),
    (pa.array([5, None, 5]), pa.dictionary(pa.int8(), pa.int64()), None),
    (pa.array([1.5]), pa.dictionary(pa.int8(), pa.int64()), "1.5"),
    (pa.nulls(2), pa.int64(), None),
    (pa.array([5], pa.timestamp("us")), pa.timestamp("s"), "finer than s"),
    (pa.array([5], pa.timestamp("ns")), pa.timestamp("us"), "finer than us"),
    (pa.array([None, 2000, 1001], pa.time64("ns")), pa.time64("us"), "00:00:00.000001001 as time64[us]: it is finer"),
    (pa.array([2000], pa.time64("ns")), pa.time64("us"), None),
    (pa.array([1_000_000_000], pa.time64("ns")), pa.time32("s"), None),
    (pa.array([1_001_000_000], pa.time64("ns")), pa.time32("s"), "00:00:01.001000000 as time32[s]: it is finer than s"),
    (
        pa.array([1001], pa.duration("ns")),
        pa.duration("us"),
        "1001 ns as duration[us]: it is finer than us",
    ),
    (pa.array([1001], pa.timestamp("ns", "UTC")), pa.timestamp("us", "UTC"), "1970-01-01 00:00:00.000001001Z as"),
    (pa.array([[1001]], pa.list_(pa.time64("ns"))), pa.list_(pa.time64("us")), "00:00:00.000001001 is finer than us"),
    (pa.array([[2000]], pa.list_(pa.time64("ns"))), pa.list_(pa.time64("us")), None),
    (pa.array([[1001]], pa.list_(pa.duration("ns"))), pa.list_(pa.duration("us")), "finer than us"),
    (pa.array([[1001]], pa.list_(pa.timestamp("ns"))), pa.list_(pa.timestamp("us")), "finer than us"),
    (
        pa.array([{"t": 1001, "n": 1}], pa.struct([("t", pa.time64("ns")), ("n", pa.int64())])),
        pa.struct([("t", pa.time64("ns")), ("n", pa.int32())]),
        "00:00:00.000001001 is finer than us",
    ),
    (pa.array([5], pa.timestamp("us")), pa.timestamp("us", "UTC"), "cannot be made of"),
    (pa.array([5], pa.timestamp("us", "UTC")), pa.timestamp("us"), "cannot be made of"),
    (pa.array([WINTER]), pa.date32(), "cannot be made of"),
    (pa.array([Decimal("1.005")]), pa.decimal128(6, 2), "1.005"),
    (pa.array([[1.7]]), pa.list_(pa.int64()), "1.7"),
]


@pytest.mark.parametrize(("array", "kind", "why"), CASTS, ids=str)
def test_an_array_is_cast_exactly_or_refused(array: pa.Array, kind: pa.DataType, why: str | None) -> None:
    if why is None:
        cast = exact_cast(array, kind, "column 'n'")
        assert cast.type == kind
        assert cast.to_pylist() == array.to_pylist()
        return
    with pytest.raises((ValueError, TypeError), match=r"column 'n'") as refusal:
        exact_cast(array, kind, "column 'n'")
    assert why in str(refusal.value)


def test_a_type_without_a_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be put into a column of type"):
        taker(pa.month_day_nano_interval())
