"""Reads the splits of a source task in turns, and makes the events for the task's core."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from penstock.base.limits import (
    LATENCY_MARK_INTERVAL_S,
    LATENCY_MARKS_PER_READ_MAX,
    SOURCE_POLL_S,
    SOURCE_REST_MAX_S,
    SOURCE_SPLITS_READ_MAX,
    SOURCE_TURN_BYTES,
)
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.engine.read_batcher import Bound, ReadBatcher
from penstock.engine.split_turns import SplitTurns
from penstock.model.elements import Data
from penstock.ports import GatheringReader, PacedReader, Read, ReleasingReader, RestingReader
from penstock.protocol.channel.pace import Pace
from penstock.protocol.task.task_events import RowsRead, SplitEmpty, SplitEnded

if TYPE_CHECKING:
    from penstock.ports import Source, SplitReader

_MARK_NS = round(LATENCY_MARK_INTERVAL_S * 1e9)
_RESTS_S = 0.0001  # a split that has no rows for at least this long counts as resting
_CUTS_KEPT = 16  # cuts of aborted epochs are never committed: only the newest cuts are kept

SourceEvent = RowsRead | SplitEmpty | SplitEnded


class _Opened:
    """A reader, and the same reader for each optional Protocol that it follows (otherwise None)."""

    __slots__ = ("gathering", "paced", "reader", "releasing", "resting")

    def __init__(self, reader: "SplitReader") -> None:
        self.reader = reader
        self.paced = reader if isinstance(reader, PacedReader) else None
        self.resting = reader if isinstance(reader, RestingReader) else None
        self.gathering = reader if isinstance(reader, GatheringReader) else None
        self.releasing = reader if isinstance(reader, ReleasingReader) else None


class SourceReader:
    """The readers of one source task, used by its thread only."""

    def __init__(self, name: str, source: "Source", reads: ReadBatcher) -> None:
        """Read the splits of the step ``name`` through ``reads``."""
        self.name = name
        self._source = source
        self._reads = reads
        self._pace = Pace()
        self._opened: dict[SplitId, _Opened] = {}
        self._ended: set[SplitId] = set()
        self._turns = SplitTurns(SOURCE_SPLITS_READ_MAX)
        self._empty = 0  # reads since the last rows
        self._cuts: dict[Epoch, tuple[SplitState, ...]] = {}
        self._marks: list[int] = []
        self._reading: tuple[SplitId, int] | None = None

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
                self._turns.join(state.split, takes_place=opened.releasing is not None)

    def close(self, splits: Iterable[SplitId] | None = None) -> None:
        """Close some splits, or all."""
        leaving = list(self._opened if splits is None else splits)
        self._turns.leave(leaving)
        for split in leaving:
            opened = self._opened.pop(split, None)
            self._ended.discard(split)
            if opened is not None:
                opened.reader.close()

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

        The size of later reads follows it, because a barrier waits for one turn. While the cost of
        rows is not known, few rows are read.
        """
        self._pace.worked(rows, 0, seconds, waited_s)

    def marks(self) -> list[int]:
        """Return the due times (ns) of the latency markers for the rows read since the last call."""
        marks, self._marks = self._marks, []
        return marks

    def next(self, reads: Callable[[SplitId], bool], bytes_max: int = SOURCE_TURN_BYTES) -> SourceEvent | None:
        """Read the split whose turn it is; None when no split may be read.

        Reads at most ``bytes_max``, unless a single row is larger.
        """
        split = self._turns.next(reads)
        if split is None:
            return None
        opened = self._opened[split]
        event = self._ask(split, opened, bytes_max)
        releasing = opened.releasing
        if split in self._ended:
            self._turns.end(split)
            if releasing is not None:
                releasing.release()
        elif releasing is not None and self._turns.wanted:
            self._let_others_read(split, releasing)
        return event

    def _let_others_read(self, split: SplitId, reader: "ReleasingReader") -> None:
        """Give up the place of a split, unless only its end is left to report."""
        if not self._opened[split].reader.state().finished and reader.release():
            self._turns.give_place(split)

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

    def rest_s(self) -> float:
        """Return how long to sleep until rows are due, as far as known; all splits are read then."""
        self._empty = 0
        least = SOURCE_REST_MAX_S
        for split, opened in self._opened.items():
            if split not in self._ended:
                reader = opened.resting
                least = min(least, (reader.wait_s() if reader else 0.0) or SOURCE_POLL_S)
        return least

    def _ask(self, split: SplitId, opened: _Opened, bytes_max: int) -> SourceEvent:
        reader = opened.reader
        bound = Bound(self._pace.slice_rows, bytes_max)
        read = self._reads.next(reader, opened.gathering, bound)
        if read is None:
            if reader.state().finished:
                self._ended.add(split)
                return SplitEnded(split)
            self._empty += 1
            return SplitEmpty(split)
        self._empty = 0
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
