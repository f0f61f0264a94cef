"""Attempts: the first one, the ways back to the committed epoch, and the order of each."""

from functools import partial
from itertools import pairwise

from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.ids import Attempt, Incarnation, Ordinal, Term
from penstock.contract.latest import Lost
from penstock.protocol.keeper_core_messages import CommandArrived, Retire, SendCommand, SwapLatest
from tests.support.in_memory_control_plane import JOB, InMemoryControlPlane
from tests.support.running_jobs import running
from tests.support.stub_engine import PLAN


def commands(plane: InMemoryControlPlane, *kinds: type) -> list[tuple[int, control.Command]]:
    """List the commands of some kinds in the order in which the leader sent them."""
    return [
        (action.ordinal, action.envelope.body)  # type: ignore[misc]
        for _, _, _, _, actions in plane.steps
        for action in actions
        if isinstance(action, SendCommand) and isinstance(action.envelope.body, kinds)
    ]


def reached(plane: InMemoryControlPlane, attempt: int) -> bool:
    return plane.latest.attempt == attempt


def committed_after(plane: InMemoryControlPlane, epoch: int) -> bool:
    return plane.latest.epoch > epoch


# --- The first attempt ----------------------------------------------------------------------------


def test_the_first_attempt_begins_from_nothing() -> None:
    plane = running()
    assert (plane.latest.term, plane.latest.attempt, plane.latest.version) == (1, 1, 1)
    assert plane.latest.workers == 2
    assert plane.root_file == "object-1\n"
    reset = next(c for _, c in commands(plane, control.Reset))
    assert isinstance(reset, control.Reset)
    assert (reset.epoch, reset.root) == (0, None)
    assert [s.split for s in reset.splits[0].splits] == ["file0", "file1", "file2", "file3"]


def test_splits_are_listed_once_in_a_jobs_life() -> None:
    plane = InMemoryControlPlane(2)
    plane.until(lambda: plane.latest.attempt == 1)
    plane.kill_engine(1)
    plane.until(lambda: plane.latest.attempt == 2 and plane.latest.epoch >= 1)
    assert len(commands(plane, control.Enumerate)) == 1


def test_nothing_begins_before_every_ordinal_is_there() -> None:
    plane = InMemoryControlPlane(1)
    plane.want(workers=2)
    plane.run(3.0)
    assert plane.latest.attempt == 0
    plane.start(1)
    plane.until(lambda: plane.latest.attempt == 1)


def test_an_engine_with_another_plan_is_never_admitted() -> None:
    plane = InMemoryControlPlane(0)
    plane.want(workers=2)
    plane.start(0)
    plane.run(0.5)
    plane.plan = replace(PLAN, fingerprint="plan-2")
    plane.start(1)
    plane.run(3.0)
    assert plane.latest.attempt == 0
    assert any("theirs=plan-2 ours=plan-1" in line for line in plane.log)


def test_a_source_that_is_listed_at_the_second_try_costs_no_attempt() -> None:
    plane = InMemoryControlPlane(2)
    plane.mute = {0: ("Enumerate",)}
    plane.run(0.3)
    plane.engine(0).mute.clear()
    plane.report(0, control.Broken(Attempt(1), "StorageError: stale handle"))
    plane.until(lambda: plane.latest.epoch == 1)
    assert plane.latest.attempt == 1


def test_a_source_that_cannot_be_listed_fails_the_job_with_its_text() -> None:
    plane = InMemoryControlPlane(2)
    plane.mute = {0: ("Enumerate",), 1: ("Enumerate",)}
    plane.run(0.3)
    for ordinal in (0, 1):
        plane.report(ordinal, control.Broken(Term(1), "StateError: no such folder", fatal=True))  # type: ignore[arg-type]
    plane.until(lambda: plane.latest.failure is not None)
    assert plane.latest.failure == "StateError: no such folder"


# --- Loss -----------------------------------------------------------------------------------------


def test_a_lost_worker_means_the_next_attempt_and_survivors_stay() -> None:
    plane = running()
    survivor = plane.engine(0).incarnation
    plane.kill(1)
    plane.run(1.5)
    plane.start(1)
    plane.until(lambda: plane.latest.attempt == 2)
    epoch = plane.latest.epoch
    plane.until(lambda: plane.latest.epoch > epoch)
    assert plane.engine(0).incarnation == survivor
    assert plane.latest.term == 1


def test_a_dead_engine_is_known_at_once_from_its_keeper() -> None:
    plane = running()
    plane.kill_engine(1)
    plane.until(lambda: plane.latest.attempt == 2, seconds=1.0)


def test_the_lost_are_named_until_their_successor_is_admitted() -> None:
    plane = running()
    gone = plane.engine(1).incarnation
    plane.kill(1)
    plane.until(lambda: plane.latest.lost == (Lost(Ordinal(1), gone, "pod-2"),))
    plane.start(1)
    plane.until(lambda: plane.latest.attempt == 2)
    assert plane.latest.lost == ()


def test_a_lost_life_that_comes_back_is_told_to_end() -> None:
    plane = running()
    gone = plane.engine(1).incarnation
    plane.freeze(1)
    plane.until(lambda: plane.latest.lost != ())
    plane.thaw(1)
    plane.until(lambda: plane.latest.attempt == 2)
    assert plane.engine(1).incarnation != gone


def test_a_life_that_was_lost_before_the_first_attempt_is_told_to_end() -> None:
    plane = InMemoryControlPlane(2)
    plane.want(workers=3)
    plane.run(1.0)
    plane.freeze(1)
    plane.run(3.0)
    plane.thaw(1)
    assert [lost.ordinal for lost in plane.latest.lost] == [1]
    plane.start(2)
    plane.until(lambda: plane.latest.attempt == 1)
    assert plane.engine(1).incarnation == Incarnation("e1.2.2")


def test_an_engine_takes_no_attempt_by_orders_that_were_for_the_engine_before_it() -> None:
    plane = running(epoch=1)
    late = [order for ordinal, order in commands(plane, control.Reset, control.Start) if ordinal == 1]
    signs = (control.Heartbeat, control.EngineLost)
    plane.cut = lambda source, to, body: source == 1 and isinstance(body, signs)
    plane.kill_engine(1)
    plane.until(lambda: plane.keepers[1].engine is not None)
    for order in late:
        plane.tell(1, CommandArrived(control.Envelope(JOB, Term(1), Ordinal(0), order)))
    plane.run(1.5)
    assert (plane.latest.attempt, plane.latest.epoch) == (1, 1), "its state is older than that epoch"
    plane.cut = lambda source, to, body: False
    plane.until(lambda: plane.latest.attempt == 2)
    assert plane.engine(1).incarnation == Incarnation("e1.2.2"), "it was not ended as a stranger"


def test_a_broken_stream_rolls_back_without_losing_anybody() -> None:
    plane = running()
    lives = [plane.engine(i).incarnation for i in (0, 1)]
    plane.report(1, control.Broken(plane.latest.attempt, "stream from 0.0.0 broke"))
    plane.until(lambda: plane.latest.attempt == 2)
    plane.run(1.0)
    assert [plane.engine(i).incarnation for i in (0, 1)] == lives
    assert plane.latest.lost == ()


def test_a_break_of_an_earlier_attempt_changes_nothing() -> None:
    plane = running()
    plane.kill_engine(1)
    plane.until(lambda: plane.latest.attempt == 2)
    plane.run(1.0)
    plane.report(0, control.Broken(plane.cas[0].attempt, "late news"))
    plane.run(1.0)
    assert plane.latest.attempt == 2


def test_a_fatal_break_fails_the_job_and_no_engine_stays() -> None:
    plane = running()
    text = "step 'words', partition 'file0', offset 7: ValueError: no"
    plane.report(1, control.Broken(plane.latest.attempt, text, fatal=True))
    plane.until(lambda: plane.latest.failure == text)
    plane.until(lambda: all(k.engine is None for k in plane.keepers.values()))
    plane.run(5.0)
    assert all(k.engine is None for k in plane.keepers.values())


def test_code_that_does_not_load_fails_the_job_before_any_engine_spoke() -> None:
    plane = InMemoryControlPlane(2)
    plane.unsound = "job.yaml:5: there is no module 'jobs'"
    plane.until(lambda: plane.latest.failure == plane.unsound)
    assert plane.latest.attempt == 0


def test_a_new_leader_hears_that_code_does_not_load_from_a_keeper_that_knows_the_one_before() -> None:
    plane = InMemoryControlPlane(3)
    plane.want(workers=4)
    plane.run(1.0)
    plane.unsound = "ConfigError: jobs.py: no module named 'shapes'"
    first = plane.leader().ordinal
    plane.kill(first)
    plane.kill_engine((first + 1) % 3)
    plane.until(lambda: plane.latest.failure is not None)
    assert (plane.latest.term, plane.latest.failure) == (2, plane.unsound)


def test_members_that_are_never_ready_are_lost_in_the_end() -> None:
    plane = InMemoryControlPlane(2)
    plane.mute = {1: ("Reset",)}
    plane.run(2.0)
    first = plane.engine(1).incarnation
    assert plane.latest.attempt == 1
    plane.mute = {}
    plane.until(lambda: plane.latest.attempt == 2)
    assert plane.engine(1).incarnation != first


def test_attempts_that_commit_nothing_wait_longer_and_longer_and_the_object_says_so() -> None:
    plane = running()
    plane.mute = {1: ("Reset",)}
    starts = []
    plane.kill_engine(1)
    for attempt in range(2, 7):
        plane.until(partial(reached, plane, attempt), seconds=60.0)
        starts.append(plane.now)
        plane.report(0, control.Broken(plane.latest.attempt, "again"))
    waits = [b - a for a, b in pairwise(starts)]
    assert waits == sorted(waits)
    for attempt in range(7, 13):
        plane.until(partial(reached, plane, attempt), seconds=60.0)
        plane.report(0, control.Broken(plane.latest.attempt, "again"))
    assert plane.latest.stalled is not None
    assert "attempts in a row committed no new rows" in plane.latest.stalled


def starts_of_attempts_that_fail_behind_a_commit(plane: InMemoryControlPlane) -> list[float]:
    starts = []
    for attempt in range(2, 14):
        plane.until(partial(committed_after, plane, plane.latest.epoch))
        plane.report(0, control.Broken(plane.latest.attempt, "the registry refuses the password"))
        plane.until(partial(reached, plane, attempt), seconds=60.0)
        starts.append(plane.now)
    return starts


def test_attempts_that_commit_empty_epochs_before_they_fail_wait_longer_and_longer() -> None:
    plane = running()
    for ordinal in plane.keepers:
        plane.engine(ordinal).idle = True
    starts = starts_of_attempts_that_fail_behind_a_commit(plane)
    waits = [b - a for a, b in pairwise(starts)]
    assert waits[-1] > waits[0] + plane.settings.backoff_max_s / 2
    assert plane.latest.stalled is not None
    assert "attempts in a row committed no new rows: worker 0: the registry refuses" in plane.latest.stalled
    plane.run(2 * plane.settings.backoff_max_s)
    assert plane.latest.stalled is None


def test_attempts_that_commit_rows_before_they_fail_do_not_wait_longer() -> None:
    plane = running()
    starts = starts_of_attempts_that_fail_behind_a_commit(plane)
    waits = [b - a for a, b in pairwise(starts)]
    assert max(waits) < min(waits) + 1.0
    assert plane.latest.stalled is None


# --- Order ----------------------------------------------------------------------------------------


def test_no_reset_before_the_attempt_is_swapped() -> None:
    plane = running()
    steps = [
        str(action.latest.attempt) if isinstance(action, SwapLatest) else "reset"
        for _, _, _, _, actions in plane.steps
        for action in actions
        if isinstance(action, SwapLatest)
        or (isinstance(action, SendCommand) and isinstance(action.envelope.body, control.Reset))
    ]
    assert steps.index("reset") > steps.index("1")


def test_sources_start_only_when_all_are_ready_and_old_output_is_visible() -> None:
    plane = running(epoch=2)
    plane.mute = {1: ("Reset",)}
    plane.kill_engine(1)
    plane.until(lambda: plane.latest.attempt == 2)
    plane.run(1.0)
    attempt = plane.latest.attempt
    assert not [c for _, c in commands(plane, control.Start) if c.attempt == attempt]  # type: ignore[union-attr]
    assert not [c for _, c in commands(plane, control.Publish)]


def test_unpublished_output_of_the_lost_is_dealt_to_the_living() -> None:
    plane = running(epoch=1)
    plane.engine(1).mute = ["Commit"]
    plane.until(lambda: plane.latest.epoch == 2)
    assert plane.latest.published_through == 1
    plane.kill(1)
    plane.run(1.5)
    plane.start(1)
    plane.until(lambda: plane.latest.epoch >= 3)
    published = [c for _, c in commands(plane, control.Publish)]
    handles = [h for c in published for h in c.handles]  # type: ignore[union-attr]
    assert {h.epoch for h in handles} == {2}
    assert len(handles) == 4, "all four tasks, each once"
    order = [type(c).__name__ for _, c in commands(plane, control.Publish, control.Start)]
    last_publish = len(order) - order[::-1].index("Publish")
    assert "Start" in order[last_publish:]


def test_a_leader_whose_own_engine_is_not_there_yet_publishes_when_it_is() -> None:
    plane = running(epoch=1, workers=1)
    plane.engine(0).mute = ["Commit"]
    plane.until(lambda: plane.latest.epoch == 2)
    plane.dies_at_birth[1] = 1_000
    plane.want(workers=2)
    plane.start(1)
    plane.post(0, Retire())
    plane.until(lambda: plane.latest.term == 2)
    plane.run(2.0)
    assert (plane.latest.epoch, plane.latest.published_through, plane.latest.attempt) == (2, 1, 1)
    plane.engine(0).mute = []
    plane.dies_at_birth[1] = 0
    plane.until(lambda: plane.latest.epoch > 2)
    assert plane.latest.attempt == 1


def test_recovery_goes_back_to_the_epoch_in_the_object() -> None:
    plane = running(epoch=2)
    plane.kill_engine(1)
    plane.until(lambda: plane.latest.attempt == 2)
    chosen = plane.latest.retained[-1].root
    plane.run(0.5)
    resets = [c for _, c in commands(plane, control.Reset) if c.attempt == 2]  # type: ignore[union-attr]
    roots = {(c.epoch, c.root) for c in resets}  # type: ignore[union-attr]
    assert roots == {(2, chosen)}


# --- The number of workers at an attempt ----------------------------------------------------------


def test_an_attempt_takes_the_wanted_number_when_the_old_one_cannot_come_back() -> None:
    plane = running(3, epoch=1)
    plane.kill(2)
    plane.run(1.5)
    plane.want(workers=2)
    plane.until(lambda: plane.latest.attempt == 2)
    assert (plane.latest.workers, plane.latest.version) == (2, 2)
    epoch = plane.latest.epoch
    plane.until(lambda: plane.latest.epoch > epoch + 1)
    assert plane.latest.settled == 2
    reset = commands(plane, control.Reset)[-1][1]
    assert isinstance(reset, control.Reset)
    assert (reset.assignment.version, reset.assignment.workers) == (2, 2)


def test_a_task_of_a_smaller_attempt_that_is_left_over_is_ended() -> None:
    plane = running(3, epoch=1)
    plane.want(workers=2)
    plane.report(0, control.Broken(plane.latest.attempt, "broke"))
    plane.until(lambda: plane.latest.attempt == 2 and plane.latest.epoch >= 2)
    plane.run(1.0)
    assert plane.engine(2).status.attempt == 0, "a fresh engine that runs nothing"


# --- Another leader -------------------------------------------------------------------------------


def test_a_new_leader_leaves_a_running_attempt_alone() -> None:
    plane = running(epoch=2)
    old = plane.leader()
    engines = {o: k.engine for o, k in plane.keepers.items()}
    plane.post(old.ordinal, Retire())
    plane.until(lambda: plane.latest.term == 2)
    epoch = plane.latest.epoch
    plane.until(lambda: plane.latest.epoch >= epoch + 2)
    assert plane.latest.attempt == 1
    assert {o: k.engine for o, k in plane.keepers.items()} == engines
    assert all(e is not None and e.commands.count("Reset") == 1 for e in engines.values())


def test_a_new_leader_finishes_an_attempt_that_was_only_swapped() -> None:
    plane = InMemoryControlPlane(2)
    plane.cut = lambda a, b, body: isinstance(body, control.Reset)
    plane.until(lambda: plane.latest.attempt == 1)
    plane.cut = lambda a, b, body: False
    plane.kill(plane.leader().ordinal)
    plane.run(1.0)
    plane.start(0)
    plane.until(lambda: plane.latest.epoch >= 1)


def test_a_killed_leader_is_replaced_before_its_lease_runs_out() -> None:
    plane = running(epoch=1)
    plane.kill(plane.leader().ordinal)
    plane.until(lambda: plane.latest.term == 2, seconds=1.5)


def test_with_three_workers_another_has_to_confirm_that_the_leader_is_dead() -> None:
    plane = running(3, epoch=1)
    leader = plane.leader().ordinal
    plane.kill(leader)
    plane.until(lambda: plane.latest.term == 2, seconds=1.5)
    confirmed = [
        event
        for _, _, _, event, _ in plane.steps
        if isinstance(getattr(getattr(event, "envelope", None), "body", None), control.Confirm)
    ]
    assert confirmed


def test_a_stopped_leader_that_wakes_up_changes_nothing() -> None:
    plane = running(epoch=2)
    old = plane.leader().ordinal
    plane.freeze(old)
    plane.until(lambda: plane.latest.term == 2)
    cas = len(plane.cas)
    plane.thaw(old)
    plane.run(0.2)
    assert all(s.term == 2 for s in plane.cas[cas:])
    epoch = plane.latest.epoch
    plane.until(lambda: plane.latest.epoch > epoch + 1)


def test_a_leader_without_its_lease_stops_acting() -> None:
    plane = running(epoch=1)
    leader = plane.leader()
    plane.lease = ("somebody", 99)
    plane.until(lambda: leader.coordinator.leads() is None)
    assert leader.coordinator.leads() is None


def test_addresses_of_the_dead_are_not_those_of_the_living() -> None:
    plane = running(epoch=1)
    plane.kill(1)
    keeper = plane.start(1)
    plane.until(lambda: plane.latest.attempt == 2)
    members = plane.blobs[plane.latest.members.name]  # type: ignore[union-attr]
    assert isinstance(members, control.MembersFile)
    assert [m.keeper for m in members.members] == ["keeper-0-1", keeper.address]
    assert members.members[1].incarnation == Incarnation("e1.3.1")
