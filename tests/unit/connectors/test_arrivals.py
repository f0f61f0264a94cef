"""What a sender's messages may take of a worker's memory, however little they are themselves."""

import struct

import pyarrow as pa
import pytest

from penstock.base import limits
from penstock.base.errors import PeerError
from penstock.connectors.arrivals import Arrivals
from penstock.connectors.flight_data import FlightData

ROWS = 200_000
VECTOR = pa.list_(pa.float32(), 768)
BYTES = pa.binary(4000)


def messages(column: pa.Array) -> list[FlightData]:
    """Return what a sender of one batch sends: schema, dictionaries, rows."""
    batch = pa.record_batch({"v": column})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return [
        FlightData(header=memoryview(m.metadata).cast("B"), body=memoryview(m.body or b"").cast("B"))
        for m in pa.ipc.MessageReader.open_stream(sink.getvalue())
    ]


def meant_again(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int8()), values)


def views_of_one_text() -> pa.Array:
    size = 1 << 20
    view = struct.pack("<i4sii", size, b"xxxx", 0, 0)
    buffers = [None, pa.py_buffer(view * 1000), pa.py_buffer(b"x" * size)]
    return pa.Array.from_buffers(pa.string_view(), 1000, buffers)


def in_a_list(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


SMALL_AND_LARGE = {
    "nulls that become vectors": (pa.nulls(ROWS), VECTOR),
    "nulls that become bytes": (pa.nulls(ROWS), BYTES),
    "nulls that become structs": (pa.nulls(ROWS), pa.struct([("a", VECTOR)])),
    "one value of fixed size": (meant_again(pa.array([b"x" * 4000], BYTES)), BYTES),
    "one list": (meant_again(pa.array([["x" * 100] * 1000])), pa.list_(pa.string())),
    "one text in a list": (in_a_list(views_of_one_text()), pa.list_(pa.string_view())),
    "one text in a struct": (
        pa.StructArray.from_arrays([views_of_one_text()], ["a"]),
        pa.struct([("a", pa.string_view())]),
    ),
}


@pytest.mark.parametrize("name", SMALL_AND_LARGE)
def test_a_message_that_would_use_too_much_memory_is_refused_before_it_is_decoded(
    name: str,
) -> None:
    column, wanted = SMALL_AND_LARGE[name]
    arrivals = Arrivals(pa.schema([("v", wanted)]))
    *before, rows = messages(column)
    for message in before:
        assert arrivals.rows(message) is None
    pool = pa.default_memory_pool()
    held = pool.bytes_allocated()
    with pytest.raises(PeerError, match="bytes where each value is written out, at most 16777216"):
        arrivals.rows(rows)
    assert pool.bytes_allocated() - held < limits.INGEST_BATCH_BYTES_MAX


def test_nulls_and_nested_values_that_fit_are_taken() -> None:
    nested = pa.list_(pa.struct([("a", pa.list_(pa.string()))]))
    pairs = pa.map_(pa.string(), pa.string())
    for column, wanted in (
        (pa.nulls(100), VECTOR),
        (pa.nulls(ROWS), pa.string()),
        (pa.array([[{"a": ["x", None]}], None, []], nested), nested),
        (pa.array([[("k", "v")]], pairs), pairs),
    ):
        arrivals = Arrivals(pa.schema([("v", wanted)]))
        found = [arrivals.rows(message) for message in messages(column)]
        assert found[-1] is not None
        assert found[-1].num_rows == len(column)


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_dictionaries_without_rows_are_not_kept_for_ever(size: int) -> None:
    schema, dictionary, rows = messages(pa.array(["x" * size]).dictionary_encode())
    arrivals = Arrivals(pa.schema([("v", pa.string())]))
    arrivals.rows(schema)
    for _ in range(100):  # each replaces the one before, as Arrow allows
        arrivals.rows(dictionary)
        assert arrivals.rows(rows) is not None
    kept = max(len(dictionary.header) + len(dictionary.body), limits.INGEST_CHARGE_BYTES_MIN)
    for _ in range(limits.INGEST_MESSAGE_BYTES_MAX // kept):
        arrivals.rows(dictionary)
    with pytest.raises(PeerError, match="bytes of dictionaries came without rows"):
        arrivals.rows(dictionary)
