"""The owner of an output folder: one line of jobs, whose epochs rise."""

import pytest

from penstock.contract.ids import Epoch, JobUid
from penstock.contract.manifest import Origin
from penstock.protocol.output_folder import FolderContents, refusal

ME, PARENT, OTHER = JobUid("me"), JobUid("parent"), JobUid("other")
SAVEPOINT = Origin(PARENT, Epoch(40))


@pytest.mark.parametrize(
    ("owner", "newest", "origin"),
    [
        (None, 0, None),
        (OTHER, 0, None),
        (OTHER, 0, SAVEPOINT),
        (ME, 99, None),
        (ME, 99, SAVEPOINT),
        (PARENT, 39, SAVEPOINT),
        (PARENT, 40, SAVEPOINT),
    ],
)
def test_a_folder_is_taken(owner: JobUid | None, newest: int, origin: Origin | None) -> None:
    found = FolderContents(owner, 1 if newest else 0, Epoch(newest), "file")
    assert refusal(found, ME, origin) is None


@pytest.mark.parametrize(
    ("owner", "newest", "origin", "text"),
    [
        (None, 3, None, "1 files that this job did not write (file …): name an empty"),
        (None, 3, SAVEPOINT, "that this job did not write"),
        (OTHER, 3, None, "they are output of job other"),
        (OTHER, 3, SAVEPOINT, "they are output of job other"),
        (PARENT, 3, None, "they are output of job parent"),
        (PARENT, 41, SAVEPOINT, "up to epoch 41, above the savepoint, which is of epoch 40"),
    ],
)
def test_a_folder_is_refused(owner: JobUid | None, newest: int, origin: Origin | None, text: str) -> None:
    why = refusal(FolderContents(owner, 1, Epoch(newest), "file"), ME, origin)
    assert why is not None
    assert text in why
    assert "empty folder" in why, "the remedy"
