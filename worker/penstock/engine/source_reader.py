"""Reads the splits of a source task round-robin, and makes the events for the task's core.

Order of splits (:class:`SplitScheduler`):

    waiting --a place is free--> read round-robin --no more rows--> gone
       ^                               |
       +-------- gives its place ------+

Splits that hold files and memory while they are read share ``places``. All other splits are read
round-robin. A split that may not be read, because it moves, keeps its files and memory, but no place.

Size of a joined read (:class:`ReadBatcher`): small reads are joined, so that the fixed cost of a batch
is paid once for many rows. A task hashes, splits and sends a batch with some hundred Python calls,
whatever its size; with other threads running, a call may also pass on the interpreter lock. So a
split that has more rows is read again until the rows are enough, which is
``SOURCE_JOINED_READ_S`` of work of the task's thread. The work is measured in processor time. So it adapts
to the size of rows and the cost of the steps, and a task that waits for credit does not count as slow.

A reader that gives few rows at a time may join them itself in compiled code: a Python call for each
read would cost more than all later work.

A split is read again only when it gave as many rows as requested: then it probably has more, and the
read does not wait. A call returns all rows it has read, so a checkpoint between two calls matches
the positions of the readers.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from penstock.base.limits import (
    LATENCY_MARK_INTERVAL_S,
    LATENCY_MARKS_PER_READ_MAX,
    SOURCE_JOINED_READ_BYTES,
    SOURCE_JOINED_READ_ROWS_MAX,
    SOURCE_JOINED_READ_S,
    SOURCE_POLL_S,
    SOURCE_POLL_SHARE,
    SOURCE_REST_MAX_S,
    SOURCE_SPLITS_READ_MAX,
)
from penstock.base.threads import monotonic, thread_time
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.contract.status import SplitStatus
from penstock.model.elements import Data
from penstock.ports import (
    GatheringReader,
    MeteredReader,
    PacedReader,
    Read,
    ReleasingReader,
    RemoteReader,
    RestingReader,
)
from penstock.protocol.channel.pace import Pace
from penstock.protocol.task.task_messages import ReadBlocked, RowsRead, SplitEmpty, SplitEnded
from penstock.transport.batches import conform, whole

if TYPE_CHECKING:
    from penstock.ports import Source, SplitReader


_LOOKED_AT_BYTES = 65_536  # smaller reads are copied: that is faster than comparing their buffers

_MARK_NS = round(LATENCY_MARK_INTERVAL_S * 1e9)
_RESTS_S = 0.0001  # a split that has no rows for at least this long counts as resting
_CUTS_KEPT = 16  # cuts of aborted epochs are never committed: only the newest cuts are kept

SourceEvent = RowsRead | SplitEmpty | SplitEnded | ReadBlocked


def read_bytes_max(receivers: Iterable[int], waiting_bytes: int) -> int:
    """Return the size limit of a joined read, given how many receivers divide the rows of each edge.

    A receiver's part of at most ``waiting_bytes`` can be sent while the next part waits.
    """
    return min([SOURCE_JOINED_READ_BYTES, *(count * waiting_bytes for count in receivers)])


class Bound(NamedTuple):
    """How many rows, and how many bytes, may be read at once."""

    rows: int = SOURCE_JOINED_READ_ROWS_MAX
    size: int = SOURCE_JOINED_READ_BYTES


ANY = Bound()


class ReadBatcher:
    """Makes the reads of one source task large enough. Only one thread uses and is measured by it."""

    def __init__(self, batch_rows: int, bytes_max: int = SOURCE_JOINED_READ_BYTES) -> None:
        """Ask for ``batch_rows`` at a time, up to ``bytes_max``; begin without joining."""
        self._batch_rows = batch_rows
        self._bytes_max = bytes_max
        self._wanted = batch_rows  # rows of a joined read
        self._row_bytes = 1
        self._last = 0  # rows of the joined read before
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
        """Double or halve the rows of a joined read, by the cost of the last one."""
        now = thread_time()
        worked, self._worked_s = now - self._worked_s, now
        if not self._last:
            return
        if worked > SOURCE_JOINED_READ_S:
            self._wanted = max(self._wanted // 2, self._batch_rows)
        elif 2 * worked < SOURCE_JOINED_READ_S and self._last > self._wanted - self._batch_rows:
            self._wanted = min(2 * self._wanted, SOURCE_JOINED_READ_ROWS_MAX)

    def _joined(self, reads: list[Read]) -> Read:
        first = reads[0]
        schema = first.batch.schema
        batches = [conform(read.batch, schema) for read in reads]
        # The reads are often adjacent pieces of one block of rows. Then they are joined without a copy.
        joined = whole(batches) if self._large else None
        return Read(pa.concat_batches(batches) if joined is None else joined, first.offset)


class SplitScheduler:
    """The splits that have rows left, in the order in which they are read."""

    def __init__(self, places: int) -> None:
        """Begin without splits."""
        self._places = places
        self._reading: deque[SplitId] = deque()
        self._waiting: deque[SplitId] = deque()
        self._placed: set[SplitId] = set()  # those of ``_reading`` that take a place

    def join(self, split: SplitId, *, takes_place: bool) -> None:
        """Add a split after the others. If it takes a place, it waits for a free one."""
        (self._waiting if takes_place else self._reading).append(split)

    def end(self, split: SplitId) -> None:
        """Forget a split that has no more rows."""
        self._reading.remove(split)
        self._placed.discard(split)

    def leave(self, splits: Iterable[SplitId]) -> None:
        """Forget splits that are closed."""
        gone = set(splits)
        self._reading = deque(split for split in self._reading if split not in gone)
        self._waiting = deque(split for split in self._waiting if split not in gone)
        self._placed -= gone

    @property
    def wanted(self) -> bool:
        """Whether a split waits for a place."""
        return bool(self._waiting)

    def give_place(self, split: SplitId) -> None:
        """Put ``split``, which holds no files now, behind all splits that wait for a place."""
        self.end(split)
        self._waiting.append(split)

    def next(self, reads: Callable[[SplitId], bool]) -> SplitId | None:
        """Return the next split for which ``reads`` is true; None when there is none."""
        self._fill(reads)
        for _ in range(len(self._reading)):
            split = self._reading[0]
            self._reading.rotate(-1)
            if reads(split):
                return split
        return None

    def _fill(self, reads: Callable[[SplitId], bool]) -> None:
        """Give free places to waiting splits."""
        if not self._waiting:
            return
        free = self._places - sum(map(reads, self._placed))
        for _ in range(len(self._waiting)):
            if free <= 0:
                return
            split = self._waiting.popleft()
            if reads(split):
                self._reading.append(split)
                self._placed.add(split)
                free -= 1
            else:
                self._waiting.append(split)


class _Opened:
    """A reader, and the same reader for each optional Protocol that it follows (otherwise None)."""

    __slots__ = ("gathering", "metered", "paced", "reader", "releasing", "remote", "resting")

    def __init__(self, reader: "SplitReader") -> None:
        self.reader = reader
        self.paced = reader if isinstance(reader, PacedReader) else None
        self.resting = reader if isinstance(reader, RestingReader) else None
        self.gathering = reader if isinstance(reader, GatheringReader) else None
        self.releasing = reader if isinstance(reader, ReleasingReader) else None
        self.remote = reader if isinstance(reader, RemoteReader) else None
        self.metered = reader if isinstance(reader, MeteredReader) else None


class SourceReader:
    """The readers of one source task, used by its thread only, but for ``asked`` and ``pending``.

    ``pending`` is what each split had left to read when the task last measured, because another thread had ``asked``.
    """

    def __init__(self, name: str, source: "Source", reads: ReadBatcher) -> None:
        """Read the splits of the step ``name`` through ``reads``."""
        self.name = name
        self._source = source
        self._reads = reads
        self._pace = Pace()
        self._opened: dict[SplitId, _Opened] = {}
        self._ended: set[SplitId] = set()
        self._scheduler = SplitScheduler(SOURCE_SPLITS_READ_MAX)
        self._empty = 0  # reads since the last rows
        self._dry_since: float | None = None  # the first rest behind the last rows
        self._cuts: dict[Epoch, tuple[SplitState, ...]] = {}
        self._marks: list[int] = []
        self._reading: tuple[SplitId, int] | None = None
        self.asked = False
        self.pending: tuple[SplitStatus, ...] = ()

    def measure(self) -> None:
        """Note what each split has left to read. Raises what a reader raises."""
        self.asked = False
        self.pending = tuple(self._pending_of(split, opened.metered) for split, opened in self._opened.items())

    def _pending_of(self, split: SplitId, reader: MeteredReader | None) -> SplitStatus:
        if split in self._ended:
            return SplitStatus(self.name, split, 0, 0)
        return SplitStatus(self.name, split, *((None, None) if reader is None else reader.pending()))

    def where(self) -> tuple[str, str, int] | None:
        """Return source, split and first offset of the last rows read."""
        return None if self._reading is None else (self.name, *self._reading)

    def open(self, states: Iterable[SplitState]) -> None:
        """Open splits at the offsets of their states. Raises StateError if one cannot be replayed."""
        for state in states:
            opened = self._opened[state.split] = _Opened(self._source.open(state))
            if state.finished:
                self._ended.add(state.split)
            else:
                self._scheduler.join(state.split, takes_place=opened.releasing is not None)

    def close(self, splits: Iterable[SplitId] | None = None) -> None:
        """Close some splits, or all, whatever one of them raises. Raises the last of these errors."""
        leaving = list(self._opened if splits is None else splits)
        self._scheduler.leave(leaving)
        with ExitStack() as closing:
            for split in leaving:
                opened = self._opened.pop(split, None)
                self._ended.discard(split)
                if opened is not None:
                    closing.callback(opened.reader.close)

    def states(self, epoch: Epoch) -> tuple[SplitState, ...]:
        """Return the state of every split, for the manifest of ``epoch``."""
        states = tuple(opened.reader.state() for opened in self._opened.values())
        self._cuts[epoch] = states
        while len(self._cuts) > _CUTS_KEPT:
            del self._cuts[next(iter(self._cuts))]
        return states

    def committed(self, epoch: Epoch) -> None:
        """Tell the readers which offsets are in a committed checkpoint."""
        for state in self._cuts.pop(epoch, ()):
            opened = self._opened.get(state.split)
            if opened is not None:
                opened.reader.committed(epoch, state)

    def worked(self, rows: int, seconds: float, waited_s: float) -> None:
        """Record the time that the steps needed for rows, ``waited_s`` of it waiting for credit.

        The size of later reads follows it, because a barrier waits for one joined read. While the cost of
        rows is not known, few rows are read.
        """
        self._pace.worked(rows, 0, seconds, waited_s)

    def bound(self, rows_per_s: float) -> None:
        """Take the steps for no faster than this: they wait for answers."""
        self._pace.bound(rows_per_s)

    def marks(self) -> list[int]:
        """Return the due times (ns) of the latency markers for the rows read since the last call."""
        marks, self._marks = self._marks, []
        return marks

    def next(self, reads: Callable[[SplitId], bool], bytes_max: int = SOURCE_JOINED_READ_BYTES) -> SourceEvent | None:
        """Read the next split, round-robin; None when no split may be read.

        Reads at most ``bytes_max``, unless a single row is larger.
        """
        split = self._scheduler.next(reads)
        if split is None:
            return None
        opened = self._opened[split]
        event = self._ask(split, opened, bytes_max)
        releasing = opened.releasing
        if split in self._ended:
            self._scheduler.end(split)
            if releasing is not None:
                releasing.release()
        elif releasing is not None and self._scheduler.wanted:
            self._let_others_read(split, releasing)
        return event

    def _let_others_read(self, split: SplitId, reader: "ReleasingReader") -> None:
        """Give up the place of a split, unless only its end is left to report."""
        if not self._opened[split].reader.state().finished and reader.release():
            self._scheduler.give_place(split)

    @property
    def dry(self) -> bool:
        """Whether every unfinished split was read and had no rows."""
        return self._empty >= len(self._opened) - len(self._ended)

    @property
    def resting(self) -> bool:
        """Whether every unfinished split knows that it will have no rows for a while."""
        for split, opened in self._opened.items():
            if split not in self._ended:
                reader = opened.resting
                if reader is None or reader.wait_s() < _RESTS_S:
                    return False
        return True

    def rest_s(self, may_read: Callable[[SplitId], bool]) -> float:
        """Return how long to sleep until rows are due, as far as known; all splits are read then.

        A split that cannot say when is read again after a share of the silence until now. So rows wait
        for a small part of the time that has passed without rows, and a source at rest takes little.

        The rows of a split that may not be read may be due all the time: they do not count. An order
        wakes the task when this changes.
        """
        self._empty = 0
        now = monotonic()
        self._dry_since = now if self._dry_since is None else self._dry_since
        poll_s = max(SOURCE_POLL_S, (now - self._dry_since) * SOURCE_POLL_SHARE)
        least = SOURCE_REST_MAX_S
        for split, opened in self._opened.items():
            if split not in self._ended and may_read(split):
                reader = opened.resting
                wait_s = reader.wait_s() if reader else 0.0
                least = min(least, wait_s if wait_s > 0 else poll_s)
        return least

    def _ask(self, split: SplitId, opened: _Opened, bytes_max: int) -> SourceEvent:
        reader = opened.reader
        bound = Bound(self._pace.slice_rows, bytes_max)
        read = self._reads.next(reader, opened.gathering, bound)
        if read is None:
            position = reader.state()
            if position.finished:
                self._ended.add(split)
                return SplitEnded(split)
            self._empty += 1
            if opened.remote is not None and opened.remote.silent():
                return ReadBlocked()
            return SplitEmpty(split, position.max_ts)
        self._empty = 0
        self._dry_since = None
        self._reading = (split, read.offset)
        if opened.paced is not None:
            self._marks += _due_marks(opened.paced, read)
        batch: Any = read.batch
        # No charge: these rows are never sent through a channel unchanged.
        return RowsRead(split, Data(batch, batch.num_rows, 0, None, reader.state().max_ts))


def _due_marks(reader: PacedReader, read: Read) -> list[int]:
    """Return the marker times (monotonic ns) between the due times of the rows of a read."""
    first = reader.due_ns(read.offset)
    after = reader.due_ns(read.offset + read.batch.num_rows)
    if first is None or after is None:
        return []
    return marks_between(first, after)[:LATENCY_MARKS_PER_READ_MAX]


def marks_between(first_ns: int, after_ns: int) -> list[int]:
    """Return the times at which a marker is due, from ``first_ns`` to before ``after_ns``."""
    start = -(-first_ns // _MARK_NS) * _MARK_NS
    return list(range(start, after_ns, _MARK_NS))
