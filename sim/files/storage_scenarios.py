"""What the code that ships does with files that must survive, as scenarios that begin again after any end.

A scenario remembers what has been reported complete, as the leader's object does. ``live`` is the life of
one process: it goes on from there until everything is done, and tries again when storage refuses.
``judge`` checks the disk: all that was reported complete is there, once, and nothing else.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import StorageError
from penstock.connectors.file_sink import ParquetSink
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
    Term,
    blob_name,
)
from penstock.contract.manifest import BlobRef, SinkHandle
from penstock.file_system import CHUNK_BYTES, read_plain
from penstock.ports import FileSystem
from penstock.storage.blobs import DirectoryBlobStore
from sim.files.virtual_disk import VirtualDisk

T = TypeVar("T")
JOB = JobUid("job-1")
LIFE = Incarnation("11111111-2222-3333-4444-555555555555")
TASK = TaskId(StageIndex(1), Ordinal(0), 0)
EPOCHS = 2
TRIES_MAX = 4  # one fault costs one try, its clean-up perhaps another


class StorageScenario(Protocol):
    """One use of files."""

    def live(self, files: FileSystem) -> None:
        """Live as one process, from what is reported complete to the end."""
        ...

    def check_complete(self, files: FileSystem) -> None:
        """Check that what is reported complete is there. Raises AssertionError or PenstockError."""
        ...

    def check_clean(self, disk: VirtualDisk) -> None:
        """Check, after a whole life, that nothing else is there."""
        ...


def tried(call: Callable[[], T]) -> T:
    """Call until storage no longer refuses. Raises the last StorageError."""
    for _ in range(TRIES_MAX - 1):
        try:
            return call()
        except StorageError:
            continue
    return call()


class Checkpoints:
    """A leader and a task write checkpoints of two files, keep the newest, and collect all others."""

    FOLDER = Path("/volume/checkpoints/job")
    ROOT = BlobName("ROOT")

    def __init__(self, disk: VirtualDisk) -> None:
        """Begin a job on an empty disk."""
        self.owned = False
        self.newest = 0
        self.listed: dict[BlobRef, bytes] = {}
        self._names = 0

    def live(self, files: FileSystem) -> None:
        """Write the owner's file, then checkpoint by checkpoint."""
        store = DirectoryBlobStore(self.FOLDER, files)
        tried(lambda: self._own(store))
        while self.newest < EPOCHS:
            tried(lambda: self._checkpoint(store))
            tried(lambda: self._load(store))
        tried(lambda: self._collect(store))

    def check_complete(self, files: FileSystem) -> None:
        """Every file of the newest checkpoint is whole."""
        store = DirectoryBlobStore(self.FOLDER, files)
        self._load(store)
        if self.owned:
            assert store.peek(self.ROOT, 100) == JOB.encode()

    def check_clean(self, disk: VirtualDisk) -> None:
        """There are the owner's file and what the newest checkpoint lists."""
        expected = {f"{self.FOLDER}/{ref.name}": content for ref, content in self.listed.items()}
        expected[f"{self.FOLDER}/{self.ROOT}"] = JOB.encode()
        assert disk.contents() == expected

    def _own(self, store: DirectoryBlobStore) -> None:
        there = store.peek(self.ROOT, 100)
        if there is None:
            assert not self.owned, "the owner's file is lost"
            store.put_whole(self.ROOT, self._fresh(".root"), JOB.encode())
        else:
            assert there == JOB.encode(), f"the owner's file is torn: {there!r}"
        self.owned = True

    def _checkpoint(self, store: DirectoryBlobStore) -> None:
        contents = [b"state of epoch %d" % (self.newest + 1), b"manifest of epoch %d" % (self.newest + 1)]
        names = [BlobName(f"epochs/{self._fresh(suffix)}") for suffix in (".state", ".root.json")]
        self.listed = {store.put(name, data): data for name, data in zip(names, contents, strict=True)}
        self.newest += 1

    def _load(self, store: DirectoryBlobStore) -> None:
        for ref, content in self.listed.items():
            assert store.get(ref) == content

    def _collect(self, store: DirectoryBlobStore) -> None:
        kept = {ref.name for ref in self.listed}
        for name in store.list_for_collection():
            if name not in kept and name != self.ROOT:
                store.delete(name)

    def _fresh(self, suffix: str) -> BlobName:
        self._names += 1
        return blob_name(Term(1), Epoch(self.newest + 1), LIFE, self._names, suffix)


class StagedOutput:
    """One task writes rows of two epochs to a Parquet sink; each life is a new attempt."""

    FOLDER = Path("/volume/output")
    SCHEMA = pa.schema([("n", pa.int64())])

    def __init__(self, disk: VirtualDisk) -> None:
        """Begin a job on an empty disk."""
        self.attempt = 0
        self.committed = 0
        self.published_through = 0
        self.handle: SinkHandle | None = None

    def live(self, files: FileSystem) -> None:
        """Publish what is committed, then go on from there."""
        self.attempt += 1
        attempt = Attempt(self.attempt)
        sink = ParquetSink("out", str(self.FOLDER), self.SCHEMA, files)
        tried(lambda: sink.claim(JOB, fresh=not self.committed))
        self._publish(sink)
        tried(lambda: sink.sweep(attempt))
        writer = sink.writer(TASK, attempt)
        while self.committed < EPOCHS:
            writer.write(self._rows_of(self.committed + 1))
            self.handle = tried(lambda: writer.seal(Epoch(self.committed + 1), "name").finish())
            self.committed += 1
            self._publish(sink)
        sink.close()

    def check_complete(self, files: FileSystem) -> None:
        """What is reported published is visible, once and in order; what is committed can be published."""
        found = self._rows(files)
        assert found in (self._rows_until(self.published_through), self._rows_until(self.committed)), found
        if self.published_through < self.committed:
            sink = ParquetSink("out", str(self.FOLDER), self.SCHEMA, files)
            sink.claim(JOB, fresh=False)
            self._publish(sink)

    def check_clean(self, disk: VirtualDisk) -> None:
        """There are the published files and the owner's file."""
        staging = f"{self.FOLDER}/_staging/"
        assert [path for path in disk.contents() if path.startswith(staging)] == [f"{staging}OWNER.json"]
        assert len(disk.contents()) == EPOCHS + 1

    def _publish(self, sink: ParquetSink) -> None:
        """Publish the newest committed epoch; its staged files go when that is reported."""
        handle = self.handle
        if handle is None:
            return
        tried(lambda: sink.publisher.publish(handle, Epoch(self.committed)))
        self.published_through = self.committed
        tried(lambda: sink.publisher.forget(handle))

    def _rows(self, files: FileSystem) -> list[int]:
        tables = [pq.ParquetFile(io.BytesIO(data)) for data in published(files, self.FOLDER)]
        return [n for table in tables for n in table.read(use_threads=False)["n"].to_pylist()]

    def _rows_until(self, epoch: int) -> list[int]:
        return [n for e in range(1, epoch + 1) for n in self._rows_of(e)["n"].to_pylist()]

    def _rows_of(self, epoch: int) -> pa.RecordBatch:
        return pa.record_batch({"n": [10 * epoch, 10 * epoch + 1]})


def published(files: FileSystem, folder: Path) -> list[bytes]:
    """Return the content of all visible files of an output folder, by name. A missing folder has none."""
    try:
        names = sorted(entry.name for entry in files.entries(folder))
    except FileNotFoundError:
        return []
    return [read_plain(files, folder / name, CHUNK_BYTES) for name in names if name.endswith(".parquet")]
