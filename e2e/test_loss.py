"""Pods and nodes are lost: the output stays exact, and the recovery time is printed."""

import pytest

from e2e.rig.cluster import Cluster
from e2e.rig.losses import RECOVERY_TIMEOUT_S, lose, lose_a_node, nodes_for_workers
from e2e.rig.wordcount import WordCount

END_TIMEOUT_S = 180.0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("wordcount", [{"lines": 80_000}], indirect=True)
def test_a_worker_the_leader_and_a_node_are_lost(wordcount: WordCount, operator: Cluster) -> None:
    wordcount.start(rate=40, placement={"nodes": nodes_for_workers(operator)})
    wordcount.commits(1, RECOVERY_TIMEOUT_S)
    leader = wordcount.leader()
    other = next(name for name in wordcount.workers() if name != leader)
    print(f"worker deleted: commits again after {lose(wordcount, other, force=False):.1f} s")
    leader = wordcount.leader()
    print(f"leader killed: commits again after {lose(wordcount, leader, force=True):.1f} s")
    print(f"node of the leader lost: commits again after {lose_a_node(wordcount, operator, of_leader=True):.1f} s")
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()
