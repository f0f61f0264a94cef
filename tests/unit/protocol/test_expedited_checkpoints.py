"""When somebody waits for a checkpoint, all members know it and write state at full speed."""

import pytest

from penstock.contract import control_messages as control
from penstock.contract.ids import Attempt, Epoch, Term, Version
from penstock.contract.latest import Request
from tests.support.in_memory_control_plane import InMemoryControlPlane
from tests.support.member_harness import Bench
from tests.support.running_jobs import mute, rescaled, running, sent, taken


def expedited(plane: InMemoryControlPlane) -> list[int]:
    """Return the epochs that members were told to expedite, each once for every member."""
    return [c.epoch for c in sent(plane, control.Expedite)]  # type: ignore[union-attr]


def in_flight() -> InMemoryControlPlane:
    """Return a control plane with epoch 2 in flight, for as long as worker 1 is mute."""
    plane = running()
    mute(plane, 1, "Inject")
    plane.until(lambda: 2 in plane.engine(0).injected)
    return plane


def test_nobody_waits_for_a_periodic_checkpoint() -> None:
    plane = running(epoch=4)
    assert expedited(plane) == []


@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
def test_a_request_expedites_the_checkpoint_in_flight(kind: str) -> None:
    plane = in_flight()
    plane.want(requests=(Request("a", kind, "kept"),))
    plane.run(1.0)
    assert expedited(plane) == [2, 2], "told once"
    assert taken(plane, "Expedite") == 2


def test_a_checkpoint_that_was_asked_for_is_expedited_and_the_next_is_not() -> None:
    plane = running()
    plane.want(requests=(Request("a", "checkpoint"),))
    plane.until(lambda: plane.latest.epoch == 2)
    assert expedited(plane) == [2, 2]
    plane.until(lambda: plane.latest.epoch == 4)
    assert expedited(plane) == [2, 2]


def test_a_member_that_waits_expedites_the_checkpoint_in_flight_and_the_next() -> None:
    plane = in_flight()
    plane.report(1, control.CheckpointWanted(plane.latest.attempt))
    plane.run(0.1)
    assert expedited(plane) == [2, 2]
    mute(plane, 1)
    inject = control.Inject(plane.latest.attempt, Epoch(2), Version(1), 0, Epoch(1))
    for report in plane.engine(1).obey(Term(1), inject):
        plane.report(1, report)
    plane.until(lambda: plane.latest.epoch >= 6)
    assert sorted(set(expedited(plane))) == [2, 3, 4], "a wish is said twice, 5 is nobody's"


def test_a_rescale_that_could_begin_expedites_the_checkpoint_in_flight() -> None:
    plane = in_flight()
    plane.want(workers=3)
    plane.run(0.5)
    assert expedited(plane) == [], "it waits for its joiner, too"
    plane.start(2)
    plane.run(1.0)
    assert expedited(plane) == [2, 2]
    mute(plane, 1)
    plane.until(lambda: rescaled(plane, 3))


def test_a_savepoint_is_always_written_at_full_speed_without_a_command() -> None:
    plane = running()
    mute(plane, 1, "Inject")
    plane.want(requests=(Request("a", "savepoint", "kept"),))
    plane.until(lambda: any(c.kind == 1 for c in sent(plane, control.Inject)))  # type: ignore[union-attr]
    plane.run(1.0)
    assert expedited(plane) == []


def test_the_end_of_the_input_expedites_the_checkpoint_in_flight() -> None:
    plane = in_flight()
    for ordinal in (0, 1):
        engine = plane.engine(ordinal)
        engine.exhausted = True
        plane.report(ordinal, engine.status)
    plane.run(0.5)
    assert expedited(plane) == [2, 2]


def test_a_member_passes_it_on_once_in_a_term_and_not_for_what_is_decided() -> None:
    bench = Bench()
    expedite = control.Expedite(Attempt(1), Epoch(3))
    assert bench.command(expedite) == [expedite]
    assert bench.command(expedite) == []
    bench.announce(2, attempt=1)
    assert bench.command(expedite, term=2) == [expedite]
    bench.command(control.Commit(Attempt(1), Epoch(4), Version(1)), term=2)
    assert bench.command(control.Expedite(Attempt(1), Epoch(4)), term=2) == []
