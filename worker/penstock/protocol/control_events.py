"""What a keeper's shell tells the cores: outcomes of actions, messages, time.

Every action that asks for something is answered by exactly one event of this module, unless the
process dies. ``unknown`` outcomes (a lost reply) have an event of their own. An answer carries
the ``token``, name or swap id of its action; cores drop answers they no longer wait for.
"""

from dataclasses import dataclass

from penstock.contract.control_messages import Command, EngineReport, Envelope, MembersFile
from penstock.contract.ids import BlobName, Incarnation, SwapId
from penstock.contract.latest import Desired, Latest
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.contract.plan import PhysicalPlan

# --- Time and life ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; due at ``wakes_at()``, harmless at any other moment."""


@dataclass(frozen=True, slots=True)
class StoreChanged:
    """What is stored may be another than it was; a hint, that may come late, twice or never."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The keeper will be asked to end: its member takes part in one more checkpoint before."""


@dataclass(frozen=True, slots=True)
class Retire:
    """The keeper was asked to end: a leader gives its Lease up, a member ends its engine."""


# --- Lease ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaseRead:
    """The Lease as it was: who holds it, a text that changes with each renewal, its version."""

    token: int
    holder: str | None
    renewed: str
    duration_s: float
    version: str


@dataclass(frozen=True, slots=True)
class LeaseWritten:
    """Our write of the Lease was done; ``version`` is the new one."""

    token: int
    version: str


@dataclass(frozen=True, slots=True)
class LeaseFailed:
    """A read or write of the Lease failed, met a conflict, or its outcome is unknown."""

    token: int
    reason: str


# --- The object -latest, and what is desired --------------------------------------------------


@dataclass(frozen=True, slots=True)
class LatestRead:
    """The object as it was at some moment after its ReadLatest; ``record`` None: there is none.

    ``uid`` is the object's own, which another creation of it would not have.
    """

    token: int
    record: Latest | None
    version: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class LatestUnreadable:
    """The store did not answer."""

    token: int
    reason: str


@dataclass(frozen=True, slots=True)
class SwapDone:
    """The swap was applied; ``version`` is the object's new one."""

    swap_id: SwapId
    version: str


@dataclass(frozen=True, slots=True)
class SwapConflicted:
    """The object had another version than the swap named; the swap changed nothing."""

    swap_id: SwapId


@dataclass(frozen=True, slots=True)
class SwapUnknown:
    """The reply was lost: the swap was applied, or will be, or never. ``reason`` is for people."""

    swap_id: SwapId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DesiredRead:
    """What is wanted, whenever the shell reads it; None when there is no such object yet."""

    desired: Desired | None


# --- Files ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlobWritten:
    """The file is stored and durable."""

    ref: BlobRef


@dataclass(frozen=True, slots=True)
class BlobNotWritten:
    """The file may or may not exist; its name is burnt."""

    name: BlobName
    reason: str


@dataclass(frozen=True, slots=True)
class BlobRead:
    """The content of a file whose length and hash were right."""

    ref: BlobRef
    value: RootManifest | MembersFile


@dataclass(frozen=True, slots=True)
class BlobUnreadable:
    """The file could not be read; ``damaged``: it is missing or not the one that was written."""

    ref: BlobRef
    reason: str
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class BlobsListed:
    """Names of the job's directory; new ones may be missing. None: listing failed."""

    token: int
    names: tuple[BlobName, ...] | None


@dataclass(frozen=True, slots=True)
class RootFileRead:
    """The text of the file ROOT, complete or not; None when there is no such file."""

    token: int
    text: str | None


@dataclass(frozen=True, slots=True)
class RootFileWritten:
    """ROOT was created exclusively."""

    token: int


@dataclass(frozen=True, slots=True)
class RootFileFailed:
    """Reading or creating ROOT failed, or its outcome is unknown."""

    token: int
    reason: str


@dataclass(frozen=True, slots=True)
class SavepointCopied:
    """Every file of the savepoint is durable in ``folder``, which nothing names yet."""

    request: str
    folder: str


@dataclass(frozen=True, slots=True)
class SavepointIndexed:
    """The savepoint is complete at ``path``, from the copy in ``folder`` or an equal one."""

    request: str
    folder: str
    path: str


@dataclass(frozen=True, slots=True)
class SavepointNotCopied:
    """The copy to ``folder``, or its index, failed; it may be tried again in another folder."""

    request: str
    folder: str
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """A savepoint's files are in this job's directory; ``root`` is its new, stored manifest."""

    token: int
    root: BlobRef
    manifest: RootManifest


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    """The manifest of the savepoint in a folder, nothing copied yet."""

    token: int
    manifest: RootManifest


@dataclass(frozen=True, slots=True)
class ImportFailed:
    """Reading or importing a savepoint failed; ``damaged``: trying again cannot help."""

    token: int
    reason: str
    damaged: bool = False


# --- Messages ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportArrived:
    """A report of a member's keeper, for whoever leads here."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class CommandArrived:
    """A command of some leader, for the member here."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """Nobody listens at ``address`` any more: a dial was refused (a timeout is no refusal)."""

    address: str


# --- The engine of this worker ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanKnown:
    """The own engine has compiled the job; told to the coordinator."""

    plan: PhysicalPlan


@dataclass(frozen=True, slots=True)
class EngineReported:
    """A report of the own engine; the first one of its life is EngineHello."""

    incarnation: Incarnation
    report: EngineReport


@dataclass(frozen=True, slots=True)
class EngineGone:
    """The engine's process or socket ended. ``fatal``: its code does not load, say why.

    ``known``: somebody saw how it ended; the core itself knows whether it had asked for that.
    """

    incarnation: Incarnation
    reason: str
    fatal: bool = False
    known: bool = True


CoordinatorEvent = (
    Tick
    | Retire
    | LeaseRead
    | LeaseWritten
    | LeaseFailed
    | LatestRead
    | LatestUnreadable
    | SwapDone
    | SwapConflicted
    | SwapUnknown
    | DesiredRead
    | BlobWritten
    | BlobNotWritten
    | BlobRead
    | BlobUnreadable
    | BlobsListed
    | RootFileRead
    | RootFileWritten
    | RootFileFailed
    | SavepointCopied
    | SavepointIndexed
    | SavepointNotCopied
    | SnapshotRead
    | Imported
    | ImportFailed
    | ReportArrived
    | PeerRefused
    | PlanKnown
)
MemberEvent = (
    Tick
    | StoreChanged
    | Drain
    | Retire
    | LatestRead
    | LatestUnreadable
    | CommandArrived
    | EngineReported
    | EngineGone
)

__all__ = [
    "BlobNotWritten",
    "BlobRead",
    "BlobUnreadable",
    "BlobWritten",
    "BlobsListed",
    "Command",
    "CommandArrived",
    "CoordinatorEvent",
    "DesiredRead",
    "Drain",
    "EngineGone",
    "EngineReported",
    "ImportFailed",
    "Imported",
    "LatestRead",
    "LatestUnreadable",
    "LeaseFailed",
    "LeaseRead",
    "LeaseWritten",
    "MemberEvent",
    "PeerRefused",
    "PlanKnown",
    "ReportArrived",
    "Retire",
    "RootFileFailed",
    "RootFileRead",
    "RootFileWritten",
    "SavepointCopied",
    "SavepointIndexed",
    "SavepointNotCopied",
    "SnapshotRead",
    "StoreChanged",
    "SwapConflicted",
    "SwapDone",
    "SwapUnknown",
    "Tick",
]
