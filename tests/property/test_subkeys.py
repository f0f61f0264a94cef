"""Subkeys as bytes: what was encoded is decoded, and the order of the bytes is that of the values."""

import math
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ConfigError
from penstock.model.subkeys import SubkeyCodec

KINDS: dict[Any, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.timestamp("us"): st.integers(-(2**63), 2**63 - 1),
    pa.date32(): st.integers(-(2**31), 2**31 - 1),
    pa.string(): st.text(),
    pa.large_string(): st.text(),
    pa.binary(): st.binary(),
    pa.large_binary(): st.binary(),
    pa.decimal128(38, 4): st.decimals(min_value=-(10**30), max_value=10**30, places=4, allow_nan=False),
}


def encoded(column: pa.Array) -> list[bytes]:
    offsets, data, _, _ = SubkeyCodec(column.type).encode(column)
    raw = data.tobytes()
    return [raw[start:stop] for start, stop in pairwise(offsets)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(st.data())
def test_bytes_are_in_the_order_of_the_values(kind: Any, data: st.DataObject) -> None:
    values = data.draw(st.lists(KINDS[kind]))
    column = pa.array([values[0], *values] if values else [], kind)[1:] if values else pa.array([], kind)
    keys = encoded(column)
    assert [v for _, v in sorted(zip(keys, values, strict=True))] == sorted(values)
    ends = np.cumsum([0, *(len(key) for key in keys)])
    again = SubkeyCodec(kind).decode(ends, np.frombuffer(b"".join(keys), np.uint8))
    assert again.cast(kind).equals(column)


def test_both_zeros_are_one_subkey_and_nan_is_one_behind_all_others() -> None:
    other_nan = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)[0]
    zero, minus, nan, another, most = encoded(pa.array([0.0, -0.0, math.nan, other_nan, math.inf], from_pandas=False))
    assert zero == minus
    assert nan == another > most


def test_decimals_keep_their_scale() -> None:
    column = pa.array([Decimal("-1.50"), Decimal("2.25")], pa.decimal128(10, 2))
    offsets, data, _, _ = SubkeyCodec(column.type).encode(column)
    assert SubkeyCodec(column.type).decode(offsets.astype(np.int64), data).equals(column)


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.decimal256(40), pa.month_day_nano_interval()])
def test_other_types_are_refused_by_name(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match="a subkey cannot be of type"):
        SubkeyCodec(kind)
