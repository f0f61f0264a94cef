"""What a reconcile decides: actions in order, a status, events. The shell stops at a failure.

Each action is safe to repeat and safe to leave out: the next reconcile decides anew from what is
there. One that could do harm on an old view names the version or uid that it is based on, and
the API server refuses it when that has changed.
"""

from dataclasses import dataclass, field

from penstock.contract.latest import Desired
from penstock.contract.streamjob_status import StreamJobStatus
from penstock.contract.streamsnapshot import SnapshotStatus
from penstock_operator.api.plain import Object


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply; ``applied`` is the hash that is kept beside the object.

    It must be the object of ``uid`` (empty: none may be there), as which an apply by itself does
    not look; ``version``, where given, must still be the newest.
    """

    manifest: Object
    applied: str
    version: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """Create; that it exists already is no error where it is this job's own."""

    manifest: Object


@dataclass(frozen=True, slots=True)
class Scale:
    """Set the StatefulSet's replicas and turn, if ``version`` is still its newest."""

    replicas: int
    turn: int
    version: str


@dataclass(frozen=True, slots=True)
class WriteDesired:
    """Write ``{job}-desired``: over ``version``, or as a new object where that is empty."""

    value: Desired
    turn: int
    latest_uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Archive:
    """Copy the -latest of another uid to its archive, then delete it; both by ``uid``."""

    job_uid: str
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object of this very ``uid``; that it is gone is no error.

    ``now`` ends a pod without its grace period: only for a worker that is lost.
    """

    kind: str
    name: str
    uid: str
    now: bool = False


@dataclass(frozen=True, slots=True)
class WriteAuthority:
    """Write ``{secret}-ca`` over ``version`` (empty: it is not there yet).

    It keeps the authorities of these names, and the keys of those that go on ``signing``. ``grow``
    adds a new authority with its key. What is not in it is taken from ``{secret}``, the workers'
    key among it, and made where that is not there either.
    """

    secret: str
    version: str
    line: int
    keep: tuple[str, ...]
    signing: tuple[str, ...]
    grow: bool


@dataclass(frozen=True, slots=True)
class WriteCertificates:
    """Write ``secret`` over ``version`` (empty: it is not there yet), from ``{secret}-ca``.

    It believes all authorities of that. ``signer`` signs a new certificate (empty: the newest);
    None keeps the one that is there.
    """

    secret: str
    version: str
    line: int
    signer: str | None


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Have the StreamJob (``snapshot`` empty) or a StreamSnapshot carry our finalizer, or not."""

    present: bool
    snapshot: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class WriteSnapshotStatus:
    """Write the status of one StreamSnapshot, over ``version``: an old view undoes no answer."""

    name: str
    status: SnapshotStatus
    version: str


Action = (
    Apply
    | Create
    | Scale
    | WriteDesired
    | Archive
    | Delete
    | WriteAuthority
    | WriteCertificates
    | SetFinalizer
    | WriteSnapshotStatus
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that people should hear once: a Kubernetes Event with a fixed reason.

    It is about the StreamJob, or about the StreamSnapshot of that name.
    """

    reason: str
    message: str
    warning: bool = False
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """``status`` is written before the actions when ``status_first``: a target before its effects.

    - ``shows``: nothing is done, and the status differs in what changes by itself: it may wait,
      and be left out.
    - ``again_s``: reconcile again after so long, although nothing happens until then.
    """

    actions: tuple[Action, ...] = ()
    status: StreamJobStatus | None = None
    status_first: bool = False
    shows: bool = False
    events: tuple[Event, ...] = ()
    again_s: float | None = None


@dataclass(slots=True)
class DecisionBuilder:
    """A decision being made: the modules of this package add to it in turn."""

    actions: list[Action] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    again_s: float | None = None

    def do(self, action: Action) -> None:
        """Add an action; order matters."""
        self.actions.append(action)

    def tell(self, reason: str, message: str, *, warning: bool = False, snapshot: str = "") -> None:
        """Add an event."""
        self.events.append(Event(reason, message, warning, snapshot))

    def again(self, after_s: float) -> None:
        """Ask to be called again; the soonest wish counts."""
        wished = max(after_s, 0.05)
        self.again_s = wished if self.again_s is None else min(self.again_s, wished)
