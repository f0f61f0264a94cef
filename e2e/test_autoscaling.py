"""Autoscaling, built-in and by the HorizontalPodAutoscaler: the output stays exact."""

from collections.abc import Mapping
from typing import Any

import pytest

from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount

CHOICE_TIMEOUT_S = 180.0
END_TIMEOUT_S = 180.0
# Of each file. At this rate a source is busy for a quarter of the time on a fast machine.
LINES_PER_S = 40
IDLE_LINES_PER_S = 3  # a seventh of the reads: the source is idle even on a machine with other work
# Without a metrics server it knows no load, but it keeps within its bounds.
HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "wordcount"},
    "spec": {
        "scaleTargetRef": {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "StreamJob",
            "name": "wordcount",
        },
        "minReplicas": 2,
        "maxReplicas": 3,
    },
}


def bounds(**changed: Any) -> dict[str, Any]:
    return {"minReplicas": 1, "maxReplicas": 2, "targetBusy": 0.1, "cooldown": "10s", **changed}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [{"lines": 800_000, "files": 80}], indirect=True)
def test_a_busy_job_gets_workers_an_idle_one_gives_them_back_and_an_hpa_has_its_way(
    wordcount: WordCount,
) -> None:
    wordcount.start(LINES_PER_S, replicas=1, autoscaling=bounds())
    first = wordcount.lives()
    wait_for("two workers", lambda: wordcount.runs_on(2), CHOICE_TIMEOUT_S, wordcount.say)
    assert wordcount.status()["autoscaling"]["replicas"] == 2
    assert first.items() <= wordcount.lives().items(), "the first worker was not touched"
    wordcount.apply(IDLE_LINES_PER_S, replicas=1, autoscaling=bounds(targetBusy=0.95))
    wait_for("two workers anew", lambda: is_anew(wordcount, first), CHOICE_TIMEOUT_S,
             wordcount.say)  # fmt: skip
    first = {name: life for name, life in wordcount.lives().items() if name.endswith("-0")}
    wait_for("one worker", lambda: wordcount.runs_on(1), CHOICE_TIMEOUT_S, wordcount.say)
    print(wordcount.status()["autoscaling"])
    assert wordcount.lives() == first, "the first worker was not touched"
    assert wordcount.job()["spec"]["replicas"] == 1, "the spec is not written"
    events = wordcount.kubectl.items("events")
    texts = [each["message"] for each in events if each["reason"] == "Autoscaled"]
    print("\n".join(texts))
    assert len(texts) >= 2
    wordcount.kubectl.apply(HPA)
    wait_for("its two workers", lambda: wordcount.runs_on(2), CHOICE_TIMEOUT_S, wordcount.say)
    assert wordcount.job()["spec"]["replicas"] == 2, "written by the HorizontalPodAutoscaler"
    wait_for("no autoscaler of ours", lambda: conflict(wordcount), CHOICE_TIMEOUT_S, wordcount.say)
    assert "autoscaling" not in wordcount.status()
    wordcount.kubectl("delete", "hpa", "wordcount")
    wordcount.finish(END_TIMEOUT_S, autoscaling=bounds(targetBusy=0.95))
    wordcount.check_exact()


def is_anew(job: WordCount, before: Mapping[str, tuple[str, int]]) -> bool:
    """Say whether two new workers run, and no earlier one."""
    return job.runs_on(2) and not before.items() & job.lives().items()


def conflict(job: WordCount) -> bool:
    return any(each["reason"] == "AutoscalerConflict" for each in job.conditions())
