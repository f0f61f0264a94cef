"""The calls of simulated processes to the stores, and the replies.

The stores are the metadata store (``-latest`` and others, the Lease) and the shared directory. A call
carries one operation. Its process gets one :class:`Reply` with the token of the call.
"""

from dataclasses import dataclass

from penstock.contract.ids import BlobName, JobUid
from penstock.contract.manifest import BlobRef, Origin
from sim.kernel.faults import Verdict


@dataclass(frozen=True, slots=True)
class MetaGet:
    """Read one object of the metadata store."""

    name: str


@dataclass(frozen=True, slots=True)
class MetaSwap:
    """Write one object if its version is still ``version``. None: the object must not exist yet."""

    name: str
    data: object
    version: str | None


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Read the lease."""


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Write the lease if its version is still ``version``. ``holder`` None frees the lease."""

    holder: str | None
    version: str


@dataclass(frozen=True, slots=True)
class Put:
    """Create a file, which must not exist yet, and make it durable. A crash can leave it torn."""

    name: BlobName
    content: object


@dataclass(frozen=True, slots=True)
class Get:
    """Read a file and check its content against the hash in ``ref``."""

    ref: BlobRef


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Read a file by its name, without a check of its content."""

    name: BlobName


@dataclass(frozen=True, slots=True)
class LinkFile:
    """Create a file with a fixed name, which must not exist yet. It appears whole and durable, or not at all."""

    name: BlobName
    content: object


@dataclass(frozen=True, slots=True)
class ListFiles:
    """List the names of files in the job's directory that begin with ``under``."""

    under: str = ""


@dataclass(frozen=True, slots=True)
class DeleteFiles:
    """Remove one file. A missing file is no error."""

    name: BlobName


@dataclass(frozen=True, slots=True)
class PublishFile:
    """Make the staged output visible under the name ``target``."""

    staged: str
    target: str
    content: object


@dataclass(frozen=True, slots=True)
class PublishTable:
    """Make staged output visible by one commit of a table, which keeps the epoch and what the commit has added."""

    table: str
    epoch: int
    files: tuple[PublishFile, ...]


@dataclass(frozen=True, slots=True)
class Unstage:
    """Remove one staged file."""

    staged: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """Remove the files that attempts older than ``attempt`` have staged for a sink (None: for every one)."""

    sink: str | None
    attempt: int


@dataclass(frozen=True, slots=True)
class ClaimOutput:
    """Make a job the owner of the output folder. ``origin``: the savepoint that it began from."""

    job: JobUid
    origin: Origin | None


MetaOp = MetaGet | MetaSwap | ReadLease | WriteLease
FileOp = (
    Put
    | LinkFile
    | Get
    | ReadFile
    | ListFiles
    | DeleteFiles
    | PublishFile
    | PublishTable
    | Unstage
    | Sweep
    | ClaimOutput
)
Op = MetaOp | FileOp
READS = (MetaGet, ReadLease, Get, ReadFile, ListFiles)
STAGING = "_staging/"
SAVEPOINTS = "savepoints/"
ROOT_FILE = BlobName("ROOT")


@dataclass(frozen=True, slots=True)
class Call:
    """A call on its way to a store.

    ``client`` and ``life`` identify the process that called. ``verdict`` is the fate of the call. It was
    drawn when the call was sent.
    """

    client: str
    life: int
    token: object
    op: Op
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a call.

    ``error`` is empty, ``conflict``, ``failed``, ``unknown``, ``missing`` or ``damaged``. The error of a
    refused :class:`ClaimOutput` is the text of the reason.
    """

    token: object
    op: Op
    value: object = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Late:
    """A call that takes effect after its caller has stopped waiting for the reply."""

    call: Call


@dataclass(frozen=True, slots=True)
class Written:
    """The end of a write. Between its start and its end, the file exists and is torn."""

    call: Call
