"""The numbers and names that travel: each has one meaning and a type of its own.

``Term``, ``Attempt`` and ``Version`` are three separate numbers: leadership, rollback,
assignment. ``Epoch`` numbers checkpoints and rises for ever.
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
        """Hash in one call: the hot path looks channels and tasks up for every batch."""
        return hash((self.stage, self.worker, self.slot))

    def __str__(self) -> str:
        """Spell the task as ``stage.worker.slot``; :func:`parse_task` reads it back."""
        return f"{self.stage}.{self.worker}.{self.slot}"


def parse_task(text: str) -> TaskId:
    """Read what ``str(TaskId)`` wrote. Raises ValueError on anything else."""
    stage, worker, slot = text.split(".")
    return TaskId(StageIndex(int(stage)), Ordinal(int(worker)), int(slot))


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
