"""Builds one observation from the objects that were read. Pure: ``cluster.observe`` reads them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock_operator.api import names, views
from penstock_operator.api.names import is_worker, job_of
from penstock_operator.api.observed import (
    ClaimView,
    DesiredView,
    JobView,
    Observed,
    Refusal,
    SparkView,
)
from penstock_operator.api.plain import at, list_at, text_at, texts_at, whole_at
from penstock_operator.api.trusted import TrustView, trust_view
from penstock_operator.api.views import Versions
from penstock_operator.resources.coordination import config_spec

LABEL_JOB_NAME = "batch.kubernetes.io/job-name"  # set by the controller of Jobs


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
    desired = maps.get(pod.desired_name(job.name))
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
        desired=_own(job, None if desired is None else view(views.desired_view, desired)),
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
