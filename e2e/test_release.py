"""The chart is upgraded and removed while a job runs: the job is not affected, nothing is left."""

import pytest

from e2e.rig.cluster import Cluster
from e2e.rig.release import RELEASE, SYSTEM, install
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount

STEP_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0
KINDS = (
    "deployments,replicasets,pods,services,configmaps,secrets,serviceaccounts,leases,roles,"
    "rolebindings,networkpolicies,poddisruptionbudgets,clusterroles,clusterrolebindings"
)


def of_the_release(cluster: Cluster) -> set[str]:
    """List the objects of the release, with and without a namespace, leases included."""
    system = cluster.kubectl.in_namespace(SYSTEM)
    labelled = system("get", KINDS, "-l", f"app.kubernetes.io/instance={RELEASE}", "-o", "name")
    named = system("get", KINDS, "-o", "name").split()
    return {*labelled.split(), *(name for name in named if RELEASE in name.partition("/")[2])}


@pytest.mark.timeout(600)
def test_a_job_outlives_upgrade_and_removal_of_the_chart(wordcount: WordCount, operator: Cluster) -> None:
    wordcount.start(rate=40)
    wordcount.commits(1, STEP_TIMEOUT_S)
    lives = wordcount.lives()
    try:
        install(operator, SYSTEM, "--set=replicas=2", "--set=env[0].name=PENSTOCK_LOG_LEVEL",
                "--set=env[0].value=DEBUG")  # fmt: skip
        wordcount.commits(1, STEP_TIMEOUT_S)
        assert wordcount.lives() == lives, "an upgrade restarts no worker"

        operator.run_helm("uninstall", RELEASE, f"--namespace={SYSTEM}", "--wait")
        wait_for("nothing of it", lambda: not of_the_release(operator), STEP_TIMEOUT_S,
                 lambda: str(of_the_release(operator)))  # fmt: skip
        files = len(list(wordcount.output.glob("*.parquet")))
        wait_for(
            "output without an operator",
            lambda: len(list(wordcount.output.glob("*.parquet"))) > files,
            STEP_TIMEOUT_S,
        )
        assert wordcount.job()["spec"], "definitions and jobs stay"
        assert wordcount.lives() == lives, "a removal restarts no worker"
    finally:
        install(operator, SYSTEM)
    wordcount.commits(1, STEP_TIMEOUT_S)
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()
