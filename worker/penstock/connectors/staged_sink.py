"""Output that waits in files of the job until its checkpoint is committed, and then goes to a target with a marker.

    write  ──encoded──> part ──> <job's storage>/staged/<step>/...   (fsynced files)
    commit ──> publish: fence, read the marker, rows and marker in one step of the target

Nothing waits in the target, where a transaction that is open would be ended, or would block others. What is not
visible yet is in files of the job, for as long as it takes.

The marker counts staged files over all handles of a task (``protocol/marked.py``). So all of them are published
by one call, in order. A target with one marker for the sink gets those of all its tasks. A handle says which epoch
the marker had reached when it was prepared (``known``). So a marker that was lost later is noticed, and output is
neither repeated nor left out in silence.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.ipc

from penstock.base.errors import PeerError, StateError, StorageError
from penstock.base.threads import Lock
from penstock.base.values import replace
from penstock.connectors.file_output import FileForm, HashingFile, Staged, parse_cut
from penstock.connectors.file_sink import FilePending, FilePublisher, FileSink, FileSinkWriter
from penstock.connectors.missing import refused_at_first
from penstock.contract.codec import ABSENT, parsed
from penstock.contract.ids import Attempt, Epoch, TaskId
from penstock.contract.latest import Unpublished
from penstock.contract.manifest import SinkHandle
from penstock.file_system import OS_FILES, READ, closing, pieces
from penstock.ports import FileSystem
from penstock.protocol.marked import DROP, Wanted

DIGEST_CHARS = 32
NOTHING_STAGED = "{}"  # in the handle of rows that were sent at once (``kafka/direct_sink.py``)


Block = Iterable[pa.RecordBatch]  # the rows of one staged file


class StagedFile:
    """One staged file: its rows, or its bytes. Raises StateError when it is gone or another one, and StorageError."""

    def __init__(self, part: Staged, where: str, files: FileSystem) -> None:
        """Open nothing yet. ``where`` begins the texts of errors."""
        self.part = part
        self._files = files
        self._about = f"{where}: staged file {part.path}"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Give the rows of a file of Arrow IPC."""
        reader = pa.ipc.open_file(pa.py_buffer(self.data()))
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)

    def data(self) -> bytes:
        """Return the whole file."""
        with self._read(), closing(self._files, self._files.open(self.part.path, READ)) as file:
            data = b"".join(pieces(self._files, file))
            self._check(hashlib.sha256(data).hexdigest())
            return data

    def modified_ms(self) -> int:
        """Return when it was written, in milliseconds since 1970."""
        with self._read():
            return int(self._files.stat(self.part.path).st_mtime_ns // 1_000_000)

    def _check(self, sha256: str) -> None:
        if sha256 != self.part.sha256:
            raise StateError(f"{self._about} is not the one committed: restore it, or give {DROP}")

    @contextmanager
    def _read(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise StateError(f"{self._about} is gone: restore it, or give {DROP}") from error
        except OSError as error:
            raise StorageError(f"{self._about}: {error}") from error


class MarkedOutput(Protocol):
    """The target as one sink task writes it, or the sink: rows and a marker in one step. Any thread may use it."""

    def known(self, visible: Epoch) -> Epoch:
        """Return an epoch that the marker has reached; write one of ``visible`` when there is none. Blocking.

        The first call comes while all output of the task, or of the sink, is visible up to that epoch. So a publisher
        of an older one, which comes late, finds nothing to do, also when the marker was lost. Raises StorageError.
        """
        ...

    def publish(self, wanted: Wanted, blocks: Iterable[StagedFile]) -> int:
        """Make all blocks visible, each once. ``blocks`` gives them in order; those that are visible are passed over.

        A restore may want something else (``wanted.how``). Returns how many rows were refused and left out. Blocking.
        Raises StateError when it is not known what is visible, StorageError when a retry may help.
        """
        ...

    def close(self) -> None:
        """Release connections; idempotent."""
        ...


class StagedTarget(Protocol):
    """Where a sink step writes. ``name`` begins its errors; ``form`` is that of staged files.

    ``whole``: it has one marker for the sink. Otherwise each task has one.
    """

    name: str
    form: FileForm
    whole: bool

    def claim(self) -> None:
        """Look whether rows can be written. Blocking. Raises ConfigError, StateError, StorageError."""
        ...

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as they are staged. Raises ConfigError for what the target would refuse after the commit."""
        ...

    def output(self, job_uid: str, task: TaskId) -> MarkedOutput:
        """Return the target as ``task`` writes it, without a connection yet. A ``whole`` one is the same for all."""
        ...


class StagedSink:
    """The sink step of one engine, for one target."""

    guarantee = "exactly-once"

    def __init__(self, step: str, target: StagedTarget, folder: Path, files: FileSystem = OS_FILES) -> None:
        """Stage in ``folder``, which all workers of the job see. Nothing is touched before :meth:`claim`."""
        self._step = step
        self._target = target
        self._staging = FileSink(f"records.{step}", str(folder), target.form, files)
        self._outputs = _Outputs(target)
        self.publisher = StagedPublisher(self._staging, self._outputs, folder, files)

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Look at the target, and take the folder of staged files. Idempotent. Blocking.

        Raises ConfigError or StateError when rows cannot be written, StorageError when a retry may help.
        """
        with refused_at_first(first=fresh):
            self._target.claim()
        self._outputs.job_uid = job_uid
        self._staging.claim(job_uid, fresh)
        self.publisher.claimed(job_uid)

    def sweep(self, attempt: Attempt) -> None:
        """Remove what older attempts have staged."""
        self._staging.sweep(attempt)

    def writer(self, task: TaskId, attempt: Attempt) -> "StagedWriter":
        """Make the writer of one task for one attempt."""
        staging = self._staging.writer(task, attempt)
        return StagedWriter(self._step, staging, self._target, self._outputs.of(task))

    def close(self) -> None:
        """End the thread that stages, and the connections; idempotent."""
        self._staging.close()
        self._outputs.close()


class _Outputs:
    """The target as each task of the sink writes it."""

    def __init__(self, target: StagedTarget) -> None:
        self.target = target
        self.job_uid = ""
        self._made: dict[TaskId, MarkedOutput] = {}
        self._lock = Lock()

    def of(self, task: TaskId) -> MarkedOutput:
        with self._lock:
            if task not in self._made:
                self._made[task] = self.target.output(self.job_uid, task)
            return self._made[task]

    def close(self) -> None:
        with self._lock:
            for output in self._made.values():
                output.close()
            self._made.clear()


class StagedWriter:
    """Output of one task: it encodes rows, and stages them in files."""

    guarantee = StagedSink.guarantee

    def __init__(self, step: str, staging: FileSinkWriter, target: StagedTarget, output: MarkedOutput) -> None:
        self._step = step
        self._staging = staging
        self._target = target
        self._output = output
        self._committed = Epoch(0)

    def committed(self, epoch: Epoch) -> None:
        """Note up to which epoch all output is visible."""
        self._committed = epoch

    def room(self) -> bool:
        """Return whether the rows in memory are below their bound."""
        return self._staging.room()

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode rows. Raises ConfigError for what the target would refuse: nothing is committed then."""
        if batch.num_rows:
            self._staging.write(self._target.encode(batch))

    def seal(self, epoch: Epoch, name: str) -> "StagedPending":
        """Cut: all rows so far belong to ``epoch``."""
        staging = self._staging.seal(epoch, name)
        return StagedPending(self._step, staging, self._output, self._committed, whole=self._target.whole)

    def close(self) -> None:
        """Drop rows and files that are in no cut."""
        self._staging.close()


class StagedPending:
    """The rows of one cut."""

    def __init__(self, step: str, staging: FilePending, output: MarkedOutput, visible: Epoch, *, whole: bool) -> None:
        self._step = step
        self._staging = staging
        self._output = output
        self._visible = visible
        self._whole = whole

    def finish(self) -> SinkHandle | None:
        """Note which epoch the marker has reached, and stage the rows. Raises StorageError, and keeps the rows."""
        if self._staging.empty:
            return self._staging.finish()
        try:
            known = self._output.known(self._visible)
        except BaseException:
            self._staging.give_back()
            raise
        staged = self._staging.finish()
        assert staged is not None, "there are rows"
        data = json.dumps({"cut": staged.data, "known": known}, sort_keys=True, separators=(",", ":"))
        return replace(staged, sink=self._step, data=data, whole=self._whole or ABSENT)


class StagedPublisher:
    """Publishes the output of one task or sink and epoch at once, on any worker, any number of times."""

    def __init__(self, staging: FileSink, outputs: _Outputs, folder: Path, files: FileSystem) -> None:
        self._staged: FilePublisher = staging.publisher
        self._outputs = outputs
        self._folder = folder
        self._files = files

    def claimed(self, job_uid: str) -> None:
        """Note whose staged files these are."""
        self._staged_in = self._folder / "_staging" / job_uid

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Publish the only handle of a task or sink. See :meth:`publish_all`."""
        self.publish_all((handle,), epoch)

    def publish_all(self, handles: Sequence[SinkHandle], epoch: Epoch) -> None:
        """Write the rows of all handles of one task or sink, each once. Blocking.

        Raises StateError when it is not known what is visible, or a staged file is gone. Raises StorageError when a
        retry may help.
        """
        self.publish_restored(handles, epoch, Unpublished.FAIL)

    def publish_restored(self, handles: Sequence[SinkHandle], epoch: Epoch, how: Unpublished) -> int:
        """Do with this output what a restore says; return how many rows were left out. See publish_all."""
        contents = [_contents(handle) for handle in handles if handle.data != NOTHING_STAGED]
        if not contents:
            return 0  # the sink wrote at once when these rows came, so they are visible
        parts = [part for cut, _ in contents for part in parse_cut(cut, self._staged_in).parts]
        digest = hashlib.sha256("\n".join(cut for cut, _ in contents).encode()).hexdigest()[:DIGEST_CHARS]
        known = Epoch(max(known for _, known in contents))
        blocks = (StagedFile(part, self._outputs.target.name, self._files) for part in parts)
        return self._outputs.of(handles[0].task).publish(Wanted(epoch, digest, len(parts), known, how), blocks)

    def discard(self, handle: SinkHandle) -> None:
        """Remove the staged files of output that will never be committed."""
        if handle.data != NOTHING_STAGED:
            self._staged.discard(_staged(handle))

    def forget(self, handle: SinkHandle) -> None:
        """Remove the staged files of published output."""
        if handle.data != NOTHING_STAGED:
            self._staged.forget(_staged(handle))


def _contents(handle: SinkHandle) -> tuple[str, int]:
    """Return the text of the staged files, and the epoch that the marker had reached. Raises StateError."""
    try:
        plain = parsed(handle.data)
        return str(plain["cut"]), int(plain["known"])
    except (PeerError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"a checkpoint holds a damaged handle of sink {handle.sink!r}: {error}") from error


def _staged(handle: SinkHandle) -> SinkHandle:
    return replace(handle, data=_contents(handle)[0])


def arrow_form(schema: pa.Schema) -> FileForm:
    """Return the form of staged files of Arrow IPC."""
    return FileForm(schema, ".arrow", _write)


def _write(out: HashingFile, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    with pa.ipc.new_file(pa.PythonFile(out, "w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
