"""Batches that travel packed come out as they went in, and nothing else is taken for one."""

import pyarrow as pa
import pytest

from penstock.base.errors import PeerError
from penstock.base.values import replace
from penstock.contract.settings import CompressionMode, CompressionSettings
from penstock.model.wire import DATA_HEAD_BYTES, DataHead, encode_data
from penstock.transport.batches import can_pack, pack, split_message, unpack

LZ4 = CompressionSettings(CompressionMode.LZ4)
HEAD = DataHead(3, 10_000, packed=True)
METADATA = encode_data(7, HEAD)
ROWS = pa.record_batch(
    {
        "word": pa.array(["a" * 99, None, "ccc"]),
        "list": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "flag": pa.array([True, None, False]),
        "ts": pa.array([1, 2, None], pa.timestamp("us")),
        "nothing": pa.nulls(3),
    }
)


def sent(rows: pa.RecordBatch) -> pa.RecordBatch:
    metadata, packed = split_message(pack(rows, rows.schema, METADATA))
    assert metadata == METADATA
    assert packed is not None
    return unpack(packed, HEAD, rows.schema)


@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(1, 1), ROWS.slice(0, 0)], ids=str)
def test_rows_come_out_as_they_went_in(rows: pa.RecordBatch) -> None:
    found = sent(rows)
    found.validate(full=True)
    assert found.equals(rows)


def test_unpacked_buffers_are_aligned_at_any_address_of_the_message() -> None:
    packed = pack(ROWS, ROWS.schema, METADATA).to_pybytes()
    for offset in range(8):
        moved = pa.py_buffer(b"x" * offset + packed).slice(offset + DATA_HEAD_BYTES)
        found = unpack(moved, HEAD, ROWS.schema)
        assert found.column("ts").buffers()[1].address % 8 == 0
        assert found.equals(ROWS)


def test_metadata_of_a_step_is_not_sent() -> None:
    noted = ROWS.replace_schema_metadata({"made": "by a step"})
    _, packed = split_message(pack(noted, ROWS.schema, METADATA))
    assert packed is not None
    assert unpack(packed, HEAD, ROWS.schema).schema.metadata is None


def test_an_element_that_is_not_packed_is_its_metadata() -> None:
    plain = encode_data(1, replace(HEAD, packed=False))
    assert split_message(pa.py_buffer(plain)) == (plain, None)


@pytest.mark.parametrize(
    ("kind", "packs"),
    [
        (pa.string(), True),
        (pa.list_(pa.struct([("a", pa.int64())])), True),
        (pa.dictionary(pa.int32(), pa.string()), False),
        (pa.list_(pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))])), False),
    ],
)
def test_dictionaries_are_not_sent_again_and_again(kind: pa.DataType, packs: bool) -> None:
    schema = pa.schema([("n", pa.int64()), ("x", kind)])
    assert can_pack(LZ4, schema) is packs
    assert not can_pack(CompressionSettings(CompressionMode.NONE), schema)


def two_batches() -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_batch(ROWS)
        writer.write_batch(ROWS)
    return sink.getvalue()


def message(rows: pa.RecordBatch) -> pa.Buffer:
    return pack(rows, rows.schema, b"")


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (two_batches(), "3 messages are packed, not a schema and one batch"),
        (message(ROWS.rename_columns(list("abcde"))), "announced was"),
        (message(ROWS).slice(0, 600), "are no Arrow stream"),
        (message(ROWS.slice(0, 0)).slice(0, 60), "are no Arrow stream"),
        (pa.py_buffer(b"junk" * 100), "are no Arrow stream"),
        (pa.py_buffer(bytes(10_001)), "a packed batch of 10001 bytes is charged as 10000"),
    ],
)
def test_bytes_that_are_no_packed_batch_are_refused(packed: pa.Buffer, reason: str) -> None:
    with pytest.raises(PeerError, match=reason):
        unpack(packed, HEAD, ROWS.schema)


def test_a_batch_that_unpacks_to_more_than_its_charge_takes_no_memory() -> None:
    size = 192 << 20
    ends = pa.py_buffer((0).to_bytes(8, "little") + size.to_bytes(8, "little"))
    zeros = pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(bytes(size))])
    rows = pa.record_batch({"v": zeros})
    packed = pack(rows, rows.schema, b"")
    assert packed.size < 1 << 20
    before = pa.total_allocated_bytes()
    with pytest.raises(PeerError, match=f"unpacks to {size + 16} bytes, at most {2 * packed.size}"):
        unpack(packed, DataHead(1, packed.size, packed=True), rows.schema)
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_more_rows_than_announced_are_not_unpacked() -> None:
    nothing = pa.record_batch({"n": pa.nulls(3)})
    packed = pack(nothing, nothing.schema, b"").to_pybytes()
    three, many = (3).to_bytes(8, "little"), (1 << 40).to_bytes(8, "little")
    assert three in packed
    with pytest.raises(PeerError, match="a batch has 1099511627776 rows, at most 3"):
        unpack(pa.py_buffer(packed.replace(three, many)), HEAD, nothing.schema)
