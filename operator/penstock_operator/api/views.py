"""Objects as the API server returns them, to the views that decisions are made from. Pure.

A view is computed once for each version of an object (:class:`Versions`).
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar, cast

from penstock.base.errors import PeerError, StateError
from penstock.contract import pod
from penstock.contract.codec import decode, parsed
from penstock.contract.latest import Desired, Latest, decode_desired, decode_latest
from penstock.contract.schema import Plain
from penstock.contract.status import JobStatus
from penstock.contract.streamjob_status import StreamJobStatus, read_status
from penstock.contract.streamsnapshot import read_snapshot_status
from penstock_operator.api import names
from penstock_operator.api.names import controller_of, job_of, owner_text
from penstock_operator.api.observed import (
    AuthorityView,
    CertificatesView,
    Child,
    ChildKey,
    ClaimView,
    ContainerView,
    DesiredView,
    JobView,
    LatestView,
    Leaf,
    PodView,
    Root,
    SetView,
    SnapshotView,
    SparkView,
    TrustView,
)
from penstock_operator.api.plain import (
    Object,
    at,
    list_at,
    object_at,
    seconds,
    text_at,
    texts_at,
    whole_at,
    whole_of,
)

T = TypeVar("T")
View = Callable[[Plain], object]
VIEWS_KEPT = 200_000  # of one kind: those of 10,000 jobs with twenty objects each


@dataclass(slots=True)
class Versions:
    """A cache of views. Each reader of a cluster has its own.

    A uid and a version identify an object within one cluster only. Of each object one version is
    kept, the last one that was asked for. With fewer places than objects a cache would not help:
    jobs are looked at in turn, so each view would be dropped before it is needed again.
    """

    kept: dict[View, dict[str, tuple[str, object]]] = field(default_factory=dict)

    def view(self, view: Callable[[Plain], T], plain: Plain) -> T:
        """Return ``view(plain)``, computed once per version. Callers must not change the result."""
        metadata = plain.get("metadata") if isinstance(plain, dict) else None
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(uid, str) or not isinstance(version, str):
            return view(plain)
        known = self.kept.setdefault(view, {})
        last = known.get(uid)
        if last is not None and last[0] == version:
            return cast("T", last[1])
        if len(known) >= VIEWS_KEPT and last is None:
            known.clear()  # those of deleted objects, too
        found = view(plain)
        known[uid] = version, found
        return found


RECORDS_KEPT = 512  # decoded; the same text is looked at by several reconciles in a row
SPARK_OVER = ("ResourceReleased", "TerminatedWithoutReleaseResources")
HPA = ("kube-controller-manager", "scale")
OUR_KINDS = ("StreamJob", "StreamSnapshot")
SUMMARY = "trust"  # where the summary of its certificates is in the object of a Secret


def deleting_since(plain: Plain) -> float | None:
    """Return when the deletion of an object was asked for; None when it was not."""
    text = text_at(plain, "metadata", "deletionTimestamp")
    grace = whole_at(plain, "metadata", "deletionGracePeriodSeconds")
    return seconds(text) - grace if text else None


def finalizers(plain: Plain) -> tuple[str, ...]:
    """Return the finalizers of an object."""
    return tuple(f for f in list_at(plain, "metadata", "finalizers") if isinstance(f, str))


def job_view(plain: Plain) -> JobView:
    """View a StreamJob."""
    return JobView(
        name=text_at(plain, "metadata", "name"),
        namespace=text_at(plain, "metadata", "namespace"),
        uid=text_at(plain, "metadata", "uid"),
        generation=whole_at(plain, "metadata", "generation"),
        spec=at(plain, "spec"),
        spec_text=json.dumps(at(plain, "spec"), sort_keys=True),
        status=_status(json.dumps(object_at(plain, "status"))),
        version=text_at(plain, "metadata", "resourceVersion"),
        deleting_since=deleting_since(plain),
        finalizers=finalizers(plain),
        created=seconds(text_at(plain, "metadata", "creationTimestamp")),
        scaled_by_hpa=any(_is_hpa(m) for m in list_at(plain, "metadata", "managedFields")),
    )


def _is_hpa(manager: Plain) -> bool:
    """Say whether a field manager is the HorizontalPodAutoscaler and owns spec.replicas.

    The API server takes a field away from its manager when another one writes another value.
    """
    named = (text_at(manager, "manager"), text_at(manager, "subresource"))
    return named == HPA and at(manager, "fieldsV1", "f:spec", "f:replicas") is not None


@lru_cache(RECORDS_KEPT)
def _status(text: str) -> StreamJobStatus:
    return read_status(parsed(text))


def set_view(plain: Plain) -> SetView:
    """View a StatefulSet."""
    marks = texts_at(plain, "metadata", "annotations")
    return SetView(
        uid=text_at(plain, "metadata", "uid"),
        job_uid=job_of(plain),
        version=text_at(plain, "metadata", "resourceVersion"),
        replicas=whole_at(plain, "spec", "replicas"),
        fence=whole_of(marks.get(names.ANNOTATION_FENCE)),
        digest=marks.get(names.ANNOTATION_DIGEST, ""),
        config=marks.get(names.ANNOTATION_CONFIG, ""),
        observed=whole_at(plain, "status", "observedGeneration") >= whole_at(plain, "metadata", "generation"),
        line=whole_of(marks.get(names.ANNOTATION_LINE)),
    )


def pod_view(plain: Plain) -> PodView:
    """View a worker's pod."""
    conditions = {text_at(c, "type"): c for c in list_at(plain, "status", "conditions")}
    scheduled = conditions.get("PodScheduled")
    lost = text_at(scheduled, "status") == "False"
    containers = list_at(plain, "status", "containerStatuses")
    name = text_at(plain, "metadata", "name")
    return PodView(
        name=name,
        uid=text_at(plain, "metadata", "uid"),
        job_uid=job_of(plain),
        ordinal=whole_of(name.rpartition("-")[2]),
        ready=text_at(conditions.get("Ready"), "status") == "True",
        phase=text_at(plain, "status", "phase") or "Pending",
        deleting=deleting_since(plain) is not None,
        unschedulable=text_at(scheduled, "message") if lost else "",
        containers=tuple(_container(c) for c in (*_first_containers(plain), *containers)),
        created=seconds(text_at(plain, "metadata", "creationTimestamp")),
        due=_due(plain, containers),
        runs_since=_runs_since(containers),
        owned=_is_of_set(plain),
        forced=deleting_since(plain) is not None and at(plain, "metadata", "deletionGracePeriodSeconds") == 0,
    )


def _runs_since(containers: list[Plain]) -> float:
    started = [seconds(text_at(c, "state", "running", "startedAt")) for c in containers]
    return max(started) if started and all(started) else 0.0


def _first_containers(plain: Plain) -> list[Plain]:
    """Return the containers that run before the others, or beside them, without those that are done."""
    found = list_at(plain, "status", "initContainerStatuses")
    return [c for c in found if at(c, "state", "terminated", "exitCode") != 0]


def _is_of_set(plain: Plain) -> bool:
    controller = controller_of(plain)
    job = text_at(plain, "metadata", "labels", pod.LABEL_JOB)
    named = (text_at(controller, "kind"), text_at(controller, "name"))
    return named == ("StatefulSet", pod.workers_name(job))


def _due(plain: Plain, containers: list[Plain]) -> float:
    started = any(
        at(c, "state", "running") or at(c, "state", "terminated") or whole_at(c, "restartCount") for c in containers
    )
    asked = deleting_since(plain)
    if asked is None:
        return 0.0
    return seconds(text_at(plain, "metadata", "deletionTimestamp")) if started else asked


def _container(plain: Plain) -> ContainerView:
    ended = object_at(plain, "state", "terminated") or object_at(plain, "lastState", "terminated")
    return ContainerView(
        name=text_at(plain, "name"),
        waiting=text_at(plain, "state", "waiting", "reason"),
        waiting_message=text_at(plain, "state", "waiting", "message"),
        ended=text_at(ended, "reason"),
        ended_message=text_at(ended, "message"),
        exit_code=whole_at(ended, "exitCode"),
        restarts=whole_at(plain, "restartCount"),
        ended_at=seconds(text_at(ended, "finishedAt")),
    )


def latest_view(plain: Plain) -> LatestView:
    """View ``-latest``; the view of an unreadable one says what is wrong with it."""
    value, problem, newer = None, "", False
    try:
        value = _latest(text_at(plain, "data", pod.RECORD))
    except PeerError as error:
        problem = str(error)
    except StateError as error:
        problem, newer = str(error), True
    return LatestView(
        uid=text_at(plain, "metadata", "uid"),
        version=text_at(plain, "metadata", "resourceVersion"),
        value=value,
        problem=problem,
        newer=newer,
    )


def desired_view(plain: Plain) -> DesiredView:
    """View ``-desired``; one that cannot be read is ``damaged``, and one of a newer version says so in words."""
    marks = texts_at(plain, "metadata", "annotations")
    value, newer, damaged = Desired(0), "", False
    try:
        value = _desired(text_at(plain, "data", pod.RECORD))
    except PeerError:
        damaged = True
    except StateError as error:
        newer = str(error)
    return DesiredView(
        uid=text_at(plain, "metadata", "uid"),
        job_uid=job_of(plain),
        version=text_at(plain, "metadata", "resourceVersion"),
        value=value,
        fence=whole_of(marks.get(names.ANNOTATION_FENCE)),
        latest_uid=marks.get(names.ANNOTATION_LATEST, ""),
        newer=newer,
        damaged=damaged,
    )


@lru_cache(RECORDS_KEPT)
def _latest(text: str) -> Latest:
    return decode_latest(text.encode())


@lru_cache(RECORDS_KEPT)
def _desired(text: str) -> Desired:
    return decode_desired(text.encode())


def running_view(plain: Plain) -> JobStatus | None:
    """Read the leader's ``-status``; None while it is empty."""
    text = text_at(plain, "data", pod.RECORD)
    try:
        return decode(JobStatus, text.encode()) if text else None
    except PeerError:
        return None  # written by workers of another version; shown once it can be read again


def claim_view(plain: Plain) -> ClaimView:
    """View a PersistentVolumeClaim."""
    modes = tuple(m for m in list_at(plain, "spec", "accessModes") if isinstance(m, str))
    return ClaimView(modes)


def snapshot_view(plain: Plain) -> SnapshotView:
    """View a StreamSnapshot."""
    return SnapshotView(
        name=text_at(plain, "metadata", "name"),
        uid=text_at(plain, "metadata", "uid"),
        generation=whole_at(plain, "metadata", "generation"),
        spec=at(plain, "spec"),
        status=read_snapshot_status(object_at(plain, "status")),
        created=seconds(text_at(plain, "metadata", "creationTimestamp")),
        deleting_since=deleting_since(plain),
        finalizers=finalizers(plain),
        version=text_at(plain, "metadata", "resourceVersion"),
        periodic_of=text_at(plain, "metadata", "labels", names.LABEL_PERIODIC),
        due=float(whole_of(text_at(plain, "metadata", "annotations", names.ANNOTATION_DUE))),
    )


def restores_of(jobs: Iterable[Plain]) -> frozenset[str]:
    """Return the names of snapshots and the paths that StreamJobs restore from."""
    wanted = (object_at(job, "spec", "restore") for job in jobs)
    texts = (text_at(w, field) for w in wanted for field in ("snapshotRef", "path"))
    return frozenset(filter(None, texts))


def spark_view(plain: Plain) -> SparkView:
    """View a SparkApplication of either flavour."""
    name = text_at(plain, "metadata", "name")
    kubeflow = object_at(plain, "status", "applicationState")
    if kubeflow:
        return SparkView(name, text_at(kubeflow, "state"), text_at(kubeflow, "errorMessage"))
    found = _apache_state(plain)
    return SparkView(name, text_at(found, "currentStateSummary"), text_at(found, "message"))


def _apache_state(plain: Plain) -> Plain:
    """Return the state of an application of Apache's operator; after its end, how it ended.

    Success and failure are short states before one common last state.
    """
    now = at(plain, "status", "currentState")
    if text_at(now, "currentStateSummary") not in SPARK_OVER:
        return now
    history = object_at(plain, "status", "stateTransitionHistory")
    numbers = sorted((n for n in history if n.isdecimal()), key=int, reverse=True)
    before = (history[n] for n in numbers)
    over = (e for e in before if text_at(e, "currentStateSummary") not in SPARK_OVER)
    return next(over, now)


def trust_view(authority: Object | None, certificates: Object | None) -> TrustView:
    """View the two Secrets of certificates. Either may be missing.

    Secrets are read separately. In memory a summary replaces their data (:data:`SUMMARY`).
    """
    return TrustView(
        None if authority is None else _authority_view(authority),
        None if certificates is None else _certificates_view(certificates),
    )


def _authority_view(plain: Object) -> AuthorityView:
    return AuthorityView(text_at(plain, "metadata", "resourceVersion"), _trust_line(plain), _roots(plain))


def _certificates_view(plain: Object) -> CertificatesView:
    found = object_at(plain, SUMMARY, "leaf")
    leaf = Leaf(text_at(found, "issuer"), _number(found, "begins"), _number(found, "ends"))
    return CertificatesView(
        text_at(plain, "metadata", "resourceVersion"),
        _trust_line(plain),
        _roots(plain),
        leaf if found else None,
    )


def _roots(plain: Object) -> tuple[Root, ...]:
    return tuple(
        Root(
            text_at(root, "name"),
            _number(root, "begins"),
            _number(root, "ends"),
            at(root, "signs") is True,
        )
        for root in list_at(plain, SUMMARY, "roots")
    )


def _trust_line(plain: Object) -> int:
    return max(1, whole_of(text_at(plain, "metadata", "annotations", names.ANNOTATION_LINE)))


def _number(plain: object, key: str) -> float:
    found = plain.get(key) if isinstance(plain, dict) else None
    return float(found) if isinstance(found, int | float) else 0.0


def children_of(objects: Iterable[Plain], versions: Versions) -> dict[ChildKey, Child]:
    """Index the objects of a job by kind and name, without StreamJob and StreamSnapshots."""
    found = (versions.view(_child, plain) for plain in objects)
    return {key: child for key, child in found if key.kind not in OUR_KINDS}


def _child(plain: Plain) -> tuple[ChildKey, Child]:
    metadata = object_at(plain, "metadata")
    marks = metadata.get("annotations")
    applied = marks.get(names.ANNOTATION_APPLIED) if isinstance(marks, dict) else None
    key = ChildKey(text_at(plain, "kind"), str(metadata.get("name")))
    return key, Child(
        uid=str(metadata.get("uid") or ""),
        job_uid=job_of(plain),
        applied=str(applied or ""),
        deleting=bool(metadata.get("deletionTimestamp")),
        owner=owner_text(plain),
    )


def by_kind(objects: Iterable[Plain]) -> Mapping[str, list[Plain]]:
    """Group objects by kind, sorted by name."""
    found: dict[str, list[tuple[str, Plain]]] = {}
    for plain in objects:
        place = (text_at(plain, "metadata", "name"), plain)
        found.setdefault(text_at(plain, "kind"), []).append(place)
    return {kind: [o for _, o in sorted(of, key=_first)] for kind, of in found.items()}


def _first(pair: tuple[str, Plain]) -> str:
    return pair[0]
