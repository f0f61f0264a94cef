"""Exactly-once output to S3: files are staged beside the checkpoints, and published by one conditional create each.

    write  ──> part ──> <job's storage>/staged/<step>/...   (fsynced, hashed)
    commit ──> publish: PUT <folder>/<epoch>-<step>-<task>-<cut>-<part>.parquet, If-None-Match: *

Nothing waits at the store: an upload in parts that is open would be removed by the rules of a bucket while a job is
away. The name follows from the committed epoch and the handle. So publishing twice, late, or from two workers at once
gives the same objects. Another object at that name is an error; it is never overwritten.
"""

import hashlib
from pathlib import Path

import pyarrow as pa

from penstock.base.errors import StateError, StorageError
from penstock.base.values import replace
from penstock.connectors.file_output import FileForm, Staged, parquet_form, parse_cut
from penstock.connectors.file_sink import FileSink, FileSinkWriter, visible_name
from penstock.connectors.missing import refused_at_first
from penstock.connectors.partitions import Partitions
from penstock.connectors.published import STAGING, plain_step
from penstock.connectors.s3.object_folder import Content, open_folder
from penstock.connectors.s3.owned_folder import OwnedFolder
from penstock.connectors.text_formats import csv_form, json_form
from penstock.contract.ids import Attempt, Epoch, JobUid, TaskId
from penstock.contract.manifest import Origin, SinkHandle
from penstock.contract.s3_options import FileFormat, S3Output
from penstock.file_system import OS_FILES, READ, closing, pieces
from penstock.ports import FileSystem
from penstock.protocol.marked import DROP

KEY_BYTES_MAX = 1024  # of an object's whole name
FILE_BYTES_MAX = 200  # what a file is called within its folder has less
FORMS = {FileFormat.PARQUET: parquet_form, FileFormat.JSON: json_form, FileFormat.CSV: csv_form}


class S3Sink:
    """The sink step of one engine, for one folder of a bucket."""

    guarantee = FileSink.guarantee

    def __init__(
        self, step: str, options: S3Output, schema: pa.Schema, folder: Path, files: FileSystem = OS_FILES
    ) -> None:
        """Stage in ``folder``, which all workers of the job see. Nothing is touched before :meth:`claim`.

        Raises ConfigError when the format has no such columns, or the client is missing.
        """
        folders = folders_of(options, schema)
        form = FORMS[options.format](folders.schema if folders else schema)
        form = replace(form, part_bytes=options.roll_bytes, split=folders.split if folders else None)
        self._owned = OwnedFolder(open_folder(options))
        self._staging = FileSink(step, str(folder), form, files)
        self.publisher = S3Publisher(self._owned, self._staging, (step, form), folder, files)

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Take the folder of the bucket and that of staged files. Idempotent. Blocking.

        Raises ConfigError when the folder has objects of others, or the store cannot be used. Raises StorageError.
        """
        with refused_at_first(first=fresh):
            self._take(JobUid(job_uid), None)

    def inherit(self, job_uid: str, parent: str, epoch: Epoch) -> None:
        """Like :meth:`claim`, for a job that starts from epoch ``epoch`` of the job ``parent``."""
        self._take(JobUid(job_uid), Origin(JobUid(parent), epoch))

    def _take(self, job_uid: JobUid, origin: Origin | None) -> None:
        self._owned.take(job_uid, origin)
        self._staging.claim(job_uid, fresh=False)
        self.publisher.claimed(job_uid)

    def sweep(self, attempt: Attempt) -> None:
        """Remove what older attempts have staged."""
        self._staging.sweep(attempt)

    def writer(self, task: TaskId, attempt: Attempt) -> FileSinkWriter:
        """Make the writer of one task for one attempt: it stages files."""
        return self._staging.writer(task, attempt)

    def close(self) -> None:
        """End the thread that stages; idempotent."""
        self._staging.close()


def folders_of(options: S3Output, schema: pa.Schema) -> Partitions | None:
    """Return the folders of rows, None without ``partitionBy``. Raises ConfigError for a column that makes none."""
    if not options.partition_by:
        return None
    left = KEY_BYTES_MAX - len(options.url.encode()) - FILE_BYTES_MAX
    return Partitions(options.partition_by, schema, bytes_max=left)


class S3Publisher:
    """Publishes, discards and forgets output by its handle, on any worker, any number of times."""

    def __init__(
        self, owned: OwnedFolder, staging: FileSink, output: tuple[str, FileForm], folder: Path, files: FileSystem
    ) -> None:
        """Publish the ``output`` (step, form) that ``staging`` has staged in ``folder``."""
        self._owned = owned
        self._staged = staging.publisher
        self._step, self._suffix = plain_step(output[0]), output[1].suffix
        self._folder = folder
        self._files = files

    def claimed(self, job_uid: JobUid) -> None:
        """Note whose staged files these are."""
        self._staged_in = self._folder / STAGING / job_uid

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Make every file of the handle visible under the committed ``epoch``. Idempotent. Blocking.

        Raises StorageError when a retry may help. Raises StateError when a file is gone, when another object has its
        name, or when the folder belongs to another job.
        """
        self._owned.check()
        cut = parse_cut(handle.data, self._staged_in, self._suffix)
        for index, part in enumerate(cut.parts):
            name = visible_name(self._step, handle, epoch, (cut.number, index), cut.suffix)
            self._publish(part, f"{part.folder}/{name}" if part.folder else name)

    def discard(self, handle: SinkHandle) -> None:
        """Remove the staged files of output that will never be committed."""
        self._staged.discard(handle)

    def forget(self, handle: SinkHandle) -> None:
        """Remove the staged files of published output; the objects stay."""
        self._staged.forget(handle)

    def _publish(self, part: Staged, name: str) -> None:
        folder, data = self._owned.folder, self._read(part)
        if data is not None and folder.create(name, data):
            return
        where, found = f"s3 sink: {folder.place}/{name}", folder.content(name)
        if found == Content(part.size, part.sha256):
            return  # this is a second time, or another worker was quicker
        if found is not None:
            raise StateError(
                f"{where} exists and is not the committed output: somebody else writes to this folder; move that"
                " object away and start again"
            )
        if data is None:
            raise StateError(
                f"{where} is committed but neither it nor its staged file {part.path} is there: restore one, or give"
                f" {DROP}"
            )
        raise StorageError(f"{where} was there and is gone")

    def _read(self, part: Staged) -> bytes | None:
        """Return a staged file, whole; None when it is gone. Raises StateError when it is another one."""
        try:
            with closing(self._files, self._files.open(part.path, READ)) as file:
                data = b"".join(pieces(self._files, file))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"s3 sink: staged file {part.path}: {error}") from error
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise StateError(f"s3 sink: staged file {part.path} is not the one committed: restore it, or give {DROP}")
        return data
