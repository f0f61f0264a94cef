"""The limit of restarts: what counts as a death, what does not, and how a job ends by it."""

import pytest

from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.codec import decode, encode
from penstock.contract.ids import Attempt, Incarnation, Ordinal, SwapId
from penstock.contract.latest import Death, Deaths, Latest, encode_latest
from penstock.protocol import keeper_core_messages as km
from tests.support.in_memory_control_plane import JOB, SETTINGS, InMemoryControlPlane

FEW = replace(SETTINGS, restart_attempts=3, restart_window_s=60.0, backoff_max_s=1.0)
HOW = "the engine was killed by SIGSEGV (signal 11)\nin flight: step 'parse', offsets 8 to 15"


def running(workers: int = 2, settings: object = FEW) -> InMemoryControlPlane:
    plane = InMemoryControlPlane(workers, settings)  # type: ignore[arg-type]
    plane.until(lambda: plane.latest.epoch >= 1)
    return plane


def die(plane: InMemoryControlPlane, ordinal: int = 1, *, known: bool = True) -> None:
    """End an engine's process without an order. Its keeper learns how it ended."""
    keeper = plane.keepers[ordinal]
    assert keeper.engine is not None
    gone = km.EngineGone(keeper.engine.incarnation, HOW, known=known)
    keeper.engine = None
    plane.tell(ordinal, gone)


def runs_again(plane: InMemoryControlPlane, attempt: int) -> None:
    """Wait until an attempt runs and has committed an epoch."""
    epoch = plane.latest.epoch
    plane.until(lambda: plane.latest.attempt == attempt and plane.latest.epoch > epoch)


def die_and_recover(plane: InMemoryControlPlane, times: int) -> None:
    for _ in range(times):
        attempt = plane.latest.attempt
        die(plane)
        runs_again(plane, attempt + 1)


def test_a_record_that_kills_ends_in_failure() -> None:
    plane = running()
    die_and_recover(plane, FEW.restart_attempts)
    assert plane.latest.failure is None
    assert plane.latest.deaths.count == FEW.restart_attempts
    die(plane)
    plane.until(lambda: plane.latest.failure is not None)
    first, *details = (plane.latest.failure or "").splitlines()
    assert first == (
        "worker 1: the engine was killed by SIGSEGV (signal 11): 4 failures within 1m, and "
        "restart.attempts allows 3 restarts"
    )
    assert details[0] == "in flight: step 'parse', offsets 8 to 15"
    assert "correct the step" in details[-1]
    plane.run(5.0)
    assert all(keeper.engine is None for keeper in plane.keepers.values()), "nothing is restarted"


def test_an_engine_that_cannot_make_its_files_is_started_again_and_does_not_count() -> None:
    plane = running()
    for _ in range(FEW.restart_attempts + 2):
        attempt, keeper = plane.latest.attempt, plane.keepers[1]
        assert keeper.engine is not None
        gone = km.EngineGone(keeper.engine.incarnation, "No space left on device", storage=True)
        keeper.engine = None
        plane.tell(1, gone)
        runs_again(plane, attempt + 1)
    assert (plane.latest.failure, plane.latest.deaths.total) == (None, 0)


def test_with_no_attempts_the_first_death_fails_the_job() -> None:
    plane = running(settings=replace(FEW, restart_attempts=0))
    die(plane)
    plane.until(lambda: plane.latest.failure is not None)
    assert "restart.attempts allows 0 restarts" in (plane.latest.failure or "")


def test_a_window_without_a_death_clears_the_count() -> None:
    plane = running()
    die_and_recover(plane, 2)
    plane.run(FEW.restart_window_s + 1.0)
    assert (plane.latest.deaths.count, plane.latest.deaths.total) == (0, 2)
    assert plane.latest.deaths.newest == ()
    die_and_recover(plane, FEW.restart_attempts)
    assert plane.latest.failure is None


def test_deaths_that_are_older_than_the_window_do_not_count() -> None:
    plane = running()
    for _ in range(8):
        die_and_recover(plane, 1)
        plane.run(FEW.restart_window_s / 3)
    assert plane.latest.failure is None
    assert plane.latest.deaths.total == 8


def test_a_new_leader_goes_on_from_the_count() -> None:
    plane = running(4)
    counts = []
    for _ in range(2):
        attempt, leader = plane.latest.attempt, plane.leader().ordinal
        die(plane, (leader + 1) % 4)
        runs_again(plane, attempt + 1)
        counts.append(plane.latest.deaths.count)
        plane.kill(leader)
        plane.run(0.1)
        plane.start(leader)
        runs_again(plane, attempt + 2)
        assert plane.leader().ordinal != leader
        counts.append(plane.latest.deaths.count)
    assert counts == [1, 1, 2, 2], "nobody knows why the leaders went, once at each ordinal"


def test_engines_that_die_together_are_one_death() -> None:
    plane = running(3)
    attempt = plane.latest.attempt
    for ordinal in range(3):
        die(plane, ordinal)
    runs_again(plane, attempt + 1)
    assert (plane.latest.deaths.count, plane.latest.deaths.total) == (1, 1)


def test_a_death_is_counted_though_a_broken_stream_was_reported_first() -> None:
    plane = running()
    attempt = plane.latest.attempt
    plane.report(0, control.Broken(attempt, "a stream broke"))
    die(plane)
    runs_again(plane, attempt + 1)
    assert plane.latest.deaths.count == 1
    assert [death.reason for death in plane.latest.deaths.newest] == [HOW]


def test_engines_that_die_before_they_are_admitted_are_one_death_a_round() -> None:
    plane = running()
    for ordinal in (0, 1):
        plane.dies_at_birth[ordinal] = 2
        die(plane, ordinal)
    plane.until(lambda: plane.latest.attempt == 2)
    assert plane.latest.deaths.count == 3, "one ended the attempt, two rounds came before the next"


def test_an_engine_that_never_gets_ready_fails_the_job() -> None:
    plane = InMemoryControlPlane(2, FEW)
    plane.dies_at_birth[1] = 99
    plane.until(lambda: plane.latest.failure is not None)
    assert plane.latest.attempt == 0
    assert "worker 1: killed at birth: 4 failures within 1m" in (plane.latest.failure or "")


def test_a_joiner_that_dies_at_birth_harms_nobody_else() -> None:
    plane = running()
    plane.start(2)
    plane.dies_at_birth[2] = 99
    plane.want(workers=3)
    plane.run(20.0)
    assert (plane.latest.failure, plane.latest.deaths.count) == (None, 0)


@pytest.mark.parametrize("times", [1, 5])
def test_what_was_ordered_is_no_death(times: int) -> None:
    plane = running()
    for _ in range(times):
        attempt = plane.latest.attempt
        plane.report(1, control.Broken(attempt, "a stream broke"))
        runs_again(plane, attempt + 1)
    assert plane.latest.deaths == Deaths()


def test_a_worker_that_drains_is_no_death() -> None:
    plane = running()
    for _ in range(3):
        attempt = plane.latest.attempt
        plane.drain(1)
        plane.run(0.5)
        plane.kill(1)
        plane.start(1)
        runs_again(plane, attempt + 1)
    assert plane.latest.deaths == Deaths()


def test_a_loss_that_nobody_explains_counts_from_the_second_time_at_one_ordinal() -> None:
    plane = running(3)
    follower = (plane.leader().ordinal + 1) % 3
    counts = []
    for _ in range(3):
        attempt = plane.latest.attempt
        plane.kill(follower)
        plane.run(0.2)
        plane.start(follower)
        runs_again(plane, attempt + 1)
        counts.append(plane.latest.deaths.count)
    assert counts == [0, 1, 2]


def test_losses_at_other_ordinals_are_no_deaths() -> None:
    plane = running(4)
    followers = [o for o in range(4) if o != plane.leader().ordinal]
    for ordinal in followers:
        attempt = plane.latest.attempt
        plane.kill(ordinal)
        plane.run(0.2)
        plane.start(ordinal)
        runs_again(plane, attempt + 1)
    assert (plane.latest.deaths.count, plane.latest.deaths.unknown) == (0, tuple(followers))


def test_a_silent_engine_that_its_keeper_ends_is_a_death() -> None:
    plane = running(settings=replace(FEW, engine_silence_timeout_s=2.0))
    attempt = plane.latest.attempt
    plane.silent.add(1)
    plane.until(lambda: plane.latest.deaths.count == 1)
    plane.silent.clear()
    runs_again(plane, attempt + 1)
    assert plane.latest.deaths.newest[-1].reason.startswith("silent for 2 s")


def test_a_new_run_begins_with_a_clean_slate() -> None:
    plane = running()
    die_and_recover(plane, FEW.restart_attempts)
    die(plane)
    plane.until(lambda: plane.latest.failure is not None)
    plane.want(run="run-2")
    runs_again(plane, plane.latest.attempt + 1)
    assert plane.latest.failure is None
    assert plane.latest.deaths == Deaths()
    die_and_recover(plane, FEW.restart_attempts)
    assert plane.latest.deaths.run == "run-2"


def test_restarts_are_ever_slower() -> None:
    plane = running(settings=replace(FEW, restart_attempts=6, backoff_max_s=8.0))
    took = []
    for _ in range(5):
        died = plane.now
        attempt = plane.latest.attempt
        die(plane)
        plane.until(lambda a=attempt: plane.latest.attempt > a)  # type: ignore[misc]
        took.append(plane.now - died)
        runs_again(plane, attempt + 1)
    assert took == sorted(took)
    assert took[-1] > 4 * took[1]


def test_an_object_from_before_is_still_read() -> None:
    old = encode_latest(Latest(JOB, SwapId("s")))
    fields = old.replace(b'"deaths":' + encode(Deaths()) + b",", b"")
    assert b"deaths" not in fields
    assert decode(Latest, fields) == Latest(JOB, SwapId("s"))


def test_a_heartbeat_tells_how_the_engine_before_ended_until_this_one_runs() -> None:
    plane = running()
    plane.cut = lambda _a, _b, body: isinstance(body, control.EngineLost)
    attempt = plane.latest.attempt
    die(plane)
    runs_again(plane, attempt + 1)
    (death,) = plane.latest.deaths.newest
    assert death == Death(Ordinal(1), Incarnation("e1.2.1"), Attempt(attempt), 1, 1, HOW)
    beats = [
        a.envelope.body
        for _, who, which, _, actions in plane.steps[-200:]
        for a in actions
        if who == 1 and which == "m" and hasattr(a, "envelope")
    ]
    newest = [b for b in beats if isinstance(b, control.Heartbeat)][-1]
    assert newest.lost is None


RAISED = "sink 'out': ValueError: no room\nTraceback of your code (most recent call last):\n  line 3, in write"


def fail(plane: InMemoryControlPlane, ordinal: int, number: int) -> None:
    """Report that a task raised: number ``number`` of this engine."""
    plane.report(ordinal, control.Broken(plane.latest.attempt, RAISED, failures=number))


def test_a_connector_that_always_raises_ends_in_failure() -> None:
    plane = running()
    for number in range(1, FEW.restart_attempts + 1):
        attempt = plane.latest.attempt
        fail(plane, 1, number)
        runs_again(plane, attempt + 1)
        assert (plane.latest.failure, plane.latest.deaths.count) == (None, number)
    fail(plane, 1, FEW.restart_attempts + 1)
    plane.until(lambda: plane.latest.failure is not None)
    first, *details = (plane.latest.failure or "").splitlines()
    assert first == (
        "worker 1: sink 'out': ValueError: no room: 4 failures within 1m, and restart.attempts allows 3 restarts"
    )
    assert details[1] == "  line 3, in write"


def test_a_failure_that_is_repeated_or_breaks_streams_counts_once() -> None:
    plane = running()
    attempt = plane.latest.attempt
    plane.report(0, control.Broken(attempt, "stream: it broke"))
    for ordinal in (0, 1):
        plane.report(ordinal, control.Broken(attempt, RAISED, failures=1))
    plane.report(1, control.Broken(attempt, "stream: it broke"))
    runs_again(plane, attempt + 1)
    plane.run(5.0)
    assert (plane.latest.deaths.count, plane.latest.deaths.total) == (1, 1)
    assert [death.reason for death in plane.latest.deaths.newest] == [RAISED]


def test_a_listing_that_always_raises_ends_in_failure() -> None:
    plane = InMemoryControlPlane(2, FEW)
    plane.cut = lambda _a, _b, body: isinstance(body, control.Splits)
    plane.run(1.0)
    for number in range(1, FEW.restart_attempts + 2):
        assert plane.latest.failure is None
        asked = next(o for o in (0, 1) if plane.keepers[o].engine is not None)
        plane.report(asked, control.Broken(Attempt(1), RAISED, failures=number))
        plane.run(5.0)
    assert plane.latest.attempt == 0
    assert "4 failures within 1m" in (plane.latest.failure or "")
