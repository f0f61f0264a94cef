"""What the two cores of a keeper take and answer: the events and the actions of a leader and of a member.

A core is told of outcomes of its actions, of messages and of time, and orders actions from the
keeper's shell. The shell begins the actions of one step in their order. No action blocks the core.

Every action that asks for something names the event that answers it. Exactly one such event comes,
unless the process dies. An unknown outcome (a lost reply) has an event of its own. An answer carries
the ``token``, the name or the swap id of its action. A core drops an answer that it does not wait for.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.contract.control_messages import Command, EngineReport, Envelope, MembersFile
from penstock.contract.ids import BlobName, Epoch, Incarnation, Ordinal, SwapId, Term
from penstock.contract.latest import Desired, Latest
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.contract.plan import PhysicalPlan

# --- Events: time and life --------------------------------------------------------------------


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


# --- Events: lease ----------------------------------------------------------------------------


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


# --- Events: the object -latest, and what is desired ------------------------------------------


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


# --- Events: files ----------------------------------------------------------------------------


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


# --- Events: messages -------------------------------------------------------------------------


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


# --- Events: the engine of this worker --------------------------------------------------------


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


# --- Actions: lease ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Answered by LeaseRead or LeaseFailed."""

    token: int


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Write ``holder`` (None: free the Lease) over exactly ``version``: LeaseWritten or LeaseFailed."""

    token: int
    holder: str | None
    version: str


# --- Actions: the object -latest --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadLatest:
    """Read the object from the store itself, after now: LatestRead or LatestUnreadable."""

    token: int


@dataclass(frozen=True, slots=True)
class SwapLatest:
    """Replace exactly ``version``: SwapDone, SwapConflicted or SwapUnknown with the new swap id."""

    latest: Latest
    version: str


# --- Actions: files ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteBlob:
    """Encode and store ``value`` under a fresh name: BlobWritten or BlobNotWritten."""

    name: BlobName
    value: RootManifest | MembersFile


class BlobKind(StrEnum):
    """What a file to be read contains."""

    ROOT = "root"
    MEMBERS = "members"


@dataclass(frozen=True, slots=True)
class ReadBlob:
    """Read, check and decode: BlobRead or BlobUnreadable."""

    ref: BlobRef
    kind: BlobKind


@dataclass(frozen=True, slots=True)
class ListBlobs:
    """List the job's directory, for the cleaner only: BlobsListed."""

    token: int


@dataclass(frozen=True, slots=True)
class DeleteBlobs:
    """Remove files; a missing file is no error. No event answers: files that stay are listed again."""

    names: tuple[BlobName, ...]


@dataclass(frozen=True, slots=True)
class ReadRootFile:
    """Read the file ROOT of the job's directory: RootFileRead or RootFileFailed."""

    token: int


@dataclass(frozen=True, slots=True)
class WriteRootFile:
    """Create ROOT exclusively, durably: RootFileWritten or RootFileFailed."""

    token: int
    text: str


@dataclass(frozen=True, slots=True)
class CopySavepoint:
    """Copy every file of ``root`` durably into ``folder`` of the savepoint ``name``.

    ``folder`` belongs to this action alone, and is removed when the copy fails. Answered by
    SavepointCopied, SavepointNotCopied, or SavepointIndexed when another leader has completed it.
    """

    request: str
    name: str
    root: BlobRef
    folder: str


@dataclass(frozen=True, slots=True)
class IndexSavepoint:
    """Create the index of the savepoint ``name``, exclusively. It names ``folder``, which is durable.

    An existing index of the same ``root`` is a success, whatever folder it names. All other folders
    are then removed. Answered by SavepointIndexed or SavepointNotCopied.
    """

    request: str
    name: str
    root: BlobRef
    folder: str


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """Read the manifest of a savepoint's folder: SnapshotRead or ImportFailed."""

    token: int
    path: str


@dataclass(frozen=True, slots=True)
class ImportSnapshot:
    """Copy a savepoint's files into this job's directory: Imported or ImportFailed.

    The names of the copies and of the new manifest have ``term`` and ``epoch``. The new manifest has
    this job's uid, ``epoch`` and no handles. ``life`` and ``token`` make the names of each try
    unique. A try that fails removes its files.
    """

    token: int
    path: str
    term: Term
    epoch: Epoch
    life: Incarnation


# --- Actions: messages ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendCommand:
    """Send to the keeper of a member; a loss is no error. PeerRefused when the dial is refused."""

    ordinal: Ordinal
    address: str
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class SendReport:
    """Send to the leader's keeper; a loss is no error. PeerRefused when the dial is refused."""

    address: str
    envelope: Envelope


# --- Actions: the engine of this worker -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToEngine:
    """Pass a fenced command to the engine, with the term that its barriers get."""

    incarnation: Incarnation
    term: Term
    command: Command


@dataclass(frozen=True, slots=True)
class StartEngine:
    """Start an engine, or expect one in a cluster. EngineHello or EngineGone follows."""


@dataclass(frozen=True, slots=True)
class EndEngine:
    """End the engine now, by force if necessary. EngineGone follows."""

    incarnation: Incarnation
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """One line for the log: a change of state, with ids."""

    text: str


Action = (
    ReadLease
    | WriteLease
    | ReadLatest
    | SwapLatest
    | WriteBlob
    | ReadBlob
    | ListBlobs
    | DeleteBlobs
    | ReadRootFile
    | WriteRootFile
    | CopySavepoint
    | IndexSavepoint
    | ReadSnapshot
    | ImportSnapshot
    | SendCommand
    | SendReport
    | ToEngine
    | StartEngine
    | EndEngine
    | Note
)
