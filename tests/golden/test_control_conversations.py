"""Whole conversations of the control plane, word by word, to be read as well as compared."""

from collections.abc import Callable

from penstock.base.values import replace
from penstock.contract.latest import Latest, Request
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane
from tests.support.transcript import transcript

Golden = Callable[[str, str], None]
SLOW = replace(SETTINGS, checkpoint_interval_s=60.0, collect_interval_s=60.0)


def running(workers: int) -> InMemoryControlPlane:
    town = InMemoryControlPlane(workers, SLOW)
    town.until(lambda: town.latest.epoch == 1)
    return town


def test_the_first_attempt_and_the_first_epoch(golden: Golden) -> None:
    golden("protocol/first-epoch.txt", transcript(running(2)))


def test_an_engine_dies_with_output_unpublished(golden: Golden) -> None:
    town = running(2)
    town.run(0.2)
    since = len(town.steps)
    town.kill_engine(1)
    town.until(lambda: town.latest.epoch == 2)
    golden("protocol/recovery.txt", transcript(town, since))


def test_a_rescale_from_two_to_three(golden: Golden) -> None:
    town = running(2)
    town.run(0.2)
    since = len(town.steps)
    town.start(2)
    town.want(workers=3)
    town.until(lambda: town.latest.settled == 2)
    golden("protocol/rescale.txt", transcript(town, since))


def test_a_commit_whose_reply_was_lost(golden: Golden) -> None:
    town = running(2)
    town.run(0.2)
    since = len(town.steps)
    fates = ["lost", "applied"]

    def fate(latest: Latest) -> str | None:
        return fates.pop(0) if latest.epoch == 2 and fates else None

    town.lose_reply = fate
    town.want(requests=(Request("r1", "checkpoint"),))
    town.until(lambda: bool(town.latest.answers))
    golden("protocol/unknown-swap.txt", transcript(town, since))


def test_the_end_of_bounded_input(golden: Golden) -> None:
    town = running(2)
    town.run(0.2)
    since = len(town.steps)
    for ordinal in (0, 1):
        town.engine(ordinal).exhausted = True
    town.until(lambda: town.latest.finished)
    golden("protocol/finish.txt", transcript(town, since))


def test_another_leader_goes_on(golden: Golden) -> None:
    town = running(2)
    town.run(0.2)
    since = len(town.steps)
    town.kill(town.leader().ordinal)
    town.run(1.0)
    town.start(0)
    town.until(lambda: town.latest.attempt == 2)
    golden("protocol/takeover.txt", transcript(town, since))
