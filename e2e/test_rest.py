"""A job at rest: its status stays current, and it costs the operator almost nothing."""

import re
import time
from collections import Counter
from datetime import datetime

import pytest

from e2e.rig.cluster import Cluster
from e2e.rig.reading import CONFIG_MAPS, listed
from e2e.rig.release import SYSTEM
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount
from penstock.cluster.system import SystemClock

STEP_TIMEOUT_S = 120.0
LOOKED_S = 120.0  # a status is written at least every 75 seconds
LOOK_EVERY_S = 1.0
AGE_MAX_S = 80.0
CALLS_A_MINUTE_MAX = 10
METRICS = f"/api/v1/namespaces/{SYSTEM}/services/penstock-metrics:8080/proxy/metrics"
SAMPLE = re.compile(r'^penstock_operator_api_calls_total\{.*resource="(\w+)",verb="(\w+)"\} (\S+)$', re.MULTILINE)


def calls(operator: Cluster) -> Counter[str]:
    """Count calls by resource and verb, without watches and the operator's Lease."""
    page = operator.kubectl("get", "--raw", METRICS)
    found: Counter[str] = Counter()
    for resource, verb, value in SAMPLE.findall(page):
        if resource != "leases" and verb != "watch":
            found[f"{verb} {resource}"] += int(float(value))
    return found


def age_s(job: WordCount) -> float:
    """Give the age of the epoch that the status shows."""
    shown = job.status()["checkpoint"]["lastCompleted"]["time"]
    return SystemClock().wall_us() / 1e6 - datetime.fromisoformat(shown).timestamp()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [{"lines": 120_000}], indirect=True)
def test_a_job_at_rest_shows_its_epochs_and_costs_little(wordcount: WordCount, operator: Cluster) -> None:
    wordcount.start(rate=40)
    wait_for("a stable spec", lambda: wordcount.status().get("lastStable"), STEP_TIMEOUT_S,
             wordcount.say)  # fmt: skip
    system = operator.kubectl.in_namespace(SYSTEM)
    before, first, begun = calls(operator), wordcount.shown_epoch(), time.monotonic()
    ages: list[float] = []

    def looked_long_enough() -> bool:
        ages.append(age_s(wordcount))
        return time.monotonic() - begun > LOOKED_S

    wait_for("two minutes", looked_long_enough, LOOKED_S * 2, every_s=LOOK_EVERY_S)
    took_min = (time.monotonic() - begun) / 60
    made = calls(operator) - before
    print(f"the epoch shown was up to {max(ages):.0f} s old; calls of the operator: {dict(made)}")
    assert wordcount.shown_epoch() > first
    assert max(ages) <= AGE_MAX_S
    assert made.total() <= CALLS_A_MINUTE_MAX * took_min, made
    said = system("logs", "deployment/penstock", f"--since={int(took_min * 60)}s")
    assert not [line for line in said.splitlines() if wordcount.kubectl.namespace in line], said
    names = [each["metadata"]["name"] for each in listed(wordcount.kubectl, CONFIG_MAPS)]
    assert not [name for name in names if "-ckpt-epoch-" in name], names
    wordcount.finish(STEP_TIMEOUT_S)
    wordcount.check_exact()
