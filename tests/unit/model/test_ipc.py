"""Sizes are read from the metadata: as Arrow would take them, and never beyond the message."""

import struct
from contextlib import suppress

import pyarrow as pa
import pytest

from penstock.base.errors import PeerError
from penstock.model.ipc import DICTIONARIES, ROWS, SCHEMA, Sizes, check, message_sizes, stream_sizes

BATCH = pa.record_batch(
    {
        "text": ["abc" * 20, None, "ü"] * 500,
        "list": [[1, None], None, []] * 500,
        "field": [{"a": 1.5}] * 1500,
        "nothing": pa.nulls(1500),
        "flag": [True, None, False] * 500,
    }
)


def stream(batch: pa.RecordBatch, codec: str | None = None) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_the_size_is_what_arrow_takes(codec: str | None) -> None:
    schema, rows = stream_sizes(stream(BATCH, codec))
    assert schema.kind == SCHEMA
    assert (rows.kind, rows.rows, rows.items) == (ROWS, 1500, 1500)
    read = pa.ipc.open_stream(stream(BATCH, codec)).read_next_batch()
    # Uncompressed buffers are padded to eight bytes in the message.
    assert 0 <= rows.size - read.get_total_buffer_size() < 8 * 12


def test_dictionaries_are_counted_by_themselves() -> None:
    rows = pa.record_batch({"d": pa.array(["ab", "cd", "ab"]).dictionary_encode()})
    _, dictionary, batch = stream_sizes(stream(rows))
    assert (dictionary.kind, dictionary.rows, dictionary.is_delta) == (DICTIONARIES, 2, False)
    assert batch.rows == 3


def test_a_bomb_is_known_by_its_metadata() -> None:
    zeros = pa.record_batch({"v": [bytes(64 << 20)]})
    for codec in ("lz4", "zstd"):
        message = stream(zeros, codec)
        before = pa.total_allocated_bytes()
        sizes = list(stream_sizes(message))[1]
        assert sizes.size > 64 << 20 > 100 * message.size
        with pytest.raises(PeerError, match=r"a batch unpacks to 671088\d\d bytes, at most"):
            check(sizes, 1 << 20, 10)
        assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize("codec", [None, "lz4"])
def test_messages_that_may_be_compressed_by_their_notes_are_refused(codec: str | None) -> None:
    """Arrow unpacks a V4 batch with the note ARROW:experimental_compression: 277 KB took 64 MiB."""
    sink = pa.BufferOutputStream()
    old = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4, compression=codec)
    with pa.ipc.new_stream(sink, BATCH.schema, options=old) as writer:
        writer.write_batch(BATCH)
    with pytest.raises(PeerError, match=r"of before Arrow 1\.0"):
        list(stream_sizes(sink.getvalue()))


def message(batch: pa.RecordBatch, codec: str | None = None) -> tuple[bytes, bytes]:
    reader = pa.ipc.MessageReader.open_stream(stream(batch, codec))
    reader.read_next_message()
    found = reader.read_next_message()
    return found.metadata.to_pybytes(), found.body.to_pybytes()


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


def test_rows_and_items_have_a_bound_where_they_take_no_memory() -> None:
    metadata, body = message(pa.record_batch({"n": pa.nulls(33)}))
    with pytest.raises(PeerError, match="a batch has 1099511627776 rows, at most 33"):
        check(message_sizes(metadata.replace(numbers(33), numbers(1 << 40)), body), 1 << 20, 33)
    inner = pa.LargeListArray.from_arrays(pa.array([0, 33], pa.int64()), pa.nulls(33))
    metadata, body = message(pa.record_batch({"n": inner}))
    with pytest.raises(PeerError, match="a batch has 1099511627776 items"):
        check(message_sizes(metadata.replace(numbers(33), numbers(1 << 40)), body), 1 << 20, 33)


INTS = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (numbers(0, 24), numbers(0, 25), "lies outside its 24 bytes"),
        (numbers(0, 24), numbers(-8, 24), "lies outside"),
        (numbers(0, 24), numbers(8, 2**62), "lies outside"),
        (numbers(3, 0), numbers(-3, 0), "less than no rows"),
    ],
)
def test_places_outside_the_body_are_refused(old: bytes, new: bytes, reason: str) -> None:
    metadata, body = message(INTS)
    assert metadata.count(old) == 1
    with pytest.raises(PeerError, match=reason):
        message_sizes(metadata.replace(old, new), body)


@pytest.mark.parametrize("claim", [-2, 2**62, 1 << 30])
def test_a_buffer_that_claims_what_lz4_cannot_give_is_refused(claim: int) -> None:
    metadata, body = message(pa.record_batch({"v": [0] * 12_500}), "lz4")
    assert body[:8] == numbers(100_000)
    with pytest.raises(PeerError, match=rf"compressed bytes cannot unpack to {claim}"):
        message_sizes(metadata, numbers(claim) + body[8:])


def test_a_body_of_another_length_is_refused() -> None:
    metadata, body = message(INTS)
    with pytest.raises(PeerError, match="announces another length"):
        message_sizes(metadata, body + bytes(8))


@pytest.mark.parametrize("metadata", [b"", b"\x10", bytes(4), b"\xff" * 64, struct.pack("<IiHH", 4, 1 << 30, 4, 4)])
def test_metadata_that_is_none_is_refused(metadata: bytes) -> None:
    with pytest.raises(PeerError):
        message_sizes(metadata, b"")


def test_cut_and_flipped_metadata_never_leads_outside() -> None:
    metadata, body = message(BATCH, "lz4")
    for place in range(len(metadata)):
        refused_or_read(metadata[:place], body)
        for bit in range(8):
            altered = bytearray(metadata)
            altered[place] ^= 1 << bit
            refused_or_read(bytes(altered), body)


def refused_or_read(metadata: bytes, body: bytes) -> None:
    with suppress(PeerError):
        assert isinstance(message_sizes(metadata, body), Sizes)
