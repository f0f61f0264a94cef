"""The hash of a key depends on its value, not on the Arrow layout of its column."""

import struct
from typing import Any

import pyarrow as pa
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.keys import hash_columns

CASES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text(max_size=40),
    pa.binary(): st.binary(max_size=70),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(),
    pa.timestamp("us"): st.integers(-(2**62), 2**62),
}


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    kind = draw(st.sampled_from(list(CASES)))
    return pa.array(draw(st.lists(st.none() | CASES[kind], max_size=30)), kind)


def layouts(array: pa.Array) -> list[pa.Array | pa.ChunkedArray]:
    half = len(array) // 2
    padded = pa.concat_arrays([array, array])
    others = [
        array.dictionary_encode(),
        pa.chunked_array([array.slice(0, half), array.slice(half)]),
        padded.slice(len(array)),
        padded.dictionary_encode().slice(len(array)),
    ]
    wider = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(array.type)
    view = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}.get(array.type)
    return others + [array.cast(kind) for kind in (wider, view) if kind is not None]


@given(columns())
def test_every_layout_has_the_same_hashes(array: pa.Array) -> None:
    plain = hash_columns([array]).tolist()
    for other in layouts(array):
        assert hash_columns([other]).tolist() == plain, other.type


@given(st.lists(st.tuples(st.none() | st.text(max_size=80), st.none() | st.integers(0, 9))))
def test_columns_chain_and_nulls_leave_the_hash(rows: list[tuple[str | None, int | None]]) -> None:
    expected = []
    for text, number in rows:
        seed = 42 if text is None else xxhash.xxh64_intdigest(text.encode(), 42)
        packed = None if number is None else struct.pack("<q", number)
        expected.append(seed if packed is None else xxhash.xxh64_intdigest(packed, seed))
    texts = pa.array([r[0] for r in rows], pa.string())
    numbers = pa.array([r[1] for r in rows], pa.int64())
    assert hash_columns([texts, numbers]).tolist() == expected
