"""Sources whose files come while they are read: a split is a lane, which reads one file after another.

    lane 0   a ──> d ──> ...        a file belongs to the lane of its name's hash
    lane 1   b ──> ...

The number of lanes never changes, so a file that comes later needs no new split. The offset of a lane counts its rows.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import deque
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from penstock.base.threads import monotonic
from penstock.connectors.rate_limit import RateLimit
from penstock.connectors.source_rows import Stamper
from penstock.contract.event_time import EventTime
from penstock.contract.ids import Epoch
from penstock.contract.manifest import SplitState
from penstock.ports import Read

LANES = 16
HASH_CHARS = 16


def name_hash(name: str) -> str:
    """Return the short hash of a file's name."""
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:HASH_CHARS]


def lane_of(hashed: str, lanes: int = LANES) -> int:
    """Return the number of the lane that reads a file, by the hash of its name."""
    return int(hashed, 16) % lanes


class LaneFile(Protocol):
    """The rows of one file, from a place on."""

    @property
    def ended(self) -> bool:
        """Return whether all rows are taken; it may be known only after :meth:`take` has returned None."""
        ...

    def take(self, rows_max: int, /) -> pa.RecordBatch | None:
        """Return 1..rows_max rows, or None behind the last one. Raises StateError, StorageError."""
        ...

    def close(self) -> None:
        """Close the file. A later call of :meth:`take` opens it again."""
        ...


WaitingFile = TypeVar("WaitingFile")
OpenFile = TypeVar("OpenFile", bound=LaneFile)


class LaneReader(ABC, Generic[WaitingFile, OpenFile]):
    """Reads the files of one lane, one after another, on one thread. A lane knows where files are, and its state."""

    def __init__(self, state: SplitState, event_time: EventTime | None, rate: int | None) -> None:
        """Begin at ``state``. ``rate`` bounds the rows per second; None: as fast as possible."""
        self._begun = state
        self._offset = state.offset
        self._stamper = Stamper(event_time, state.max_ts) if event_time else None
        self._pace = RateLimit(rate)
        self._files: deque[WaitingFile] = deque()  # those that follow the one that is read
        self._rows: OpenFile | None = None
        self._look_at = 0.0

    @abstractmethod
    def state(self) -> SplitState:
        """Return where the next read begins."""

    @abstractmethod
    def _look(self) -> None:
        """Look for files that follow, and set when to look again."""

    @abstractmethod
    def _open(self, file: WaitingFile) -> OpenFile | None:
        """Begin with a file. Returns None when it has no rows to read. After an error it is called again with it."""

    @abstractmethod
    def _took(self, rows: OpenFile, count: int) -> None:
        """Note that so many rows of a file were taken. When it has ended, it is closed already."""

    def read(self, max_rows: int) -> Read | None:
        """Return the next 1..max_rows rows, or None when there are no more now.

        Raises StateError with the file and the place in it, StorageError when a retry may help.
        """
        if self._rows is None and not self._files and monotonic() >= self._look_at:
            self._look()
            self._pace.begin()  # no row is owed for the time in which there was none
        allowed = self._pace.allow(max_rows)
        if not allowed:
            return None
        while (rows := self._rows or self._next_file()) is not None:
            batch = rows.take(allowed)
            if rows.ended:
                self.close()
                self._rows = None
            self._took(rows, 0 if batch is None else batch.num_rows)
            if batch is not None:
                offset, self._offset = self._offset, self._offset + batch.num_rows
                self._pace.sent(batch.num_rows)
                return Read(self._stamper.stamp(batch, self._begun.split, offset) if self._stamper else batch, offset)
        return None

    def wait_s(self) -> float:
        """Return how long to wait for the next rows: until the next look for files, when none is left."""
        if self._rows is None and not self._files:
            return max(0.0, self._look_at - monotonic())
        return self._pace.wait_s()

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Do nothing: a file stays."""

    def close(self) -> None:
        """Close the file. A later read opens it again."""
        if self._rows is not None:
            self._rows.close()

    @property
    def _max_ts(self) -> int | None:
        return self._stamper.max_ts if self._stamper else None

    def _next_file(self) -> OpenFile | None:
        while self._files and self._rows is None:
            self._rows = self._open(self._files[0])
            self._files.popleft()  # not before: one that storage does not give now is asked for again
        return self._rows
