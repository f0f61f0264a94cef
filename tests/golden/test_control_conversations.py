"""Whole conversations of the control plane, word by word, to be read as well as compared."""

from collections.abc import Callable

from penstock.base.values import replace
from penstock.contract.latest import Latest, Request
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane
from tests.support.transcript import transcript

Golden = Callable[[str, str], None]
SLOW = replace(SETTINGS, checkpoint_interval_s=60.0, collect_interval_s=60.0)


def running(workers: int) -> InMemoryControlPlane:
    plane = InMemoryControlPlane(workers, SLOW)
    plane.until(lambda: plane.latest.epoch == 1)
    return plane


def test_the_first_attempt_and_the_first_epoch(golden: Golden) -> None:
    golden("protocol/first-epoch.txt", transcript(running(2)))


def test_an_engine_dies_with_output_unpublished(golden: Golden) -> None:
    plane = running(2)
    plane.run(0.2)
    since = len(plane.steps)
    plane.kill_engine(1)
    plane.until(lambda: plane.latest.epoch == 2)
    golden("protocol/recovery.txt", transcript(plane, since))


def test_a_rescale_from_two_to_three(golden: Golden) -> None:
    plane = running(2)
    plane.run(0.2)
    since = len(plane.steps)
    plane.start(2)
    plane.want(workers=3)
    plane.until(lambda: plane.latest.settled == 2)
    golden("protocol/rescale.txt", transcript(plane, since))


def test_a_commit_whose_reply_was_lost(golden: Golden) -> None:
    plane = running(2)
    plane.run(0.2)
    since = len(plane.steps)
    outcomes = ["lost", "applied"]

    def outcome(latest: Latest) -> str | None:
        return outcomes.pop(0) if latest.epoch == 2 and outcomes else None

    plane.lose_reply = outcome
    plane.want(requests=(Request("r1", "checkpoint"),))
    plane.until(lambda: bool(plane.latest.answers))
    golden("protocol/unknown-swap.txt", transcript(plane, since))


def test_the_end_of_bounded_input(golden: Golden) -> None:
    plane = running(2)
    plane.run(0.2)
    since = len(plane.steps)
    for ordinal in (0, 1):
        plane.engine(ordinal).exhausted = True
    plane.until(lambda: plane.latest.finished)
    golden("protocol/finish.txt", transcript(plane, since))


def test_another_leader_goes_on(golden: Golden) -> None:
    plane = running(2)
    plane.run(0.2)
    since = len(plane.steps)
    plane.kill(plane.leader().ordinal)
    plane.run(1.0)
    plane.start(0)
    plane.until(lambda: plane.latest.attempt == 2)
    golden("protocol/takeover.txt", transcript(plane, since))
