"""Who waits for a checkpoint has all members hear of it: state is written without a rest."""

import pytest

from penstock.contract import control
from penstock.contract.ids import Attempt, Epoch, Term, Version
from penstock.contract.latest import Request
from tests.support.in_memory_control_plane import InMemoryControlPlane
from tests.support.member_harness import Bench
from tests.support.running_jobs import heard, mute, rescaled, running, sent


def hurried(town: InMemoryControlPlane) -> list[int]:
    """Return the epochs that members were told to hurry, each once for every member."""
    return [c.epoch for c in sent(town, control.Hurry)]  # type: ignore[union-attr]


def in_flight() -> InMemoryControlPlane:
    """Return a town with epoch 2 in flight, for as long as worker 1 is mute."""
    town = running()
    mute(town, 1, "Inject")
    town.until(lambda: 2 in town.engine(0).injected)
    return town


def test_nobody_waits_for_a_periodic_checkpoint() -> None:
    town = running(epoch=4)
    assert hurried(town) == []


@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
def test_a_request_hurries_the_checkpoint_in_flight(kind: str) -> None:
    town = in_flight()
    town.want(requests=(Request("a", kind, "kept"),))
    town.run(1.0)
    assert hurried(town) == [2, 2], "told once"
    assert heard(town, "Hurry") == 2


def test_a_checkpoint_that_was_asked_for_hurries_and_the_next_does_not() -> None:
    town = running()
    town.want(requests=(Request("a", "checkpoint"),))
    town.until(lambda: town.latest.epoch == 2)
    assert hurried(town) == [2, 2]
    town.until(lambda: town.latest.epoch == 4)
    assert hurried(town) == [2, 2]


def test_a_member_that_waits_hurries_the_checkpoint_in_flight_and_the_next() -> None:
    town = in_flight()
    town.say(1, control.CheckpointWanted(town.latest.attempt))
    town.run(0.1)
    assert hurried(town) == [2, 2]
    mute(town, 1)
    inject = control.Inject(town.latest.attempt, Epoch(2), Version(1), 0, Epoch(1))
    for report in town.engine(1).obey(Term(1), inject):
        town.say(1, report)
    town.until(lambda: town.latest.epoch >= 6)
    assert sorted(set(hurried(town))) == [2, 3, 4], "a wish is said twice, 5 is nobody's"


def test_a_rescale_that_could_begin_hurries_the_checkpoint_in_flight() -> None:
    town = in_flight()
    town.want(workers=3)
    town.run(0.5)
    assert hurried(town) == [], "it waits for its joiner, too"
    town.start(2)
    town.run(1.0)
    assert hurried(town) == [2, 2]
    mute(town, 1)
    town.until(lambda: rescaled(town, 3))


def test_a_savepoint_needs_no_word_its_kind_never_rests() -> None:
    town = running()
    mute(town, 1, "Inject")
    town.want(requests=(Request("a", "savepoint", "kept"),))
    town.until(lambda: any(c.kind == 1 for c in sent(town, control.Inject)))  # type: ignore[union-attr]
    town.run(1.0)
    assert hurried(town) == []


def test_the_end_of_the_input_hurries_the_checkpoint_in_flight() -> None:
    town = in_flight()
    for ordinal in (0, 1):
        engine = town.engine(ordinal)
        engine.exhausted = True
        town.say(ordinal, engine.status)
    town.run(0.5)
    assert hurried(town) == [2, 2]


def test_a_member_passes_it_on_once_in_a_term_and_not_for_what_is_decided() -> None:
    bench = Bench()
    hurry = control.Hurry(Attempt(1), Epoch(3))
    assert bench.command(hurry) == [hurry]
    assert bench.command(hurry) == []
    bench.announce(2, attempt=1)
    assert bench.command(hurry, term=2) == [hurry]
    bench.command(control.Commit(Attempt(1), Epoch(4), Version(1)), term=2)
    assert bench.command(control.Hurry(Attempt(1), Epoch(4)), term=2) == []
