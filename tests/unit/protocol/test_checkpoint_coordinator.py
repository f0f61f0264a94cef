"""Epochs: one in flight, one swap, published before the next; aborted ones cost nothing else."""

from penstock.base.values import replace
from penstock.contract import control
from penstock.contract.ids import Epoch, Ordinal, StageIndex, SwapId, TaskId, Term
from penstock.contract.latest import Latest
from penstock.contract.manifest import TaskManifest
from penstock.protocol import control_events as on
from penstock.protocol.control_actions import SendCommand
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane
from tests.support.running_jobs import root, running
from tests.support.stub_engine import ObedientEngine

TASK = TaskId(StageIndex(1), Ordinal(1), 0)


def silent(town: InMemoryControlPlane, ordinal: int, *kinds: str) -> ObedientEngine:
    """Have a worker's engine leave some commands undone."""
    engine = town.engine(ordinal)
    engine.mute = list(kinds)
    return engine


# --- Commit ---------------------------------------------------------------------------------------


def test_the_first_epoch_comes_early_and_the_next_after_the_interval() -> None:
    town = InMemoryControlPlane(2)
    town.until(lambda: town.latest.epoch == 1, seconds=1.0)
    began = town.now
    town.until(lambda: town.latest.epoch == 2)
    assert 0.9 <= town.now - began <= 1.2


def test_after_a_slow_epoch_the_job_has_as_long_without_one() -> None:
    town = InMemoryControlPlane(
        2, replace(SETTINGS, heartbeat_timeout_s=10.0, ready_timeout_s=14.0)
    )
    town.until(lambda: town.latest.epoch == 1)
    town.run(SETTINGS.checkpoint_interval_s - 0.1)
    town.freeze(1)
    town.run(2.1)
    town.thaw(1)
    town.until(lambda: town.latest.epoch == 2)
    ended = town.now
    town.until(lambda: town.latest.epoch == 3)
    assert 1.7 <= town.now - ended <= 2.3


def test_a_commit_is_one_swap_that_names_a_stored_manifest() -> None:
    town = running()
    commits = [s for s in town.cas if s.epoch == 1]
    assert len(commits) == 1
    manifest = root(town)
    assert (manifest.epoch, manifest.term, manifest.attempt) == (1, 1, 1)
    assert manifest.kind == "checkpoint"
    assert [t.task for t in manifest.tasks] == list(manifest.assignment.tasks())


def test_nothing_is_committed_before_every_task_has_acknowledged() -> None:
    town = running()
    silent(town, 1, "Inject")
    town.run(3.0)
    assert town.latest.epoch == 1


def test_no_epoch_starts_before_the_last_one_is_published() -> None:
    town = running()
    silent(town, 1, "Commit")
    town.until(lambda: town.latest.epoch == 2)
    town.run(10.0)
    assert town.latest.epoch == 2
    assert max(town.engine(0).injected) == 2
    assert town.latest.published_through == 1
    silent(town, 1)
    town.say(1, replace(town.engine(1).status, published=Epoch(2)))
    town.until(lambda: town.latest.epoch == 3)
    assert town.latest.published_through == 2


def test_the_next_swap_writes_what_is_published() -> None:
    town = running(epoch=4)
    for swap in town.cas:
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
    town = running()
    silent(town, 1, "Inject")
    town.until(lambda: 2 in town.engine(0).injected)
    town.say(1, failing(2))
    silent(town, 1)
    town.until(lambda: town.latest.epoch == 3)
    assert town.latest.attempt == 1
    assert not [s for s in town.cas if s.epoch == 2]
    assert any("epoch-aborted epoch=2" in line and "disk full" in line for line in town.log)


def test_an_aborted_number_is_not_used_again_in_its_term() -> None:
    town = running()
    silent(town, 1, "Inject")
    town.until(lambda: 2 in town.engine(0).injected)
    town.say(1, failing(2))
    silent(town, 1)
    town.until(lambda: town.latest.epoch >= 4)
    assert town.engine(0).injected == [1, 2, 3, 4]


def test_failures_of_another_epoch_term_or_attempt_abort_nothing() -> None:
    town = running()
    silent(town, 1, "Inject")
    town.until(lambda: 2 in town.engine(0).injected)
    for failed in (failing(1), failing(2, term=0), failing(2, attempt=0)):
        town.say(1, failed)
    town.run(0.5)
    assert not [line for line in town.log if "epoch-aborted" in line]


def test_an_epoch_that_takes_too_long_is_aborted_and_the_job_goes_on() -> None:
    town = running()
    silent(town, 1, "Inject")
    town.run(SETTINGS.checkpoint_timeout_s + 1.5)
    assert any("epoch-aborted epoch=2 reason='not complete in time'" in x for x in town.log)
    silent(town, 1)
    town.until(lambda: town.latest.epoch >= 3)
    assert town.latest.attempt == 1


def test_a_lost_inject_is_sent_again() -> None:
    town = running()
    lost: list[object] = []

    def first_only(_a: int, to: int, body: object) -> bool:
        if isinstance(body, control.Inject) and to == 1 and not lost:
            lost.append(body)
            return True
        return False

    town.cut = first_only
    town.until(lambda: town.latest.epoch == 2, seconds=2.0)
    assert lost


def test_a_lost_abort_is_repeated_to_whoever_still_holds_the_epoch_open() -> None:
    town = running()
    silent(town, 1, "Inject")
    town.until(lambda: 2 in town.engine(0).injected)
    town.cut = lambda _a, to, body: to == 0 and isinstance(body, control.Abort)
    town.say(1, failing(2))
    town.run(0.3)
    town.cut = lambda _a, _to, _body: False
    heard = town.engine(0).heard.count("Abort")
    town.until(lambda: town.engine(0).heard.count("Abort") == heard + 1, seconds=1.0)


def test_an_acknowledgement_under_another_term_does_not_count() -> None:
    town = running()
    leader = town.leader()
    silent(town, 1, "Inject")
    town.until(lambda: 2 in town.engine(0).injected)
    table = town.engine(1).table
    assert table is not None
    for task in table.tasks_on(Ordinal(1)):
        ack = control.TaskAck(town.latest.attempt, Term(0), Epoch(2), TaskManifest(task))
        old = control.Envelope(town.latest.job_uid, Term(1), Ordinal(1), ack)
        town.post(leader.ordinal, on.ReportArrived(old))
        right = replace(ack, term=Term(1))
        late = control.Envelope(town.latest.job_uid, Term(0), Ordinal(1), right)
        town.post(leader.ordinal, on.ReportArrived(late))
    town.run(0.5)
    assert town.latest.epoch == 1


# --- Unknown outcomes -----------------------------------------------------------------------------


def test_while_the_commit_is_undecided_nothing_aborts_the_epoch() -> None:
    town = running()
    fates: list[str] = []

    def unknown(latest: Latest) -> str | None:
        if latest.epoch == 2 and not fates:
            fates.append("applied")
            return "applied"
        return None

    town.lose_reply = unknown
    town.unreadable = True
    town.until(lambda: bool(fates))
    town.say(1, failing(2))
    town.run(SETTINGS.checkpoint_timeout_s + 1.0)
    town.unreadable = False
    town.until(lambda: town.latest.epoch == 3)
    assert "Abort" not in town.engine(0).heard
    assert 2 in [s.epoch for s in town.cas]


def test_a_commit_whose_swap_never_arrived_is_swapped_again() -> None:
    town = running()
    fates: list[SwapId] = []

    def lost(latest: Latest) -> str | None:
        if latest.epoch == 2 and len(fates) < 3:
            fates.append(latest.swap_id)
            return "lost"
        return None

    town.lose_reply = lost
    town.until(lambda: town.latest.epoch >= 2)
    assert len(set(fates)) == 3
    (commit,) = [s.swap_id for s in town.cas if s.epoch == 2]
    assert commit not in fates


def test_a_commit_applied_just_before_its_leader_died_is_confirmed_by_the_next() -> None:
    town = running()
    town.cut = lambda _a, _to, body: isinstance(body, control.Commit)
    town.until(lambda: town.latest.epoch == 2)
    heard = [town.engine(o).status.published for o in (0, 1)]
    assert heard == [1, 1]
    town.cut = lambda _a, _to, _body: False
    town.post(town.leader().ordinal, on.Retire())
    town.until(lambda: town.latest.epoch == 3)
    announced = [
        body
        for *_, actions in town.steps
        for action in actions
        if isinstance(action, SendCommand)
        and isinstance(body := action.envelope.body, control.Announce)
        and action.envelope.term == 2
    ]
    assert {(a.epoch, a.published_through) for a in announced} == {(2, 1)}
    assert town.latest.attempt == 1
    assert town.latest.term == 2


def test_an_epoch_in_flight_dies_with_its_term_and_its_number_recurs() -> None:
    town = running()
    silent(town, 1, "Inject")
    town.until(lambda: 2 in town.engine(0).injected)
    silent(town, 1)
    town.post(town.leader().ordinal, on.Retire())
    town.until(lambda: town.latest.epoch == 2)
    assert root(town).term == 2
    assert town.engine(0).injected == [1, 2, 2]


# --- Asked for by members -------------------------------------------------------------------------


def test_a_member_may_ask_for_an_epoch_soon() -> None:
    town = running()
    town.run(SETTINGS.checkpoint_min_pause_s)
    town.say(1, control.CheckpointWanted(town.latest.attempt))
    town.until(lambda: town.latest.epoch == 2, seconds=0.2)


def test_a_wish_during_an_epoch_is_granted_after_it() -> None:
    town = running()
    silent(town, 1, "Inject")
    town.until(lambda: 2 in town.engine(0).injected)
    town.say(1, control.CheckpointWanted(town.latest.attempt))
    town.run(0.1)
    engine = silent(town, 1)
    for report in engine.obey(Term(1), control.Inject(town.latest.attempt, Epoch(2), 1, 0, 1)):  # type: ignore[arg-type]
        town.say(1, report)
    town.until(lambda: town.latest.epoch == 3, seconds=0.5)


def test_output_that_can_never_be_published_fails_the_job() -> None:
    town = running()
    silent(town, 1, "Commit")
    town.until(lambda: town.latest.epoch == 2)
    attempt = town.latest.attempt
    town.say(1, control.PublishFailed(attempt, Epoch(2), "another file is there", fatal=True))
    town.until(lambda: town.latest.failure is not None)
    assert "epoch 2 cannot be published: another file is there" in (town.latest.failure or "")


def test_a_commit_found_applied_while_a_worker_died_is_what_recovery_goes_back_to() -> None:
    town = running()
    fates: list[str] = []

    def unknown(latest: Latest) -> str | None:
        if latest.epoch == 2 and not fates:
            fates.append("applied")
            town.kill_engine(1)
            return "applied"
        return None

    town.lose_reply = unknown
    town.until(lambda: town.latest.attempt == 2)
    town.run(0.2)
    published = [
        action.envelope.body
        for *_, actions in town.steps
        for action in actions
        if isinstance(action, SendCommand) and isinstance(action.envelope.body, control.Publish)
    ]
    assert published
    assert {h.epoch for p in published for h in p.handles} == {2}
