"""A field changes on a running job: it is ignored, scaled, restarted or refused by its class."""

from functools import partial
from typing import Any

import pytest

from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount
from tests.integration.kubernetes.kubectl import Refused

STEP_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0
IGNORED: dict[str, Any] = {
    "maxReplicas": 8,
    "upgrade": {"stableDeadline": "20m", "savepointDeadline": "1m"},
    "deletionDeadline": "1m",
    "deletionPolicy": "Savepoint",
}
RESTARTS: tuple[dict[str, Any], ...] = (
    {"restartNonce": 7},
    {
        "env": [{"name": "LEVEL", "value": "9"}],
        "checkpoint": {"interval": "2s", "retain": 5},
        "shuffle": {"flushInterval": "7ms", "compression": {"mode": "lz4"}},
        "state": {"memory": "512Mi"},
        "placement": {"strategy": "ParallelismFirst"},
        "resources": {"requests": {"cpu": "60m"}},
    },
    {"security": {"mtls": False}},
)
REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"maxKeyGroups": 64}, "maxKeyGroups is immutable"),
    ({"checkpoint": {"volume": {"claimName": "other"}}}, "volume is immutable"),
    ({"replicas": 9}, "replicas must not exceed maxReplicas"),
)


def is_observed(job: WordCount) -> bool:
    found = job.job()
    return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])


def are_anew(job: WordCount, before: set[str]) -> bool:
    """Say whether two new workers run, and no earlier one."""
    return job.runs_on(2) and not before & uids(job)


def uids(job: WordCount) -> set[str]:
    return {uid for uid, _ in job.lives().values()}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [{"lines": 80_000}], indirect=True)
def test_a_change_does_what_its_class_says(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    wordcount.commits(1, STEP_TIMEOUT_S)
    lives = wordcount.lives()
    wordcount.patch(**IGNORED)
    wait_for("observed", lambda: is_observed(wordcount), STEP_TIMEOUT_S, wordcount.say)
    for change, message in REFUSED:
        with pytest.raises(Refused, match=message):
            wordcount.patch(**change)
    wordcount.patch(restore={"nonce": "1", "snapshotRef": "nowhere"})
    wait_for("refused", lambda: refusal(wordcount) == "RestoreNotFound", STEP_TIMEOUT_S)
    wordcount.commits(1, STEP_TIMEOUT_S)
    assert wordcount.lives() == lives, "none of these changes restarts a worker"
    wordcount.patch(restore=None)
    for change in RESTARTS:
        before, epoch = uids(wordcount), wordcount.epoch()
        wordcount.patch(**change)
        wait_for(
            "all workers anew",
            partial(are_anew, wordcount, before),
            STEP_TIMEOUT_S,
            wordcount.say,
        )
        assert wordcount.epoch() >= epoch
    wordcount.commits(1, STEP_TIMEOUT_S)
    wordcount.finish(END_TIMEOUT_S, security={"mtls": False})
    wordcount.check_exact()


def refusal(job: WordCount) -> str:
    """Give the reason why the newest spec is refused; empty when it is not."""
    accepted = [c for c in job.conditions() if c["type"] == "Accepted" and c["status"] == "False"]
    return str(accepted[0]["reason"]) if accepted else ""


@pytest.mark.timeout(600)
def test_an_upgrade_without_state_begins_anew(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    wordcount.commits(2, STEP_TIMEOUT_S)
    wordcount.patch(suspend=True)
    wordcount.until_state("Suspended", STEP_TIMEOUT_S)
    first = wordcount.epoch()
    kept = wordcount.folder / "first"
    kept.mkdir()
    for file in wordcount.output.glob("*.parquet"):
        file.rename(kept / file.name)
    assert any(kept.iterdir()), "the first run has written output"
    life = [{"name": "LIFE", "value": "2"}]
    wordcount.apply(0, suspend=False, upgrade={"mode": "Stateless"}, env=life)
    wordcount.until_finished(END_TIMEOUT_S)
    assert wordcount.epoch() > first, "epochs always rise"
    assert wordcount.status()["restore"]["replayed"], "the status says that output was written again"
    wordcount.check_exact()
