"""What the marker of a target says about output that may be visible already. Pure.

A target that takes rows and a marker in one step keeps, for each sink task, the marker of the last step:
the epoch, a digest of what the epoch's manifest lists, and how many of its blocks are visible. A publisher
first makes sure that no other publisher of the same task goes on (the fence), then reads the marker, then
applies the rest together with the next marker. After any doubt it begins with the fence again.

    fence -> read the marker -> visible_blocks -> apply blocks and marker in one step -> done
      ^                                                              |
      +------------------- the outcome is not known -----------------+
"""

from dataclasses import dataclass

from penstock.base.errors import StateError
from penstock.contract.ids import Epoch
from penstock.contract.latest import Unpublished

PUBLISH = "restore.unpublishedSinks: {SINK: Publish} to write this output again, maybe twice"
SKIP = "restore.unpublishedSinks: {SINK: Skip} to leave such rows out"
DROP = "restore.unpublishedSinks: {SINK: Drop} to give this output up"


@dataclass(frozen=True, slots=True)
class OutputMarker:
    """What a target holds: up to where the output of a sink task is visible."""

    epoch: Epoch
    digest: str
    blocks: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be visible: all ``blocks`` of an epoch.

    ``known`` is an epoch that the target's marker had reached when the output was prepared. ``how`` is what a restore
    says of this output.
    """

    epoch: Epoch
    digest: str
    blocks: int
    known: Epoch
    how: Unpublished = Unpublished.FAIL

    @property
    def marker(self) -> OutputMarker:
        """Return the marker with which nothing is left to be done."""
        return OutputMarker(self.epoch, self.digest, self.blocks)


def visible_blocks(found: OutputMarker | None, wanted: Wanted, where: str) -> int:
    """Return how many blocks of ``wanted`` are not to be written. ``where`` names the target in errors.

    These are the visible ones. Of output that is dropped they are all: then only the marker is written.

    Raises StateError when the marker was lost, because then it is not known; and when it is ahead, because then
    the target has output of a line of epochs that this job does not know. A marker never goes back, so that an order
    to drop that comes late changes nothing.
    """
    if wanted.how is Unpublished.DROP and (found is None or found.epoch <= wanted.epoch):
        return wanted.blocks
    if found is None or found.epoch < wanted.known:
        if wanted.how is Unpublished.PUBLISH:
            return 0
        has = "it is gone" if found is None else f"it says epoch {found.epoch}"
        raise StateError(
            f"{where}: its marker was at epoch {wanted.known}, and now {has}: the output or its marker was removed, or"
            f" the marker has expired, so nobody knows whether epoch {wanted.epoch} is visible; look at the output,"
            f" then give {PUBLISH}, or {DROP}"
        )
    if found.epoch < wanted.epoch:
        return 0
    if found.epoch == wanted.epoch and found.digest == wanted.digest:
        return found.blocks
    remedy = "let the job write to another place" if found.epoch > wanted.epoch else f"give {DROP}"
    raise StateError(
        f"{where}: its marker says epoch {found.epoch}, and the job wants to publish other output as epoch"
        f" {wanted.epoch}: the job's state is older than the output, or another job uses the same names; restore the"
        f" newest state, or {remedy}"
    )
