"""What the definitions promise to kubectl, GitOps and an autoscaler, with a real API server."""

import json
from typing import Any

import pytest

from penstock.contract.settings import OperatorFlavour
from penstock.contract.streamjob_status import (
    AssignmentStatus,
    AutoscalingStatus,
    CheckpointSummary,
    Condition,
    ConditionType,
    LastCompleted,
    LastFailure,
    LastStable,
    Pending,
    PeriodicStatus,
    Reason,
    RestoreStatus,
    SinkSummary,
    SparkApplicationStatus,
    StreamJobState,
    StreamJobStatus,
    Truth,
    read_status,
    status_plain,
)
from tests.integration.kubernetes.crds.samples import FULL, GOOD, job, object_of, snapshot
from tests.integration.kubernetes.kubectl import Kubectl, Refused

NOW = "2026-11-21T12:00:00Z"
STATUS = StreamJobStatus(
    observed_generation=1,
    state=StreamJobState.RUNNING,
    reason="Running",
    conditions=(
        Condition(ConditionType.READY, Truth.TRUE, Reason.RUNNING, "all is well", NOW, 1),
        Condition(ConditionType.STALLED, Truth.FALSE, Reason.NOT_STALLED, "", NOW, 1),
    ),
    desired_replicas=3,
    replicas=2,
    ready_replicas=2,
    selector="penstock.dev/job=words",
    leader="words-0",
    term=3,
    attempt=1,
    assignment=AssignmentStatus(4, 2),
    checkpoint=CheckpointSummary(LastCompleted(17, NOW, 1 << 40, 0.0125, "default/words/x")),
    sinks=(SinkSummary("out", "exactly-once"),),
    last_failure=LastFailure(NOW, "WorkerLost", "words-1 is gone", "words-1"),
    pending=Pending("Rescaling", 2, NOW, NOW, 3, "s"),
    restore=RestoreStatus("1", NOW, True, (4, 5)),
    last_stable=LastStable(1, "ab"),
    spark_application=SparkApplicationStatus("r", OperatorFlavour.KUBEFLOW, "RUNNING", "", 9),
    autoscaling=AutoscalingStatus(3, "2026-11-20T08:00:00Z", "busy", undone=True, busy=0.91, step="counts"),
    snapshots=PeriodicStatus("2026-11-20T08:00:00Z", "words-20261120-080000"),
)


def write_status(kubectl: Kubectl, status: StreamJobStatus, name: str = "words") -> None:
    patch = json.dumps({"status": status_plain(status)})
    kubectl("patch", "sj", name, "--subresource=status", "--type=merge", "-p", patch)


def test_applied_twice_nothing_changes(jobs: Kubectl) -> None:
    for name in ("the least", "everything", "a graph"):
        plain = GOOD[name]
        jobs.apply(plain)
        first = jobs.get("sj", plain["metadata"]["name"])
        jobs.apply(plain)
        assert jobs.get("sj", plain["metadata"]["name"]) == first  # managedFields and all


@pytest.mark.parametrize("name", ["everything", "a graph"])
def test_a_client_side_apply_makes_no_difference_twice(jobs: Kubectl, name: str) -> None:
    text = json.dumps(GOOD[name])
    assert "created" in jobs("apply", "-f-", stdin=text)
    assert "unchanged" in jobs("apply", "-f-", stdin=text)


def test_the_spelling_of_a_user_is_kept(jobs: Kubectl) -> None:
    jobs.apply(object_of("StreamJob", FULL, "words"))
    kept = jobs.get("sj", "words")["spec"]
    assert {name: kept[name] for name in FULL} == {
        **FULL,
        "restore": {**FULL["restore"], "allowNonRestoredState": False, "allowOutputReplay": False},
        "upgrade": {**FULL["upgrade"], "savepointDeadline": "10m"},
        "replay": {**FULL["replay"], "flavour": "kubeflow"},
    }


def test_two_owners_of_one_list(jobs: Kubectl) -> None:
    jobs.apply(job({"env": [{"name": "A", "value": "1"}]}))
    other = object_of("StreamJob", {"env": [{"name": "B", "value": "2"}]}, "words")
    arguments = ("apply", "--server-side", "--field-manager=another", "--validate=false", "-f-")
    jobs(*arguments, stdin=json.dumps(other))  # kubectl's own check wants whole objects
    assert [e["name"] for e in jobs.get("sj", "words")["spec"]["env"]] == ["A", "B"]


def test_scale(jobs: Kubectl) -> None:
    jobs.apply(job({"maxReplicas": 4}))
    jobs("scale", "streamjob", "words", "--replicas=3")
    kept = jobs.get("sj", "words")
    assert kept["spec"]["replicas"] == 3
    assert kept["metadata"]["generation"] == 2
    with pytest.raises(Refused, match="replicas must not exceed maxReplicas"):
        jobs("scale", "streamjob", "words", "--replicas=5")
    with pytest.raises(Refused, match="greater than or equal to 1"):
        jobs("scale", "streamjob", "words", "--replicas=0")
    assert jobs.get("sj", "words")["spec"]["replicas"] == 3


def test_an_autoscaler_finds_what_it_needs(jobs: Kubectl) -> None:
    jobs.apply(job({"replicas": 2}))
    write_status(jobs, STATUS)
    path = f"/apis/penstock.dev/v1alpha1/namespaces/{jobs.namespace}/streamjobs/words/scale"
    scale = json.loads(jobs("get", "--raw", path))
    assert scale["spec"]["replicas"] == 2
    assert scale["status"] == {"replicas": 2, "selector": "penstock.dev/job=words"}


def test_replicas_may_be_left_to_an_autoscaler(jobs: Kubectl) -> None:
    jobs.apply(job())
    jobs("scale", "streamjob", "words", "--replicas=3")
    jobs.apply(job({"suspend": True}))
    assert jobs.get("sj", "words")["spec"]["replicas"] == 3


def test_a_whole_status_is_kept_and_read_back(jobs: Kubectl) -> None:
    jobs.apply(job())
    write_status(jobs, STATUS)
    kept = jobs.get("sj", "words")
    assert kept["metadata"]["generation"] == 1
    assert read_status(kept["status"]) == STATUS


def test_the_spec_is_not_changed_through_the_status(jobs: Kubectl) -> None:
    jobs.apply(job())
    patch = '{"spec": {"replicas": 7}, "status": {"replicas": 1}}'
    jobs("patch", "sj", "words", "--subresource=status", "--type=merge", "-p", patch)
    kept = jobs.get("sj", "words")
    assert (kept["spec"]["replicas"], kept["status"]["replicas"]) == (1, 1)


def columns(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in table.split("\n")]


def test_kubectl_get_reads_well(jobs: Kubectl) -> None:
    jobs.apply(job({"replicas": 2}))
    write_status(jobs, STATUS)
    head, line, *_ = columns(jobs("get", "sj"))
    assert head == [
        "NAME",
        "STATE",
        "REASON",
        "READY",
        "DESIRED",
        "WORKERS",
        "EPOCH",
        "CHECKPOINT AGE",
        "AGE",
    ]
    assert line[:7] == ["words", "Running", "Running", "True", "3", "2", "17"]


def test_jobs_are_found_by_their_state(jobs: Kubectl) -> None:
    for name, state in (("a", StreamJobState.RUNNING), ("b", StreamJobState.FAILED)):
        jobs.apply(job(name=name))
        write_status(jobs, StreamJobStatus(state=state), name)
    found = jobs("get", "sj", "--field-selector=status.state=Failed", "-o", "name")
    assert found.split() == ["streamjob.penstock.dev/b"]


def test_one_word_names_all_of_our_objects(jobs: Kubectl) -> None:
    jobs.apply(job(), snapshot({"jobRef": "words"}))
    found = jobs("get", "streams", "-o", "name").split()
    assert found == ["streamjob.penstock.dev/words", "streamsnapshot.penstock.dev/before"]
    assert jobs("get", "ssnap", "-o", "name").split() == [found[1]]


def explained(kubectl: Kubectl, path: str) -> str:
    return kubectl("explain", path, "--output=plaintext")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "sj.spec.checkpoint.interval",
            "Time from start to start; longer after a checkpoint that took more than half of it. "
            "Default: 10s. At least 100ms.",
        ),
        ("sj.spec.job.graph.steps.window.size", "Length of a window"),
        ("sj.spec.maxKeyGroups", "Immutable."),
        ("sj.spec.deletionPolicy", "ENUM: Retain Savepoint Purge"),
        ("sj.status.pending", "The operation under way, written before it begins"),
        ("ssnap.spec.disposeOnDelete", "Delete the files together with this object"),
    ],
)
def test_fields_are_explained(jobs: Kubectl, path: str, expected: str) -> None:
    assert expected in " ".join(explained(jobs, path).split())


def test_every_field_is_explained(jobs: Kubectl) -> None:
    for kind in ("sj", "ssnap"):
        text = jobs("explain", kind, "--recursive")
        assert text.count("<") > 20
        assert "<no description>" not in explained(jobs, f"{kind}.spec")


def test_a_kept_object_has_all_defaults(jobs: Kubectl) -> None:
    jobs.apply(job())
    spec: dict[str, Any] = jobs.get("sj", "words")["spec"]
    assert spec["replicas"] == 1
    assert spec["shuffle"]["highWatermark"] == "8Mi"
    assert spec["shuffle"]["compression"] == {"mode": "none", "entropyThreshold": 6.5}
    assert spec["checkpoint"]["interval"] == "10s"
    assert spec["security"] == {"mtls": True}
    assert "autoscaling" not in spec
