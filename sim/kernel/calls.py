"""The calls of a process to the stores, and their replies."""

from dataclasses import dataclass

from penstock.contract.ids import BlobName, JobUid
from penstock.contract.manifest import BlobRef, Origin
from sim.kernel.faults import Verdict


@dataclass(frozen=True, slots=True)
class MetaGet:
    """Read one object."""

    name: str


@dataclass(frozen=True, slots=True)
class MetaSwap:
    """Write one object if it still has ``version``. None: the object must not exist yet."""

    name: str
    data: object
    version: str | None


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Read the lease."""


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Write the lease if it still has ``version``."""

    holder: str | None
    version: str


@dataclass(frozen=True, slots=True)
class Put:
    """Create a file exclusively and make it durable."""

    name: BlobName
    content: object


@dataclass(frozen=True, slots=True)
class Get:
    """Read a file and check it against its reference."""

    ref: BlobRef


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Read a file by its name alone."""

    name: BlobName


@dataclass(frozen=True, slots=True)
class LinkFile:
    """Create a file of a fixed name exclusively. It appears whole and durable, or not at all."""

    name: BlobName
    content: object


@dataclass(frozen=True, slots=True)
class ListFiles:
    """List the names of the job's directory, or those that begin with ``under``."""

    under: str = ""


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Remove files; a missing file is no error."""

    name: BlobName


@dataclass(frozen=True, slots=True)
class PublishFile:
    """Link staged output to its visible name."""

    staged: str
    target: str
    content: object


@dataclass(frozen=True, slots=True)
class Unstage:
    """Remove staged output."""

    staged: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """Remove the files that older attempts have staged for a sink, when its writers open."""

    sink: str
    attempt: int


@dataclass(frozen=True, slots=True)
class ClaimOutput:
    """Take the output folder for a job, which may have begun from a savepoint."""

    job: JobUid
    origin: Origin | None


MetaOp = MetaGet | MetaSwap | ReadLease | WriteLease
FileOp = Put | LinkFile | Get | ReadFile | ListFiles | DeleteFiles | PublishFile | Unstage | Sweep | ClaimOutput
Op = MetaOp | FileOp
READS = (MetaGet, ReadLease, Get, ReadFile, ListFiles)
STAGING = "_staging/"
SAVEPOINTS = "savepoints/"
ROOT_FILE = BlobName("ROOT")


@dataclass(frozen=True, slots=True)
class Call:
    """A request under way to a service. ``verdict`` was drawn when it was sent."""

    client: str
    life: int
    token: object
    op: Op
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a call. A refused claim has its reason as ``error``.

    ``error`` is empty, ``conflict``, ``failed``, ``unknown``, ``missing`` or ``damaged``.
    """

    token: object
    op: Op
    value: object = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Late:
    """An effect that happens although its caller has given it up."""

    call: Call


@dataclass(frozen=True, slots=True)
class Written:
    """The second half of a write. Until then the file exists and is torn."""

    call: Call
