"""Rows as bytes: each value of each type comes back as it was, also from slices and dictionaries."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.rows import RowCodec, plain

NUMBERS = {f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)}
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.float16(), st.floats(width=16).map(np.float16)),
    (pa.string(), st.text(max_size=9)),
    (pa.large_string(), st.text(max_size=9)),
    (pa.binary(), st.binary(max_size=9)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.string_view(), st.text(max_size=20)),
    (pa.timestamp("ns"), st.integers(-(2**63), 2**63 - 1)),
    (pa.date32(), st.integers(-(10**6), 10**6)),
    (pa.duration("ms"), st.integers(-(2**62), 2**62)),
    (pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda i: Decimal(i).scaleb(-2))),
    (pa.decimal256(60, 0), st.integers(-(10**50), 10**50).map(Decimal)),
    (pa.list_(pa.int64()), st.lists(st.none() | st.integers(-9, 9), max_size=3)),
    (
        STRUCT,
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 9), "b": st.none() | st.lists(st.text(), max_size=2)}),
    ),
    (pa.null(), st.none()),
    *((kind, st.integers(0, 2**7 - 1)) for kind in NUMBERS.values()),
]


@given(st.data(), st.integers(0, 7), st.integers(0, 3))
def test_rows_come_back_as_they_were(data: st.DataObject, count: int, skipped: int) -> None:
    chosen = data.draw(st.lists(st.sampled_from(VALUES), max_size=4))
    arrays = [
        pa.array(data.draw(st.lists(st.none() | values, min_size=count + skipped, max_size=count + skipped)), kind)
        for kind, values in chosen
    ]
    encoded = [a.dictionary_encode() if pa.types.is_string(a.type) and skipped else a for a in arrays]
    columns = [a.slice(skipped) for a in encoded]
    codec = RowCodec(tuple(c.type for c in columns))
    offsets, found = codec.encode(columns, count)
    assert len(offsets) == count + 1
    back = codec.decode(found, offsets[:-1].astype(np.int64))
    for column, array, kept in zip(columns, arrays, back, strict=True):
        assert kept.type == plain(column.type)
        assert _exact(kept) == _exact(array.slice(skipped))


def _exact(array: pa.Array) -> list[Any]:
    """Return values that compare equal only if their bits are equal."""
    if pa.types.is_floating(array.type) or pa.types.is_temporal(array.type):  # Python has no date of the year 0
        array = array.view(f"int{array.type.bit_width}")
    found: list[Any] = array.to_pylist()
    return found


WORDS = pa.array(["a", "b", None, "a", "c"]).dictionary_encode()
INTERVALS = pa.array([(1, 2, 3), None, (0, -1, 10**12)], pa.month_day_nano_interval())


@pytest.mark.parametrize(
    "array",
    [
        pa.StructArray.from_arrays([WORDS, pa.array(range(5))], ["word", "n"]),
        pa.ListArray.from_arrays(pa.array([0, 2, 2, 5]), WORDS),
        pa.FixedSizeListArray.from_arrays(pa.StructArray.from_arrays([WORDS.slice(1)], ["word"]), 2),
        pa.MapArray.from_arrays([0, 2, 5], pa.array(list("vwxyz")), WORDS),
        INTERVALS,
    ],
    ids=lambda array: str(array.type),
)
def test_dictionaries_inside_of_values_and_intervals_come_back(array: pa.Array) -> None:
    codec = RowCodec((array.type,))
    offsets, found = codec.encode([array], len(array))
    (back,) = codec.decode(found, offsets[:-1].astype(np.int64))
    assert back.type == plain(array.type)
    assert back.cast(array.type).to_pylist() == array.to_pylist()
