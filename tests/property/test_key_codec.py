"""Encoding and decoding keys does not change them, and equal keys have equal bytes."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.keys import EncodedKeys, KeyCodec, Keys

TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text(max_size=12),
    pa.large_binary(): st.binary(max_size=12),
    pa.bool_(): st.booleans(),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(),
    pa.date32(): st.dates(),
    pa.decimal128(10, 2): st.decimals(-1000, 1000, places=2),
}


@st.composite
def tables(draw: st.DrawFn) -> list[pa.Array]:
    kinds = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3))
    rows = draw(st.integers(0, 12))
    values = [st.lists(st.none() | TYPES[k], min_size=rows, max_size=rows) for k in kinds]
    return [pa.array(draw(v), k) for v, k in zip(values, kinds, strict=True)]


def stored(keys: Keys) -> EncodedKeys:
    """Put keys one after another as a table gathers them: a lone null takes no bytes."""
    offsets, data, bitmap, bit = keys.text
    count = len(offsets) - 1
    valid = [not len(bitmap) or bool(bitmap[(bit + i) >> 3] >> ((bit + i) & 7) & 1) for i in range(count)]
    parts = [data[offsets[i] : offsets[i + 1]] if valid[i] else data[:0] for i in range(count)]
    ends = np.cumsum([0, *(len(p) for p in parts)]).astype(np.int64)
    joined = np.concatenate(parts) if parts else np.zeros(0, np.uint8)
    return EncodedKeys(ends, joined, ~np.array(valid, np.bool_))


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


@given(tables())
def test_decoded_keys_equal_the_encoded_ones(columns: list[pa.Array]) -> None:
    codec = KeyCodec(tuple(c.type for c in columns), 16)
    back = codec.columns(stored(codec.keys(columns)))
    for old, new in zip(columns, back, strict=True):
        assert new.type == old.type
        new.validate(full=True)
        assert [canonical(v) for v in new.to_pylist()] == [canonical(v) for v in old.to_pylist()]


@given(tables(), st.integers(-(2**60), 2**60))
def test_decoded_window_keys_have_no_window_end(columns: list[pa.Array], end: int) -> None:
    codec = KeyCodec(tuple(c.type for c in columns), 16)
    ends = np.full(len(columns[0]), end, np.int64)
    keys = codec.window_keys(columns, ends, codec.hashed(columns))
    back = codec.window_columns(stored(keys))
    for old, new in zip(columns, back, strict=True):
        assert [canonical(v) for v in new.to_pylist()] == [canonical(v) for v in old.to_pylist()]
    assert keys.groups.tolist() == codec.keys(columns).groups.tolist()


def test_equal_floats_have_equal_bytes() -> None:
    codec = KeyCodec((pa.float64(), pa.string()), 16)
    odd_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    floats = pa.array([0.0, -0.0, float("nan"), odd_nan])
    ends = stored(codec.keys([floats, pa.array(["x"] * 4)]))
    rows = [ends.data[ends.ends[i] : ends.ends[i + 1]].tobytes() for i in range(4)]
    assert rows[0] == rows[1] != rows[2] == rows[3]
