"""What goes wrong in a cluster: Stalled says why in a word, and one `kubectl apply` repairs it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e.rig.wordcount import WordCount, claim_of

STALL_TIMEOUT_S = 120.0
END_TIMEOUT_S = 180.0


def no_such_image(spec: Any) -> None:
    spec["image"] = "localhost/penstock-worker:no-such-tag"


def no_such_graph(spec: Any) -> None:
    spec["job"] = {"entrypoint": "nothing_here:job"}


def too_much(spec: Any) -> None:
    spec["resources"] = {"requests": {"memory": "900Gi"}}


TROUBLES: tuple[tuple[Callable[[Any], None], str], ...] = (
    (no_such_image, "ImagePullFailed"),
    (no_such_graph, "JobInvalid"),
    (too_much, "Unschedulable"),
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("spoil", "reason"), TROUBLES, ids=[reason for _, reason in TROUBLES])
def test_trouble_has_a_reason_and_is_repaired_by_one_apply(
    wordcount: WordCount, spoil: Callable[[Any], None], reason: str
) -> None:
    spoiled = wordcount.manifest()
    spoil(spoiled["spec"])
    wordcount.kubectl.apply(spoiled, manager="kubectl")
    until_stalled(wordcount, reason)
    wordcount.apply()
    wordcount.until_finished(END_TIMEOUT_S)
    assert not wordcount.is_so("Stalled")
    wordcount.check_exact()


def until_stalled(job: WordCount, reason: str) -> str:
    """Wait for the reason; gives the message, which a person is to act upon."""
    job.until("Stalled", STALL_TIMEOUT_S, reason)
    message = next(str(c["message"]) for c in job.conditions() if c["type"] == "Stalled")
    assert message
    print(f"{reason}: {message}")
    return message


@pytest.mark.timeout(600)
def test_a_running_job_survives_a_bad_image(wordcount: WordCount) -> None:
    """It is at rest until the image is right, and loses nothing."""
    wordcount.start(rate=40)
    wordcount.commits(1, STALL_TIMEOUT_S)
    wordcount.patch(image="localhost/penstock-worker:no-such-tag")
    until_stalled(wordcount, "ImagePullFailed")
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()


@pytest.mark.timeout(600)
def test_a_missing_claim_is_named_and_made(wordcount: WordCount) -> None:
    wordcount.apply(checkpoint={"volume": {"claimName": "later"}})
    assert "later" in until_stalled(wordcount, "ClaimMissing")
    with second_claim(wordcount, "later") as objects:
        wordcount.kubectl.apply(*objects)
        wordcount.until_finished(END_TIMEOUT_S)
        wordcount.check_exact()


@pytest.mark.timeout(600)
def test_a_claim_that_cannot_be_written_is_named(wordcount: WordCount) -> None:
    with second_claim(wordcount, "sealed") as objects:
        folder = wordcount.folder / "sealed"
        folder.chmod(0o555)
        wordcount.kubectl.apply(*objects)
        wordcount.apply(checkpoint={"volume": {"claimName": "sealed"}})
        until_stalled(wordcount, "ClaimReadOnly")
        for each in (folder, *folder.rglob("*")):
            each.chmod(0o777)
        wordcount.apply(checkpoint={"volume": {"claimName": "sealed"}}, restartNonce=1)
        wordcount.until_finished(END_TIMEOUT_S)
        wordcount.check_exact()


@contextmanager
def second_claim(job: WordCount, name: str) -> Iterator[list[Any]]:
    """Give a volume of its own folder and a claim of that name; the volume goes at the end."""
    folder = job.folder / name
    folder.mkdir()
    folder.chmod(0o777)
    namespace = job.kubectl.namespace
    volume = f"{name}-{namespace}"
    path = f"{job.cluster.shared_on_nodes}/{job.folder.name}/{name}"
    try:
        yield claim_of(name, volume, namespace, path)
    finally:
        job.kubectl.attempt("delete", "persistentvolume", volume, "--wait=false")
