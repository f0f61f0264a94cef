"""Health checks and actions of Argo CD, in its engine, for every state of a job."""

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.base.values import replace
from penstock.contract.job_reader import read_stream_job
from penstock.contract.streamjob_status import (
    Condition,
    ConditionType,
    Reason,
    StreamJobState,
    StreamJobStatus,
    Truth,
    status_plain,
)
from penstock.contract.streamsnapshot import read_stream_snapshot
from tests.integration.gitops.lua import health, run
from tests.integration.kubernetes.crds.samples import FULL, job, object_of
from tools.argocd import ACTIONS, FILE, render, script

NOW = "2026-11-21T12:00:00Z"


def streamjob(
    state: StreamJobState,
    *conditions: tuple[ConditionType, Truth, Reason, str],
    spec: dict[str, Any] | None = None,
) -> Any:
    """Make an object as the operator leaves it."""
    found = tuple(Condition(*c[:2], str(c[2]), c[3], NOW, 2) for c in conditions)
    status = StreamJobStatus(observed_generation=2, state=state, conditions=found)
    plain = job(spec)
    plain["metadata"] |= {"namespace": "shop", "generation": 2}
    return {**plain, "status": status_plain(status)}


def ready(truth: Truth, reason: Reason, message: str) -> Any:
    return (ConditionType.READY, truth, reason, message)


WELL = (ConditionType.STALLED, Truth.FALSE, Reason.NOT_STALLED, "")
VALID = (ConditionType.ACCEPTED, Truth.TRUE, Reason.VALID, "")
RUNNING = streamjob(StreamJobState.RUNNING, VALID, WELL, ready(Truth.TRUE, Reason.RUNNING, "2 workers run"))
TABLE: list[tuple[Any, str, str]] = [
    (RUNNING, "Healthy", "Running: 2 workers run"),
    (
        {**RUNNING, "status": None},
        "Progressing",
        "Waiting for the operator to see this generation",
    ),
    (
        {**RUNNING, "metadata": {**RUNNING["metadata"], "generation": 3}},
        "Progressing",
        "Waiting for the operator to see this generation",
    ),
    (
        {**RUNNING, "metadata": {**RUNNING["metadata"], "deletionTimestamp": NOW}},
        "Progressing",
        "Deleting",
    ),
    (
        streamjob(
            StreamJobState.RUNNING,
            (ConditionType.ACCEPTED, Truth.FALSE, Reason.IMAGE_MISSING, 'no\nimage "x"'),
            ready(Truth.TRUE, Reason.RUNNING, ""),
        ),
        "Degraded",
        'ImageMissing: no\nimage "x"',
    ),
    (
        streamjob(
            StreamJobState.STARTING,
            VALID,
            (ConditionType.STALLED, Truth.TRUE, Reason.IMAGE_PULL_FAILED, "bad:1 is not there"),
            ready(Truth.FALSE, Reason.STARTING, ""),
        ),
        "Degraded",
        "ImagePullFailed: bad:1 is not there",
    ),
    (
        streamjob(StreamJobState.FAILED, ready(Truth.FALSE, Reason.FAILED, "KeyError")),
        "Degraded",
        "Failed: KeyError",
    ),
    (
        streamjob(
            StreamJobState.RUNNING,
            ready(Truth.FALSE, Reason.CHECKPOINT_STALE, "the newest checkpoint is 400 s old"),
        ),
        "Degraded",
        "CheckpointStale: the newest checkpoint is 400 s old",
    ),
    (
        streamjob(
            StreamJobState.RUNNING,
            ready(Truth.FALSE, Reason.CHECKPOINT_FAILING, "checkpoint 9 failed"),
        ),
        "Degraded",
        "CheckpointFailing: checkpoint 9 failed",
    ),
    (
        streamjob(
            StreamJobState.SUSPENDED,
            ready(Truth.FALSE, Reason.SUSPENDED, ""),
            spec={"suspend": True},
        ),
        "Healthy",
        "Suspended by spec",
    ),
    (
        streamjob(StreamJobState.SUSPENDED, ready(Truth.FALSE, Reason.SUSPENDED, "")),
        "Progressing",
        "Suspended",
    ),
    (
        streamjob(StreamJobState.FINISHED, ready(Truth.TRUE, Reason.FINISHED, "all is read")),
        "Healthy",
        "Finished: all is read",
    ),
    (
        streamjob(StreamJobState.RESCALING, ready(Truth.FALSE, Reason.RESCALING, "2 to 3")),
        "Progressing",
        "Rescaling: 2 to 3",
    ),
    *(
        (streamjob(state, ready(Truth.FALSE, Reason(state), "")), "Progressing", str(state))
        for state in (
            StreamJobState.PENDING,
            StreamJobState.STARTING,
            StreamJobState.UPGRADING,
            StreamJobState.SUSPENDING,
            StreamJobState.RESTARTING,
            StreamJobState.DELETING,
        )
    ),
]


def test_health(glua: Path, tmp_path: Path) -> None:
    found = health(glua, tmp_path, [plain for plain, _, _ in TABLE])
    assert {p["status"]["state"] for p, _, _ in TABLE if p["status"]} == set(StreamJobState)
    assert found == [{"status": status, "message": message} for _, status, message in TABLE]


@pytest.mark.parametrize(
    ("status", "expected_health"),
    [
        (None, "Progressing"),
        ({"observedGeneration": 1, "state": "InProgress"}, "Progressing"),
        ({"observedGeneration": 1, "state": "Completed", "path": "p"}, "Healthy"),
        ({"observedGeneration": 1, "state": "Failed", "message": "no job"}, "Degraded"),
        ({"observedGeneration": 0, "state": "Completed"}, "Progressing"),
    ],
)
def test_health_of_a_snapshot(glua: Path, tmp_path: Path, status: Any, expected_health: str) -> None:
    plain = object_of("StreamSnapshot", {"jobRef": "words"}, "before")
    plain = {**plain, "metadata": {"name": "before", "generation": 1}, "status": status}
    assert health(glua, tmp_path, [plain], "StreamSnapshot")[0]["status"] == expected_health


# --- Actions --------------------------------------------------------------------------------------


def act(glua: Path, folder: Path, name: str, plain: Any) -> Any:
    return run(glua, script(f"StreamJob/actions/{name}/action.lua"), [plain], folder)[0]


def offered(glua: Path, folder: Path, plain: Any) -> set[str]:
    found = run(glua, script("StreamJob/actions/discovery.lua"), [plain], folder)[0]
    assert set(found) == set(ACTIONS)
    return {name for name in found if not found[name]["disabled"]}


def test_the_actions_of_argo_cd_depend_on_the_state_of_the_job(glua: Path, tmp_path: Path) -> None:
    assert offered(glua, tmp_path, RUNNING) == {"suspend", "restart", "savepoint"}
    suspended = streamjob(StreamJobState.SUSPENDED, spec={"suspend": True})
    assert offered(glua, tmp_path, suspended) == {"resume"}
    assert offered(glua, tmp_path, {**RUNNING, "status": None}) == {"suspend", "restart"}


def test_suspend_resume_and_restart_change_one_field_each(glua: Path, tmp_path: Path) -> None:
    full = object_of("StreamJob", {**FULL, "restartNonce": 7}, "words")
    before = read_stream_job(full, cluster=True).spec
    changes: dict[str, dict[str, Any]] = {
        "suspend": {"suspend": True},
        "resume": {"suspend": False},
        "restart": {"restart_nonce": 8},
    }
    for name, change in changes.items():
        after = read_stream_job(act(glua, tmp_path, name, full), cluster=True).spec
        assert after == replace(before, **change), name


def test_a_first_restart(glua: Path, tmp_path: Path) -> None:
    assert act(glua, tmp_path, "restart", job())["spec"]["restartNonce"] == 1


def test_a_savepoint_is_an_object_that_outlives_the_job(glua: Path, tmp_path: Path) -> None:
    (impacted,) = act(glua, tmp_path, "savepoint", RUNNING)
    assert impacted["operation"] == "create"
    made = impacted["resource"]
    assert "ownerReferences" not in made["metadata"]
    read = read_stream_snapshot(made)
    assert re.fullmatch(r"words-\d{14}", read.name)
    assert (read.namespace, read.spec.job_ref) == ("shop", "words")


def test_the_patch_of_the_config_map_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "run: python -m tools.argocd"


def test_the_engine_gives_no_more_than_argo_cd_does(glua: Path, tmp_path: Path) -> None:
    assert run(glua, "return {string == nil, math == nil, io == nil}", [{}], tmp_path) == [[True, True, True]]
