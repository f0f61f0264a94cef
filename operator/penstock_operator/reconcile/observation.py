"""What a decision looks at: one observation, and which changes of objects matter to it. Pure.

``cluster.observe`` reads the objects and builds the observation here. The store asks whether a
changed object can change the decision about its job. Workers write three objects many times a
minute: their Lease, ``-status`` and ``-latest``. Most of these changes are renewals, counters and
epochs. An object is divided into three parts:

- ``always``: a change always matters. All fields that are not named below are in this part, so a
  new field is in it too.
- ``moving``: epochs and their figures. A change matters unless the job is at rest.
- ``load``: shares of time at work. A change matters to an autoscaler.

Figures that are only shown are in none of them. A reconcile at rest shows them (``decide.REST_S``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.base.errors import PeerError
from penstock.contract import pod
from penstock.contract.codec import parsed
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import ConditionType
from penstock.contract.worker_rules import SILENT_POD_S
from penstock_operator.api import names, views
from penstock_operator.api.names import is_worker, job_of
from penstock_operator.api.observed import (
    ClaimView,
    DesiredView,
    JobView,
    Observed,
    Refusal,
    SparkView,
    TrustView,
)
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at, texts_at, whole_at
from penstock_operator.api.views import Versions, trust_view
from penstock_operator.resources.coordination import config_spec

LABEL_JOB_NAME = "batch.kubernetes.io/job-name"  # set by the controller of Jobs
# Of -latest: what each commit changes. Names of savepoints among the retained are in `always`.
COMMIT = ("epoch", "max_epoch", "root", "published_through", "retained")
# Of -status: what each commit changes; then clocks and counters, which are only shown.
TOLD = ("checkpoint", "published_through", "failed_checkpoints")
COUNTED = ("time_us", "steps", "splits", "uncommitted_s")
RESTS = (ConditionType.READY, ConditionType.CHECKPOINTING)  # both are true of a job at rest
VOLATILE = ("resourceVersion", "managedFields")


@dataclass(frozen=True, slots=True)
class ObservationContext:
    """What an observation has in addition to objects; see :class:`Observed`."""

    now: float
    refresh: bool = False
    spark_installed: bool = False
    set_trouble: str = ""
    refusal: Refusal | None = None
    look_again_s: float | None = None
    namespace_ends: bool = False
    restored_from: frozenset[str] = frozenset()
    secrets_read: bool = False


def build_observation(
    job: JobView, objects: Iterable[Plain], moment: ObservationContext, versions: Versions
) -> Observed:
    """Build the observation of ``job`` from its children, its claim and its StreamSnapshots.

    Objects that an earlier job of the same name left, and foreign objects under the job's names,
    are in ``children`` and nowhere else. ``versions`` caches the views of objects.
    """
    listed, view = list(objects), versions.view
    kinds = views.by_kind(listed)
    maps = {text_at(o, "metadata", "name"): o for o in kinds.get("ConfigMap", [])}
    sets = [view(views.set_view, o) for o in kinds.get("StatefulSet", [])]
    own_set = next((s for s in sets if s.job_uid == job.uid), None)
    set_uid = "" if own_set is None else own_set.uid
    workers = [p for p in kinds.get("Pod", []) if is_worker(p, job.name, job.uid, set_uid)]
    wanted = maps.get(pod.desired_name(job.name))
    desired = _own(job, None if wanted is None else view(views.desired_view, wanted))
    latest = maps.get(pod.latest_name(job.name))
    status = maps.get(pod.status_name(job.name))
    if status is not None and job_of(status) != job.uid:
        status = None
    return Observed(
        job=job,
        now=moment.now,
        stateful_set=own_set,
        pods=tuple(view(views.pod_view, p) for p in workers),
        foreign_pods=_foreign(job, kinds, workers),
        latest=None if latest is None else view(views.latest_view, latest),
        desired=None if desired is None or desired.damaged else desired,
        damaged_desired=desired if desired is not None and desired.damaged else None,
        running=None if status is None else view(views.running_view, status),
        claim=_claim_seen(job, kinds.get("PersistentVolumeClaim", []), versions),
        snapshots=tuple(view(views.snapshot_view, o) for o in kinds.get("StreamSnapshot", [])),
        spark=_spark(job, kinds.get("SparkApplication", []), versions),
        spark_installed=moment.spark_installed,
        children=views.children_of(listed, versions),
        configs={n: s for n, o in maps.items() if (s := config_spec(o)) is not None},
        refresh=moment.refresh,
        set_trouble=moment.set_trouble,
        refusal=moment.refusal,
        purges=_purges([o for o in kinds.get("Job", []) if job_of(o)]),
        termination_messages=_termination_messages(kinds.get("Pod", [])),
        look_again_s=moment.look_again_s,
        namespace_ends=moment.namespace_ends,
        restored_from=moment.restored_from,
        trust=_trust(job, kinds.get("Secret", [])) if moment.secrets_read else None,
    )


def _spark(job: JobView, applications: list[Plain], versions: Versions) -> SparkView | None:
    own = [o for o in applications if job_of(o) == job.uid]
    return versions.view(views.spark_view, own[-1]) if own else None


def _foreign(job: JobView, kinds: Mapping[str, list[Plain]], workers: list[Plain]) -> tuple[str, ...]:
    """Name the pods that have all labels of the job's workers and are not workers."""
    own = {text_at(p, "metadata", "name") for p in workers}
    labelled = (
        text_at(p, "metadata", "name")
        for p in kinds.get("Pod", [])
        if texts_at(p, "metadata", "labels").get(pod.LABEL_COMPONENT) == pod.WORKER
        and texts_at(p, "metadata", "labels").get(pod.LABEL_JOB_UID) == job.uid
    )
    return tuple(sorted(name for name in labelled if name not in own))


def _trust(job: JobView, secrets: list[Plain]) -> dict[str, TrustView]:
    own = {text_at(s, "metadata", "name"): s for s in secrets if job_of(s) == job.uid}
    plain = {name: found for name, found in own.items() if isinstance(found, dict)}
    return {
        name: trust_view(plain.get(names.authority_name(name)), plain.get(name)) for name in pod.secret_names(job.name)
    }


def _own(job: JobView, found: DesiredView | None) -> DesiredView | None:
    return found if found is not None and found.job_uid == job.uid else None


def _claim_seen(job: JobView, claims: list[Plain], versions: Versions) -> ClaimView | None:
    given = text_at(job.spec, "checkpoint", "volume", "claimName")
    name = given or names.claim_name(job.name)
    found = next((o for o in claims if text_at(o, "metadata", "name") == name), None)
    return None if found is None else versions.view(views.claim_view, found)


def _purges(jobs: list[Plain]) -> dict[str, bool]:
    ended = {}
    for plain in jobs:
        failed = any(_is_failed(c) for c in list_at(plain, "status", "conditions"))
        succeeded = whole_at(plain, "status", "succeeded") > 0
        if succeeded or failed:
            ended[text_at(plain, "metadata", "name")] = succeeded
    return ended


def _termination_messages(pods: list[Plain]) -> dict[str, str]:
    """Return the termination messages of the pods of Jobs, by the names of the Jobs."""
    found: dict[str, str] = {}
    for plain in pods:
        name = text_at(plain, "metadata", "labels", LABEL_JOB_NAME)
        for container in list_at(plain, "status", "containerStatuses") if name else ():
            words = text_at(container, "state", "terminated", "message")
            found[name] = words or found.get(name, "")
    return found


def _is_failed(condition: Plain) -> bool:
    return at(condition, "type") == "Failed" and at(condition, "status") == "True"


# --- Which changes matter --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectParts:
    """The three parts of one object. They are compared, and never changed.

    Digests would be smaller, but cost more than twice the time: each part must be written as a text
    first. The parts share their values with the kept object. Only those of a record take memory of
    their own, because the object keeps its record as a text.
    """

    always: Plain
    moving: Plain = None
    load: Plain = None


def affects_decision(before: ObjectParts | None, now: ObjectParts, job: Plain) -> bool:
    """Say whether the change from ``before`` to ``now`` can change the decision about the job.

    ``before`` is None when the object was absent or had another uid. ``job`` is the StreamJob as it
    is known, None when it does not exist.
    """
    if before is None or before.always != now.always:
        return True
    if before.moving != now.moving and not at_rest(job):
        return True
    return before.load != now.load and at(job, "spec", "autoscaling") is not None


def at_rest(job: Plain) -> bool:
    """Say whether the job runs, takes checkpoints, and has no operation under way."""
    if at(job, "status", "pending") is not None:
        return False
    true = {
        c.get("type")
        for c in list_at(job, "status", "conditions")
        if isinstance(c, dict) and c.get("type") in RESTS and c.get("status") == "True"
    }
    return len(true) == len(RESTS)


def parts_of(plain: Plain) -> ObjectParts:
    """Divide what ``api.projection`` kept of an object; of a Lease it kept no times."""
    kind, name = text_at(plain, "kind"), text_at(plain, "metadata", "name")
    metadata = _metadata(plain)
    if kind == "StreamJob":  # nobody but us writes its status
        managers = list_at(plain, "metadata", "managedFields")
        return ObjectParts([metadata, managers, at(plain, "spec")])
    if kind == "ConfigMap":
        job = text_at(plain, "metadata", "labels", pod.LABEL_JOB)
        of = {pod.latest_name(job): _of_latest, pod.status_name(job): _of_status}.get(name)
        record = None if of is None else _record(plain)
        if of is not None and record is not None:
            return of(metadata, record)
    return ObjectParts([metadata, {k: v for k, v in object_at(plain).items() if k != "metadata"}])


def _of_latest(metadata: Object, record: Object) -> ObjectParts:
    moving = [record.pop(k, None) for k in COMMIT]
    record.pop("swap_id", None)
    kept = [text_at(r, "savepoint") for r in list_at(moving[COMMIT.index("retained")])]
    return ObjectParts([metadata, record, [name for name in kept if name]], moving)


def _of_status(metadata: Object, record: Object) -> ObjectParts:
    moving = [record.pop(k, None) for k in TOLD]
    load, listening_s = record.pop("load", None), record.pop("listening_s", None)
    for counted in COUNTED:
        record.pop(counted, None)
    for sink in list_at(record, "sinks"):
        object_at(sink).pop("full_s", None)
    for worker in list_at(record, "workers"):
        if isinstance(worker, dict):
            # The duration of a worker's silence matters only by whether it counts as silent.
            worker["silent_s"] = _seconds(worker.get("silent_s")) >= SILENT_POD_S
    return ObjectParts([metadata, record, _seconds(listening_s) >= SILENT_POD_S], moving, load)


def _seconds(plain: Plain) -> float:
    return float(plain) if isinstance(plain, int | float) else 0.0


def _record(plain: Plain) -> Object | None:
    try:
        found = parsed(text_at(plain, "data", pod.RECORD))
    except PeerError:
        return None  # then each change of an unreadable record matters
    return found if isinstance(found, dict) else None


def _metadata(plain: Plain) -> Object:
    metadata = dict(object_at(plain, "metadata"))
    for name in VOLATILE:
        metadata.pop(name, None)
    marks = metadata.get("annotations")
    if isinstance(marks, dict) and pod.ANNOTATION_SWAP in marks:  # another after each write
        metadata["annotations"] = {k: v for k, v in marks.items() if k != pod.ANNOTATION_SWAP}
    return metadata
