"""The Protocols between the pure part and the world: what an adapter must guarantee.

The real adapters and the fakes in ``tests/support`` pass the same contract tests.
Blocking methods say so; none may be called from a task's hot loop unless it says it is cheap.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from penstock.base.values import hot_dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.contract.ids import Attempt, BlobName, Epoch, SplitId, TaskId
    from penstock.contract.inputs import InputSeen
    from penstock.contract.manifest import BlobRef, SinkHandle, SplitState
    from penstock.contract.trust import IngestPlace


class Clock(Protocol):
    """Time. No decision compares the clocks of two machines."""

    def monotonic(self) -> float:
        """Return seconds that never go back; the origin means nothing."""
        ...

    def wall_us(self) -> int:
        """Return microseconds since 1970, for people and event time only."""
        ...


class Ids(Protocol):
    """Fresh names. Two calls never return the same text, in any process, ever."""

    def fresh(self) -> str:
        """Return a new UUID in text form."""
        ...


@dataclass(frozen=True, slots=True)
class Versioned:
    """A stored object and the version that a swap must name.

    ``uid`` is that of the object, given at its creation and kept by every swap: an object that
    was deleted and created again has another one.
    """

    data: bytes
    version: str
    uid: str = ""


class SwapConflict(Exception):
    """The object was changed since the version that the swap named; nothing was written."""


class SwapUnknown(Exception):
    """The reply was lost: the swap may or may not have happened. Read, and look for your id."""


class MetaStore(Protocol):
    """A few small objects, linearizable. Blocking, with a deadline of its own."""

    def get(self, name: str) -> Versioned | None:
        """Return the newest object, or None. Raises StorageError when it cannot be read."""
        ...

    def create(self, name: str, data: bytes) -> Versioned:
        """Create atomically. Raises SwapConflict when it exists, SwapUnknown on a lost reply."""
        ...

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        """Replace exactly ``version``. Raises SwapConflict, SwapUnknown; nothing in between."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A Lease as it was read: whoever holds it, and the version that a change must name."""

    holder: str | None
    renewed: str
    duration_s: float
    version: str


class LeaseStore(Protocol):
    """Says who tries to lead; never who leads (that is the swap of the term). Blocking."""

    def read(self) -> LeaseView:
        """Return the Lease; its reader judges by its own clock since ``renewed`` changed."""
        ...

    def write(self, holder: str | None, version: str) -> LeaseView:
        """Take, renew or give up (None) the Lease. Raises SwapConflict, SwapUnknown."""
        ...


class BlobStore(Protocol):
    """Immutable files under one job's directory. Nothing relies on rename or listing. Blocking."""

    def put(self, name: "BlobName", data: bytes) -> "BlobRef":
        """Create exclusively, write, fsync file and directory; never overwrites.

        Raises StorageError. After an error the name is burnt: the caller takes a fresh one.
        """
        ...

    def put_file(self, name: "BlobName", path: str) -> "BlobRef":
        """Like :meth:`put`, from a local file."""
        ...

    def get(self, ref: "BlobRef") -> bytes:
        """Read whole and check length and SHA-256. Raises StateError when it is not that file."""
        ...

    def fetch(self, ref: "BlobRef", path: str) -> None:
        """Like :meth:`get`, into a local file."""
        ...

    def delete(self, name: "BlobName") -> None:
        """Remove; a missing file is no error."""
        ...

    def list_for_collection(self) -> "Iterator[BlobName]":
        """List the names, for garbage collection only; it may miss new files."""
        ...


@hot_dataclass
class Read:
    """Rows of one split, in order: ``batch[i]`` has the offset ``offset + i``."""

    batch: "pa.RecordBatch"
    offset: int


class SplitReader(Protocol):
    """Reads one split in order from a given offset. Used by one thread."""

    def read(self, max_rows: int) -> Read | None:
        """Return 1..max_rows rows, or None when nothing is there now. Bounded blocking (50 ms).

        Raises StateError when the data at the offset is gone or is not what it was.
        """
        ...

    def state(self) -> "SplitState":
        """Return where the next read begins; ``finished`` when nothing will ever follow."""
        ...

    def committed(self, epoch: "Epoch", state: "SplitState") -> None:
        """Hear that ``state`` is in a committed checkpoint: it may be acknowledged upstream."""
        ...

    def close(self) -> None:
        """Release files and sockets; idempotent."""
        ...


@runtime_checkable
class PacedReader(Protocol):
    """A split reader that knows when its rows were to be sent: the loop is open."""

    def due_ns(self, offset: int) -> int | None:
        """Return the monotonic time at which a row was due; None when there is no rate."""
        ...


@runtime_checkable
class GatheringReader(Protocol):
    """A split reader that gets few rows at a time, and puts them together in compiled code."""

    def gather(self, batch_rows: int, batches: int) -> Read | None:
        """Return what up to ``batches`` calls of ``read(batch_rows)`` would, as one; None likewise.

        Fewer when no more are there now.
        """
        ...


@runtime_checkable
class ReleasingReader(Protocol):
    """A split reader that holds files and memory while it is read: few of a task are, at a time."""

    def release(self) -> bool:
        """Hold nothing until the next read, unless that repeats too much; say whether it does."""
        ...


@runtime_checkable
class RestingReader(Protocol):
    """A split reader that knows how long it will have nothing to give."""

    def wait_s(self) -> float:
        """Return how long a task need not look for rows; 0 when that cannot be said."""
        ...


@runtime_checkable
class LatencyMeter(Protocol):
    """A sink writer that counts how old latency markers are when they reach it."""

    def mark(self, latency_ns: int) -> None:
        """Count one marker. Cheap."""
        ...


class Source(Protocol):
    """A replayable input made of splits. Offsets live in the checkpoint and nowhere else."""

    bounded: bool
    schema: "pa.Schema"

    def splits(self) -> "list[SplitState]":
        """List all splits at offset 0 in a deterministic order; called once in a job's life."""
        ...

    def open(self, state: "SplitState") -> SplitReader:
        """Open a split at its offset. Raises StateError when it cannot be replayed from there."""
        ...


@runtime_checkable
class PreparedSource(Protocol):
    """A source that takes long before it can open its first split; optional, beside Source."""

    def prepare(self) -> None:
        """Do what every split needs, once, before the worker is ready. Blocking.

        Splits are opened while rows wait for it: at a start, in a recovery and in a rescale.
        """
        ...


@runtime_checkable
class ListedSource(Protocol):
    """A source whose input may have files that the job does not know; beside :class:`Source`."""

    def look(self, known: "Collection[SplitId]") -> "InputSeen":
        """Compare the input with the splits ``known``. Blocking; raises OSError."""
        ...


@runtime_checkable
class PushedSource(Protocol):
    """A source that others push to; optional, beside :class:`Source`."""

    def listen(self, want_checkpoint: Callable[[], None], place: "IngestPlace") -> None:
        """Call ``want_checkpoint`` (any thread) when a sender waits for its end to be committed.

        ``place`` is where senders are to be heard; its credentials are asked for with every dial.
        """
        ...


class Pending(Protocol):
    """The second half of a prepare: run once, off the task's thread."""

    def finish(self) -> "SinkHandle | None":
        """Make the output durable and return its handle; None when there were no rows. Blocking.

        Raises StorageError: the epoch aborts, and the rows stay in the writer for the next one.
        """
        ...


class SinkWriter(Protocol):
    """Exactly-once output of one task. ``write`` and ``seal`` are called by the task's thread."""

    guarantee: str

    def room(self) -> bool:
        """Say whether :meth:`write` may be called now; cheap.

        False means that the disk is behind or full: the task takes no input (backpressure) and
        asks again later, so that no thread sleeps inside a sink while a reset waits.
        """
        ...

    def write(self, batch: "pa.RecordBatch") -> None:
        """Take rows of the current epoch, in order. Bounded memory, and never blocks."""
        ...

    def seal(self, epoch: "Epoch", name: str) -> Pending:
        """Cut: rows so far belong to ``epoch``. Cheap. ``name`` is unique for ever, for staging.

        One cut at a time: ``finish`` of the one before must have returned or raised, also when
        its epoch was aborted; otherwise its rows could fail behind a younger cut and be lost.
        """
        ...

    def close(self) -> None:
        """Drop what was not prepared; idempotent."""
        ...


class SinkPublisher(Protocol):
    """Makes prepared output visible, or drops it; works from a handle alone, on any worker."""

    def publish(self, handle: "SinkHandle", epoch: "Epoch") -> None:
        """Make visible; idempotent.

        Raises StorageError to be retried, StateError when it cannot be.

        ``epoch`` is the committed one whose manifest lists the handle, not the one that prepared
        it: the visible name begins with it. A carried handle may come from a number that recurs
        or is higher (aborted under an older term), and a key that moves at the commit would then
        have its rows sorted wrongly.
        """
        ...

    def discard(self, handle: "SinkHandle") -> None:
        """Drop prepared output that will never be committed: at a reset only; idempotent."""
        ...

    def forget(self, handle: "SinkHandle") -> None:
        """Remove the staging of output known published for good; idempotent."""
        ...


class Sink(Protocol):
    """A sink step of one engine. Order of calls: claim, publish (recovery), sweep, writer."""

    guarantee: str

    @property
    def publisher(self) -> SinkPublisher:
        """Return what publishes from handles; any thread."""
        ...

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Take the output for a job; ``fresh``: no checkpoint is loaded.

        Raises ConfigError when it holds what another job wrote, fresh or not.
        """
        ...

    def sweep(self, attempt: "Attempt") -> None:
        """Remove what older attempts left; only after START.

        What their threads still write then has to go as well: nobody sweeps this attempt again.
        """
        ...

    def writer(self, task: "TaskId", attempt: "Attempt") -> SinkWriter:
        """Make the writer of a task."""
        ...

    def close(self) -> None:
        """End threads; idempotent."""
        ...


@runtime_checkable
class InheritingSink(Protocol):
    """A sink that can go on in another job's output; optional, beside :class:`Sink`."""

    def inherit(self, job_uid: str, parent: str, epoch: "Epoch") -> None:
        """Take the output for a job that begins from epoch ``epoch`` of the job ``parent``.

        Called in the place of ``claim`` until the job has a checkpoint of its own; all epochs that
        it will publish are above ``epoch``. Raises ConfigError when the output is of a third job,
        or the parent's above ``epoch`` is visible: rows would be there twice, and out of order.
        """
        ...


__all__ = [
    "BlobStore",
    "Clock",
    "GatheringReader",
    "Ids",
    "InheritingSink",
    "LatencyMeter",
    "LeaseStore",
    "LeaseView",
    "MetaStore",
    "PacedReader",
    "Pending",
    "PushedSource",
    "Read",
    "ReleasingReader",
    "RestingReader",
    "Sink",
    "SinkPublisher",
    "SinkWriter",
    "Source",
    "SplitReader",
    "SwapConflict",
    "SwapUnknown",
    "Versioned",
]
