"""What goes wrong in a cluster: Stalled says why in a word, and one `kubectl apply` repairs it."""

from collections.abc import Callable
from typing import Any

import pytest

from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import START_TIMEOUT_S, WordCount

STALL_TIMEOUT_S = 120.0


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


@pytest.mark.parametrize(("spoil", "reason"), TROUBLES, ids=[reason for _, reason in TROUBLES])
def test_trouble_has_a_reason_and_is_repaired_by_one_apply(
    wordcount: WordCount, spoil: Callable[[Any], None], reason: str
) -> None:
    spoiled = wordcount.manifest()
    spoil(spoiled["spec"])
    wordcount.kubectl.apply(spoiled, manager="kubectl")
    stalled = wait_for(
        f"Stalled for {reason}",
        lambda: next((c for c in wordcount.conditions() if _is_stalled(c, reason)), None),
        STALL_TIMEOUT_S,
    )
    assert stalled["message"], "a person is told what to do"
    print(f"{reason}: {stalled['message']}")
    wordcount.kubectl.apply(wordcount.manifest(), manager="kubectl", force=True)
    wordcount.until_finished(START_TIMEOUT_S)
    wordcount.check_exact()


def _is_stalled(condition: Any, reason: str) -> bool:
    return bool(
        condition["type"] == "Stalled"
        and condition["status"] == "True"
        and condition["reason"] == reason
    )
