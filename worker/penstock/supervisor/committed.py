"""What the newest checkpoint stands for, read from its manifest: before a run, and at its end."""

from pathlib import Path

from penstock.base.errors import PenstockError
from penstock.contract.codec import decode
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.contract.status import CommittedRows
from penstock.storage.blobs import DirectoryBlobStore


def read_manifest(storage: Path, root: BlobRef | None) -> RootManifest | None:
    """Read a checkpoint's manifest; None where there is none, or it cannot be read.

    A restore from it says what is wrong with it. Here it only gives numbers that people read.
    """
    if root is None:
        return None
    try:
        return decode(RootManifest, DirectoryBlobStore(storage).get(root))
    except PenstockError:
        return None


def committed_rows(now: RootManifest | None, before: RootManifest | None, *, known: bool) -> tuple[CommittedRows, ...]:
    """Say what is committed ``now``, and what was ``before`` this run, where that is ``known``."""
    if now is None:
        return ()
    then = {} if before is None else {r.step: r.rows for r in before.rows}
    return tuple(CommittedRows(r.step, r.rows, then.get(r.step, 0) if known else None) for r in now.rows)
