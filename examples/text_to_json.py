"""A user's own source and sink: read lines of text files, write JSON lines, exactly once.

The job counts the words of text files as wordcount.yaml does. What the engine asks of a source and
of a sink is in the protocols ``ps.Source`` and ``ps.Sink``; this is about the least that keeps its
promises: offsets live in checkpoints only, and output is visible only when its epoch is committed.
"""

import json
import os
import threading
from itertools import islice
from pathlib import Path

import pyarrow as pa

import penstock as ps


class TextFolder:
    """Reads all ``*.txt`` files of a folder. Each is a split; the offset is the number of a line."""

    bounded = True
    schema = pa.schema([("line", pa.string())])

    def __init__(self, folder: str) -> None:
        """Read the files of ``folder``."""
        self._folder = Path(folder)

    def splits(self) -> list[ps.SplitState]:
        """List the files in the order of their names."""
        files = sorted(self._folder.glob("*.txt"))
        return [ps.SplitState(file.name, json.dumps(str(file.absolute())), 0) for file in files]

    def open(self, state: ps.SplitState) -> "TextReader":
        """Open a file, and skip the lines that were read before."""
        return TextReader(state)


class TextReader:
    """Reads one file in order."""

    def __init__(self, state: ps.SplitState) -> None:
        """Skip the lines before the offset."""
        self._split, self._spec = state.split, state.spec
        self._offset, self._finished = state.offset, state.finished
        path = Path(json.loads(state.spec))
        self._file = path.open(encoding="utf-8", errors="replace")
        for _ in islice(self._file, state.offset):
            pass

    def read(self, max_rows: int) -> ps.Read | None:
        """Return the next lines, or None at the end."""
        lines = [line.rstrip("\n") for line in islice(self._file, max_rows)]
        if not lines:
            self._finished = True
            return None
        first, self._offset = self._offset, self._offset + len(lines)
        return ps.Read(pa.record_batch({"line": pa.array(lines, pa.string())}), first)

    def state(self) -> ps.SplitState:
        """Return the offset at which the next read begins."""
        return ps.SplitState(self._split, self._spec, self._offset, self._finished)

    def committed(self, epoch: int, state: ps.SplitState) -> None:
        """Do nothing: a file needs no acknowledgement."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class JsonFolder:
    """Writes ``*.jsonl`` files. They are staged in ``_staging/``, and get their name at the commit."""

    guarantee = "exactly-once"

    def __init__(self, step: str, folder: str) -> None:
        """Write the rows of the sink step ``step`` to ``folder``."""
        self._step = step
        self.folder = Path(folder)
        self.publisher = JsonPublisher(self.folder)

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Create the folder. Raises an error if it has the output of another job."""
        self._take(job_uid, None, 0)

    def inherit(self, job_uid: str, parent: str, epoch: int) -> None:
        """Continue in the folder of the job whose savepoint of ``epoch`` this job begins from."""
        self._take(job_uid, parent, epoch)

    def _take(self, job_uid: str, parent: str | None, epoch: int) -> None:
        staging = self.folder / "_staging"
        staging.mkdir(parents=True, exist_ok=True)
        owner = staging / "OWNER"
        whose = owner.read_text() if owner.exists() else None
        newest = max((int(f.name.split("-")[0]) for f in self.folder.glob("*.jsonl")), default=0)
        if newest and whose != job_uid and not (whose == parent and newest <= epoch):
            raise ps.ConfigError(f"{self.folder} already holds output: name an empty folder")
        temporary = staging / f"OWNER-{os.getpid()}"  # all workers claim at the same moment
        temporary.write_text(job_uid)
        temporary.replace(owner)

    def sweep(self, attempt: int) -> None:
        """Do nothing: older attempts staged files under names that are never used again."""

    def writer(self, task: object, attempt: int) -> "JsonWriter":
        """Make the writer of a task."""
        return JsonWriter((self._step, task), self.folder / "_staging")

    def close(self) -> None:
        """Do nothing: there are no threads."""


class JsonWriter:
    """Collects the rows of the current epoch. ``finish`` then stages them."""

    guarantee = JsonFolder.guarantee

    def __init__(self, owner: tuple[str, object], staging: Path) -> None:
        """Stage below ``staging``."""
        self._owner, self._staging = owner, staging
        self._rows: list[pa.RecordBatch] = []
        self._lock = threading.Lock()

    def room(self) -> bool:
        """Return true: the rows of an epoch are in memory. To wait for a checkpoint here is to wait for ever."""
        return True

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows."""
        with self._lock:
            self._rows.append(batch)

    def seal(self, epoch: int, name: str) -> "JsonCut":
        """End the epoch: all rows so far belong to ``epoch``."""
        with self._lock:
            rows, self._rows = self._rows, []
        return JsonCut(self, (epoch, name), rows)

    def stage(self, cut: tuple[int, str], rows: list[pa.RecordBatch]) -> ps.SinkHandle | None:
        """Write rows durably. After an error they stay for the next epoch. Raises OSError."""
        if not rows:
            return None
        epoch, name = cut
        path = self._staging / name.replace("/", "_")
        records = [record for batch in rows for record in batch.to_pylist()]
        try:
            with path.open("x", encoding="utf-8") as file:
                file.writelines(json.dumps(record) + "\n" for record in records)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with self._lock:
                self._rows = rows + self._rows
            raise
        step, task = self._owner
        return ps.SinkHandle(step, task, epoch, path.name, len(records), path.stat().st_size)

    def close(self) -> None:
        """Drop the rows in memory."""
        self._rows = []


class JsonCut:
    """The rows of one epoch of one task."""

    def __init__(self, writer: JsonWriter, cut: tuple[int, str], rows: list[pa.RecordBatch]) -> None:
        """Wait to be finished."""
        self._writer, self._cut, self._rows = writer, cut, rows

    def finish(self) -> ps.SinkHandle | None:
        """Stage the rows. Runs in another thread than the task. PenstockError aborts the epoch."""
        try:
            return self._writer.stage(self._cut, self._rows)
        except OSError as error:
            raise ps.StorageError(f"json sink: {error}") from error


class JsonPublisher:
    """Publishes staged files. It needs only their handles, so any worker may do it, repeatedly."""

    def __init__(self, folder: Path) -> None:
        """Publish to ``folder``."""
        self._folder = folder

    def publish(self, handle: ps.SinkHandle, epoch: int) -> None:
        """Make it visible under a name that sorts by epoch and never changes."""
        visible = self._folder / f"{epoch:012d}-{handle.task.stage}.{handle.task.worker}.{handle.data}.jsonl"
        try:
            os.link(self._folder / "_staging" / handle.data, visible)
        except OSError as error:
            if visible.exists():
                return  # it was published before, and its staged name may be gone: no other file gets this name
            if isinstance(error, FileNotFoundError):
                raise ps.StateError(f"json sink: {visible.name} is committed, and its staged file is gone") from error
            raise ps.StorageError(f"json sink: {error}") from error

    def discard(self, handle: ps.SinkHandle) -> None:
        """Remove output that will never be committed."""
        (self._folder / "_staging" / handle.data).unlink(missing_ok=True)

    def forget(self, handle: ps.SinkHandle) -> None:
        """Remove the staged name of published output. The visible name stays."""
        self.discard(handle)


def job(params: ps.Parameters) -> ps.Job:
    """Count the words of text files."""
    job = ps.Job()
    lines = job.source("lines", TextFolder(params["input"]), batch_rows=1000)
    words = lines.split("words", "line")
    counts = words.key_by("word").aggregate("counts", count=ps.count())
    counts.sink("output", JsonFolder("output", params["output"]))
    return job
