"""All that a reconcile of one job looks at, as values. An absent object is None or empty.

Before any action ``stateful_set``, ``desired`` and ``latest`` are read live, in this order. A
shrink is safe only when ``latest`` was read last: see ``reconcile.workers``.

Of the job's certificates there is the signer and the lifetime here, and never a key.
"""

from dataclasses import dataclass, field

from penstock.contract.latest import Desired, Latest
from penstock.contract.schema import Plain
from penstock.contract.status import JobStatus
from penstock.contract.streamjob_status import StreamJobStatus
from penstock.contract.streamsnapshot import SnapshotStatus


@dataclass(frozen=True, slots=True)
class JobView:
    """The StreamJob.

    - ``deleting_since``: when its deletion was asked for, in seconds since 1970; None: it was not.
    - ``spec_text``: the spec as JSON with sorted keys.
    - ``scaled_by_hpa``: a HorizontalPodAutoscaler has written spec.replicas.
    """

    name: str
    namespace: str
    uid: str
    generation: int
    spec: Plain
    status: StreamJobStatus
    version: str = ""
    deleting_since: float | None = None
    finalizers: tuple[str, ...] = ()
    spec_text: str = ""
    scaled_by_hpa: bool = False
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class SetView:
    """The StatefulSet of the workers.

    - ``fence``, ``digest``: its annotations; see ``reconcile.workers``.
    - ``config``: the name of the ConfigMap with the spec that its pods run.
    - ``observed``: its controller has seen this size and creates no pods of an earlier size.
    - ``line``: the trust line that its pods started with, 0 when unknown; see
      ``reconcile.certificates``.
    """

    uid: str
    job_uid: str
    version: str
    replicas: int
    fence: int
    digest: str
    config: str
    observed: bool = True
    line: int = 0


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container: why it waits, how it ended last, and when (seconds since 1970)."""

    name: str
    waiting: str = ""
    waiting_message: str = ""
    ended: str = ""
    ended_message: str = ""
    exit_code: int = 0
    restarts: int = 0
    ended_at: float = 0.0


@dataclass(frozen=True, slots=True)
class PodView:
    """The pod of one worker.

    - ``unschedulable``: the message of the scheduler.
    - ``containers``: the init containers that are not done, and all others.
    - ``runs_since``: since when all its containers run; 0: not all do.
    - ``due``: when a pod that is being deleted should be gone. This is after its grace period, or
      at once when none of its containers ever started.
    - ``owned``: the StatefulSet of the job controls it.
    - ``forced``: it was deleted without grace, and is there only because of somebody's finalizer.
    """

    name: str
    uid: str
    job_uid: str
    ordinal: int
    ready: bool
    phase: str = "Pending"
    deleting: bool = False
    unschedulable: str = ""
    containers: tuple[ContainerView, ...] = ()
    created: float = 0.0
    due: float = 0.0
    runs_since: float = 0.0
    owned: bool = True
    forced: bool = False


@dataclass(frozen=True, slots=True)
class LatestView:
    """``{job}-ckpt-latest``. If it cannot be read, ``value`` is None and ``problem`` says why.

    ``newer``: it has the format of a newer version.
    """

    uid: str
    version: str
    value: Latest | None
    problem: str = ""
    newer: bool = False


@dataclass(frozen=True, slots=True)
class DesiredView:
    """``{job}-desired`` with its annotations: the fence, and the uid of the -latest of this job.

    ``newer`` says that a newer version wrote it, empty where none did. ``damaged``: it cannot be read at all.
    """

    uid: str
    job_uid: str
    version: str
    value: Desired
    fence: int
    latest_uid: str
    newer: str = ""
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class ClaimView:
    """The claim of the checkpoints."""

    access_modes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """One StreamSnapshot that names this job.

    ``periodic_of`` is the uid of the job whose ``spec.snapshots`` asked for it; it is empty for any
    other. ``due`` is its period in seconds since 1970.
    """

    name: str
    uid: str
    generation: int
    spec: Plain
    status: SnapshotStatus
    created: float
    deleting_since: float | None = None
    finalizers: tuple[str, ...] = ()
    version: str = ""
    periodic_of: str = ""
    due: float = 0.0


@dataclass(frozen=True, slots=True)
class SparkView:
    """The SparkApplication of a replay, as its operator describes it."""

    name: str
    state: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Root:
    """An authority, valid in ``begins..ends`` (seconds since 1970). Its name is a digest of its key.

    ``signs``: its key still exists.
    """

    name: str
    begins: float
    ends: float
    signs: bool


@dataclass(frozen=True, slots=True)
class Leaf:
    """The workers' certificate, and the name of the authority that signed it."""

    issuer: str
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class AuthorityView:
    """``{secret}-ca``: the authorities, the oldest first, with the keys of those that sign.

    ``line`` is the trust line. It rises when new certificates begin that no running worker trusts.
    """

    version: str
    line: int
    roots: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class CertificatesView:
    """The Secret that workers mount: ``roots`` are the authorities that they trust.

    ``leaf`` is None when the certificate, its key or the Secret is missing or unreadable.
    """

    version: str
    line: int
    roots: tuple[Root, ...]
    leaf: Leaf | None


@dataclass(frozen=True, slots=True)
class TrustView:
    """One of the job's Secrets and the Secret that it is made from; None when one is missing."""

    authority: AuthorityView | None = None
    certificates: CertificatesView | None = None


@dataclass(frozen=True, slots=True)
class Child:
    """Any object with a name or the label of the job, and the hash of what was applied last.

    ``job_uid`` is the uid of the StreamJob that it belongs to, empty when there is none; see
    ``api.names``. ``owner`` names its controller, empty when it has none.
    """

    uid: str
    job_uid: str
    applied: str
    deleting: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ChildKey:
    """The kind (as in ``api.kinds``) and the name of an object of the job."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A write of ours that the API server refuses: the object, and the answer.

    ``since`` is when it was refused first; it has never succeeded since. ``transient``: the same
    write may succeed later without a change, for example after an error of the server.
    """

    what: str
    text: str
    since: float
    transient: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """One job at one moment.

    - ``children``: all objects with the label of the job, whoever owns them; and foreign objects
      under its names, once they were met.
    - ``pods``: the workers, see ``api.names.is_worker``.
    - ``foreign_pods``: the names of pods that have all labels of workers and are not workers, such
      as a copy by ``kubectl debug --keep-labels``.
    - ``damaged_desired``: a ``-desired`` that cannot be read. It is not in ``desired``, and is written
      anew over its version.
    - ``running``: the leader's ``{job}-status``.
    - ``configs``: specs that workers ran or run, by the names of their ConfigMaps.
    - ``refresh``: apply all objects again, to repair what others changed.
    - ``set_trouble``: why the StatefulSet cannot create its pods, from its newest Warning event.
    - ``refusal``: the write that the API server refused at the last try; None: none was refused.
    - ``spark_installed``: the API serves the SparkApplication of the wanted flavour.
    - ``trust``: the Secrets that workers mount, by name; None: they were not read yet.
    - ``purges``: by name, whether an ended Job succeeded that removes or checks files.
    - ``termination_messages``: the termination messages of the pods of such Jobs, by the Jobs' names.
    - ``namespace_ends``: the namespace is being deleted, so nothing can be created in it. It is
      read only while something of the job is being deleted.
    - ``restored_from``: names and paths that StreamJobs of the namespace restore from. They are
      read only when periodic snapshots may have to be deleted.
    - ``look_again_s``: when foreign objects are read again, which no watch reports.
    """

    job: JobView
    now: float
    stateful_set: SetView | None = None
    pods: tuple[PodView, ...] = ()
    foreign_pods: tuple[str, ...] = ()
    latest: LatestView | None = None
    desired: DesiredView | None = None
    damaged_desired: DesiredView | None = None
    running: JobStatus | None = None
    claim: ClaimView | None = None
    snapshots: tuple[SnapshotView, ...] = ()
    spark: SparkView | None = None
    spark_installed: bool = False
    children: dict[ChildKey, Child] = field(default_factory=dict)
    configs: dict[str, Plain] = field(default_factory=dict)
    refresh: bool = False
    set_trouble: str = ""
    refusal: Refusal | None = None
    purges: dict[str, bool] = field(default_factory=dict)
    trust: dict[str, TrustView] | None = None
    termination_messages: dict[str, str] = field(default_factory=dict)
    look_again_s: float | None = None
    namespace_ends: bool = False
    restored_from: frozenset[str] = frozenset()

    def owns(self, child: Child) -> bool:
        """Say whether an object belongs to this job. No other is written or deleted."""
        return child.job_uid == self.job.uid
