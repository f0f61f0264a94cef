"""What the cores ask a keeper's shell to do; each names the event that answers it.

Actions of one step are begun in their order. None blocks the core: an answer comes as an event.
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
    """Take, renew or give up (``holder`` None) exactly ``version``: LeaseWritten or LeaseFailed."""

    token: int
    holder: str | None
    version: str


# --- The object -latest -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadLatest:
    """Read after now, from the store itself: LatestRead or LatestUnreadable."""

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
    """List the job's directory, for collection only: BlobsListed."""

    token: int


@dataclass(frozen=True, slots=True)
class DeleteBlobs:
    """Remove files; missing ones are no error. Unanswered: what stays is found again."""

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

    ``folder`` belongs to this action alone; when the copy fails it is removed. Answered by
    SavepointCopied, SavepointNotCopied, or SavepointIndexed when another has finished it.
    """

    request: str
    name: str
    root: BlobRef
    folder: str


@dataclass(frozen=True, slots=True)
class IndexSavepoint:
    """Link the index of the savepoint ``name`` to ``folder``, exclusively; all in it is durable.

    An index of the same ``root`` is success, whatever folder it names; then all other folders go.
    Answered by SavepointIndexed or SavepointNotCopied.
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

    The copies and the new manifest are named with ``term`` and ``epoch``; the new manifest has
    this job's uid, ``epoch`` and no handles. ``life`` and ``token`` make the names of each try its
    own; what a failed try has written is removed.
    """

    token: int
    path: str
    term: Term
    epoch: Epoch
    life: Incarnation


# --- Messages ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendCommand:
    """To the keeper of a member; lost is no error. PeerRefused when nobody listens there."""

    ordinal: Ordinal
    address: str
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class SendReport:
    """To the leader's keeper; lost is no error. PeerRefused when nobody listens there."""

    address: str
    envelope: Envelope


# --- The engine of this worker ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToEngine:
    """Pass a fenced command on, with the term under which barriers are to be named."""

    incarnation: Incarnation
    term: Term
    command: Command


@dataclass(frozen=True, slots=True)
class StartEngine:
    """Start an engine (in a cluster: expect one); its hello, or EngineGone, follows."""


@dataclass(frozen=True, slots=True)
class EndEngine:
    """End the engine now, if need be by force; EngineGone follows."""

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
