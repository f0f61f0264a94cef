"""Exactly-once output to files, of Parquet or text: rows are staged and fsynced, and published by a hard link.

    write ──> open part ──full──> encoder thread ──> <output>/_staging/<job>/*.part   (fsynced)
    seal  ──> Pending.finish() stages the rest ──> SinkHandle (in the manifest)
    commit ─> publish: link to <output>/<epoch>-<step>-<task>-<cut>-<part>.parquet

A part keeps its rows in memory until they are on disk. So a full disk fails an epoch but loses no
row: parts that could not be staged are tried again with the next epoch. File names begin with the
committed epoch, so the rows of a key stay in order even when the key moves to another task.

The visible name follows from the committed epoch and the handle. So publishing twice, late, or from two
workers at once gives the same files. Another file at that name is an error; it is never overwritten.
"""

import errno
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from penstock.base import limits
from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.os_errors import storage_error
from penstock.base.threads import Lock, ThreadPoolExecutor, uuid4
from penstock.base.values import replace
from penstock.connectors.file_output import (
    STAGED_SUFFIX,
    VISIBLE_SUFFIX,
    FileForm,
    OutputFolder,
    Staged,
    StagedCut,
    hash_file,
    names_in,
    parquet_form,
    parse_cut,
    remove_all,
    remove_staged,
    stage,
    sync_folder,
)
from penstock.contract.ids import Attempt, Epoch, JobUid, TaskId
from penstock.contract.manifest import Origin, SinkHandle
from penstock.file_system import OS_FILES, exists, refresh_names
from penstock.ports import FileSystem

ENCODER_THREADS = 1

NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class FileSink:
    """The sink step of one engine: makes writers for its tasks, and one publisher."""

    guarantee = "exactly-once"

    def __init__(self, step: str, path: str, form: FileForm, files: FileSystem = OS_FILES) -> None:
        """Remember the path; nothing is touched before :meth:`claim`."""
        self._step = re.sub(r"[^A-Za-z0-9_.]", "_", step)
        self._name = step
        self._output = OutputFolder(Path(path), files)
        self._form = form
        self._encoder = ThreadPoolExecutor(ENCODER_THREADS, f"encode-{step}")
        self._swept = Attempt(0)
        self.publisher = FilePublisher(self._output, self._step, form.suffix)

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Make the folders and record the owner, before any writer. Idempotent.

        Raises ConfigError when this user may not write to the folder, or when it holds Parquet files
        of another owner, even if the job is ``fresh``. Raises StorageError when a retry may help.
        """
        self._take(JobUid(job_uid), None)

    def inherit(self, job_uid: str, parent: str, epoch: Epoch) -> None:
        """Like :meth:`claim`, for a job that starts from epoch ``epoch`` of the job ``parent``.

        It may take over the folder of ``parent``. Raises ConfigError when output above ``epoch`` is
        visible.
        """
        self._take(JobUid(job_uid), Origin(JobUid(parent), epoch))

    def _take(self, job_uid: JobUid, origin: Origin | None) -> None:
        try:
            self._output.take(job_uid, origin)
        except OSError as error:
            raise storage_error(f"file sink: cannot write to {self._output.path}", error) from error

    def sweep(self, attempt: Attempt) -> None:
        """Remove files staged by older attempts. Called after START: all their handles are handled.

        A thread of an older attempt that is still writing removes its file when it has written it.
        Raises StorageError.
        """
        self._swept = max(self._swept, attempt)
        self._output.sweep()
        files, folder = self._output.files, self._output.staging
        for name in names_in(files, folder):
            number, _, rest = name.partition("-")
            mine = rest.startswith(f"{self._step}-") and rest.endswith(STAGED_SUFFIX)
            if mine and number.isdigit() and int(number) < attempt:
                remove_staged(files, folder / name)

    def writer(self, task: TaskId, attempt: Attempt) -> "FileSinkWriter":
        """Make the writer of one task for one attempt."""
        life = uuid4().hex[:12]  # a task may be made twice in one attempt: names must differ
        place = f"{task.stage:03d}.{task.worker:04d}.{task.slot:04d}"
        prefix = self._output.staging / f"{attempt:08d}-{self._step}-{place}-{life}"

        def check() -> None:
            if attempt < self._swept:
                raise StorageError(f"file sink: attempt {attempt} is over, {prefix} was swept")
            self._output.check_staging()

        return FileSinkWriter((self._name, task), prefix, self._form, self._encoder, check, files=self._output.files)

    def close(self) -> None:
        """Stop the encoder thread after its queued work. Closed writers have none."""
        self._encoder.shutdown(wait=False)


class ParquetSink(FileSink):
    """A sink of Parquet files."""

    def __init__(self, step: str, path: str, schema: pa.Schema, files: FileSystem = OS_FILES) -> None:
        super().__init__(step, path, parquet_form(schema), files)


class Part:
    """The rows of one staged file. They are released from memory when the file is durable."""

    def __init__(
        self,
        path: Path,
        form: FileForm,
        batches: Sequence[pa.RecordBatch],
        freed: Callable[[int], None],
        check: Callable[[], None],
        *,
        files: FileSystem,
        folder: str = "",
    ) -> None:
        """Hold ``batches``; ``freed`` is called with the bytes that were released from memory.

        ``folder`` is where the file will be, below the output. ``check`` raises StorageError when the attempt was swept
        or another job has the output.
        """
        self._files = files
        self._path = path
        self._form = form
        self._batches = tuple(batches)
        self._freed = freed
        self._check = check
        self._folder = folder
        self._lock = Lock()
        self._staged: Staged | None = None
        self._dropped = False
        self.size = sum(b.nbytes for b in batches)

    @property
    def suffix(self) -> str:
        """The ending of the visible name."""
        return self._form.suffix

    def store(self) -> Staged:
        """Write the file, once; any thread. Raises StorageError and then keeps the rows."""
        with self._lock:
            if self._staged is None:
                self._check()
                staged = stage(self._files, self._path, self._form, self._batches)
                try:
                    self._check()  # a sweep during the write may have run before the file existed
                except StorageError:
                    remove_staged(self._files, self._path)
                    raise
                self._staged = replace(staged, folder=self._folder)
                self._batches = ()
                self._freed(self.size)
            return self._staged

    def store_early(self) -> None:
        """Write before the epoch's cut. An error is ignored: :meth:`store` will report it."""
        if self._dropped:
            return
        try:
            self.store()
        except StorageError:
            return  # the rows are kept; finish() tries again, and its error aborts the epoch

    def drop(self, encoder: ThreadPoolExecutor) -> None:
        """Give up a part that is in no cut; the encoder removes its file after its present work."""
        self._dropped = True
        with suppress(RuntimeError):  # the sink is closed: the next attempt sweeps the file
            encoder.submit(self._remove)

    def _remove(self) -> None:
        with self._lock, suppress(StorageError):  # the next attempt sweeps what is left
            remove_staged(self._files, self._path)


class FileSinkWriter:
    """Output of one task. At most ``SINK_BUFFER_BYTES_MAX`` and one batch of rows are in memory."""

    guarantee = FileSink.guarantee

    def __init__(
        self,
        owner: tuple[str, TaskId],
        prefix: Path,
        form: FileForm,
        encoder: ThreadPoolExecutor,
        check: Callable[[], None],
        *,
        files: FileSystem,
    ) -> None:
        """Write the output of ``owner`` (sink step, task) to files with names from ``prefix`` on.

        ``check`` raises StorageError when no more files may be staged.
        """
        self._owner = owner
        self._files = files
        self._prefix = prefix
        self._form = form
        self._encoder = encoder
        self._check = check
        self._open: dict[str, list[pa.RecordBatch]] = {}  # by folder
        self._open_bytes = 0
        self._parts: list[Part] = []
        self._made = 0
        self._cuts = 0
        self._lock = Lock()
        self._held_bytes = 0
        self._unfinished: FilePending | None = None

    def room(self) -> bool:
        """Return whether the rows in memory are below their bound."""
        return self._held_bytes < limits.SINK_BUFFER_BYTES_MAX

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows; the encoder thread writes a full part."""
        if not batch.num_rows:
            return
        split = self._form.split
        for folder, kept in split(batch) if split else (("", batch.select(self._form.schema.names)),):
            self._open.setdefault(folder, []).append(kept)
            self._open_bytes += kept.nbytes
            self._hold(kept.nbytes)
        if len(self._open) > limits.SINK_FOLDERS_MAX:
            raise ConfigError(
                f"sink {self._owner[0]!r}: rows of one task go to more than {limits.SINK_FOLDERS_MAX:,} folders at"
                f" once, like {folder!r}: name columns with fewer values in partitionBy"
            )
        if self._open_bytes >= (self._form.part_bytes or limits.SINK_PART_BYTES):
            for part in self._cut_parts():
                self._encoder.submit(part.store_early)

    def seal(self, epoch: Epoch, name: str) -> "FilePending":
        """Cut: all rows so far belong to ``epoch``. ``finish`` stages them."""
        before = self._unfinished
        assert before is None or before.done, f"{self._prefix.name}: the cut before is unfinished"
        self._cut_parts()
        parts = [*(before.returned if before else ()), *self._parts]
        self._parts = []
        self._cuts += 1
        self._unfinished = FilePending(self._owner, epoch, self._cuts, parts, files=self._files)
        return self._unfinished

    def close(self) -> None:
        """Drop rows and files that are in no cut. The next attempt sweeps the files of cuts."""
        self._open.clear()
        for part in self._parts:
            part.drop(self._encoder)
        self._parts.clear()

    def _cut_parts(self) -> list[Part]:
        """Make a part of the open rows of each folder."""
        made = [self._part(folder, batches) for folder, batches in self._open.items()]
        self._parts += made
        self._open, self._open_bytes = {}, 0
        return made

    def _part(self, folder: str, batches: Sequence[pa.RecordBatch]) -> Part:
        self._made += 1
        path = self._prefix.with_name(f"{self._prefix.name}-{self._made:06d}{STAGED_SUFFIX}")
        return Part(path, self._form, batches, self._free, self._check, files=self._files, folder=folder)

    def _free(self, size: int) -> None:
        self._hold(-size)

    def _hold(self, size: int) -> None:
        with self._lock:
            self._held_bytes += size


class FilePending:
    """The rows of one cut. When staging fails, ``returned`` has the parts for the next cut."""

    def __init__(
        self, owner: tuple[str, TaskId], epoch: Epoch, cut: int, parts: Sequence[Part], *, files: FileSystem
    ) -> None:
        """Hold the parts of cut number ``cut`` of a writer."""
        self._owner = owner
        self._files = files
        self._epoch = epoch
        self._cut = cut
        self._parts = tuple(parts)
        self.returned: tuple[Part, ...] = ()
        self.done = False

    @property
    def empty(self) -> bool:
        """Whether there are no rows."""
        return not self._parts

    def give_back(self) -> None:
        """Leave every part to the next cut, as a :meth:`finish` that has failed does."""
        self.returned, self.done = self._parts, True

    def finish(self) -> SinkHandle | None:
        """Stage every part and make the folder durable. Raises StorageError.

        No row is lost, whatever the error is: the next cut gets all parts.
        """
        try:
            staged = tuple(part.store() for part in self._parts)
            if staged:
                sync_folder(self._files, staged[0].path.parent)
        except BaseException:
            self.returned = self._parts
            raise
        finally:
            self.done = True
        if not staged:
            return None
        rows, size = sum(s.rows for s in staged), sum(s.size for s in staged)
        step, task = self._owner
        cut = StagedCut(self._cut, staged, self._parts[0].suffix)
        return SinkHandle(step, task, self._epoch, cut.as_json(), rows, size)


class FilePublisher:
    """Publishes, discards and forgets output by its handle, on any worker, any number of times."""

    def __init__(self, output: OutputFolder, step: str, suffix: str) -> None:
        """Serve the handles of one sink step, once ``output`` is taken. Visible names end with ``suffix``."""
        self._output = output
        self._files = output.files
        self._step = step
        self._suffix = suffix

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Make every file of the handle visible under the committed ``epoch``. Idempotent.

        Raises StorageError when a retry may help. Raises StateError when a file is gone, when
        another file has its name, or when the folder belongs to another job.
        """
        try:
            self._output.check(epoch)
        except OSError as error:
            raise StorageError(f"file sink: cannot publish: {error}") from error
        cut = self._cut(handle)
        for index, part in enumerate(cut.parts):
            name = visible_name(self._step, handle, epoch, (cut.number, index), cut.suffix)
            self._publish_part(part, self._output.path / name)
        sync_folder(self._files, self._output.path)

    def discard(self, handle: SinkHandle) -> None:
        """Remove the staged files of output that will never be committed."""
        remove_all(self._files, (p.path for p in self._cut(handle).parts))

    def forget(self, handle: SinkHandle) -> None:
        """Remove the staged names of published output; the visible names stay."""
        remove_all(self._files, (p.path for p in self._cut(handle).parts))

    def _cut(self, handle: SinkHandle) -> StagedCut:
        return parse_cut(handle.data, self._output.staging, self._suffix)

    def _publish_part(self, part: Staged, target: Path) -> None:
        try:
            if exists(self._files, target):
                _check_same(self._files, part, target)
            else:
                _link(self._files, part, target)
        except OSError as error:
            raise StorageError(f"file sink: cannot publish {target}: {error}") from error


def visible_name(
    step: str, handle: SinkHandle, epoch: Epoch, place: tuple[int, int], suffix: str = VISIBLE_SUFFIX
) -> str:
    """Return the name under which a part is visible; ``place`` is (cut, part)."""
    task = f"{handle.task.stage:03d}.{handle.task.worker:04d}.{handle.task.slot:04d}"
    return f"{epoch:012d}-{step}-{task}-{place[0]:06d}-{place[1]:04d}{suffix}"


def _link(files: FileSystem, part: Staged, target: Path) -> None:
    try:
        if files.stat(part.path).st_size != part.size:
            raise StateError(f"file sink: staged file {part.path} is not the one committed")
        files.link(part.path, target)
    except FileExistsError:
        _check_same(files, part, target)  # another worker was quicker
    except FileNotFoundError as error:
        _check_moved(files, part, target, error)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _rename(files, part, target)


def _rename(files: FileSystem, part: Staged, target: Path) -> None:
    """Publish on a file system without links: no one else makes this name, and it was free."""
    try:
        files.rename(part.path, target)
    except FileNotFoundError as error:
        _check_moved(files, part, target, error)


def _check_moved(files: FileSystem, part: Staged, target: Path, error: OSError) -> None:
    """Accept a missing staged file if the output is visible: then another worker has published it."""
    refresh_names(files, target.parent)  # this one has just looked, and may still remember that nothing was there
    if exists(files, target):
        _check_same(files, part, target)
        return
    raise StateError(
        f"file sink: {target.name} is committed but neither it nor its staged file"
        f" {part.path} is there: restore one, or give restore.unpublishedSinks: {{SINK: Drop}} to lose it"
    ) from error


def _check_same(files: FileSystem, part: Staged, target: Path) -> None:
    if files.stat(target).st_size == part.size and hash_file(files, target) == part.sha256:
        return
    raise StateError(
        f"file sink: {target} exists and is not the committed output: somebody else writes to"
        " this folder; move that file away and start again"
    )
