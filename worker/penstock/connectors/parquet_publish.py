"""Publishes staged files: each gets a hard link with a fixed name.

The name follows from the committed epoch and the handle. So publishing twice, late, or from two
workers at once gives the same files. Another file at that name is an error; it is never overwritten.
"""

import errno
from pathlib import Path

from penstock.base.errors import StateError, StorageError
from penstock.connectors.parquet_owner import VISIBLE_SUFFIX, OutputFolder
from penstock.connectors.parquet_stage import (
    Staged,
    StagedCut,
    hash_file,
    parse_cut,
    remove_all,
    sync_folder,
)
from penstock.contract.ids import Epoch
from penstock.contract.manifest import SinkHandle
from penstock.file_system import exists
from penstock.ports import FileSystem

NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class ParquetPublisher:
    """Publishes, discards and forgets output by its handle, on any worker, any number of times."""

    def __init__(self, output: OutputFolder, step: str) -> None:
        """Serve the handles of one sink step, once ``output`` is taken."""
        self._output = output
        self._files = output.files
        self._step = step

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Make every file of the handle visible under the committed ``epoch``. Idempotent.

        Raises StorageError when a retry may help. Raises StateError when a file is gone, when
        another file has its name, or when the folder belongs to another job.
        """
        try:
            self._output.check(epoch)
        except OSError as error:
            raise StorageError(f"parquet sink: cannot publish: {error}") from error
        cut = self._cut(handle)
        for index, part in enumerate(cut.parts):
            name = visible_name(self._step, handle, epoch, (cut.number, index))
            self._publish_part(part, self._output.path / name)
        sync_folder(self._files, self._output.path)

    def discard(self, handle: SinkHandle) -> None:
        """Remove the staged files of output that will never be committed."""
        remove_all(self._files, (p.path for p in self._cut(handle).parts))

    def forget(self, handle: SinkHandle) -> None:
        """Remove the staged names of published output; the visible names stay."""
        remove_all(self._files, (p.path for p in self._cut(handle).parts))

    def _cut(self, handle: SinkHandle) -> StagedCut:
        return parse_cut(handle.data, self._output.staging)

    def _publish_part(self, part: Staged, target: Path) -> None:
        try:
            if exists(self._files, target):
                _check_same(self._files, part, target)
            else:
                _link(self._files, part, target)
        except OSError as error:
            raise StorageError(f"parquet sink: cannot publish {target}: {error}") from error


def visible_name(step: str, handle: SinkHandle, epoch: Epoch, place: tuple[int, int]) -> str:
    """Return the name under which a part is visible; ``place`` is (cut, part)."""
    task = f"{handle.task.stage:03d}.{handle.task.worker:04d}.{handle.task.slot:04d}"
    return f"{epoch:012d}-{step}-{task}-{place[0]:06d}-{place[1]:04d}{VISIBLE_SUFFIX}"


def _link(files: FileSystem, part: Staged, target: Path) -> None:
    try:
        if files.stat(part.path).st_size != part.size:
            raise StateError(f"parquet sink: staged file {part.path} is not the one committed")
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
    """Accept a missing staged file if the output is visible: then another worker renamed it."""
    if exists(files, target):
        _check_same(files, part, target)
        return
    raise StateError(
        f"parquet sink: {target.name} is committed but neither it nor its staged file"
        f" {part.path} is there: restore one, or give restore.unpublished: Drop to lose it"
    ) from error


def _check_same(files: FileSystem, part: Staged, target: Path) -> None:
    if files.stat(target).st_size == part.size and hash_file(files, target) == part.sha256:
        return
    raise StateError(
        f"parquet sink: {target} exists and is not the committed output: somebody else writes to"
        " this folder; move that file away and start again"
    )
