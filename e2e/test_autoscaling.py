"""The built-in autoscaler: a busy job gets workers, an idle one gives them back, and is exact."""

import json
from typing import Any

import pytest

from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount

CHOICE_TIMEOUT_S = 180.0
END_TIMEOUT_S = 180.0
LINES_PER_S = 250


def bounds(**changed: Any) -> dict[str, Any]:
    return {"minReplicas": 1, "maxReplicas": 2, "targetBusy": 0.1, "cooldown": "10s", **changed}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [400_000], indirect=True)
def test_a_busy_job_gets_workers_and_an_idle_one_gives_them_back(wordcount: WordCount) -> None:
    wordcount.start(LINES_PER_S, replicas=1, autoscaling=bounds())
    first = wordcount.lives()
    wait_for("two workers", lambda: wordcount.runs_on(2), CHOICE_TIMEOUT_S, wordcount.say)
    assert wordcount.status()["autoscaling"]["replicas"] == 2
    wordcount.patch(autoscaling=bounds(targetBusy=0.95))
    wait_for("one worker", lambda: wordcount.runs_on(1), CHOICE_TIMEOUT_S, wordcount.say)
    print(wordcount.status()["autoscaling"])
    assert wordcount.lives() == first, "the first worker was not touched"
    assert wordcount.job()["spec"]["replicas"] == 1, "nobody writes into the spec"
    said = json.loads(wordcount.kubectl("get", "events", "-o", "json"))["items"]
    texts = [each["message"] for each in said if each["reason"] == "Autoscaled"]
    print("\n".join(texts))
    assert len(texts) >= 2
    wordcount.finish(END_TIMEOUT_S, autoscaling=bounds(targetBusy=0.95))
    wordcount.check_exact()
