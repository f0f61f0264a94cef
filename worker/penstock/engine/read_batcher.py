"""Joins small reads, so that the fixed cost of a turn of a source task is paid once for many rows.

A turn hashes, splits and sends a batch with some hundred Python calls, whatever its size; with other
threads running, a call may also pass on the interpreter lock. So a split that has more rows is read
again until the rows are enough for a turn, which is ``SOURCE_TURN_S`` of work of the task's thread.
The work is measured in processor time. So it adapts to the size of rows and the cost of the steps,
and a task that waits for credit does not count as slow.

A reader that gives few rows at a time may join them itself in compiled code: a Python call for each
read would cost more than all later work.

A split is read again only when it gave as many rows as requested: then it probably has more, and the
read does not wait. A call returns all rows it has read, so a checkpoint between two turns matches
the positions of the readers.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from penstock.base.limits import (
    SOURCE_TURN_BYTES,
    SOURCE_TURN_ROWS_MAX,
    SOURCE_TURN_S,
)
from penstock.base.threads import thread_time
from penstock.ports import Read
from penstock.transport.batches import conform, whole

if TYPE_CHECKING:
    from penstock.ports import GatheringReader, SplitReader

_LOOKED_AT_BYTES = 65_536  # smaller reads are copied: that is faster than comparing their buffers


def turn_bytes(receivers: Iterable[int], waiting_bytes: int) -> int:
    """Return the size limit of a turn, given how many receivers divide the rows of each edge.

    A receiver's part of at most ``waiting_bytes`` can be sent while the next part waits.
    """
    return min([SOURCE_TURN_BYTES, *(count * waiting_bytes for count in receivers)])


class Bound(NamedTuple):
    """How many rows, and how many bytes, may be read at once."""

    rows: int = SOURCE_TURN_ROWS_MAX
    size: int = SOURCE_TURN_BYTES


ANY = Bound()


class ReadBatcher:
    """Makes the reads of one source task large enough. Only one thread uses and is measured by it."""

    def __init__(self, batch_rows: int, bytes_max: int = SOURCE_TURN_BYTES) -> None:
        """Ask for ``batch_rows`` at a time, up to ``bytes_max``; begin with one read a turn."""
        self._batch_rows = batch_rows
        self._bytes_max = bytes_max
        self._wanted = batch_rows  # rows of a turn
        self._row_bytes = 1
        self._last = 0  # rows of the turn before
        self._worked_s = 0.0  # of the thread, when it began

    def next(
        self,
        reader: "SplitReader",
        gathering: "GatheringReader | None" = None,
        bound: Bound = ANY,
    ) -> Read | None:
        """Return rows of consecutive reads as one, or None when the split has nothing now.

        ``gathering`` is the same reader if it can put small reads together itself. Even a single
        read asks for no more than ``bound``, by the size of the rows that were read before.
        """
        self._adapt()
        rows_max = max(min(bound.rows, bound.size // self._row_bytes), 1)
        asked, wanted = min(self._batch_rows, rows_max), min(self._wanted, rows_max)
        if gathering is not None and 2 * self._batch_rows <= wanted and not self._large:
            return self._gathered(gathering, wanted)
        first = reader.read(asked)
        if first is None:
            self._last = 0
            return None
        if first.batch.num_rows >= asked:
            self._row_bytes = 1 + first.batch.nbytes // first.batch.num_rows
        reads, rows, more = [first], first.batch.num_rows, first
        while more.batch.num_rows >= asked and self._goes_on(rows, wanted):
            asked = min(asked, wanted - rows)
            following = reader.read(asked)
            if following is None:
                break
            reads.append(more := following)
            rows += more.batch.num_rows
        self._last = rows
        return first if len(reads) == 1 else self._joined(reads)

    def _gathered(self, reader: "GatheringReader", wanted: int) -> Read | None:
        rows = min(wanted, self._bytes_max // self._row_bytes)
        read = reader.gather(self._batch_rows, max(rows // self._batch_rows, 1))
        self._last = 0 if read is None else read.batch.num_rows
        if read is not None:
            self._row_bytes = 1 + read.batch.nbytes // read.batch.num_rows
        return read

    @property
    def _large(self) -> bool:
        """Whether reads are so large that a copy should be avoided."""
        return self._batch_rows * self._row_bytes >= _LOOKED_AT_BYTES

    def _goes_on(self, rows: int, wanted: int) -> bool:
        """Return whether to read again after ``rows`` rows."""
        fits = (rows + self._batch_rows) * self._row_bytes <= self._bytes_max
        return rows < wanted and fits

    def _adapt(self) -> None:
        """Double or halve the rows wanted per turn, by the cost of the last turn."""
        now = thread_time()
        worked, self._worked_s = now - self._worked_s, now
        if not self._last:
            return
        if worked > SOURCE_TURN_S:
            self._wanted = max(self._wanted // 2, self._batch_rows)
        elif 2 * worked < SOURCE_TURN_S and self._last > self._wanted - self._batch_rows:
            self._wanted = min(2 * self._wanted, SOURCE_TURN_ROWS_MAX)

    def _joined(self, reads: list[Read]) -> Read:
        first = reads[0]
        schema = first.batch.schema
        batches = [conform(read.batch, schema) for read in reads]
        # The reads are often adjacent pieces of one block of rows. Then they are joined without a copy.
        joined = whole(batches) if self._large else None
        return Read(pa.concat_batches(batches) if joined is None else joined, first.offset)
