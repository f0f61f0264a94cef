"""The member core: commands that it passes on or refuses, and reports that it repeats."""

import pytest

from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.control_messages import Cause
from penstock.contract.ids import (
    Attempt,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    SwapId,
    Term,
    Version,
)
from penstock.contract.latest import Latest
from penstock.contract.manifest import TaskManifest
from penstock.protocol.keeper_core_messages import (
    CommandArrived,
    EndEngine,
    EngineGone,
    EngineReported,
    Retire,
    StartEngine,
    Tick,
    ToEngine,
)
from tests.support.member_harness import HELLO, JOB, LEADER, MEMBERS, TABLE, TASK, Bench
from tests.support.stub_engine import PLAN


def inject(epoch: int, attempt: int = 1) -> control.Inject:
    return control.Inject(Attempt(attempt), Epoch(epoch), Version(1), 0, Epoch(epoch - 1))


def ack(epoch: int, term: int = 1, attempt: int = 1) -> control.TaskAck:
    return control.TaskAck(Attempt(attempt), Term(term), Epoch(epoch), TaskManifest(TASK))


# --- The fence of the term ------------------------------------------------------------------------


def test_a_lower_term_is_refused() -> None:
    bench = Bench()
    assert bench.announce(2, attempt=1)
    assert bench.command(inject(1), term=1) == []
    assert bench.command(inject(1), term=2) == [inject(1)]


def test_a_higher_term_counts_only_once_it_is_announced() -> None:
    bench = Bench()
    assert bench.command(inject(1), term=2) == []
    bench.announce(2, attempt=1)
    assert bench.command(inject(1), term=2) == [inject(1)]


def test_the_object_fences_before_any_message_of_the_new_leader() -> None:
    bench = Bench()
    bench.look(Latest(JOB, SwapId("s"), term=Term(2), leader=LEADER))
    assert bench.command(inject(1), term=1) == []


def test_another_job_is_refused() -> None:
    bench = Bench()
    stranger = control.Envelope(JobUid("other"), Term(1), Ordinal(0), inject(1))
    bench.take(CommandArrived(stranger))
    assert not [a for a in bench.actions if isinstance(a, ToEngine)]


def test_an_announcement_reaches_the_engine_only_in_its_attempt() -> None:
    bench = Bench()
    assert bench.announce(2, attempt=1)
    assert bench.announce(3, attempt=2) == []


# --- The fence of the attempt ---------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [0, 2])
def test_commands_of_another_attempt_are_refused(attempt: int) -> None:
    bench = Bench()
    assert bench.command(inject(1, attempt)) == []
    assert bench.command(control.Start(Attempt(attempt))) == []
    assert bench.command(control.Commit(Attempt(attempt), Epoch(1), Version(1))) == []


def test_a_reset_is_taken_once_and_never_back() -> None:
    bench = Bench()
    reset = control.Reset(Attempt(2), Epoch(0), None, TABLE, MEMBERS)
    assert bench.command(reset) == [reset]
    assert bench.command(reset) == []
    assert bench.command(replace(reset, attempt=Attempt(1))) == []


def test_a_status_sent_before_the_reset_does_not_count_for_it() -> None:
    bench = Bench()
    bench.report(control.EngineStatus(Attempt(1), ready=Attempt(1), published=Epoch(5)))
    bench.command(control.Reset(Attempt(2), Epoch(5), None, TABLE, MEMBERS))
    bench.report(control.EngineStatus(Attempt(1), ready=Attempt(1), published=Epoch(5)))
    assert bench.beat().status == control.EngineStatus(attempt=Attempt(2))


def test_a_repeated_command_reaches_the_engine_once() -> None:
    bench = Bench()
    commit = control.Commit(Attempt(1), Epoch(1), Version(1))
    assert [bench.command(commit) for _ in range(2)] == [[commit], []]


def test_an_inject_overtaken_by_its_abort_is_refused() -> None:
    bench = Bench()
    bench.command(control.Abort(Attempt(1), Epoch(3)))
    assert bench.command(inject(3)) == []
    assert bench.command(inject(4)) == [inject(4)]


def test_an_aborted_number_may_recur_under_a_higher_term() -> None:
    bench = Bench()
    bench.command(inject(3))
    bench.command(control.Abort(Attempt(1), Epoch(3)))
    bench.announce(2, attempt=1)
    assert bench.command(inject(3), term=2) == [inject(3)]


def test_a_prepare_overtaken_by_its_cancellation_is_refused() -> None:
    bench = Bench()
    bench.command(control.CancelRescale(Attempt(1), Version(4)))
    assert bench.command(control.Prepare(Attempt(1), TABLE, MEMBERS, Epoch(1), None)) == []
    later = replace(TABLE, version=Version(5))
    assert bench.command(control.Prepare(Attempt(1), later, MEMBERS, Epoch(1), None))


def test_a_joiner_takes_the_attempt_with_its_prepare() -> None:
    bench = Bench(up=False)
    bench.look(Latest(JOB, SwapId("s"), term=Term(1), leader=LEADER))
    bench.report(HELLO)
    bench.announce(1)
    prepare = control.Prepare(Attempt(7), TABLE, MEMBERS, Epoch(1), None)
    assert bench.command(prepare) == [prepare]
    assert bench.beat().status.attempt == 7
    assert bench.command(control.Adopt(Attempt(7), Version(4), Epoch(2), None))  # type: ignore[arg-type]


def test_an_engine_joins_only_by_a_prepare_that_names_it() -> None:
    bench = Bench(up=False)
    bench.look(Latest(JOB, SwapId("s"), term=Term(1), leader=LEADER))
    bench.report(HELLO)
    bench.announce(1)
    before = (replace(MEMBERS[0], incarnation=Incarnation("e0")),)
    assert bench.command(control.Prepare(Attempt(7), TABLE, before, Epoch(1), None)) == []
    assert bench.beat().status.attempt == 0


# --- What is repeated -----------------------------------------------------------------------------


def test_an_acknowledgement_is_repeated_until_it_is_decided() -> None:
    bench = Bench()
    bench.command(inject(1))
    assert not bench.reports(), "what it leads to is said soon enough"
    bench.report(ack(1))
    assert ack(1) in bench.reports()
    bench.take(Tick(), dt=1.0)
    assert ack(1) in bench.reports()
    bench.command(control.Commit(Attempt(1), Epoch(1), Version(1)))
    bench.take(Tick(), dt=1.0)
    assert ack(1) not in bench.reports()


def test_an_acknowledgement_of_an_older_term_dies_with_it() -> None:
    bench = Bench()
    bench.report(ack(3, term=1))
    bench.announce(2, attempt=1)
    bench.take(Tick(), dt=1.0)
    assert ack(3, term=1) not in bench.reports()
    bench.report(ack(3, term=1))
    assert ack(3, term=1) not in bench.reports()


def test_a_barrier_may_outrun_the_announcement_of_its_term() -> None:
    bench = Bench()
    bench.report(ack(3, term=2))
    bench.announce(2, attempt=1)
    bench.take(Tick(), dt=1.0)
    assert ack(3, term=2) in bench.reports()


def test_an_acknowledgement_of_a_rolled_back_attempt_is_dropped() -> None:
    bench = Bench()
    bench.command(control.Reset(Attempt(2), Epoch(0), None, TABLE, MEMBERS))
    bench.report(ack(1, attempt=1))
    assert ack(1, attempt=1) not in bench.reports()


def test_an_epoch_stays_undecided_until_its_outcome_is_known() -> None:
    bench = Bench()
    bench.command(inject(3))
    assert (bench.beat().injected, bench.beat().undecided) == (3, 3)
    bench.command(control.Abort(Attempt(1), Epoch(3)))
    assert bench.beat().undecided == 0


def test_a_break_is_repeated_in_heartbeats_until_the_next_attempt() -> None:
    bench = Bench()
    broken = control.Broken(Attempt(1), "a stream broke")
    bench.report(broken)
    assert bench.beat().broken == broken
    bench.command(control.Reset(Attempt(2), Epoch(0), None, TABLE, MEMBERS))
    bench.report(broken)
    assert bench.beat().broken is None


def test_a_stream_that_breaks_does_not_hide_the_failure_from_which_it_follows() -> None:
    bench = Bench()
    failed = control.Broken(Attempt(1), "sink 'out': ValueError", failures=1)
    bench.report(failed)
    bench.report(control.Broken(Attempt(1), "stream: it broke"))
    assert bench.beat().broken == failed
    bench.report(control.Broken(Attempt(1), "sink 'out': ValueError", failures=2))
    assert bench.beat().broken == replace(failed, failures=2)


def test_splits_are_repeated_until_the_attempt_that_they_are_for() -> None:
    bench = Bench(up=False)
    bench.look(Latest(JOB, SwapId("s"), term=Term(1), leader=LEADER))
    bench.report(HELLO)
    bench.announce(1)
    bench.command(control.Enumerate(Attempt(1), (StageIndex(0),)))
    splits = control.Splits(Attempt(1), (), "plan-1")
    bench.report(splits)
    bench.take(Tick(), dt=1.0)
    assert splits in bench.reports()
    bench.command(control.Reset(Attempt(1), Epoch(0), None, TABLE, MEMBERS))
    bench.take(Tick(), dt=1.0)
    assert splits not in bench.reports()


def test_a_listing_that_failed_is_asked_for_again() -> None:
    bench = Bench()
    ask = control.Enumerate(Attempt(2), (StageIndex(0),))
    assert bench.command(ask) == [ask]
    assert bench.command(ask) == []
    bench.report(control.Broken(Attempt(2), "no such folder"))
    assert bench.command(ask) == [ask]


def test_a_listing_that_failed_in_two_ways_is_asked_for_again() -> None:
    bench = Bench()
    ask = control.Enumerate(Attempt(2), (StageIndex(0),))
    bench.command(ask)
    bench.report(control.Broken(Attempt(2), "source 'lines': KeyError", failures=1))
    assert bench.command(ask) == [ask]
    gone = control.Broken(Attempt(2), "StateError: no such folder", fatal=True)
    bench.report(gone)
    assert bench.beat().broken == gone
    assert bench.command(ask) == [ask]


def test_other_sources_may_be_asked_for_before_the_same_attempt() -> None:
    bench = Bench()
    ask, more = (control.Enumerate(Attempt(2), (StageIndex(s),)) for s in (0, 3))
    assert bench.command(ask) == [ask]
    assert bench.command(more) == [more]
    assert bench.command(more) == []


# --- The engine's life ----------------------------------------------------------------------------


def test_no_engine_starts_before_the_object_was_read() -> None:
    bench = Bench(up=False)
    assert not [a for a in bench.take(Tick()) if isinstance(a, StartEngine)]
    assert StartEngine() in bench.look(Latest(JOB, SwapId("s")))


@pytest.mark.parametrize("end", [{"finished": True}, {"stopped": True}, {"failure": "why"}])
def test_no_engine_starts_under_a_closed_job(end: dict[str, bool]) -> None:
    bench = Bench(up=False)
    assert StartEngine() not in bench.look(replace(Latest(JOB, SwapId("s")), **end))  # type: ignore[arg-type]


def test_a_closed_job_ends_the_engine_and_a_new_run_starts_it_again() -> None:
    bench = Bench()
    record = Latest(JOB, SwapId("s"), term=Term(1), leader=LEADER)
    actions = bench.look(replace(record, failure="no such column"))
    assert [a.incarnation for a in actions if isinstance(a, EndEngine)] == ["e1"]
    bench.take(EngineGone(HELLO.incarnation, "told to end"))
    bench.take(Tick(), dt=60.0)
    assert StartEngine() not in bench.actions
    assert StartEngine() in bench.look(record)


def test_a_dead_engine_is_reported_until_the_next_one_speaks() -> None:
    bench = Bench()
    e1 = HELLO.incarnation
    lost = control.EngineLost(Ordinal(1), e1, "killed", cause=Cause.DIED, died=e1)
    bench.take(EngineGone(HELLO.incarnation, "killed"))
    assert lost in bench.reports()
    bench.take(Tick(), dt=0.6)
    assert lost in bench.reports()
    assert StartEngine() in bench.actions
    again = replace(HELLO, incarnation=Incarnation("e2"))
    bench.take(EngineReported(again.incarnation, again))
    beat = bench.beat()
    assert (beat.incarnation, beat.replaces) == ("e2", "e1")
    assert beat.status == control.EngineStatus()


def test_engines_that_die_at_once_are_started_ever_more_slowly() -> None:
    bench = Bench()
    bench.take(EngineGone(HELLO.incarnation, "killed"))
    waits = []
    for _ in range(4):
        died = bench.now
        while StartEngine() not in bench.actions:
            bench.take(Tick(), dt=0.05)
        waits.append(bench.now - died)
        bench.take(EngineGone(Incarnation(""), "killed"))
    assert waits == sorted(waits)
    assert waits[-1] > 4 * waits[0]


def test_an_engine_whose_code_does_not_load_is_not_started_again() -> None:
    bench = Bench()
    bench.take(EngineGone(HELLO.incarnation, "no module named x", fatal=True))
    bench.take(Tick(), dt=60.0)
    assert StartEngine() not in bench.actions
    (lost,) = [r for r in bench.reports() if isinstance(r, control.EngineLost)]
    assert (lost.reason, lost.fatal) == ("no module named x", True)


def test_a_silent_engine_is_ended() -> None:
    bench = Bench()
    ended = [a for _ in range(76) for a in bench.take(Tick(), dt=0.25) if isinstance(a, EndEngine)]
    assert not ended, "19 s"
    for _ in range(4):
        bench.take(Tick(), dt=0.25)
    assert [a.reason for a in bench.actions if isinstance(a, EndEngine)] == ["silent for 20 s"]


def test_a_keeper_that_stood_still_reads_its_engines_messages_before_it_ends_the_engine() -> None:
    bench = Bench()
    bench.take(Tick(), dt=25.0)
    assert not [a for a in bench.actions if isinstance(a, EndEngine)]
    bench.report(control.EngineStatus())
    bench.take(Tick(), dt=0.25)
    assert not [a for a in bench.actions if isinstance(a, EndEngine)]


def test_a_keeper_that_ends_takes_its_engine_along() -> None:
    bench = Bench()
    assert EndEngine(HELLO.incarnation, "the keeper ends") in bench.take(Retire())
    bench.take(EngineGone(HELLO.incarnation, "ended"))
    bench.take(Tick(), dt=60.0)
    assert StartEngine() not in bench.actions


def test_the_order_to_end_is_for_one_life_only() -> None:
    bench = Bench()
    bench.command(control.Shutdown(Incarnation("e0"), "lost"))
    assert not [a for a in bench.actions if isinstance(a, EndEngine)]
    bench.command(control.Shutdown(HELLO.incarnation, "lost"))
    assert EndEngine(HELLO.incarnation, "lost") in bench.actions


def test_reports_of_an_earlier_engine_are_ignored() -> None:
    bench = Bench()
    status = control.EngineStatus(Attempt(1), ready=Attempt(1))
    bench.take(EngineReported(Incarnation("e0"), status))
    assert bench.beat().status.ready == 0


def test_heartbeats_number_themselves_and_carry_the_plan() -> None:
    bench = Bench()
    first, second = bench.beat(), bench.beat()
    assert second.sequence == first.sequence + 1
    assert second.fingerprint == PLAN.fingerprint
