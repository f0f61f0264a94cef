"""Checkpoints: one in flight, one swap, published before the next. An abort affects nothing else."""

from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.ids import Epoch, Ordinal, StageIndex, SwapId, TaskId, Term
from penstock.contract.latest import Latest
from penstock.contract.manifest import TaskManifest
from penstock.protocol import keeper_core_messages as km
from penstock.protocol.keeper_core_messages import SendCommand
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane
from tests.support.running_jobs import root, running
from tests.support.stub_engine import StubEngine

TASK = TaskId(StageIndex(1), Ordinal(1), 0)


def silent(plane: InMemoryControlPlane, ordinal: int, *kinds: str) -> StubEngine:
    """Let a worker's engine leave some commands undone."""
    engine = plane.engine(ordinal)
    engine.mute = list(kinds)
    return engine


# --- Commit ---------------------------------------------------------------------------------------


def test_the_first_epoch_comes_early_and_the_next_after_the_interval() -> None:
    plane = InMemoryControlPlane(2)
    plane.until(lambda: plane.latest.epoch == 1, seconds=1.0)
    began = plane.now
    plane.until(lambda: plane.latest.epoch == 2)
    assert 0.9 <= plane.now - began <= 1.2


def test_after_a_slow_epoch_the_job_has_as_long_without_one() -> None:
    plane = InMemoryControlPlane(2, replace(SETTINGS, heartbeat_timeout_s=10.0, ready_timeout_s=14.0))
    plane.until(lambda: plane.latest.epoch == 1)
    plane.run(SETTINGS.checkpoint_interval_s - 0.1)
    plane.freeze(1)
    plane.run(2.1)
    plane.thaw(1)
    plane.until(lambda: plane.latest.epoch == 2)
    ended = plane.now
    plane.until(lambda: plane.latest.epoch == 3)
    assert 1.7 <= plane.now - ended <= 2.3


def test_a_commit_is_one_swap_that_names_a_stored_manifest() -> None:
    plane = running()
    commits = [s for s in plane.cas if s.epoch == 1]
    assert len(commits) == 1
    manifest = root(plane)
    assert (manifest.epoch, manifest.term, manifest.attempt) == (1, 1, 1)
    assert manifest.kind == "checkpoint"
    assert [t.task for t in manifest.tasks] == list(manifest.assignment.tasks())


def test_nothing_is_committed_before_every_task_has_acknowledged() -> None:
    plane = running()
    silent(plane, 1, "Inject")
    plane.run(3.0)
    assert plane.latest.epoch == 1


def test_no_epoch_starts_before_the_last_one_is_published() -> None:
    plane = running()
    silent(plane, 1, "Commit")
    plane.until(lambda: plane.latest.epoch == 2)
    plane.run(10.0)
    assert plane.latest.epoch == 2
    assert max(plane.engine(0).injected) == 2
    assert plane.latest.published_through == 1
    silent(plane, 1)
    plane.report(1, replace(plane.engine(1).status, published=Epoch(2)))
    plane.until(lambda: plane.latest.epoch == 3)
    assert plane.latest.published_through == 2


def test_the_next_swap_writes_what_is_published() -> None:
    plane = running(epoch=4)
    for swap in plane.cas:
        assert swap.published_through >= min(swap.epoch, swap.epoch - 1)


# --- Abort ----------------------------------------------------------------------------------------


def failing(epoch: int, term: int = 1, attempt: int = 1) -> control.EpochFailed:
    return control.EpochFailed(
        attempt,  # type: ignore[arg-type]
        Term(term),
        Epoch(epoch),
        TASK,
        "disk full",
    )


def test_a_step_that_fails_aborts_this_epoch_and_nothing_else() -> None:
    plane = running()
    silent(plane, 1, "Inject")
    plane.until(lambda: 2 in plane.engine(0).injected)
    plane.report(1, failing(2))
    silent(plane, 1)
    plane.until(lambda: plane.latest.epoch == 3)
    assert plane.latest.attempt == 1
    assert not [s for s in plane.cas if s.epoch == 2]
    assert any("epoch-aborted epoch=2" in line and "disk full" in line for line in plane.log)


def test_an_aborted_number_is_not_used_again_in_its_term() -> None:
    plane = running()
    silent(plane, 1, "Inject")
    plane.until(lambda: 2 in plane.engine(0).injected)
    plane.report(1, failing(2))
    silent(plane, 1)
    plane.until(lambda: plane.latest.epoch >= 4)
    assert plane.engine(0).injected == [1, 2, 3, 4]


def test_failures_of_another_epoch_term_or_attempt_abort_nothing() -> None:
    plane = running()
    silent(plane, 1, "Inject")
    plane.until(lambda: 2 in plane.engine(0).injected)
    for failed in (failing(1), failing(2, term=0), failing(2, attempt=0)):
        plane.report(1, failed)
    plane.run(0.5)
    assert not [line for line in plane.log if "epoch-aborted" in line]


def test_an_epoch_that_takes_too_long_is_aborted_and_the_job_goes_on() -> None:
    plane = running()
    silent(plane, 1, "Inject")
    plane.run(SETTINGS.checkpoint_timeout_s + 1.5)
    assert any("epoch-aborted epoch=2 reason='not complete in time'" in x for x in plane.log)
    silent(plane, 1)
    plane.until(lambda: plane.latest.epoch >= 3)
    assert plane.latest.attempt == 1


def test_a_lost_inject_is_sent_again() -> None:
    plane = running()
    lost: list[object] = []

    def first_only(_a: int, to: int, body: object) -> bool:
        if isinstance(body, control.Inject) and to == 1 and not lost:
            lost.append(body)
            return True
        return False

    plane.cut = first_only
    plane.until(lambda: plane.latest.epoch == 2, seconds=2.0)
    assert lost


def test_a_lost_abort_is_repeated_to_whoever_still_holds_the_epoch_open() -> None:
    plane = running()
    silent(plane, 1, "Inject")
    plane.until(lambda: 2 in plane.engine(0).injected)
    plane.cut = lambda _a, to, body: to == 0 and isinstance(body, control.Abort)
    plane.report(1, failing(2))
    plane.run(0.3)
    plane.cut = lambda _a, _to, _body: False
    heard = plane.engine(0).commands.count("Abort")
    plane.until(lambda: plane.engine(0).commands.count("Abort") == heard + 1, seconds=1.0)


def test_an_acknowledgement_under_another_term_does_not_count() -> None:
    plane = running()
    leader = plane.leader()
    silent(plane, 1, "Inject")
    plane.until(lambda: 2 in plane.engine(0).injected)
    table = plane.engine(1).table
    assert table is not None
    for task in table.tasks_on(Ordinal(1)):
        ack = control.TaskAck(plane.latest.attempt, Term(0), Epoch(2), TaskManifest(task))
        old = control.Envelope(plane.latest.job_uid, Term(1), Ordinal(1), ack)
        plane.post(leader.ordinal, km.ReportArrived(old))
        right = replace(ack, term=Term(1))
        late = control.Envelope(plane.latest.job_uid, Term(0), Ordinal(1), right)
        plane.post(leader.ordinal, km.ReportArrived(late))
    plane.run(0.5)
    assert plane.latest.epoch == 1


# --- Unknown outcomes -----------------------------------------------------------------------------


def test_while_the_commit_is_undecided_nothing_aborts_the_epoch() -> None:
    plane = running()
    outcomes: list[str] = []

    def unknown(latest: Latest) -> str | None:
        if latest.epoch == 2 and not outcomes:
            outcomes.append("applied")
            return "applied"
        return None

    plane.lose_reply = unknown
    plane.unreadable = True
    plane.until(lambda: bool(outcomes))
    plane.report(1, failing(2))
    plane.run(SETTINGS.checkpoint_timeout_s + 1.0)
    plane.unreadable = False
    plane.until(lambda: plane.latest.epoch == 3)
    assert "Abort" not in plane.engine(0).commands
    assert 2 in [s.epoch for s in plane.cas]


def test_a_commit_whose_swap_never_arrived_is_swapped_again() -> None:
    plane = running()
    outcomes: list[SwapId] = []

    def lost(latest: Latest) -> str | None:
        if latest.epoch == 2 and len(outcomes) < 3:
            outcomes.append(latest.swap_id)
            return "lost"
        return None

    plane.lose_reply = lost
    plane.until(lambda: plane.latest.epoch >= 2)
    assert len(set(outcomes)) == 3
    (commit,) = [s.swap_id for s in plane.cas if s.epoch == 2]
    assert commit not in outcomes


def test_a_commit_applied_just_before_its_leader_died_is_confirmed_by_the_next() -> None:
    plane = running()
    plane.cut = lambda _a, _to, body: isinstance(body, control.Commit)
    plane.until(lambda: plane.latest.epoch == 2)
    heard = [plane.engine(o).status.published for o in (0, 1)]
    assert heard == [1, 1]
    plane.cut = lambda _a, _to, _body: False
    plane.post(plane.leader().ordinal, km.Retire())
    plane.until(lambda: plane.latest.epoch == 3)
    announced = [
        body
        for *_, actions in plane.steps
        for action in actions
        if isinstance(action, SendCommand)
        and isinstance(body := action.envelope.body, control.Announce)
        and action.envelope.term == 2
    ]
    assert {(a.epoch, a.published_through) for a in announced} == {(2, 1)}
    assert plane.latest.attempt == 1
    assert plane.latest.term == 2


def test_an_epoch_in_flight_dies_with_its_term_and_its_number_recurs() -> None:
    plane = running()
    silent(plane, 1, "Inject")
    plane.until(lambda: 2 in plane.engine(0).injected)
    silent(plane, 1)
    plane.post(plane.leader().ordinal, km.Retire())
    plane.until(lambda: plane.latest.epoch == 2)
    assert root(plane).term == 2
    assert plane.engine(0).injected == [1, 2, 2]


# --- Asked for by members -------------------------------------------------------------------------


def test_a_member_may_ask_for_an_epoch_soon() -> None:
    plane = running()
    plane.run(SETTINGS.checkpoint_min_pause_s)
    plane.report(1, control.CheckpointWanted(plane.latest.attempt))
    plane.until(lambda: plane.latest.epoch == 2, seconds=0.2)


def test_a_wish_during_an_epoch_is_granted_after_it() -> None:
    plane = running()
    silent(plane, 1, "Inject")
    plane.until(lambda: 2 in plane.engine(0).injected)
    plane.report(1, control.CheckpointWanted(plane.latest.attempt))
    plane.run(0.1)
    engine = silent(plane, 1)
    for report in engine.obey(Term(1), control.Inject(plane.latest.attempt, Epoch(2), 1, 0, 1)):  # type: ignore[arg-type]
        plane.report(1, report)
    plane.until(lambda: plane.latest.epoch == 3, seconds=0.5)


def test_output_that_can_never_be_published_fails_the_job() -> None:
    plane = running()
    silent(plane, 1, "Commit")
    plane.until(lambda: plane.latest.epoch == 2)
    attempt = plane.latest.attempt
    plane.report(1, control.PublishFailed(attempt, Epoch(2), "another file is there", fatal=True))
    plane.until(lambda: plane.latest.failure is not None)
    assert "epoch 2 cannot be published: another file is there" in (plane.latest.failure or "")


def test_a_commit_found_applied_while_a_worker_died_is_what_recovery_goes_back_to() -> None:
    plane = running()
    outcomes: list[str] = []

    def unknown(latest: Latest) -> str | None:
        if latest.epoch == 2 and not outcomes:
            outcomes.append("applied")
            plane.kill_engine(1)
            return "applied"
        return None

    plane.lose_reply = unknown
    plane.until(lambda: plane.latest.attempt == 2)
    plane.run(0.2)
    published = [
        action.envelope.body
        for *_, actions in plane.steps
        for action in actions
        if isinstance(action, SendCommand) and isinstance(action.envelope.body, control.Publish)
    ]
    assert published
    assert {h.epoch for p in published for h in p.handles} == {2}
