"""A sender cannot exhaust a worker's memory: every batch is measured, decoded and validated."""

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.base.limits import INGEST_BATCH_BYTES_MAX, INGEST_BATCH_ROWS_MAX
from penstock.connectors.announce import Proof, dialled, opened, read_announcements
from penstock.connectors.ingest import IngestReader, IngestSource
from penstock.contract import codec
from penstock.contract.columns import Column
from penstock.model.ingest_messages import (
    WIRE_VERSION,
    Hello,
    IngestAnswer,
    IngestReply,
    Rows,
    decode_reply,
)

LINE = (Column("line", "string"),)
MIB = 1 << 20


class Sender:
    """The sender of one stream. The test makes each of its messages."""

    def __init__(self, client: Any) -> None:
        descriptor = fl.FlightDescriptor.for_command(codec.encode(Hello(WIRE_VERSION, 0, 1, 1)))
        self.writer, self.stream = client.do_exchange(descriptor)
        assert self.hear().answer == IngestAnswer.TAKEN

    def hear(self) -> IngestReply:
        return decode_reply(bytes(self.stream.read_chunk().app_metadata))

    def push(self, batch: pa.RecordBatch, codec_name: str | None = None, offset: int = 0) -> IngestReply:
        if codec_name is not None or offset == 0:
            options = pa.ipc.IpcWriteOptions(compression=codec_name)
            self.writer.begin(batch.schema, options=options)
        self.writer.write_with_metadata(batch, codec.encode(Rows(offset)))
        return self.hear()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[IngestReader]:
    source = IngestSource(1, str(tmp_path / "announce"), LINE)
    found = source.open(source.splits()[0])
    yield found
    found.close()


@pytest.fixture
def sender(tmp_path: Path, reader: IngestReader) -> Iterator[Sender]:
    with opened(tmp_path / "announce", Proof.FOLDER) as path:
        (worker,) = read_announcements(path)
        address = dialled(worker.address, path, Proof.FOLDER)
        assert address is not None
        with fl.FlightClient(address) as client:
            found = Sender(client)
            yield found
            found.stream.cancel()


def lines(*values: Any, kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.record_batch({"line": pa.array(list(values), kind or pa.string())})


def outside() -> pa.RecordBatch:
    ends = pa.py_buffer(struct.pack("<3i", 0, 1 << 30, 5))
    return pa.record_batch({"line": pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"hello")])})


def again_and_again(kind: pa.DataType, times: int) -> pa.RecordBatch:
    """One value of a MiB, meant many times; it is in the message once."""
    value = "x" * MIB
    if pa.types.is_dictionary(kind):
        indices = pa.array([0] * times, pa.int32())
        return pa.record_batch({"line": pa.DictionaryArray.from_arrays(indices, pa.array([value]))})
    view = struct.pack("<i4sii", MIB, b"xxxx", 0, 0)
    buffers = [None, pa.py_buffer(view * times), pa.py_buffer(value.encode())]
    return pa.record_batch({"line": pa.Array.from_buffers(pa.string_view(), times, buffers)})


DICTIONARY = pa.dictionary(pa.int32(), pa.string())
ZEROS = "\0" * (192 * MIB)
REFUSED: dict[str, tuple[Callable[[], pa.RecordBatch], str | None, str]] = {
    "offsets outside": (outside, None, "invalid batch, column 'line'"),
    "an LZ4 bomb": (lambda: lines(ZEROS), "lz4", "unpacks to 2013.* bytes, at most 16777216"),
    "a ZSTD bomb": (lambda: lines(ZEROS), "zstd", "unpacks to 2013.* bytes, at most 16777216"),
    "too many rows": (
        lambda: lines(*[""] * (INGEST_BATCH_ROWS_MAX + 1)),
        "lz4",
        "a batch has 1048577 rows, at most 1048576 are taken",
    ),
    "a dictionary's value again and again": (
        lambda: again_and_again(DICTIONARY, 100_000),
        None,
        "column 'line' has 104857600000 bytes where each value is written out",
    ),
    "a view's value again and again": (
        lambda: again_and_again(pa.string_view(), 100_000),
        None,
        "column 'line' has 104857600000 bytes where each value is written out",
    ),
    "another type": (
        lambda: lines(1, 2, kind=pa.int64()),
        None,
        "column 'line' is int64, declared is string",
    ),
    "another column": (
        lambda: lines("a").rename_columns(["text"]),
        None,
        "rows with line are taken, got text",
    ),
    "a column twice": (
        lambda: pa.RecordBatch.from_arrays([pa.array(["a"])] * 2, ["line", "line"]),
        None,
        "rows with line are taken, got line, line",
    ),
    "a dictionary that is too large": (
        lambda: lines("x" * (17 * MIB)).set_column(0, "line", pa.array(["x" * (17 * MIB)]).dictionary_encode()),
        "lz4",
        "the dictionaries of a stream take 178.* bytes, at most 16777216",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_worker_cannot_hold_is_refused(name: str, sender: Sender, reader: IngestReader) -> None:
    make, codec_name, reason = REFUSED[name]
    batch = make()
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    reply = sender.push(batch, codec_name)
    assert reply.answer == IngestAnswer.REFUSED
    assert re.search(reason, reply.text), reply
    assert pool.bytes_allocated() - before < 2 * INGEST_BATCH_BYTES_MAX
    assert reader.read(10) is None


def test_a_message_beyond_any_batch_is_not_even_read(sender: Sender, reader: IngestReader) -> None:
    with pytest.raises(pa.ArrowException, match=r"message larger than max \(\d+ vs. 17825792\)"):
        sender.push(lines("x" * (18 * MIB)))
    assert reader.read(10) is None


@pytest.mark.parametrize("codec_name", [None, "lz4", "zstd"])
def test_rows_come_as_they_were_sent(codec_name: str | None, sender: Sender, reader: IngestReader) -> None:
    values = ["ü" * 50, None, "", "a"] * 2000
    assert sender.push(lines(*values), codec_name).next == 8000
    assert sender.push(lines(*values[:4]), offset=8000).next == 8004
    found = []
    while (read := reader.read(5000)) is not None:
        found += read.batch.column("line").to_pylist()
    assert found == values + values[:4]


def test_dictionaries_and_views_are_taken(sender: Sender, reader: IngestReader) -> None:
    words = pa.array(["a", "b", None, "a"]).dictionary_encode()
    batch = pa.record_batch({"more": pa.array([1, 2, 3, 4]), "line": words})
    assert sender.push(batch).next == 4
    read = reader.read(10)
    assert read is not None
    assert read.batch.to_pydict() == {"line": ["a", "b", None, "a"]}


def test_a_large_batch_within_the_cap_is_taken(sender: Sender, reader: IngestReader) -> None:
    assert sender.push(lines("x" * (15 * MIB))).answer == IngestAnswer.TAKEN
    read = reader.read(10)
    assert read is not None
    assert read.batch.nbytes > 15 * MIB
