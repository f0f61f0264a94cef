"""The owner of an output folder, and which job may take the folder over. Pure.

Names of output sort by epoch, and epochs rise along a line of savepoints: a job that begins from a
savepoint goes on above its epoch. So a folder belongs to one line. A job may take a folder that is
empty, its own, or the savepoint's job's with no visible file above the savepoint. Any other folder
would get repeated rows, or rows in front of older ones. No setting accepts that.
"""

from dataclasses import dataclass

from penstock.contract.ids import Epoch, JobUid
from penstock.contract.manifest import Origin


@dataclass(frozen=True, slots=True)
class FolderContents:
    """The contents of an output folder: its owner if one is known, the files, their newest epoch.

    ``first`` is the name of one of the files.
    """

    owner: JobUid | None
    files: int = 0
    newest: Epoch = Epoch(0)
    first: str = ""


def refusal(found: FolderContents, me: JobUid, origin: Origin | None) -> str | None:
    """Return why the job ``me`` may not write to a folder, None when it may.

    ``origin`` is the savepoint that it has begun from, while it has no checkpoint of its own.
    """
    if found.owner == me or not found.files:
        return None
    if origin is None or found.owner != origin.job_uid:
        whose, remedy = "", "name an empty folder, or remove them"
        if found.owner is not None:  # that job may run, so the text does not suggest to remove them
            whose, remedy = f"; they are output of job {found.owner}", "name an empty folder"
        return f"already holds {found.files} files that this job did not write ({found.first} …){whose}: {remedy}"
    return above(found, origin)


def above(found: FolderContents, origin: Origin) -> str | None:
    """Return why a job may not write because output is newer than the savepoint ``origin``."""
    if found.newest <= origin.epoch:
        return None
    return (
        f"holds output of job {origin.job_uid} up to epoch {found.newest}, above the savepoint, "
        f"which is of epoch {origin.epoch}: rows since then would be there twice and out of order; "
        "begin from its newest savepoint, or name an empty folder"
    )
