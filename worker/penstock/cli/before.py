"""What is left of a job's runs before, as far as its folder tells; nothing may run meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from penstock.base.errors import PeerError
from penstock.cli.record import JobRecord, read_record
from penstock.cluster.launch import latest_name
from penstock.contract.latest import Latest, decode_latest
from penstock.contract.manifest import RootManifest
from penstock.storage.lock import DirectoryLock
from penstock.storage.sqlite import Database, SqliteMetaStore
from penstock.supervisor.committed import read_manifest
from penstock.supervisor.folders import JobFolder


@dataclass(frozen=True, slots=True)
class Before:
    """``latest`` and ``root`` are the truth of the runs before, ``record`` what ran then.

    ``committed_at`` is when the newest checkpoint was written, as its file says.
    """

    latest: Latest
    root: RootManifest | None
    record: JobRecord | None
    committed_at: datetime | None

    def since(self) -> str:
        """Say when the newest checkpoint was committed, or the job finished."""
        at = self.committed_at
        if self.record is not None and self.record.finished_us is not None:
            at = datetime.fromtimestamp(self.record.finished_us / 1e6).astimezone()
        return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


@contextmanager
def held(directory: Path, job: str, namespace: str) -> Iterator[JobFolder]:
    """Hold a job's folder, so that nobody runs it. Raises BusyError when somebody does."""
    folder = JobFolder.make(directory, job, namespace)
    lock = DirectoryLock(folder.root, f"job {job!r}")
    try:
        yield folder
    finally:
        lock.release()


def read_before(folder: JobFolder) -> Before | None:
    """Read what is left of earlier runs; None when there was none, or nothing can be read.

    Raises StateError when the metadata is damaged. ``folder`` is held.
    """
    if not folder.database.exists():
        return None
    database = Database(folder.database)
    try:
        found = SqliteMetaStore(database).get(latest_name(folder.job))
        latest = None if found is None else decode_latest(found.data)
    except PeerError:
        return None  # of another version: whoever runs it says so
    finally:
        database.close()
    if latest is None:
        return None
    storage = folder.storage(latest.job_uid)
    root = read_manifest(storage, latest.root)
    at = None
    if root is not None and latest.root is not None:
        written = (storage / latest.root.name).stat().st_mtime
        at = datetime.fromtimestamp(written).astimezone()
    return Before(latest, root, read_record(folder.root), at)
