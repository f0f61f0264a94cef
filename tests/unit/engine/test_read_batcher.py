"""Small reads are put together, in order, and never at the cost of rows that are there."""

import pyarrow as pa
import pytest

from penstock.base.limits import SOURCE_JOINED_READ_BYTES, SOURCE_JOINED_READ_S
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.engine import source_reader
from penstock.engine.source_reader import Bound, ReadBatcher, read_bytes_max
from penstock.ports import Read


class Reader:
    """Gives numbers from 0 on, in reads of scripted sizes; 0 is nothing now."""

    def __init__(self, sizes: list[int], text: str = "") -> None:
        self.sizes = sizes
        self.offset = 0
        self.text = text

    def read(self, max_rows: int) -> Read | None:
        rows = min(self.sizes.pop(0) if self.sizes else 0, max_rows)
        if not rows:
            return None
        first, self.offset = self.offset, self.offset + rows
        numbers = range(first, self.offset)
        return Read(pa.record_batch({"n": numbers, "t": [self.text] * rows}), first)

    def state(self) -> SplitState:
        return SplitState(SplitId("split"), "", self.offset)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Nothing to acknowledge."""

    def close(self) -> None:
        """Nothing to release."""


def reads(reader: Reader, batch_rows: int, bytes_max: int = SOURCE_JOINED_READ_BYTES) -> list[list[int]]:
    """Read until nothing is there; what each read brought."""
    reads, found = ReadBatcher(batch_rows, bytes_max), []
    while (read := reads.next(reader)) is not None:
        numbers = read.batch.column("n").to_pylist()
        assert read.offset == numbers[0]
        assert reader.offset == numbers[-1] + 1, "rows were read and kept back"
        found.append(numbers)
    return found


def test_turns_grow_while_they_cost_little_and_lose_no_row() -> None:
    found = reads(Reader([10] * 100), 10)
    assert [n for read in found for n in read] == list(range(1000))
    assert len(found) < 20
    assert max(len(read) for read in found) > 100


def test_a_split_that_gives_less_than_asked_is_not_asked_again() -> None:
    found = reads(Reader([10, 10, 10, 4, 10, 10, 3]), 10)
    assert [n for read in found for n in read] == list(range(57))
    assert all(len(read) % 10 or len(read) <= 40 for read in found)
    assert any(read[-1] == 33 for read in found)  # the short one ended its joined read


def test_a_turn_without_rows_changes_nothing() -> None:
    reads, reader = ReadBatcher(10), Reader([0, 10])
    assert reads.next(reader) is None
    again = reads.next(reader)
    assert again is not None
    assert again.offset == 0


def test_large_rows_are_put_together_up_to_a_size() -> None:
    reader = Reader([4] * 200, "x" * (SOURCE_JOINED_READ_BYTES // 16))
    assert max(len(read) for read in reads(reader, 4)) <= 20


class Block(Reader):
    """Gives one block of long rows piece by piece."""

    block = pa.record_batch({"n": range(2000), "t": ["x" * 1024] * 2000})

    def read(self, max_rows: int) -> Read | None:
        first = self.offset
        piece = self.block.slice(first, max_rows)
        self.offset += piece.num_rows
        return Read(piece, first) if piece.num_rows else None


def test_pieces_of_one_block_are_put_together_without_a_copy() -> None:
    reads, reader = ReadBatcher(100), Block([])
    memory = Block.block.column("t").buffers()[2].address
    found = []
    while (read := reads.next(reader)) is not None:
        found.append(read.batch)
        assert read.batch.column("t").buffers()[2].address == memory
    assert pa.Table.from_batches(found).equals(pa.Table.from_batches([Block.block]))
    assert len(found) < 20


class Gathering(Reader):
    """Puts reads together itself; notes how many of how many rows it was asked for."""

    def __init__(self, rows: int, text: str = "") -> None:
        super().__init__([rows], text)
        self.asked: list[tuple[int, int]] = []

    def gather(self, batch_rows: int, batches: int) -> Read | None:
        self.asked.append((batch_rows, batches))
        rows = min(batch_rows * batches, sum(self.sizes))
        self.sizes = [rows, sum(self.sizes) - rows]
        return self.read(rows)

    def read(self, max_rows: int) -> Read | None:
        rows = min(max_rows, sum(self.sizes))
        self.sizes = [rows, sum(self.sizes) - rows]
        return super().read(max_rows)


def test_a_gathering_reader_gets_many_small_reads_in_one_call() -> None:
    reader, reads, found = Gathering(1000), ReadBatcher(10), []
    while (read := reads.next(reader, reader)) is not None:
        found += read.batch.column("n").to_pylist()
    assert found == list(range(1000))
    assert len(reader.asked) < 20
    assert {batch_rows for batch_rows, _ in reader.asked} == {10}
    assert max(batches for _, batches in reader.asked) > 10


def test_turns_grow_again_after_one_that_cost_much(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = [0.0]
    monkeypatch.setattr(source_reader, "thread_time", lambda: worked[0])
    monkeypatch.setattr(source_reader, "SOURCE_JOINED_READ_ROWS_MAX", 1024)  # no multiple of ten
    reader, reads = Gathering(50_000), ReadBatcher(10)

    def rows_of_read(cost_s: float) -> int:
        worked[0] += cost_s
        read = reads.next(reader, reader)
        return 0 if read is None else read.batch.num_rows

    assert [rows_of_read(0.0) for _ in range(12)][-1] == 1020
    assert [rows_of_read(SOURCE_JOINED_READ_S * 2) for _ in range(3)][-1] < 200
    assert [rows_of_read(0.0) for _ in range(12)][-1] == 1020


def test_large_reads_are_not_gathered_and_no_turn_outgrows_its_bytes() -> None:
    text = "x" * 8192
    reader, reads = Gathering(3000, text), ReadBatcher(10)
    while (read := reads.next(reader, reader)) is not None:
        assert read.batch.nbytes <= SOURCE_JOINED_READ_BYTES
    assert not reader.asked  # the first read showed how large rows are


def test_no_turn_brings_more_rows_than_its_bound() -> None:
    reads, reader = ReadBatcher(10), Reader([10] * 100)
    found = []
    while (read := reads.next(reader, None, Bound(rows=25))) is not None:
        found.append(read.batch.num_rows)
    assert max(found) <= 25, "several reads"
    reads, reader = ReadBatcher(10), Reader([10] * 100)
    few = reads.next(reader, None, Bound(rows=3))
    assert few is not None
    assert few.batch.num_rows == 3, "a single read"


def test_no_turn_brings_more_bytes_than_its_bound_by_the_rows_before_unless_one_is_larger() -> None:
    reads, reader = ReadBatcher(10), Reader([10] * 100, "x" * 1000)
    sizes = []
    while (read := reads.next(reader, None, Bound(size=5000))) is not None:
        sizes.append(read.batch.num_rows)
    assert max(sizes[1:]) <= 5, "the first showed how large rows are"
    reads, reader = ReadBatcher(10), Reader([10] * 3, "x" * 1000)
    rows = [reads.next(reader, None, Bound(size=10)) for _ in range(3)]
    assert [r.batch.num_rows for r in rows[1:] if r is not None] == [1, 1]


def test_a_turn_is_as_large_as_what_may_wait_at_its_receivers() -> None:
    assert read_bytes_max([], 100) == SOURCE_JOINED_READ_BYTES
    assert read_bytes_max([3, 2], 100) == 200
    assert read_bytes_max([4], SOURCE_JOINED_READ_BYTES) == SOURCE_JOINED_READ_BYTES


def test_large_rows_are_put_together_up_to_what_may_wait() -> None:
    assert max(len(read) for read in reads(Reader([4] * 200, "x" * 1024), 4, 16 * 1024)) <= 20
    assert max(len(read) for read in reads(Reader([4] * 200, "x" * 1024), 4)) > 40
