"""Troubles in a cluster: Stalled gives the reason in one word, and one `kubectl apply` repairs it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import Claim, WordCount, make_shared

STALL_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0
EVENT_TIMEOUT_S = 15.0
NO_IMAGE = "localhost/penstock-worker:no-such-tag"


def no_such_image(spec: Any) -> None:
    spec["image"] = NO_IMAGE


def no_such_graph(spec: Any) -> None:
    spec["job"] = {"entrypoint": "nothing_here:job"}


def too_much(spec: Any) -> None:
    spec["resources"] = {"requests": {"memory": "900Gi"}}


def absent_claim(spec: Any) -> None:
    spec["checkpoint"]["volume"] = {"claimName": "later"}


def sealed_claim(spec: Any) -> None:
    spec["checkpoint"]["volume"] = {"claimName": "sealed"}


def absent_account(spec: Any) -> None:
    spec["serviceAccountName"] = "nobody-here"


def odd_template(spec: Any) -> None:
    """A value of a wrong type in a pod template: the server answers with an internal error."""
    engine = next(c for c in spec["podTemplate"]["spec"]["containers"] if c["name"] == "engine")
    engine["ports"] = [{"containerPort": "many"}]


HOARD = """
def job(params):
    hoard = [b"x" * (1 << 26) for _ in range(256)]
    raise AssertionError(f"{len(hoard)} blocks fit")
"""


def hoarder(spec: Any) -> None:
    """The engine, a child process in its container, needs more memory than the container has."""
    spec["job"] = {"script": HOARD}
    spec["resources"] = {"limits": {"memory": "512Mi"}}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A job's name, what is wrong with it, the expected reason, and words of its message.

    ``repair`` is one ``kubectl apply``: by default of the job without the error.
    """

    name: str
    spoil: Callable[[Any], None]
    reason: str
    words: str
    repair: Callable[[WordCount], None] = WordCount.apply


def make_claim(job: WordCount) -> None:
    claim_in(job, "later").make()


def unseal_claim(job: WordCount) -> None:
    """Let the pods write, and restart them."""
    folder = job.folder / "sealed"
    for each in (folder, *folder.rglob("*")):
        each.chmod(0o777)
    job.apply(checkpoint={"volume": {"claimName": "sealed"}}, restartNonce=1)


TROUBLES = (
    Trouble("no-image", no_such_image, "ImagePullFailed", "no-such-tag"),
    Trouble("no-graph", no_such_graph, "JobInvalid", "nothing_here"),
    Trouble("too-much", too_much, "Unschedulable", "Insufficient memory"),
    Trouble("no-claim", absent_claim, "ClaimMissing", "later", make_claim),
    Trouble("sealed", sealed_claim, "ClaimReadOnly", "Permission denied", unseal_claim),
    Trouble("no-account", absent_account, "ServiceAccountMissing", "nobody-here"),
    Trouble("odd", odd_template, "ObjectRefused", "StatefulSet odd-worker"),
    Trouble("hoarder", hoarder, "EngineOutOfMemory", "memory ran out"),
)


def claim_in(job: WordCount, name: str) -> Claim:
    """Create a claim of that name, with a volume of its own."""
    path = f"{job.cluster.shared_on_nodes}/{job.folder.name}/{name}"
    return Claim(job.kubectl, name, path)


@pytest.mark.timeout(600)
def test_trouble_has_a_reason_and_is_repaired_by_one_apply(wordcount: WordCount) -> None:
    """Eight jobs run at the same time, each with its own trouble, because each has to wait."""
    for name in ("sealed", "later"):
        make_shared(wordcount.folder / name)
    (wordcount.folder / "sealed").chmod(0o555)
    claim_in(wordcount, "sealed").make()
    jobs = [(trouble, wordcount.another(trouble.name)) for trouble in TROUBLES]
    for trouble, job in jobs:
        spoiled = job.manifest()
        trouble.spoil(spoiled["spec"])
        job.kubectl.apply(spoiled, manager="kubectl")
    for trouble, job in jobs:
        assert trouble.words in until_stalled(job, trouble.reason)
    for trouble, job in jobs:
        trouble.repair(job)
    for _, job in jobs:
        job.until_finished(END_TIMEOUT_S)
        assert not job.is_so("Stalled")
        job.check_exact()


def until_stalled(job: WordCount, reason: str) -> str:
    """Wait for the reason. Gives the message that a person has to act upon."""
    job.until("Stalled", STALL_TIMEOUT_S, reason)
    message = next(str(c["message"]) for c in job.conditions() if c["type"] == "Stalled")
    print(f"{job.name}: {reason}: {message}")
    assert reason in job.kubectl("get", "sj", job.name), "the reason is what a person sees first"
    told = "get", "events", f"--field-selector=involvedObject.name={job.name}"
    wait_for(f"an event {reason}", lambda: reason in job.kubectl(*told), EVENT_TIMEOUT_S)
    return message


@pytest.mark.timeout(600)
def test_a_running_job_survives_a_bad_image(wordcount: WordCount) -> None:
    """The job waits until the image is right, and loses nothing."""
    wordcount.start(rate=40)
    wordcount.commits(1, STALL_TIMEOUT_S)
    wordcount.patch(image=NO_IMAGE)
    assert NO_IMAGE in until_stalled(wordcount, "ImagePullFailed")
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()
