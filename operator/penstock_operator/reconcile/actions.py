"""What a reconcile decides: actions in order, a status, events. The shell stops at a failure.

Each action may be repeated, and each may be left out: the next reconcile decides again from what
exists. An action that could do harm after a stale read names the version or uid that it is based
on. The API server refuses it when the object has changed.
"""

from dataclasses import dataclass, field

from penstock.contract.latest import Desired
from penstock.contract.streamjob_status import StreamJobStatus
from penstock.contract.streamsnapshot import SnapshotStatus
from penstock_operator.api.plain import Object


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply. ``applied`` is the hash that is kept as an annotation.

    The object must have this ``uid``; with an empty one it must not exist. An apply alone does not
    check that. If a ``version`` is given, it must still be the newest.
    """

    manifest: Object
    applied: str
    version: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object. It is no error if it exists already and belongs to this job."""

    manifest: Object


@dataclass(frozen=True, slots=True)
class Scale:
    """Set the replicas and the fence of the StatefulSet, if ``version`` is still the newest."""

    replicas: int
    fence: int
    version: str


@dataclass(frozen=True, slots=True)
class WriteDesired:
    """Write ``{job}-desired`` over ``version``, or create it when the version is empty."""

    value: Desired
    fence: int
    latest_uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Archive:
    """Copy the -latest of the earlier job ``job_uid`` to its archive, then delete it by ``uid``."""

    job_uid: str
    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object with this ``uid``. It is no error if it does not exist.

    ``now`` deletes a pod without its grace period. It is only for a worker that is lost.
    """

    kind: str
    name: str
    uid: str
    now: bool = False


@dataclass(frozen=True, slots=True)
class WriteAuthority:
    """Write ``{secret}-ca`` over ``version`` (empty: it does not exist yet).

    - ``keep``: the names of the authorities that stay.
    - ``signing``: the names of those whose keys stay too.
    - ``grow``: add a new authority with its key.

    What ``{secret}-ca`` lacks is taken from ``{secret}``, and is created if that lacks it too. This
    includes the key of the workers.
    """

    secret: str
    version: str
    line: int
    keep: tuple[str, ...]
    signing: tuple[str, ...]
    grow: bool


@dataclass(frozen=True, slots=True)
class WriteCertificates:
    """Write ``secret`` over ``version`` (empty: it does not exist yet), from ``{secret}-ca``.

    It gets all authorities of ``{secret}-ca`` as trusted. ``signer`` names the authority that signs
    a new certificate (empty: the newest one); None keeps the present certificate.
    """

    secret: str
    version: str
    line: int
    signer: str | None


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Add or remove our finalizer: of the StreamJob, or of the StreamSnapshot of this name."""

    present: bool
    snapshot: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class WriteSnapshotStatus:
    """Write the status of one StreamSnapshot over ``version``: a stale read overwrites nothing."""

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
    """A Kubernetes Event with a fixed reason, about the StreamJob or the named StreamSnapshot."""

    reason: str
    message: str
    warning: bool = False
    snapshot: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of one reconcile.

    - ``status``: the new status; None when it does not change.
    - ``status_first``: write the status before the actions, because it announces them.
    - ``status_may_wait``: there are no actions, and only progress (epochs, rows) changes in the status. This
      write may wait, and may be left out.
    - ``again_s``: reconcile again after this time even if no event arrives.
    """

    actions: tuple[Action, ...] = ()
    status: StreamJobStatus | None = None
    status_first: bool = False
    status_may_wait: bool = False
    events: tuple[Event, ...] = ()
    again_s: float | None = None


@dataclass(slots=True)
class DecisionBuilder:
    """Collects the actions and events of a decision while the steps of a reconcile run."""

    actions: list[Action] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    again_s: float | None = None

    def do(self, action: Action) -> None:
        """Add an action. The actions are performed in this order."""
        self.actions.append(action)

    def tell(self, reason: str, message: str, *, warning: bool = False, snapshot: str = "") -> None:
        """Add an event."""
        self.events.append(Event(reason, message, warning, snapshot))

    def again(self, after_s: float) -> None:
        """Ask for another reconcile after this time; the shortest time asked for counts."""
        wished = max(after_s, 0.05)
        self.again_s = wished if self.again_s is None else min(self.again_s, wished)
