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

DROP = "give restore.unpublished: Drop to give this output up"


@dataclass(frozen=True, slots=True)
class OutputMarker:
    """What a target holds: up to where the output of a sink task is visible."""

    epoch: Epoch
    digest: str
    blocks: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be visible: all ``blocks`` of an epoch.

    ``known`` is an epoch that the target's marker had reached when the output was prepared.
    """

    epoch: Epoch
    digest: str
    blocks: int
    known: Epoch


def visible_blocks(found: OutputMarker | None, wanted: Wanted, where: str) -> int:
    """Return how many blocks of ``wanted`` are visible. ``where`` names the target in errors.

    Raises StateError when the marker was lost, because then it is not known; and when it is ahead, because then
    the target has output of a line of epochs that this job does not know.
    """
    if found is None or found.epoch < wanted.known:
        has = "it is gone" if found is None else f"it says epoch {found.epoch}"
        raise StateError(
            f"{where}: its marker was at epoch {wanted.known}, and now {has}: the output or its marker was removed, or"
            f" the marker has expired, so nobody knows whether epoch {wanted.epoch} is visible; look at the output,"
            f" then {DROP}"
        )
    if found.epoch < wanted.epoch:
        return 0
    if found.epoch == wanted.epoch and found.digest == wanted.digest:
        return found.blocks
    raise StateError(
        f"{where}: its marker says epoch {found.epoch}, and the job wants to publish other output as epoch"
        f" {wanted.epoch}: the job's state is older than the output, or another job uses the same names; restore the"
        f" newest state, or {DROP}"
    )
