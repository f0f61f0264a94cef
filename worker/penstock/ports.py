"""The Protocols between the pure core and the outside world: what an adapter must guarantee.

The real adapters and the fakes in ``tests/support`` pass the same contract tests. A method that
blocks says so. A task's hot loop may call only methods that are described as cheap.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from penstock.base.values import hot_dataclass

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import pyarrow as pa

    from penstock.contract.ids import Attempt, BlobName, Epoch, SplitId, TaskId
    from penstock.contract.latest import Unpublished
    from penstock.contract.manifest import BlobRef, SinkHandle, SplitState
    from penstock.contract.status import InputSeen
    from penstock.contract.trust import IngestPlace


class Clock(Protocol):
    """The time. No decision compares the clocks of two machines."""

    def monotonic(self) -> float:
        """Return seconds that never go back; the origin has no meaning."""
        ...

    def wall_us(self) -> int:
        """Return microseconds since 1970; used for people and for event time only."""
        ...


class Ids(Protocol):
    """New names. No two calls return the same text, not even in different processes."""

    def fresh(self) -> str:
        """Return a new UUID in text form."""
        ...


@dataclass(frozen=True, slots=True)
class Versioned:
    """A stored object and the version that a swap must name.

    ``uid`` is given to the object at its creation and kept by every swap. An object that was
    deleted and created again has another uid.
    """

    data: bytes
    version: str
    uid: str = ""


class SwapConflict(Exception):
    """The object was changed since the version that the swap named; nothing was written."""


class SwapUnknown(Exception):
    """The reply was lost, so the swap may have happened or not. Read the object to find out."""


class MetaStore(Protocol):
    """A few small objects, linearizable. Calls block, up to the store's own deadline."""

    def get(self, name: str) -> Versioned | None:
        """Return the newest object, or None. Raises StorageError when it cannot be read."""
        ...

    def create(self, name: str, data: bytes) -> Versioned:
        """Create atomically. Raises SwapConflict when it exists, SwapUnknown on a lost reply."""
        ...

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        """Replace exactly ``version``, wholly or not at all. Raises SwapConflict, SwapUnknown."""
        ...


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A Lease as it was read: who holds it, and the version that a change must name."""

    holder: str | None
    renewed: str
    duration_s: float
    version: str


class LeaseStore(Protocol):
    """Says who may try to lead. The swap of the term decides who leads. Blocking."""

    def read(self) -> LeaseView:
        """Return the Lease. It is expired when ``renewed`` stays the same by the reader's clock."""
        ...

    def write(self, holder: str | None, version: str) -> LeaseView:
        """Take, renew or release (holder None) the Lease. Raises SwapConflict, SwapUnknown."""
        ...


class EntryKind(Enum):
    """The kind of a folder's entry. A link counts as OTHER, whatever it leads to."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """One entry of a folder."""

    name: str
    kind: EntryKind


class FileSystem(Protocol):
    """The files that one machine sees: its local disks, and what it has mounted. POSIX calls; all block.

    Everything raises OSError. An open file or folder is a number. ``within`` is an open folder: a relative
    path begins there, and nobody can exchange the folders above it meanwhile.

    A power failure loses the content of a file up to its ``fsync``, and the names in a folder up to
    the ``fsync`` of the folder. On a network file system ``stat``, ``entries`` and a path that was
    missing may be answered from an old view, until the file is opened; an error may hide that the
    call was performed.
    """

    def open(self, path: "str | Path", flags: int, mode: int = 0o666, *, within: int | None = None) -> int:
        """Open a file or folder, with the flags of ``os``. Shows what others had closed before."""
        ...

    def close(self, handle: int) -> None:
        """Release what :meth:`open` returned."""
        ...

    def read(self, file: int, size: int) -> bytes:
        """Read up to ``size`` bytes, fewer when there are fewer now; empty at the end."""
        ...

    def write(self, file: int, data: "bytes | memoryview") -> int:
        """Write as many bytes as possible, and return their number."""
        ...

    def fsync(self, handle: int) -> None:
        """Make the content of a file, or the names in a folder, survive a power failure."""
        ...

    def stat(self, place: "str | Path | int") -> "os.stat_result":
        """Return the metadata of a path, links followed, or of what is open."""
        ...

    def entries(self, folder: "str | Path | int") -> "list[FolderEntry]":
        """List a folder, in no order. What others have just made or removed may be missed."""
        ...

    def link(self, source: "str | Path", target: "str | Path", *, within: int | None = None) -> None:
        """Give a file a second name, exclusively."""
        ...

    def rename(self, source: "str | Path", target: "str | Path") -> None:
        """Move a file or folder; a file at ``target`` is replaced."""
        ...

    def unlink(self, path: "str | Path", *, within: int | None = None) -> None:
        """Remove a name of a file."""
        ...

    def mkdir(self, path: "str | Path", mode: int = 0o777, *, within: int | None = None) -> None:
        """Make a folder, exclusively."""
        ...

    def rmdir(self, path: "str | Path", *, within: int | None = None) -> None:
        """Remove an empty folder."""
        ...

    def resolve(self, path: "str | Path") -> "Path":
        """Return the absolute path without links."""
        ...


class BlobStore(Protocol):
    """Immutable files in one job's directory. Correctness needs no rename and no listing. Blocking."""

    def put(self, name: "BlobName", data: bytes) -> "BlobRef":
        """Create the file exclusively, write it, fsync file and directory. Never overwrites.

        Raises StorageError. After an error the name must not be used again.
        """
        ...

    def put_file(self, name: "BlobName", path: str) -> "BlobRef":
        """Like :meth:`put`, with the content of a local file."""
        ...

    def get(self, ref: "BlobRef") -> bytes:
        """Read the file, check length and SHA-256. Raises StateError when it is missing or altered."""
        ...

    def check(self, ref: "BlobRef") -> None:
        """Like :meth:`get`, with bounded memory, but return nothing."""
        ...

    def fetch(self, ref: "BlobRef", path: str) -> None:
        """Like :meth:`get`, but write to a local file."""
        ...

    def delete(self, name: "BlobName") -> None:
        """Remove the file; a missing file is no error."""
        ...

    def list_for_collection(self) -> "Iterator[BlobName]":
        """List the names, for garbage collection only: the list may lack new files."""
        ...


@hot_dataclass
class Read:
    """Rows of one split, in order: row i of ``batch`` has the offset ``offset + i``."""

    batch: "pa.RecordBatch"
    offset: int


class SplitReader(Protocol):
    """Reads one split in order from a given offset. Used by one thread."""

    def read(self, max_rows: int) -> Read | None:
        """Return 1..max_rows rows, or None when there are none now. May block up to 50 ms.

        Raises StateError when the data at the offset is gone or has changed.
        """
        ...

    def state(self) -> "SplitState":
        """Return where the next read begins; ``finished`` when no row will ever follow.

        ``max_ts`` is the event time (us) that the split has reached. It may be later than all rows before,
        if the source knows that time has gone on: it counts as the time of a row before the next one.
        """
        ...

    def committed(self, epoch: "Epoch", state: "SplitState") -> None:
        """Called when ``state`` is in a committed checkpoint: rows before it may be acknowledged."""
        ...

    def close(self) -> None:
        """Release files and sockets; idempotent."""
        ...


@runtime_checkable
class PacedReader(Protocol):
    """A split reader that knows when each row should have been sent (an open loop)."""

    def due_ns(self, offset: int) -> int | None:
        """Return the monotonic time at which a row was due; None when there is no rate."""
        ...


@runtime_checkable
class GatheringReader(Protocol):
    """A split reader that gets few rows at a time and joins them in compiled code."""

    def gather(self, batch_rows: int, batches: int) -> Read | None:
        """Return the rows of up to ``batches`` calls of ``read(batch_rows)`` as one batch, or None.

        Returns fewer rows when no more are there now.
        """
        ...


@runtime_checkable
class ReleasingReader(Protocol):
    """A split reader that holds files and memory while it is read; a task reads few at a time."""

    def release(self) -> bool:
        """Release files and memory until the next read, unless that would repeat too much work.

        Returns whether it released them.
        """
        ...


@runtime_checkable
class RestingReader(Protocol):
    """A split reader that knows how long it will have no rows."""

    def wait_s(self) -> float:
        """Return for how many seconds there will be no rows; 0 when that is not known."""
        ...


@runtime_checkable
class RemoteReader(Protocol):
    """A split reader whose rows come from a server, which may be away."""

    def silent(self) -> bool:
        """Return whether the server does not answer. Then no rows do not mean that there are none.

        So the time in which a server is away never makes a split idle.
        """
        ...


@runtime_checkable
class MeteredReader(Protocol):
    """A split reader that knows how much it has left to read."""

    def pending(self) -> tuple[int | None, int | None]:
        """Return how many rows, and how many bytes, are there behind the next read; None for what is not known.

        Cheap, and called about once a second. People and metrics see the numbers; no decision uses them.
        """
        ...


@runtime_checkable
class LatencyMeter(Protocol):
    """A sink writer that counts the ages of latency markers that reach it."""

    def mark(self, latency_ns: int) -> None:
        """Count one marker of this age. Cheap."""
        ...


@runtime_checkable
class CommitAwareWriter(Protocol):
    """A sink writer that has to know how far the job is committed."""

    def committed(self, epoch: "Epoch") -> None:
        """Learn before a cut which epoch is the newest one committed. Cheap. Output up to there is visible.

        Numbers between it and the next cut may be used again: those of epochs that were aborted.
        """
        ...


class Source(Protocol):
    """A replayable input made of splits. Only the checkpoint holds the offsets."""

    bounded: bool
    schema: "pa.Schema"

    def splits(self) -> "list[SplitState]":
        """List all splits at offset 0 in a deterministic order. Called once, when the job is new."""
        ...

    def open(self, state: "SplitState") -> SplitReader:
        """Open a split at its offset. Raises StateError when it cannot be replayed from there."""
        ...


@runtime_checkable
class PreparedSource(Protocol):
    """A source that needs long before it can open its first split; optional, with Source."""

    def prepare(self) -> None:
        """Prepare what every split needs; called once, before the worker is ready. Blocking.

        Opening a split must be quick, because rows wait for it: at a start, in a recovery and in a
        rescale.
        """
        ...


@runtime_checkable
class ListedSource(Protocol):
    """A source whose input may have files that the job does not know; optional, with Source."""

    def look(self, known: "Collection[SplitId]") -> "InputSeen":
        """Compare the input with the splits that are ``known``. Blocking; raises OSError."""
        ...


@runtime_checkable
class JudgedSource(Protocol):
    """A source that may be unable to give the same rows again; optional, with Source."""

    def unreplayable(self) -> str:
        """Return why; empty when it can, or when it is not known yet. Cheap, from any thread."""
        ...


@runtime_checkable
class PushedSource(Protocol):
    """A source that receives pushed rows; optional, with Source."""

    def listen(self, want_checkpoint: Callable[[], None], place: "IngestPlace") -> None:
        """Remember ``want_checkpoint``: call it when a sender waits for its end to be committed.

        It may be called from any thread. ``place`` is where senders connect; its credentials are
        read anew for every connection.
        """
        ...


class Pending(Protocol):
    """The second half of a prepare. It runs once, off the task's thread."""

    def finish(self) -> "SinkHandle | None":
        """Make the output durable and return its handle; None when there were no rows. Blocking.

        Raises StorageError: then the epoch aborts, and the rows stay in the writer for the next one.
        Any other error ends the attempt, and the rows are read again.
        """
        ...


class SinkWriter(Protocol):
    """Exactly-once output of one task. The task's thread calls ``write`` and ``seal``."""

    guarantee: str

    def room(self) -> bool:
        """Return whether :meth:`write` may be called now. Cheap.

        False means that the disk is slow or full: the task takes no input (backpressure) and asks
        again later. So no thread sleeps inside a sink while a reset waits. It has to become true without
        a :meth:`seal`: the barrier comes behind rows, and a task that takes no rows does not reach it.
        """
        ...

    def write(self, batch: "pa.RecordBatch") -> None:
        """Take rows of the current epoch, in order. Uses bounded memory and never blocks."""
        ...

    def seal(self, epoch: "Epoch", name: str) -> Pending:
        """Cut: all rows so far belong to ``epoch``. Cheap. ``name`` is unique, for staged files.

        One cut at a time: ``finish`` of the previous cut must have returned or raised, even when
        its epoch was aborted. Otherwise its rows could fail after a newer cut and be lost.
        """
        ...

    def close(self) -> None:
        """Drop rows that were not prepared; idempotent."""
        ...


class SinkPublisher(Protocol):
    """Makes prepared output visible, or drops it. Any worker can, with nothing but the handle."""

    def publish(self, handle: "SinkHandle", epoch: "Epoch") -> None:
        """Make the output visible; idempotent.

        Raises StorageError when a retry may help, StateError when it cannot. Any other error ends the
        attempt, and the next one publishes again.

        ``epoch`` is the committed epoch whose manifest lists the handle, and the visible name
        begins with it. It may differ from the epoch that prepared the output: a handle of an
        aborted epoch is listed by a later one. The number of the aborted epoch may be higher, or
        may be used again under a newer term. With that number in the name, the rows of a key that
        moves at the commit would be sorted wrongly.
        """
        ...

    def discard(self, handle: "SinkHandle") -> None:
        """Drop prepared output that will never be committed. Called only when the attempt is reset; idempotent."""
        ...

    def forget(self, handle: "SinkHandle") -> None:
        """Remove the staged files of output that is published; idempotent."""
        ...


@runtime_checkable
class WholePublisher(Protocol):
    """A publisher whose target has one marker for each task, or for the sink; optional, with :class:`SinkPublisher`."""

    def publish_all(self, handles: "Sequence[SinkHandle]", epoch: "Epoch") -> None:
        """Make the output of one task and epoch visible: all its handles, in the order of the manifest.

        Handles that are ``whole`` come with those of all tasks of the sink, by one call.

        Called instead of ``publish``. Idempotent. Raises as ``publish``.
        """
        ...


@runtime_checkable
class RestoringPublisher(Protocol):
    """A publisher whose target has a marker, so a restore has to say what happens without it; optional.

    Without it, a restore has output published as always, or its staged files discarded.
    """

    def publish_restored(self, handles: "Sequence[SinkHandle]", epoch: "Epoch", how: "Unpublished") -> int:
        """Do with the output of one task and epoch what a restore says. Return how many rows were refused and left out.

        Idempotent. Raises as ``publish``. After ``DROP`` no publisher can make the output visible, not even one that
        has begun before and stands still.
        """
        ...


class Sink(Protocol):
    """A sink step of one engine. Calls come in this order: claim, publish (recovery), sweep, writer."""

    guarantee: str

    @property
    def publisher(self) -> SinkPublisher:
        """Return the publisher, which any thread may use."""
        ...

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Take the output for a job; ``fresh`` when no checkpoint is loaded.

        Raises ConfigError when it holds the output of another job, fresh or not.
        """
        ...

    def sweep(self, attempt: "Attempt") -> None:
        """Remove the staged files of attempts before ``attempt``.

        Called once in an attempt, after START; and once more when the job ends, with a number that no attempt gets.
        Threads of older attempts may still write files. These must be removed, too.
        """
        ...

    def writer(self, task: "TaskId", attempt: "Attempt") -> SinkWriter:
        """Make the writer of a task."""
        ...

    def close(self) -> None:
        """End the threads of the sink; idempotent."""
        ...


@runtime_checkable
class InheritingSink(Protocol):
    """A sink that can continue another job's output; optional, with :class:`Sink`."""

    def inherit(self, job_uid: str, parent: str, epoch: "Epoch") -> None:
        """Take the output for a job that starts from epoch ``epoch`` of the job ``parent``.

        Called instead of ``claim`` until the job has a checkpoint of its own. The job publishes
        only epochs above ``epoch``. Raises ConfigError when the output belongs to a third job, or
        when output of the parent above ``epoch`` is visible: rows would be there twice and out of
        order.
        """
        ...


@hot_dataclass
class Found:
    """Rows of a table, in any order: row i is that of key number ``keys[i]`` of those that were asked for."""

    rows: "pa.RecordBatch"
    keys: "Sequence[int]"


class LookupConnection(Protocol):
    """A connection to a table that rows are looked up in. One thread at a time uses it."""

    def find(self, keys: "pa.RecordBatch") -> Found:
        """Return the rows that have these keys, which differ and have no null. Blocking.

        Raises StorageError when a new connection may help. Any other error ends the attempt.
        """
        ...

    def close(self) -> None:
        """End the connection; idempotent."""
        ...


class Lookup(Protocol):
    """A table of another system that rows are looked up in. Any thread may use it."""

    def connect(self, keys: "pa.Schema", columns: "pa.Schema") -> LookupConnection:
        """Connect to look up ``columns`` by ``keys``, both columns of the table. Blocking.

        Raises ConfigError when the table does not have them so, StorageError when a later try may help.
        """
        ...


__all__ = [
    "BlobStore", "Clock", "CommitAwareWriter", "EntryKind", "FileSystem", "FolderEntry", "Found", "GatheringReader",
    "Ids", "InheritingSink", "JudgedSource", "LatencyMeter", "LeaseStore", "LeaseView", "Lookup", "LookupConnection",
    "MetaStore", "PacedReader", "Pending", "PushedSource", "Read", "ReleasingReader", "RemoteReader",
    "RestingReader", "RestoringPublisher", "Sink", "SinkPublisher", "SinkWriter", "Source", "SplitReader",
    "SwapConflict", "SwapUnknown", "Versioned", "WholePublisher",
]  # fmt: skip
