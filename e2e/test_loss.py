"""Pods that are lost: a worker, the leader by force, the operator while it is needed."""

import time

from e2e.conftest import SYSTEM
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount

RECOVERY_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0


def lose(job: WordCount, pod: str, *, force: bool) -> float:
    """Delete a worker's pod and give the seconds until the job commits again without it."""
    old = job.workers()[pod]["metadata"]["uid"]
    options = ["--grace-period=0", "--force"] if force else []
    begun = time.monotonic()
    job.kubectl("delete", "pod", pod, "--wait=false", *options)
    wait_for(
        "a new pod of that ordinal",
        lambda: job.workers().get(pod, {"metadata": {"uid": old}})["metadata"]["uid"] != old,
        RECOVERY_TIMEOUT_S,
    )
    job.until("Ready", RECOVERY_TIMEOUT_S)
    job.commits(1, RECOVERY_TIMEOUT_S)
    return time.monotonic() - begun


def leader_of(job: WordCount) -> str:
    """Give the pod that leads."""
    return str(wait_for("leader", lambda: job.job()["status"].get("leader"), RECOVERY_TIMEOUT_S))


def test_a_worker_and_the_leader_are_lost(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    leader = leader_of(wordcount)
    other = next(name for name in wordcount.workers() if name != leader)
    print(f"worker deleted: commits again after {lose(wordcount, other, force=False):.1f} s")
    print(f"leader killed: commits again after {lose(wordcount, leader, force=True):.1f} s")
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()


def test_the_job_goes_on_without_an_operator(wordcount: WordCount) -> None:
    wordcount.start(rate=40)
    system = wordcount.kubectl.in_namespace(SYSTEM)
    system("scale", "deployment/penstock", "--replicas=0")
    try:
        pod = leader_of(wordcount)
        wordcount.kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
        files = len(list(wordcount.output.glob("*.parquet")))
        wait_for(
            "output of the workers alone",
            lambda: len(list(wordcount.output.glob("*.parquet"))) > files + 1,
            RECOVERY_TIMEOUT_S,
        )
    finally:
        system("scale", "deployment/penstock", "--replicas=1")
    system("rollout", "status", "deployment/penstock", "--timeout=120s")
    wordcount.until("Ready", RECOVERY_TIMEOUT_S)
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()
