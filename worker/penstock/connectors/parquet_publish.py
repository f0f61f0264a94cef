"""Publication of staged files: a hard link to a name that never changes; and whose folder it is.

The name is fixed by the committed epoch and the handle, so publishing twice, late, or from two
workers at once ends in the same files. Whatever else lies at a name is an error, never overwritten.
"""

import errno
import json
import os
import uuid
from pathlib import Path

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.parquet_stage import (
    STAGED_SUFFIX,
    Staged,
    hash_file,
    parse_cut,
    remove_all,
    sync_folder,
)
from penstock.contract.ids import Epoch
from penstock.contract.manifest import SinkHandle

VISIBLE_SUFFIX = ".parquet"
OWNER = "OWNER.json"
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


class ParquetPublisher:
    """Publishes, discards and forgets from handles alone; any worker, any number of times."""

    def __init__(self, output: Path, staging: Path, step: str) -> None:
        """Serve the handles of one sink step."""
        self._output = output
        self._staging = staging
        self._step = step

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Make every file of the handle visible under the committed ``epoch``; idempotent.

        Raises StorageError when it may be tried again, StateError when a file is gone or
        something else lies at its name.
        """
        cut = parse_cut(handle.data, self._staging)
        for index, part in enumerate(cut.parts):
            name = visible_name(self._step, handle, epoch, (cut.number, index))
            self._publish_part(part, self._output / name)
        sync_folder(self._output)

    def discard(self, handle: SinkHandle) -> None:
        """Remove the staged files of output that will never be committed."""
        remove_all(p.path for p in parse_cut(handle.data, self._staging).parts)

    def forget(self, handle: SinkHandle) -> None:
        """Remove the staged names of published output; the visible ones stay."""
        remove_all(p.path for p in parse_cut(handle.data, self._staging).parts)

    def _publish_part(self, part: Staged, target: Path) -> None:
        try:
            if target.exists():
                _check_same(part, target)
            else:
                _link(part, target)
        except OSError as error:
            raise StorageError(f"parquet sink: cannot publish {target}: {error}") from error


def visible_name(step: str, handle: SinkHandle, epoch: Epoch, place: tuple[int, int]) -> str:
    """Return the name under which a part is visible; ``place`` is (cut, part)."""
    task = f"{handle.task.stage:03d}.{handle.task.worker:04d}.{handle.task.slot:04d}"
    return f"{epoch:012d}-{step}-{task}-{place[0]:06d}-{place[1]:04d}{VISIBLE_SUFFIX}"


def _link(part: Staged, target: Path) -> None:
    try:
        if part.path.stat().st_size != part.size:
            raise StateError(f"parquet sink: staged file {part.path} is not the one committed")
        os.link(part.path, target)
    except FileNotFoundError as error:
        raise StateError(
            f"parquet sink: {target.name} is committed but neither it nor its staged file"
            f" {part.path} is there: restore one, or give restore.unpublished: Drop to lose it"
        ) from error
    except FileExistsError:
        _check_same(part, target)  # another worker was quicker
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        part.path.rename(target)  # nobody else makes this name, and it was not there


def _check_same(part: Staged, target: Path) -> None:
    if target.stat().st_size == part.size and hash_file(target) == part.sha256:
        return
    raise StateError(
        f"parquet sink: {target} exists and is not the committed output: somebody else writes to"
        " this folder; move that file away and start again"
    )


def claim(output: Path, staging: Path, job_uid: str, fresh: bool) -> None:
    """Note in the staging folder whose output this is, or refuse a folder in use."""
    staging.mkdir(parents=True, exist_ok=True)
    owner = staging / OWNER
    if _owner_of(owner) == job_uid:
        return
    found = sorted(p.name for p in output.iterdir() if p.name.endswith(VISIBLE_SUFFIX))
    if fresh and found:
        raise ConfigError(
            f"parquet sink: output folder {output} already holds {len(found)} Parquet files that"
            f" this job did not write ({found[0]} …): name an empty folder, or remove them"
        )
    if fresh:
        # Only what another job staged: workers claim at the same moment, each with a file below.
        remove_all(staging.glob(f"*{STAGED_SUFFIX}"))
    temporary = staging / f"{OWNER}.{uuid.uuid4().hex}"
    temporary.write_text(json.dumps({"job_uid": job_uid}))
    temporary.replace(owner)


def _owner_of(owner: Path) -> str | None:
    try:
        found = json.loads(owner.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return str(found.get("job_uid"))
