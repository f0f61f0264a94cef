"""All that a reconcile of one job looks at, as values. What is absent is None or empty.

``stateful_set``, ``desired`` and ``latest`` are read in this order, live, whenever something is
about to be done: a shrink is safe only when the truth was read last (see ``reconcile.workers``).
"""

from dataclasses import dataclass, field

from penstock.contract.latest import Desired, Latest
from penstock.contract.schema import Plain
from penstock.contract.status import JobStatus
from penstock.contract.streamjob_status import StreamJobStatus
from penstock.contract.streamsnapshot import SnapshotStatus
from penstock_operator.api.trusted import TrustView


@dataclass(frozen=True, slots=True)
class JobView:
    """The StreamJob. ``deleting_since`` is in seconds since 1970, None while it is wanted.

    ``spec_text`` is ``spec`` as JSON, with its keys sorted. ``scaled_by_hpa``: spec.replicas is
    what a HorizontalPodAutoscaler wrote.
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
    """The StatefulSet. ``turn`` and ``digest`` are its annotations; see ``reconcile.workers``.

    ``line`` is that of the certificates which its pods began with, 0: nobody noted it; see
    ``reconcile.certificates``.

    ``config`` names the ConfigMap of the spec that its pods run; ``observed`` says that its
    controller has seen this size, and so makes no more pods of an earlier one.
    """

    uid: str
    job_uid: str
    version: str
    replicas: int
    turn: int
    digest: str
    config: str
    observed: bool = True
    deleting: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class ContainerView:
    """One container: why it waits, how it last ended, and when (seconds since 1970)."""

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
    """One worker's pod. ``unschedulable`` is the scheduler's message.

    ``due`` is when a pod that is being deleted should be gone: after its grace period, or at once
    when none of its containers ever started. ``owned``: the StatefulSet of the job controls it.
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
    owned: bool = True


@dataclass(frozen=True, slots=True)
class LatestView:
    """``{job}-ckpt-latest``; ``value`` is None when it cannot be read, ``problem`` says why.

    ``newer``: it has the format of a newer version.
    """

    uid: str
    version: str
    value: Latest | None
    problem: str = ""
    deleting: bool = False
    newer: bool = False


@dataclass(frozen=True, slots=True)
class DesiredView:
    """``{job}-desired`` with its annotations: the turn, and the uid of the -latest of this job."""

    uid: str
    job_uid: str
    version: str
    value: Desired
    turn: int
    latest_uid: str
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class ClaimView:
    """The claim of the checkpoints."""

    phase: str
    access_modes: tuple[str, ...]
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """One StreamSnapshot that names this job.

    ``periodic_of`` is the uid of the job that it was taken for by the clock, empty for any other;
    ``due`` its period, in seconds since 1970.
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
class Child:
    """Any object with a name or the label of the job, and the hash of what was applied last.

    ``job_uid`` is the uid of the StreamJob that it is of, empty when it is of none; see
    ``api.owners``. ``owner`` names what controls it, empty when nothing does.
    """

    uid: str
    job_uid: str
    applied: str
    deleting: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ChildKey:
    """The kind (as in ``cluster.kinds``) and name of an object of the job."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A write of ours that the API server does not take: which object, what it answers.

    ``since`` is when it was first refused, and never taken since. ``transient``: the same write may
    pass later without anybody's help, as when the server has trouble of its own.
    """

    what: str
    text: str
    since: float
    transient: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """One job at one moment.

    - ``children``: all objects with the label of the job, whoever's they are, and those of others
      that have one of its names, once they were met.
    - ``pods``: the workers, see ``api.owners.is_worker``; ``foreign_pods`` names pods that have all
      their labels and are none of them, as a copy by ``kubectl debug --keep-labels`` is.
    - ``configs``: specs that workers ran or run, by the names of their ConfigMaps.
    - ``refresh``: apply everything again, whatever was applied last: repairs what others changed.
    - ``set_trouble``: why the StatefulSet cannot make its pods, from its newest Warning event.
    - ``refusal``: the write that the API server refused when it was last tried; None: all passed.
    - ``spark_installed``: whether the API serves the SparkApplication of the wanted flavour.
    - ``trust``: by name, the Secrets that workers mount; None: they were not read yet.
    - ``purges``: the Jobs that remove files, or look at some, and have ended, and whether they
      succeeded; ``last_words``: what their pods said last, by their names.
    - ``namespace_ends``: it is being deleted, so nothing can be made in it; looked at only while
      something of the job is being deleted, too.
    - ``restored_from``: names and paths that StreamJobs of the namespace restore from; looked at
      only where snapshots by the clock may have to go.
    - ``look_again_s``: after how long those of others, which no watch shows, are looked at again.
    """

    job: JobView
    now: float
    stateful_set: SetView | None = None
    pods: tuple[PodView, ...] = ()
    foreign_pods: tuple[str, ...] = ()
    latest: LatestView | None = None
    desired: DesiredView | None = None
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
    last_words: dict[str, str] = field(default_factory=dict)
    look_again_s: float | None = None
    namespace_ends: bool = False
    restored_from: frozenset[str] = frozenset()

    def owns(self, child: Child) -> bool:
        """Say whether an object is this job's own: nothing else is written or deleted."""
        return child.job_uid == self.job.uid
