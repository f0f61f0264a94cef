"""The API server does not answer for a minute: rows flow on, commits wait and then resume."""

import itertools
import re
import threading
import time

import pytest

from e2e.rig.cluster import Cluster
from e2e.rig.wordcount import WordCount
from penstock.contract import pod

OUTAGE_S = 60.0
LOOK_EVERY_S = 5.0
RECOVERY_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0
ROWS = re.compile(r"^penstock_step_rows_in_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


def rows_seen(operator: Cluster, workers: list[tuple[str, str]]) -> float:
    """Add up the rows of all steps. The pods answer, because the API server does not."""
    total = 0.0
    for node, address in workers:
        url = f"http://{address}:{pod.HTTP_PORT}{pod.METRICS_PATH}"
        page = operator.on_node(node, "curl", "-sS", "--max-time", "10", url)
        total += sum(float(value) for value in ROWS.findall(page))
    return total


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [{"lines": 120_000}], indirect=True)
def test_a_minute_without_the_api_server(wordcount: WordCount, operator: Cluster) -> None:
    wordcount.start(rate=100)
    wordcount.commits(1, RECOVERY_TIMEOUT_S)
    lives = wordcount.lives()
    workers = [(found["spec"]["nodeName"], found["status"]["podIP"]) for found in wordcount.workers().values()]
    epoch = wordcount.epoch()
    never = threading.Event()
    operator.stop_server()
    begun = time.monotonic()
    seen = [rows_seen(operator, workers)]
    try:
        while time.monotonic() - begun < OUTAGE_S:
            never.wait(LOOK_EVERY_S)
            seen.append(rows_seen(operator, workers))
    finally:
        operator.start_server()
    back = time.monotonic()
    flowed = sum(later > earlier for earlier, later in itertools.pairwise(seen))
    print(f"without a server: {seen[-1] - seen[0]:.0f} rows in {OUTAGE_S:.0f} s,")
    print(f"  rows flowed in {flowed} of {len(seen) - 1} spells of {LOOK_EVERY_S:.0f} s")
    assert flowed > (len(seen) - 1) / 2, f"the data plane continues: {seen}"
    wordcount.commits(1, RECOVERY_TIMEOUT_S)
    print(f"server back: commits again after {time.monotonic() - back:.1f} s")
    assert wordcount.epoch() > epoch
    wordcount.until("Ready", RECOVERY_TIMEOUT_S)
    assert wordcount.leader() in wordcount.workers()
    assert wordcount.lives() == lives, "no worker was restarted"
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()
