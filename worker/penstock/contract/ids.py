"""The numbers and names that travel, and the names of stored files.

``Term``, ``Attempt`` and ``Version`` are three separate numbers: leadership, rollback and
assignment. ``Epoch`` numbers checkpoints and only rises. Each of them has a type of its own.

A stored file is named ``<term>-<epoch>-<incarnation>-<n>`` and a suffix. The epoch in a name is
that of the only manifest that may list the file first. The incarnation is a UUID of one life of an
engine or keeper, so two lives never write the same name, and no name is used twice.
"""

from dataclasses import dataclass
from typing import NewType

from penstock.contract.codec import Message

Term = NewType("Term", int)
Attempt = NewType("Attempt", int)
Version = NewType("Version", int)
Epoch = NewType("Epoch", int)
Ordinal = NewType("Ordinal", int)
KeyGroup = NewType("KeyGroup", int)
StageIndex = NewType("StageIndex", int)
Incarnation = NewType("Incarnation", str)  # UUID of one life of one worker's engine
JobUid = NewType("JobUid", str)
SplitId = NewType("SplitId", str)
SwapId = NewType("SwapId", str)
BlobName = NewType("BlobName", str)  # relative to the job's directory, "/" between parts

NO_EPOCH = Epoch(0)  # no checkpoint yet; the first one is 1
NO_TERM = Term(0)


class TaskId(Message, tag="TaskId", order=True):
    """One parallel instance of a stage. It lives and dies on one worker.

    ``slot`` counts the tasks of one stage on one worker: a rescale adds or removes tasks at the
    workers that come or go, and no task ever changes its worker.
    """

    stage: StageIndex
    worker: Ordinal
    slot: int

    def __hash__(self) -> int:
        """Hash the fields alone, in one call: the hot path looks tasks up for every batch.

        The hash of msgspec holds the address of the class. With it, the order of a set would
        differ between two runs of the simulator with one seed.
        """
        return hash((self.stage, self.worker, self.slot))

    def __str__(self) -> str:
        """Spell the task as ``stage.worker.slot``."""
        return f"{self.stage}.{self.worker}.{self.slot}"


@dataclass(frozen=True, slots=True, order=True)
class ChannelId:
    """Sender task to receiver task over one edge of the plan: one stream, one queue, one credit."""

    edge: int
    sender: TaskId
    receiver: TaskId

    def __hash__(self) -> int:
        """Hash in one call, not in one for each of the tasks as well."""
        s, r = self.sender, self.receiver
        return hash((self.edge, s.stage, s.worker, s.slot, r.stage, r.worker, r.slot))

    def __str__(self) -> str:
        """Spell the channel as ``edge:sender>receiver``."""
        return f"{self.edge}:{self.sender}>{self.receiver}"


MEMBERS_SUFFIX = ".members.json"
ROOT_SUFFIX = ".root.json"


@dataclass(frozen=True, slots=True)
class NameParts:
    """The parts of a name that the cleaner needs; ``members``: it is a members file."""

    term: Term
    epoch: Epoch
    members: bool


def blob_name(term: Term, epoch: Epoch, life: "Incarnation", number: int, suffix: str) -> BlobName:
    """Spell the name of a new file; ``number`` counts the files of this ``life``."""
    return BlobName(f"{term}-{epoch}-{life}-{number}{suffix}")


def parse_name(name: BlobName) -> NameParts | None:
    """Read a name; None when it is not ours, and so never to be deleted."""
    parts = name.rsplit("/", 1)[-1].split("-", 2)
    if len(parts) < 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    return NameParts(Term(int(parts[0])), Epoch(int(parts[1])), name.endswith(MEMBERS_SUFFIX))
