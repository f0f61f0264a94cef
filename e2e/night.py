"""The part of the night that needs a cluster: many losses, a long outage, a full volume. No test of `make e2e`.

``make night`` runs each of these tests by its name; a piece is a parameter. Each starts a job of its own,
and compares its whole output with the input at the end. It prints how long each recovery took.
"""

import itertools
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.rig.cluster import Cluster
from e2e.rig.losses import leading_pod, lose, lose_a_node, nodes_for_workers
from e2e.rig.outage import addresses, ended, rows_over
from e2e.rig.small_volume import OnSmallVolume
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount
from tests.night.recoveries import Recoveries, marked

STEP_TIMEOUT_S = 180.0
END_TIMEOUT_S = 600.0
POD_LOSSES = ("worker deleted", "worker killed", "leader deleted", "leader killed", "leader killed")
FILLINGS = 5
FULL_FOR_S = (5.0, 30.0)


@contextmanager
def told() -> Iterator[Recoveries]:
    """Print the recoveries at the end, also of a test that fails."""
    took: Recoveries = {}
    try:
        yield took
    finally:
        print(marked(took))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wordcount", [{"lines": 400_000}], indirect=True)
@pytest.mark.parametrize("piece", range(10))
def test_pods_are_lost(wordcount: WordCount, piece: int) -> None:
    """Five pods, one after the other, in an order of the piece."""
    draw = random.Random(piece)
    with told() as took:
        wordcount.start(rate=40)
        wordcount.commits(1, STEP_TIMEOUT_S)
        for kind in draw.sample(POD_LOSSES, len(POD_LOSSES)):
            leader = leading_pod(wordcount)
            others = [name for name in wordcount.workers() if name != leader]
            name = leader if kind.startswith("leader") else draw.choice(others)
            seconds = lose(wordcount, name, force=kind.endswith("killed"))
            took.setdefault(f"pod of a {kind}", []).append(seconds)
        wordcount.finish(END_TIMEOUT_S)
        wordcount.check_exact()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wordcount", [{"lines": 400_000}], indirect=True)
@pytest.mark.parametrize("piece", range(5))
def test_a_node_is_lost(wordcount: WordCount, operator: Cluster, piece: int) -> None:
    """The leader's node in even pieces, the other worker's in odd ones."""
    of_leader = piece % 2 == 0
    with told() as took:
        wordcount.start(rate=40, placement={"nodes": nodes_for_workers(operator)})
        wordcount.commits(1, STEP_TIMEOUT_S)
        seconds = lose_a_node(wordcount, operator, of_leader=of_leader)
        took[f"node of {'the leader' if of_leader else 'a worker'} lost"] = [seconds]
        wordcount.finish(END_TIMEOUT_S)
        wordcount.check_exact()


@pytest.mark.timeout(4800)
@pytest.mark.parametrize("wordcount", [{"lines": 640_000}], indirect=True)
@pytest.mark.parametrize("minutes", [3, 30])
def test_the_api_server_is_away(wordcount: WordCount, operator: Cluster, minutes: int) -> None:
    """Connections are refused for this time. Rows flow on; then commits and status follow, without a restart."""
    with told() as took:
        wordcount.start(rate=20)
        wordcount.commits(1, STEP_TIMEOUT_S)
        lives, workers = wordcount.lives(), addresses(wordcount)
        with ended(operator):
            seen = rows_over(operator, workers, minutes * 60.0)
        back = time.monotonic()
        flowed = [later > earlier for earlier, later in itertools.pairwise(seen)]
        print(f"{seen[-1] - seen[0]:.0f} rows without a server, in {sum(flowed)} of {len(flowed)} spells")
        assert all(flowed), f"the data plane continues: {seen}"
        stood = wait_for("an answer", wordcount.epoch, STEP_TIMEOUT_S)
        answered = time.monotonic()
        print(f"the server answers {answered - back:.1f} s after its manifest is back")
        wait_for("a commit", lambda: wordcount.epoch() > stood, STEP_TIMEOUT_S, wordcount.say)
        took["API server back: commits again"] = [time.monotonic() - answered]
        wait_for("its status", lambda: wordcount.shown_epoch() > stood, STEP_TIMEOUT_S, wordcount.say)
        wordcount.until("Ready", STEP_TIMEOUT_S)
        took["API server back: status follows"] = [time.monotonic() - answered]
        assert wordcount.lives() == lives, "no worker was restarted"
        wordcount.finish(END_TIMEOUT_S)
        wordcount.check_exact()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wordcount", [{"lines": 400_000}], indirect=True)
def test_a_volume_is_full(wordcount: WordCount, operator: Cluster) -> None:
    """Five times, for some seconds more than the status needs to say so."""
    draw = random.Random(0)
    node = nodes_for_workers(operator)[0]
    job = OnSmallVolume(wordcount.kubectl, wordcount.name, operator, wordcount.folder, wordcount.lines, node=node)
    with told() as took, job.volume():
        job.start(rate=40)
        job.commits(1, STEP_TIMEOUT_S)
        for _ in range(FILLINGS):
            took.setdefault("full volume", []).append(until_writable(job, draw.uniform(*FULL_FOR_S)))
        job.finish(END_TIMEOUT_S)
        job.fetch_output()
        job.check_exact()


def until_writable(job: OnSmallVolume, more_s: float) -> float:
    """Fill the volume until the job says so, and longer. Give the seconds from the first free byte to a commit."""
    job.fill()
    wait_for("trouble in the status", lambda: "No space left" in job.say(), STEP_TIMEOUT_S, job.say)
    begun = time.monotonic()
    wait_for("some seconds", lambda: time.monotonic() - begun > more_s, more_s + 60.0)
    job.empty()
    free = time.monotonic()
    job.commits(1, STEP_TIMEOUT_S)
    job.until("Ready", STEP_TIMEOUT_S)
    return time.monotonic() - free
