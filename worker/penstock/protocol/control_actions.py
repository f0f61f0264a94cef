"""The actions that the cores order from a keeper's shell. Each names the event that answers it.

The shell begins the actions of one step in their order. No action blocks the core: an answer comes
as an event.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.contract.control_messages import Command, Envelope, MembersFile
from penstock.contract.ids import BlobName, Epoch, Incarnation, Ordinal, Term
from penstock.contract.latest import Latest
from penstock.contract.manifest import BlobRef, RootManifest

# --- Lease ------------------------------------------------------------------------------------


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


# --- The object -latest -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadLatest:
    """Read the object from the store itself, after now: LatestRead or LatestUnreadable."""

    token: int


@dataclass(frozen=True, slots=True)
class SwapLatest:
    """Replace exactly ``version``: SwapDone, SwapConflicted or SwapUnknown with the new swap id."""

    latest: Latest
    version: str


# --- Files ------------------------------------------------------------------------------------


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


# --- Messages ---------------------------------------------------------------------------------


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


# --- The engine of this worker ----------------------------------------------------------------


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
