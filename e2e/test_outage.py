"""The API server does not answer for a minute: rows flow on, commits wait and then resume."""

import itertools
import time

import pytest

from e2e.rig.cluster import Cluster
from e2e.rig.outage import addresses, frozen, rows_over
from e2e.rig.wordcount import WordCount

OUTAGE_S = 60.0
RECOVERY_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [{"lines": 120_000}], indirect=True)
def test_a_minute_without_the_api_server(wordcount: WordCount, operator: Cluster) -> None:
    wordcount.start(rate=100)
    wordcount.commits(1, RECOVERY_TIMEOUT_S)
    lives, workers, epoch = wordcount.lives(), addresses(wordcount), wordcount.epoch()
    with frozen(operator):
        seen = rows_over(operator, workers, OUTAGE_S)
    back = time.monotonic()
    flowed = sum(later > earlier for earlier, later in itertools.pairwise(seen))
    print(f"without a server: {seen[-1] - seen[0]:.0f} rows in {OUTAGE_S:.0f} s,")
    print(f"  rows flowed in {flowed} of {len(seen) - 1} spells")
    assert flowed > (len(seen) - 1) / 2, f"the data plane continues: {seen}"
    wordcount.commits(1, RECOVERY_TIMEOUT_S)
    print(f"server back: commits again after {time.monotonic() - back:.1f} s")
    assert wordcount.epoch() > epoch
    wordcount.until("Ready", RECOVERY_TIMEOUT_S)
    assert wordcount.leader() in wordcount.workers()
    assert wordcount.lives() == lives, "no worker was restarted"
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()
