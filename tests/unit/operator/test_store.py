"""The store finds objects by an index, and only changes that matter queue a job."""

import gc
import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.codec import encode
from penstock.contract.ids import (
    BlobName,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    SwapId,
    Term,
)
from penstock.contract.latest import Latest, Lost, Retained, encode_latest
from penstock.contract.manifest import BlobRef
from penstock.contract.schema import Plain
from penstock.contract.status import JobState, JobStatus, Load, SinkStatus, SplitStatus, StepStatus, WorkerStatus
from penstock_operator.api.plain import Object, object_at
from penstock_operator.cluster.store import JobKey, Store
from penstock_operator.handlers.work_queue import WorkQueue

KINDS = ("StatefulSet", "Service", "ConfigMap", "Role", "RoleBinding", "Lease", "Pod")
KEY = JobKey("ns", "wc")
RESTS: list[Plain] = [
    {"type": "Ready", "status": "True"},
    {"type": "Checkpointing", "status": "True"},
]


def plain(kind: str, name: str, version: int = 1, job: str = "", **rest: Any) -> Object:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": f"{kind}-{name}",
        "resourceVersion": str(version),
        "labels": {pod.LABEL_JOB: job} if job else {},
    }
    return {"kind": kind, "metadata": {**metadata, **rest.pop("metadata", {})}, **rest}


def stream_job(name: str = "wc", version: int = 1, **rest: Any) -> Object:
    volume = {"checkpoint": {"volume": {"claimName": "shared"}}}
    return plain("StreamJob", name, version, **{"spec": volume, **rest})


def at_rest(version: int = 1, **spec: Any) -> Object:
    """Give a job that runs and takes checkpoints, without an operation under way."""
    both = {"checkpoint": {"volume": {"claimName": "shared"}}, **spec}
    return stream_job(version=version, spec=both, status={"conditions": RESTS})


def fleet(jobs: int) -> Store:
    store = Store(lambda: 0.0)
    for number in range(jobs):
        store.put(stream_job(f"job-{number}"))
        for kind in KINDS:
            store.put(plain(kind, f"job-{number}-{kind.lower()}", job=f"job-{number}"))
    return store


def calls(run: Callable[[], object]) -> int:
    """Count the called functions of Python and C: a measure of work without a clock."""
    count = 0
    gc.disable()  # finalizers of what other tests left behind are no work of this one

    def told(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(told)
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_looking_a_job_up_costs_the_same_among_any_number() -> None:
    key = JobKey("ns", "job-7")
    few, many = fleet(50), fleet(2000)
    found = many.objects(key)
    assert {kind for kind, _ in found} == {"StreamJob", *KINDS}
    assert calls(lambda: many.objects(key)) == calls(lambda: few.objects(key))
    assert calls(lambda: many.job(key)) == calls(lambda: few.job(key))
    claim = plain("PersistentVolumeClaim", "job-7-checkpoints", 9)
    assert calls(lambda: many.put(dict(claim))) == calls(lambda: few.put(dict(claim)))


def test_a_take_does_not_look_at_all_that_wait() -> None:
    def queue(jobs: int) -> WorkQueue:
        made = WorkQueue(lambda: 100.0)
        for number in range(jobs):
            made.add(JobKey("ns", f"job-{number}"))
        return made

    def take(made: WorkQueue) -> int:
        taking = made.take()

        def turn() -> None:
            with pytest.raises(StopIteration):
                taking.send(None)

        return calls(turn)

    few, many = queue(50), queue(5000)
    assert take(many) <= 2 * take(few)  # a heap of a hundred times as many is some levels deeper


def test_a_shared_claim_concerns_the_jobs_that_name_it_and_no_others() -> None:
    store = fleet(3)
    other = stream_job("other", spec={"restore": {"snapshotRef": "best"}})
    store.put(other)
    claim = plain("PersistentVolumeClaim", "shared", status={"phase": "Bound"})
    assert store.put(claim) == [JobKey("ns", f"job-{n}") for n in range(3)]
    assert store.put(plain("PersistentVolumeClaim", "other-checkpoints")) == [JobKey("ns", "other")]
    snapshot = plain("StreamSnapshot", "best", spec={"jobRef": "job-1"})
    assert store.put(snapshot) == [JobKey("ns", "job-1"), JobKey("ns", "other")]
    assert ("StreamSnapshot", "best") in store.objects(JobKey("ns", "other"))
    store.put(stream_job("job-1", 2, spec={"checkpoint": {"volume": {"claimName": "own"}}}))
    assert store.remove(claim) == [JobKey("ns", "job-0"), JobKey("ns", "job-2")]
    assert not store.objects(JobKey("ns", "nobody"))


def test_an_object_that_changes_its_job_is_found_under_the_new_one_alone() -> None:
    store = fleet(2)
    store.put(plain("Pod", "job-0-pod", 2, job="job-1"))
    assert ("Pod", "job-0-pod") not in store.objects(JobKey("ns", "job-0"))
    assert ("Pod", "job-0-pod") in store.objects(JobKey("ns", "job-1"))


# --- what of an event matters --------------------------------------------------------------------


def lease(version: int, holder: str, **metadata: Any) -> Object:
    spec = {"holderIdentity": holder, "renewTime": f"10:00:{version:02}"}
    return plain("Lease", pod.lease_name("wc"), version, "wc", spec=spec, metadata=metadata)


def record(name: str, version: int, data: bytes) -> Object:
    marks = {"annotations": {pod.ANNOTATION_SWAP: f"swap-{version}"}}
    return plain("ConfigMap", name, version, "wc", metadata=marks, data={pod.RECORD: data.decode()})


def latest(version: int, **rest: Any) -> Object:
    epoch = Epoch(version)
    kept = Retained(epoch, BlobRef(BlobName(f"{version}.root"), "", 1))
    uid, swap = JobUid("u"), SwapId(f"s{version}")
    found = Latest(uid, swap, epoch=epoch, max_epoch=epoch, retained=(kept,))
    return record(pod.latest_name("wc"), version, encode_latest(replace(found, **rest)))


def status(version: int, silent_s: float = 0.0, **rest: Any) -> Object:
    worker = WorkerStatus(0, "up", pod="p", silent_s=silent_s)
    steps = (StepStatus("count", 1, rows_in=version * 1000, busy=0.1 * version),)
    told = JobStatus(
        "wc",
        "u",
        JobState.RUNNING,
        version * 1_000_000,
        workers=(worker,),
        steps=steps,
        listening_s=100.0 + version,
        published_through=version,
        **rest,
    )
    return record(pod.status_name("wc"), version, encode(told))


def running(*first: Object, **spec: Any) -> Store:
    """Make a store with a job at rest and its first objects."""
    store = Store(lambda: 0.0)
    store.put(at_rest(**spec))
    for each in first:
        assert store.put(each) == [KEY], "what is new always matters"
    return store


def test_a_renewal_queues_nothing_and_a_lease_of_somebody_else_does() -> None:
    store = running(lease(1, "wc-worker-0"))
    assert store.put(lease(2, "wc-worker-0")) == []
    assert store.put(lease(3, "wc-worker-1")) == []
    assert store.put(lease(4, "wc-worker-1", deletionTimestamp="now")) == [KEY]
    assert store.put(lease(5, "wc-worker-1", uid="another")) == [KEY]
    assert store.remove(lease(6, "wc-worker-1", uid="another")) == [KEY]


def test_a_commit_at_rest_queues_nothing_and_what_it_says_besides_does() -> None:
    store = running(latest(1))
    for version in (2, 3, 4):
        assert store.put(latest(version)) == []
    changes: list[Any] = [
        {"finished": True},
        {"failure": "x"},
        {"stalled": "y"},
        {"term": Term(2)},
        {"lost": (Lost(Ordinal(0), Incarnation("life")),)},
    ]
    for version, change in enumerate(changes, 5):
        assert store.put(latest(version, **change)) == [KEY], change
    savepoint = Retained(Epoch(9), BlobRef(BlobName("r"), "", 1), "snap-1")
    assert store.put(latest(20)) == [KEY]
    assert store.put(latest(21, retained=(savepoint,))) == [KEY]


@pytest.mark.parametrize(
    "told",
    [
        {"conditions": RESTS, "pending": {"action": "Rescaling"}},
        {"conditions": RESTS[:1]},
        {"conditions": RESTS[1:]},
        {},
    ],
)
def test_a_commit_matters_to_a_job_that_waits_for_one(told: Any) -> None:
    store = Store(lambda: 0.0)
    store.put(stream_job(status=told))
    store.put(latest(1))
    assert store.put(latest(2)) == [KEY]


def test_counters_and_clocks_queue_nothing_and_silence_does() -> None:
    store = running(status(1))
    assert store.put(status(2, silent_s=1.0)) == []
    assert store.put(status(3, silent_s=9.0)) == [KEY]
    assert store.put(status(4, silent_s=11.0)) == []
    assert store.put(status(5, silent_s=11.0, failure="no space left")) == [KEY]


def test_the_age_of_the_newest_commit_and_what_is_left_to_read_are_only_shown() -> None:
    store = running(status(1, uncommitted_s=1.0, splits=(SplitStatus("lines", "0", 5),)))
    assert store.put(status(2, uncommitted_s=6.0, splits=(SplitStatus("lines", "0", 7),))) == []


def test_for_how_long_a_sink_has_had_no_room_is_only_shown() -> None:
    out = SinkStatus("out", "exactly-once", full_s=6.0)
    store = running(status(1, sinks=(out,)))
    assert store.put(status(2, sinks=(replace(out, full_s=7.0),))) == []
    assert store.put(status(3, sinks=(replace(out, full_s=8.0, because="away", since_us=1),))) == [KEY]


def test_load_matters_to_an_autoscaler_alone() -> None:
    busy, busier = (Load(15.0, (share,), (0.0,), "count") for share in (0.5, 0.9))
    store = running(status(1, load=busy))
    assert store.put(status(2, load=busier)) == []
    store = running(status(1, load=busy), autoscaling={"minReplicas": 1, "maxReplicas": 4})
    assert store.put(status(2, load=busier)) == [KEY]


def test_a_status_of_ours_queues_nothing_and_a_new_spec_does() -> None:
    store = running()
    ours = at_rest(2)
    store.keep(ours)
    assert store.put(ours) == []
    ahead = at_rest(3)
    ahead["status"] = {"conditions": list(RESTS), "term": 3}
    assert store.put(ahead) == [], "the watch was faster than the reply"
    assert store.put(at_rest(4, replicas=5)) == [KEY]
    held = at_rest(5, replicas=5)
    held["metadata"] = {**object_at(held, "metadata"), "finalizers": ["x"]}
    assert store.put(held) == [KEY]
    assert store.put(at_rest(4, replicas=9)) == [], "an old event"


def test_a_record_that_cannot_be_read_matters_byte_by_byte() -> None:
    store = running(latest(1))
    deep = b"[" * 100_000
    for version, data in enumerate((b"{", b"{{", b"[]", b"", deep), 2):
        assert store.put(record(pod.latest_name("wc"), version, data)) == [KEY], data[:9]
    again = record(pod.latest_name("wc"), 9, deep)
    assert store.put(again) == []


def test_what_a_pod_and_a_set_say_matters_and_their_specs_are_not_kept() -> None:
    made = plain("Pod", "wc-worker-0", 1, "wc", spec={"containers": ["large"]}, status={"a": 1})
    store = running(made)
    again = plain("Pod", "wc-worker-0", 2, "wc", spec={}, status={"a": 2})
    assert store.put(again) == [KEY]
    assert "large" not in json.dumps(store.objects(KEY)[("Pod", "wc-worker-0")])
    found = plain("StatefulSet", "wc-worker", 3, "wc", spec={"replicas": 2, "template": "large"})
    store.put(found)
    assert store.objects(KEY)[("StatefulSet", "wc-worker")]["spec"] == {"replicas": 2}
