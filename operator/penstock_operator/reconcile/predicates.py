"""Predicates: whether a changed object can change the decision about its job. Pure.

Workers write three objects many times a minute: their Lease, ``-status`` and ``-latest``. Most of
these changes are renewals, counters and epochs. An object is divided into three parts:

- ``always``: a change always matters. All fields that are not named below are in this part, so a
  new field is in it too.
- ``moving``: epochs and their figures. A change matters unless the job is at rest.
- ``load``: shares of time at work. A change matters to an autoscaler.

Figures that are only shown are in none of them. A reconcile at rest shows them (``decide.REST_S``).
"""

import hashlib
import json
from dataclasses import dataclass

from penstock.base.errors import PeerError
from penstock.contract import pod
from penstock.contract.codec import parsed
from penstock.contract.replacing import SILENT_POD_S
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import ConditionType
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at, texts_at

# Of -latest: what each commit changes. Names of savepoints among the retained are in `always`.
COMMIT = ("epoch", "max_epoch", "root", "published_through", "retained")
# Of -status: what each commit changes; then clocks and counters, which are only shown.
TOLD = ("checkpoint", "published_through", "failed_checkpoints")
COUNTED = ("time_us", "listening_s", "steps", "load")
VOLATILE = ("resourceVersion", "managedFields")


@dataclass(frozen=True, slots=True)
class Gist:
    """Digests of the three parts of one object."""

    always: bytes
    moving: bytes = b""
    load: bytes = b""


def matters(before: Gist | None, now: Gist, job: Plain) -> bool:
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
    truths = {
        text_at(c, "type"): text_at(c, "status") for c in list_at(job, "status", "conditions")
    }
    return (
        at(job, "status", "pending") is None
        and truths.get(ConditionType.READY) == "True"
        and truths.get(ConditionType.CHECKPOINTING) == "True"
    )


def gist_of(plain: Plain) -> Gist:
    """Digest what ``api.slim`` kept of an object; of a Lease it kept no times."""
    kind, name = text_at(plain, "kind"), text_at(plain, "metadata", "name")
    metadata = _metadata(plain)
    if kind == "StreamJob":  # nobody but us writes its status
        managers = list_at(plain, "metadata", "managedFields")
        return Gist(_digest([metadata, managers, at(plain, "spec")]))
    if kind == "ConfigMap":
        job = text_at(plain, "metadata", "labels", pod.LABEL_JOB)
        record = _record(plain)
        if record is not None and name == pod.latest_name(job):
            return _of_latest(metadata, record)
        if record is not None and name == pod.status_name(job):
            return _of_status(metadata, record)
    rest = {k: v for k, v in object_at(plain).items() if k != "metadata"}
    return Gist(_digest([metadata, rest]))


def _of_latest(metadata: Object, record: Object) -> Gist:
    moving: Object = {k: record.pop(k, None) for k in COMMIT}
    record.pop("swap_id", None)
    kept = [text_at(r, "savepoint") for r in list_at(moving, "retained")]
    return Gist(_digest([metadata, record, [name for name in kept if name]]), _digest(moving))


def _of_status(metadata: Object, record: Object) -> Gist:
    moving: Object = {k: record.pop(k, None) for k in TOLD}
    counted = {k: record.pop(k, None) for k in COUNTED}
    listens = _seconds(counted["listening_s"]) >= SILENT_POD_S
    workers = [_worker(w) for w in list_at(record, "workers")]
    record["workers"] = workers
    return Gist(_digest([metadata, record, listens]), _digest(moving), _digest(counted["load"]))


def _worker(plain: Plain) -> Plain:
    """Replace the duration of a worker's silence by whether it counts as silent."""
    silent = _seconds(at(plain, "silent_s")) >= SILENT_POD_S
    return {**object_at(plain), "silent_s": silent}


def _seconds(plain: Plain) -> float:
    return float(plain) if isinstance(plain, int | float) else 0.0


def _record(plain: Plain) -> Object | None:
    try:
        found = parsed(text_at(plain, "data", pod.RECORD))
    except PeerError:
        return None  # each change of an unreadable record matters
    return found if isinstance(found, dict) else None


def _metadata(plain: Plain) -> Object:
    metadata = {k: v for k, v in object_at(plain, "metadata").items() if k not in VOLATILE}
    marks = texts_at(plain, "metadata", "annotations")
    if pod.ANNOTATION_SWAP in marks:  # it is different after each write of a record
        metadata["annotations"] = {k: v for k, v in marks.items() if k != pod.ANNOTATION_SWAP}
    return metadata


def _digest(plain: Plain) -> bytes:
    text = json.dumps(plain, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
