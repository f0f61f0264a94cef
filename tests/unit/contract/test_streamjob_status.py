"""A status is written as its object holds it and read back, by whatever version wrote it."""

import pytest

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract.reader import clipped, duration_text
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import (
    REASONS,
    AssignmentStatus,
    CheckpointSummary,
    Condition,
    ConditionType,
    LastCompleted,
    Reason,
    RestartSummary,
    RestoreStatus,
    SinkSummary,
    StreamJobState,
    StreamJobStatus,
    Truth,
    carried_status,
    read_status,
    status_plain,
)
from penstock.contract.streamsnapshot import (
    SnapshotState,
    SnapshotStatus,
    SnapshotType,
    read_snapshot_status,
    read_stream_snapshot,
    snapshot_status_plain,
)

NOW = "2026-11-21T12:00:00Z"
READY = Condition(ConditionType.READY, Truth.TRUE, Reason.RUNNING, "all is well", NOW, 3)
RUNNING = StreamJobStatus(
    observed_generation=3,
    state=StreamJobState.RUNNING,
    conditions=(READY,),
    replicas=2,
    assignment=AssignmentStatus(4, 2),
    checkpoint=CheckpointSummary(LastCompleted(17, NOW, 5, 0.25, "x")),
    sinks=(SinkSummary("out", "exactly-once"),),
    restore=RestoreStatus("1", NOW, lost_output=(4, 5)),
    restarts=RestartSummary(2, 10, 600.0, "killed by SIGSEGV\nin flight: x", "wc-worker-1"),
)


def test_a_status_is_read_back_as_it_was_written() -> None:
    plain = status_plain(RUNNING)
    assert read_status(dict(plain)) == RUNNING
    assert plain["checkpoint"] == {
        "lastCompleted": {"epoch": 17, "time": NOW, "bytes": 5, "duration": "0.25s", "path": "x"},
        "failures": 0,
        "retained": [],
    }
    assert plain["restarts"] == {
        "count": 2,
        "limit": 10,
        "window": "600s",
        "last": "killed by SIGSEGV\nin flight: x",
        "worker": "wc-worker-1",
    }
    assert "leader" not in plain
    assert plain["readyReplicas"] == 0  # an HPA needs numbers, zero too


def test_a_new_object_has_the_status_of_a_new_job() -> None:
    assert read_status(None) == read_status({}) == StreamJobStatus()


def test_what_a_newer_operator_wrote_is_left_aside() -> None:
    plain: Plain = {
        **status_plain(RUNNING),
        "novelty": {"a": 1},
        "assignment": {"version": 4, "workers": 2, "zones": ["x"]},
        "sinks": [{"name": "out", "guarantee": "exactly-once", "topic": "t"}],
    }
    assert read_status(plain) == RUNNING


def test_unknown_values_are_carried_and_never_fatal() -> None:
    plain: Plain = {
        **status_plain(RUNNING),
        "state": "Draining",
        "replicas": "two",
        "conditions": [
            {**plain_condition("Flowing"), "status": "Perhaps"},
            {"type": "of another shape"},
            plain_condition("Ready"),
        ],
        "sparkApplication": {"name": "s", "flavour": "another", "state": "x"},
    }
    found = read_status(plain)
    assert found.state == "Draining"
    assert found.replicas == 0
    assert [(c.type, c.status) for c in found.conditions] == [
        ("Flowing", "Perhaps"),
        ("Ready", "True"),
    ]
    assert found.spark_application is not None
    assert found.spark_application.flavour == "another"
    assert read_status(dict(status_plain(found))) == found
    assert read_status({"conditions": "none", "pending": {"action": "New"}}) == StreamJobStatus()


def plain_condition(kind: str) -> dict[str, Plain]:
    return {
        "type": kind,
        "status": "True",
        "reason": "Why",
        "message": "",
        "lastTransitionTime": "2026-11-23T12:00:00Z",
    }


def test_what_is_written_keeps_what_another_version_wrote() -> None:
    old: Plain = {
        **status_plain(RUNNING),
        "novelty": {"a": 1},
        "assignment": {"version": 4, "workers": 2, "zones": ["x"]},
    }
    same = carried_status(old, RUNNING)
    assert same["novelty"] == {"a": 1}
    assert same["assignment"] == {"version": 4, "workers": 2, "zones": ["x"]}
    moved = replace(RUNNING, assignment=AssignmentStatus(5, 3))
    assert carried_status(old, moved)["assignment"] == {"version": 5, "workers": 3}
    assert carried_status(None, RUNNING) == status_plain(RUNNING)


def test_long_texts_are_clipped_so_that_the_api_server_takes_them() -> None:
    long = replace(READY, message="x" * 5000)
    plain = status_plain(replace(RUNNING, conditions=(long,)))
    message = read_status(dict(plain)).conditions[0].message
    assert len(message) == 2048
    assert message.endswith("x [...]")
    assert clipped("short", 5) == "short"


def test_too_many_items_are_a_fault_of_the_writer() -> None:
    crowded = replace(RUNNING, conditions=(READY,) * 17)
    with pytest.raises(ValueError, match="conditions has 17 items; at most 16 fit"):
        status_plain(crowded)


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "0s"), (0.25, "0.25s"), (90.0, "90s"), (1e-06, "0.000001s")])
def test_durations_are_spelt_for_their_pattern(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_every_reason_belongs_to_a_condition() -> None:
    assert {r for reasons in REASONS.values() for r in reasons} == set(Reason)
    assert set(REASONS) == set(ConditionType)
    assert set(map(str, StreamJobState)) <= set(map(str, REASONS[ConditionType.READY]))


def test_a_condition_is_found_by_its_type() -> None:
    assert RUNNING.condition(ConditionType.READY) == READY
    assert RUNNING.condition(ConditionType.STALLED) is None


# --- Snapshots ----------------------------------------------------------------------------------


def snapshot(**spec: Plain) -> Plain:
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"name": "before", "namespace": "1st"},
        "spec": spec,
    }


def test_a_snapshot_is_read_with_its_defaults() -> None:
    read = read_stream_snapshot(snapshot(jobRef="words"))
    assert (read.name, read.namespace) == ("before", "1st")
    assert (read.spec.job_ref, read.spec.type) == ("words", SnapshotType.SAVEPOINT)
    assert (read.spec.deadline_s, read.spec.retries) == (600.0, 3)


def test_a_snapshot_disposes_of_nothing_that_is_anothers() -> None:
    with pytest.raises(ConfigError, match="imported files belong to somebody else"):
        read_stream_snapshot(snapshot(path="p", disposeOnDelete=True))
    assert read_stream_snapshot(snapshot(jobRef="w", disposeOnDelete=True)).spec.dispose_on_delete


def test_the_status_of_a_snapshot_is_read_back() -> None:
    status = SnapshotStatus(2, SnapshotState.COMPLETED, (READY,), "p", 9, 1 << 40, NOW, NOW)
    assert read_snapshot_status(dict(snapshot_status_plain(status))) == status
