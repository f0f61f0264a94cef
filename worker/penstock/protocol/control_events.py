"""The events that a keeper's shell gives to the cores: outcomes of actions, messages, time.

Every action that asks for something is answered by exactly one event of this module, unless the
process dies. An unknown outcome (a lost reply) has an event of its own. An answer carries the
``token``, the name or the swap id of its action. A core drops an answer that it does not wait for.
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
    """Time has passed. It is due at ``wakes_at()`` and harmless at any other moment."""


@dataclass(frozen=True, slots=True)
class StoreChanged:
    """A stored object may have changed. This is a hint: it may come late, twice or never."""


@dataclass(frozen=True, slots=True)
class Drain:
    """The keeper will be asked to end. Its member takes part in one more checkpoint before that."""


@dataclass(frozen=True, slots=True)
class Retire:
    """The keeper was asked to end. A leader gives the Lease up, and a member ends its engine."""


# --- Lease ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeaseRead:
    """The Lease as it was read: its holder, a text that changes with each renewal, its version."""

    token: int
    holder: str | None
    renewed: str
    duration_s: float
    version: str


@dataclass(frozen=True, slots=True)
class LeaseWritten:
    """This keeper's write of the Lease succeeded. ``version`` is the new version."""

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
    """The object as it was at some moment after ReadLatest. ``record`` None: it does not exist.

    ``uid`` is the uid of the object. An object that is created again has another one.
    """

    token: int
    record: Latest | None
    version: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class LatestUnreadable:
    """The object could not be read."""

    token: int
    reason: str


@dataclass(frozen=True, slots=True)
class SwapDone:
    """The swap was applied. ``version`` is the new version of the object."""

    swap_id: SwapId
    version: str


@dataclass(frozen=True, slots=True)
class SwapConflicted:
    """The object had another version than the swap named. The swap changed nothing."""

    swap_id: SwapId


@dataclass(frozen=True, slots=True)
class SwapUnknown:
    """The reply was lost: the swap was applied, or will be applied, or never will be.

    ``reason`` is for people.
    """

    swap_id: SwapId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DesiredRead:
    """The object -desired, whenever the shell reads it; None when it does not exist yet."""

    desired: Desired | None


# --- Files ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlobWritten:
    """The file is stored and durable."""

    ref: BlobRef


@dataclass(frozen=True, slots=True)
class BlobNotWritten:
    """The file may or may not exist. Its name must not be used again."""

    name: BlobName
    reason: str


@dataclass(frozen=True, slots=True)
class BlobRead:
    """The content of a file whose length and hash are right."""

    ref: BlobRef
    value: RootManifest | MembersFile


@dataclass(frozen=True, slots=True)
class BlobUnreadable:
    """The file could not be read. ``damaged``: it is missing, or has another content than written."""

    ref: BlobRef
    reason: str
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class BlobsListed:
    """The names in the job's directory; new files may be missing. None: the listing failed."""

    token: int
    names: tuple[BlobName, ...] | None


@dataclass(frozen=True, slots=True)
class RootFileRead:
    """The text of the file ROOT, complete or torn; None when there is no such file."""

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
    """Every file of the savepoint is durable in ``folder``. No index names the folder yet."""

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
    """The copy to ``folder`` failed, or its index. It may be tried again in another folder."""

    request: str
    folder: str
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """A savepoint's files are in this job's directory. ``root`` is its new manifest, stored."""

    token: int
    root: BlobRef
    manifest: RootManifest


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    """The manifest of the savepoint in a folder. Nothing is copied yet."""

    token: int
    manifest: RootManifest


@dataclass(frozen=True, slots=True)
class ImportFailed:
    """Reading or importing a savepoint failed. ``damaged``: another try cannot help."""

    token: int
    reason: str
    damaged: bool = False


# --- Messages ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReportArrived:
    """A report from a member's keeper has arrived; it is for the leader."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class CommandArrived:
    """A command from a leader, present or deposed, has arrived; it is for the member."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """A dial of ``address`` was refused: no process listens there. A timeout is no refusal."""

    address: str


# --- The engine of this worker ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanKnown:
    """The engine of this worker has compiled the job. The event goes to the leader's core."""

    plan: PhysicalPlan


@dataclass(frozen=True, slots=True)
class EngineReported:
    """A report of this worker's engine. The first report of an engine is EngineHello."""

    incarnation: Incarnation
    report: EngineReport


@dataclass(frozen=True, slots=True)
class EngineGone:
    """The process or the socket of the engine ended.

    ``fatal``: the code of the job does not load, and ``reason`` says why. ``known``: it was observed
    how the engine ended. ``storage``: it could not make its files, so a later start may succeed. The
    core itself knows whether it had ordered that end.
    """

    incarnation: Incarnation
    reason: str
    fatal: bool = False
    known: bool = True
    storage: bool = False


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
    Tick | StoreChanged | Drain | Retire | LatestRead | LatestUnreadable | CommandArrived | EngineReported | EngineGone
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
