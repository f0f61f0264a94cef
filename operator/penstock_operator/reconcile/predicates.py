"""Predicates: whether a changed object can change the decision about its job. Pure.

Workers write three objects many times a minute: their Lease, ``-status`` and ``-latest``. Most of
these changes are renewals, counters and epochs. An object is divided into three parts:

- ``always``: a change always matters. All fields that are not named below are in this part, so a
  new field is in it too.
- ``moving``: epochs and their figures. A change matters unless the job is at rest.
- ``load``: shares of time at work. A change matters to an autoscaler.

Figures that are only shown are in none of them. A reconcile at rest shows them (``decide.REST_S``).
"""

from dataclasses import dataclass

from penstock.base.errors import PeerError
from penstock.contract import pod
from penstock.contract.codec import parsed
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import ConditionType
from penstock.contract.worker_rules import SILENT_POD_S
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at

# Of -latest: what each commit changes. Names of savepoints among the retained are in `always`.
COMMIT = ("epoch", "max_epoch", "root", "published_through", "retained")
# Of -status: what each commit changes; then clocks and counters, which are only shown.
TOLD = ("checkpoint", "published_through", "failed_checkpoints")
COUNTED = ("time_us", "steps")
RESTS = (ConditionType.READY, ConditionType.CHECKPOINTING)  # both are true of a job at rest
VOLATILE = ("resourceVersion", "managedFields")


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
