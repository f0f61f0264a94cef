"""In-memory stand-ins for every port, exact in what the ports promise.

They pass :mod:`tests.support.contracts`, as the real adapters do. They block for nothing and
lose nothing; faults belong to the simulator.
"""

import json
from typing import TYPE_CHECKING

from penstock.base.errors import StateError, StorageError
from penstock.contract.ids import BlobName, Epoch, SplitId, TaskId
from penstock.contract.manifest import BlobRef, SinkHandle, SplitState
from penstock.ports import LeaseView, Read, SwapConflict, Versioned
from penstock.storage.memory import MemoryBlobStore

if TYPE_CHECKING:
    import pyarrow as pa


class FakeClock:
    """A clock that moves only when it is told to."""

    def __init__(self, now_s: float = 0.0, wall_us: int = 0) -> None:
        self._now_s = now_s
        self._wall_us = wall_us

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._now_s

    def wall_us(self) -> int:
        """Return the wall time; it moves with :meth:`advance`."""
        return self._wall_us

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises AssertionError when it would go back."""
        assert seconds >= 0, "monotonic time never goes back"
        self._now_s += seconds
        self._wall_us += round(seconds * 1_000_000)


class FakeIds:
    """Counts up: readable, and the same in every run."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._count = 0

    def fresh(self) -> str:
        """Return ``prefix-1``, ``prefix-2`` …: one text is never returned twice."""
        self._count += 1
        return f"{self._prefix}-{self._count}"


class FakeMetaStore:
    """Objects in a dict with rising versions."""

    def __init__(self) -> None:
        self._objects: dict[str, Versioned] = {}
        self._writes = 0

    def get(self, name: str) -> Versioned | None:
        """Return the newest object, or None."""
        return self._objects.get(name)

    def create(self, name: str, data: bytes) -> Versioned:
        """Create atomically. Raises SwapConflict when it exists."""
        if name in self._objects:
            raise SwapConflict(f"{name} exists already")
        return self._write(name, data)

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        """Replace exactly ``version``. Raises SwapConflict otherwise."""
        now = self._objects.get(name)
        if now is None or now.version != version:
            raise SwapConflict(f"{name} is not at version {version}")
        return self._write(name, data)

    def _write(self, name: str, data: bytes) -> Versioned:
        self._writes += 1
        stored = Versioned(data, str(self._writes))
        self._objects[name] = stored
        return stored


class FakeLeaseStore:
    """One lease; every write changes its version and what ``renewed`` says."""

    def __init__(self, duration_s: float = 15.0) -> None:
        self._view = LeaseView(None, "0", duration_s, "0")

    def read(self) -> LeaseView:
        """Return the lease as it is."""
        return self._view

    def write(self, holder: str | None, version: str) -> LeaseView:
        """Take, renew or give up the lease. Raises SwapConflict on another version."""
        if version != self._view.version:
            raise SwapConflict(f"the lease is not at version {version}")
        count = str(int(self._view.version) + 1)
        self._view = LeaseView(holder, count, self._view.duration_s, count)
        return self._view


class FakeBlobStore(MemoryBlobStore):
    """Immutable files in a dict. ``full`` makes every write fail, as a full disk does."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def put(self, name: BlobName, data: bytes) -> BlobRef:
        """Create exclusively. Raises StorageError on a used name, or when ``full``."""
        if self.full:
            super().put(name, b"")  # a failed write leaves a torn file, and the name is burnt
            raise StorageError(f"{name}: no space left on device")
        return super().put(name, data)


class FakeSource:
    """Splits over batches held in memory; replayable from any offset."""

    def __init__(self, batches: "dict[str, pa.RecordBatch]", bounded: bool = True) -> None:
        """Take one non-empty batch per split, all of one schema."""
        self.bounded = bounded
        self.schema = next(iter(batches.values())).schema
        self._batches = batches

    def splits(self) -> list[SplitState]:
        """List all splits at offset 0, by name."""
        return [SplitState(SplitId(name), json.dumps(name), 0) for name in sorted(self._batches)]

    def open(self, state: SplitState) -> "FakeSplitReader":
        """Open a split. Raises StateError when its rows do not reach to the offset."""
        batch = self._batches.get(state.split)
        if batch is None or state.offset > batch.num_rows:
            raise StateError(f"split {state.split} cannot be replayed from row {state.offset}")
        return FakeSplitReader(batch, state, self.bounded)


class FakeSplitReader:
    """Reads slices of one batch."""

    def __init__(self, batch: "pa.RecordBatch", state: SplitState, bounded: bool) -> None:
        self._batch = batch
        self._split = state
        self._offset = state.offset
        self._bounded = bounded
        self.commands: list[tuple[Epoch, SplitState]] = []

    def read(self, max_rows: int) -> Read | None:
        """Return up to ``max_rows`` rows, None at the end."""
        rows = self._batch.slice(self._offset, max_rows)
        if rows.num_rows == 0:
            return None
        read = Read(rows, self._offset)
        self._offset += rows.num_rows
        return read

    def state(self) -> SplitState:
        """Return where the next read begins."""
        finished = self._bounded and self._offset == self._batch.num_rows
        return SplitState(self._split.split, self._split.spec, self._offset, finished)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Remember the commits, for tests."""
        self.commands.append((epoch, state))

    def close(self) -> None:
        """Nothing to release."""


class FakeFolder:
    """An output folder: staged batches by name, and those that everyone sees."""

    def __init__(self) -> None:
        self.staged: dict[str, list[pa.RecordBatch]] = {}
        self.visible: dict[str, list[pa.RecordBatch]] = {}
        self.full = False


class FakeSinkWriter:
    """Collects batches; a cut moves them into the folder's staging under a fresh name."""

    guarantee = "exactly-once"

    def __init__(self, folder: FakeFolder, sink: str, task: TaskId) -> None:
        self._folder = folder
        self._sink = sink
        self._task = task
        self._rows: list[pa.RecordBatch] = []
        self._cuts = 0
        self._open_cut = False

    def room(self) -> bool:
        """Return False while the folder is full."""
        return not self._folder.full

    def write(self, batch: "pa.RecordBatch") -> None:
        """Take rows of the current epoch."""
        self._rows.append(batch)

    def seal(self, epoch: Epoch, name: str) -> "FakePending":
        """Cut what was written so far. One cut at a time, as the port says."""
        assert not self._open_cut, "the cut before has not finished"
        self._open_cut = True
        self._cuts += 1
        rows, self._rows = self._rows, []
        data = json.dumps({"staged": name, "cut": self._cuts})
        count = sum(batch.num_rows for batch in rows)
        size = sum(batch.nbytes for batch in rows)
        return FakePending(self, rows, SinkHandle(self._sink, self._task, epoch, data, count, size))

    def finished(self, rows: "list[pa.RecordBatch]", handle: SinkHandle) -> SinkHandle | None:
        """Stage a cut for its :class:`FakePending`; its rows come back when that fails."""
        self._open_cut = False
        if not rows:
            return None
        if self._folder.full:
            self._rows = rows + self._rows
            raise StorageError("no space left on device")
        self._folder.staged[json.loads(handle.data)["staged"]] = rows
        return handle

    def close(self) -> None:
        """Drop what was not prepared."""
        self._rows = []


class FakePending:
    """The second half of a cut."""

    def __init__(self, writer: FakeSinkWriter, rows: "list[pa.RecordBatch]", handle: SinkHandle) -> None:
        self._writer = writer
        self._rows = rows
        self._handle = handle

    def finish(self) -> SinkHandle | None:
        """Stage the rows; None when there were none. Raises StorageError on a full folder."""
        return self._writer.finished(self._rows, self._handle)


class FakeSinkPublisher:
    """Moves staged batches to names that begin with the committed epoch."""

    def __init__(self, folder: FakeFolder) -> None:
        self._folder = folder

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Make visible; doing it again changes nothing. Raises StateError when staging is gone."""
        data = json.loads(handle.data)
        target = f"{epoch:08d}-{handle.sink}-{handle.task}-{data['cut']:06d}"
        if target in self._folder.visible:
            return
        if data["staged"] not in self._folder.staged:
            raise StateError(f"staged output {data['staged']} is gone")
        self._folder.visible[target] = self._folder.staged[data["staged"]]

    def discard(self, handle: SinkHandle) -> None:
        """Drop staged output; idempotent."""
        self._folder.staged.pop(json.loads(handle.data)["staged"], None)

    def forget(self, handle: SinkHandle) -> None:
        """Remove the staging of published output; idempotent."""
        self.discard(handle)
