"""Exactly-once Parquet output: rows are staged and fsynced, and published by a hard link.

    write ──> open part ──full──> encoder thread ──> <output>/_staging/<job>/*.part   (fsynced)
    seal  ──> Pending.finish() stages the rest ──> SinkHandle (in the manifest)
    commit ─> publish: link to <output>/<epoch>-<step>-<task>-<cut>-<part>.parquet

A part keeps its rows in memory until it is on disk, so a full disk fails an epoch and loses no
row: what could not be staged is tried again with the next epoch. Names sort by committed epoch
first, so that the rows of a key stay in order even when the key moves to another task.
"""

import re
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from penstock.base import limits
from penstock.base.errors import ConfigError, StorageError
from penstock.connectors.parquet_owner import OutputFolder
from penstock.connectors.parquet_publish import ParquetPublisher
from penstock.connectors.parquet_stage import (
    STAGED_SUFFIX,
    Staged,
    StagedFile,
    clean_schema,
    remove_staged,
    stage,
    sync_folder,
)
from penstock.contract.ids import Attempt, Epoch, JobUid, TaskId
from penstock.contract.manifest import Origin, SinkHandle

ENCODER_THREADS = 1


class ParquetSink:
    """The sink step of one engine: makes writers for its tasks, and one publisher."""

    guarantee = "exactly-once"

    def __init__(self, step: str, path: str, schema: pa.Schema) -> None:
        """Remember where to write; nothing is touched before :meth:`claim`."""
        self._step = re.sub(r"[^A-Za-z0-9_.]", "_", step)
        self._name = step
        self._output = OutputFolder(Path(path))
        self._schema = clean_schema(schema)
        self._encoder = ThreadPoolExecutor(ENCODER_THREADS, f"encode-{step}")
        self._swept = Attempt(0)
        self.publisher = ParquetPublisher(self._output, self._step)

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Make the folders and note whose output this is; before any writer. Idempotent.

        Raises ConfigError when the folder holds Parquet files of somebody else, whether or not the
        job is ``fresh``, or cannot be written.
        """
        self._take(JobUid(job_uid), None)

    def inherit(self, job_uid: str, parent: str, epoch: Epoch) -> None:
        """Like :meth:`claim`, for a job that begins from epoch ``epoch`` of the job ``parent``.

        Takes the parent's folder, too. Raises ConfigError when output above ``epoch`` is visible.
        """
        self._take(JobUid(job_uid), Origin(JobUid(parent), epoch))

    def _take(self, job_uid: JobUid, origin: Origin | None) -> None:
        try:
            self._output.take(job_uid, origin)
        except OSError as error:
            text = f"parquet sink: cannot write to {self._output.path}: {error}"
            raise ConfigError(text) from error

    def sweep(self, attempt: Attempt) -> None:
        """Remove what older attempts staged; only after START, when all their handles are out.

        What their threads are still writing is removed by them: they look when they are done.
        """
        self._swept = max(self._swept, attempt)
        for file in self._output.staging.glob(f"*-{self._step}-*{STAGED_SUFFIX}"):
            number = file.name.split("-", 1)[0]
            if number.isdigit() and int(number) < attempt:
                remove_staged(file)

    def writer(self, task: TaskId, attempt: Attempt) -> "ParquetSinkWriter":
        """Make the writer of one task for one attempt."""
        life = uuid.uuid4().hex[:12]  # two lives of a task in one attempt never share a name
        place = f"{task.stage:03d}.{task.worker:04d}.{task.slot:04d}"
        prefix = self._output.staging / f"{attempt:08d}-{self._step}-{place}-{life}"

        def check() -> None:
            if attempt < self._swept:
                raise StorageError(f"parquet sink: attempt {attempt} is over, {prefix} was swept")
            self._output.check_staging()

        return ParquetSinkWriter((self._name, task), prefix, self._schema, self._encoder, check)

    def close(self) -> None:
        """Stop the encoder thread behind what waits in it: of closed writers that is nothing."""
        self._encoder.shutdown(wait=False)


class Part:
    """Rows on their way into one staged file. They leave memory when the file is durable."""

    def __init__(
        self,
        path: Path,
        schema: pa.Schema,
        batches: Sequence[pa.RecordBatch],
        freed: Callable[[int], None],
        check: Callable[[], None],
    ) -> None:
        """Hold ``batches``; ``freed`` is told the bytes that left memory.

        ``check`` raises StorageError when the attempt was swept, or the folder is another job's.
        """
        self._path = path
        self._schema = schema
        self._batches = tuple(batches)
        self._freed = freed
        self._check = check
        self._lock = threading.Lock()
        self._staged: Staged | None = None
        self._dropped = False
        self.size = sum(b.nbytes for b in batches)

    def store(self) -> Staged:
        """Write the file unless it is there; any thread. Raises StorageError and keeps the rows."""
        with self._lock:
            if self._staged is None:
                self._check()
                staged = stage(self._path, self._schema, self._batches)
                try:
                    self._check()  # a sweep that came meanwhile may have looked too early
                except StorageError:
                    remove_staged(self._path)
                    raise
                self._staged = staged
                self._batches = ()
                self._freed(self.size)
            return self._staged

    def store_early(self) -> None:
        """Write ahead of the epoch; a failure is left to :meth:`store`, which reports it."""
        if self._dropped:
            return
        try:
            self.store()
        except StorageError:
            return  # the rows are kept; finish() tries again, and its error aborts the epoch

    def drop(self, encoder: ThreadPoolExecutor) -> None:
        """Give up a part that is in no cut; its file goes behind what the encoder does now."""
        self._dropped = True
        with suppress(RuntimeError):  # the sink is closed: the next attempt sweeps
            encoder.submit(self._remove)

    def _remove(self) -> None:
        with self._lock, suppress(StorageError):  # what stays is swept by the next attempt
            remove_staged(self._path)


class ParquetSinkWriter:
    """Output of one task. Rows in memory are bounded by ``SINK_BUFFER_BYTES_MAX`` and a batch."""

    guarantee = ParquetSink.guarantee

    def __init__(
        self,
        owner: tuple[str, TaskId],
        prefix: Path,
        schema: pa.Schema,
        encoder: ThreadPoolExecutor,
        check: Callable[[], None],
    ) -> None:
        """Write for ``owner`` (sink step, task) to files whose names begin with ``prefix``.

        ``check`` raises StorageError when nothing may be staged any more.
        """
        self._owner = owner
        self._prefix = prefix
        self._schema = schema
        self._encoder = encoder
        self._check = check
        self._open: list[pa.RecordBatch] = []
        self._open_bytes = 0
        self._parts: list[Part] = []
        self._made = 0
        self._cuts = 0
        self._lock = threading.Lock()
        self._held_bytes = 0
        self._unfinished: ParquetPending | None = None

    def room(self) -> bool:
        """Say whether the rows in memory are below their bound."""
        return self._held_bytes < limits.SINK_BUFFER_BYTES_MAX

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; a full part goes to the encoder thread."""
        if not batch.num_rows:
            return
        kept = batch.select(self._schema.names)
        self._open.append(kept)
        self._open_bytes += kept.nbytes
        self._hold(kept.nbytes)
        if self._open_bytes >= limits.SINK_PART_BYTES:
            self._encoder.submit(self._cut_part().store_early)

    def seal(self, epoch: Epoch, name: str) -> "ParquetPending":
        """Cut the rows so far; they are staged by ``finish``."""
        before = self._unfinished
        assert before is None or before.done, f"{self._prefix.name}: the cut before is unfinished"
        if self._open:
            self._cut_part()
        parts = [*(before.returned if before else ()), *self._parts]
        self._parts = []
        self._cuts += 1
        self._unfinished = ParquetPending(self._owner, epoch, self._cuts, parts)
        return self._unfinished

    def close(self) -> None:
        """Drop what no cut holds, files included; those of cuts are swept by the next attempt."""
        self._open.clear()
        for part in self._parts:
            part.drop(self._encoder)
        self._parts.clear()

    def _cut_part(self) -> Part:
        self._made += 1
        path = self._prefix.with_name(f"{self._prefix.name}-{self._made:06d}{STAGED_SUFFIX}")
        part = Part(path, self._schema, self._open, lambda size: self._hold(-size), self._check)
        self._parts.append(part)
        self._open, self._open_bytes = [], 0
        return part

    def _hold(self, size: int) -> None:
        with self._lock:
            self._held_bytes += size


class ParquetPending:
    """The rows of one cut. ``returned`` has its parts again when staging them failed."""

    def __init__(
        self, owner: tuple[str, TaskId], epoch: Epoch, cut: int, parts: Sequence[Part]
    ) -> None:
        """Hold the parts of cut number ``cut`` of a writer."""
        self._owner = owner
        self._epoch = epoch
        self._cut = cut
        self._parts = tuple(parts)
        self.returned: tuple[Part, ...] = ()
        self.done = False

    def finish(self) -> SinkHandle | None:
        """Stage every part and make the folder durable. Raises StorageError; nothing is lost."""
        try:
            staged = tuple(part.store() for part in self._parts)
            if staged:
                sync_folder(staged[0].path.parent)
        except StorageError:
            self.returned = self._parts
            raise
        finally:
            self.done = True
        if not staged:
            return None
        rows, size = sum(s.rows for s in staged), sum(s.size for s in staged)
        step, task = self._owner
        return SinkHandle(
            step, task, self._epoch, StagedFile(self._cut, staged).as_json(), rows, size
        )
