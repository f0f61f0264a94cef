"""What keepers, and a keeper and its engine, say to each other.

Every message travels in an :class:`Envelope` with the term of its sender; a receiver refuses a
lower term. Everything is level-triggered: :class:`Heartbeat` repeats all that a leader must know,
and the leader repeats each command until a heartbeat shows its effect, so a lost message is
repaired by the next one and a repeated one does no harm. Data never travels here.
"""

from penstock.contract.codec import Message
from penstock.contract.commands import (
    Abort,
    Adopt,
    Announce,
    CancelRescale,
    Command,
    Commit,
    EndStreams,
    Enumerate,
    Hurry,
    Inject,
    Prepare,
    Publish,
    Reset,
    Settled,
    Shutdown,
    StageSplits,
    Start,
)
from penstock.contract.ids import Attempt, JobUid, Ordinal, Term
from penstock.contract.latest import Member
from penstock.contract.plan import Assignment
from penstock.contract.reports import (
    Broken,
    CheckpointWanted,
    Confirm,
    EngineHello,
    EngineLost,
    EngineReport,
    EngineStatus,
    EpochFailed,
    Heartbeat,
    PublishFailed,
    Report,
    Splits,
    Suspect,
    TaskAck,
)


class Envelope(Message, tag="Envelope"):
    """A command or report with the job, the sender's term and its ordinal."""

    job_uid: JobUid
    term: Term
    sender: Ordinal
    body: Command | Report


class MembersFile(Message, tag="MembersFile"):
    """What ``Latest.members`` names: all that a new leader needs to go on with an attempt.

    ``members`` in order of ordinals, joiners of a proposed table included. ``proposed`` holds once
    ``Latest.version`` is its version; ``assignment`` until then. ``splits`` are the first states
    of sources that no checkpoint knows. ``plan`` is the fingerprint of the plan that all run.
    """

    attempt: Attempt
    members: tuple[Member, ...]
    assignment: Assignment
    proposed: Assignment | None = None
    splits: tuple["StageSplits", ...] = ()
    plan: str = ""


__all__ = [
    "Abort",
    "Adopt",
    "Announce",
    "Broken",
    "CancelRescale",
    "CheckpointWanted",
    "Command",
    "Commit",
    "Confirm",
    "EndStreams",
    "EngineHello",
    "EngineLost",
    "EngineReport",
    "EngineStatus",
    "Enumerate",
    "Envelope",
    "EpochFailed",
    "Heartbeat",
    "Hurry",
    "Inject",
    "MembersFile",
    "Prepare",
    "Publish",
    "PublishFailed",
    "Report",
    "Reset",
    "Settled",
    "Shutdown",
    "Splits",
    "StageSplits",
    "Start",
    "Suspect",
    "TaskAck",
]
