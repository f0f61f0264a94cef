"""Attempts: the first one, the ways back to the committed epoch, and the order of each."""

from functools import partial
from itertools import pairwise

from penstock.base.values import replace
from penstock.contract import control
from penstock.contract.ids import Incarnation, Ordinal, Term
from penstock.contract.latest import Lost
from penstock.protocol.control_actions import SendCommand, SwapLatest
from penstock.protocol.control_events import Retire
from tests.support.in_memory_control_plane import InMemoryControlPlane
from tests.support.running_jobs import running
from tests.support.stub_engine import PLAN


def commands(town: InMemoryControlPlane, *kinds: type) -> list[tuple[int, control.Command]]:
    """List the commands of some kinds in the order in which the leader sent them."""
    return [
        (action.ordinal, action.envelope.body)  # type: ignore[misc]
        for _, _, _, _, actions in town.steps
        for action in actions
        if isinstance(action, SendCommand) and isinstance(action.envelope.body, kinds)
    ]


def reached(town: InMemoryControlPlane, attempt: int) -> bool:
    return town.latest.attempt == attempt


# --- The first attempt ----------------------------------------------------------------------------


def test_the_first_attempt_begins_from_nothing() -> None:
    town = running()
    assert (town.latest.term, town.latest.attempt, town.latest.version) == (1, 1, 1)
    assert town.latest.workers == 2
    assert town.root_file == "object-1\n"
    reset = next(c for _, c in commands(town, control.Reset))
    assert isinstance(reset, control.Reset)
    assert (reset.epoch, reset.root) == (0, None)
    assert [s.split for s in reset.splits[0].splits] == ["file0", "file1", "file2", "file3"]


def test_splits_are_listed_once_in_a_jobs_life() -> None:
    town = InMemoryControlPlane(2)
    town.until(lambda: town.latest.attempt == 1)
    town.kill_engine(1)
    town.until(lambda: town.latest.attempt == 2 and town.latest.epoch >= 1)
    assert len(commands(town, control.Enumerate)) == 1


def test_nothing_begins_before_every_ordinal_is_there() -> None:
    town = InMemoryControlPlane(1)
    town.want(workers=2)
    town.run(3.0)
    assert town.latest.attempt == 0
    town.start(1)
    town.until(lambda: town.latest.attempt == 1)


def test_an_engine_with_another_plan_is_never_admitted() -> None:
    town = InMemoryControlPlane(0)
    town.want(workers=2)
    town.start(0)
    town.run(0.5)
    town.plan = replace(PLAN, fingerprint="plan-2")
    town.start(1)
    town.run(3.0)
    assert town.latest.attempt == 0
    assert any("theirs=plan-2 ours=plan-1" in line for line in town.log)


def test_a_source_that_cannot_be_listed_fails_the_job_with_its_text() -> None:
    town = InMemoryControlPlane(2)
    town.mute = {0: ("Enumerate",), 1: ("Enumerate",)}
    town.run(0.3)
    for ordinal in (0, 1):
        town.say(ordinal, control.Broken(Term(1), "StateError: no such folder", fatal=True))  # type: ignore[arg-type]
    town.until(lambda: town.latest.failure is not None)
    assert town.latest.failure == "StateError: no such folder"


# --- Loss -----------------------------------------------------------------------------------------


def test_a_lost_worker_means_the_next_attempt_and_survivors_stay() -> None:
    town = running()
    survivor = town.engine(0).incarnation
    town.kill(1)
    town.run(1.5)
    town.start(1)
    town.until(lambda: town.latest.attempt == 2)
    epoch = town.latest.epoch
    town.until(lambda: town.latest.epoch > epoch)
    assert town.engine(0).incarnation == survivor
    assert town.latest.term == 1


def test_a_dead_engine_is_known_at_once_from_its_keeper() -> None:
    town = running()
    town.kill_engine(1)
    town.until(lambda: town.latest.attempt == 2, seconds=1.0)


def test_the_lost_are_named_until_their_successor_is_admitted() -> None:
    town = running()
    gone = town.engine(1).incarnation
    town.kill(1)
    town.until(lambda: town.latest.lost == (Lost(Ordinal(1), gone, "pod-2"),))
    town.start(1)
    town.until(lambda: town.latest.attempt == 2)
    assert town.latest.lost == ()


def test_a_lost_life_that_comes_back_is_told_to_end() -> None:
    town = running()
    gone = town.engine(1).incarnation
    town.freeze(1)
    town.until(lambda: town.latest.lost != ())
    town.thaw(1)
    town.until(lambda: town.latest.attempt == 2)
    assert town.engine(1).incarnation != gone


def test_a_broken_stream_rolls_back_without_losing_anybody() -> None:
    town = running()
    lives = [town.engine(i).incarnation for i in (0, 1)]
    town.say(1, control.Broken(town.latest.attempt, "stream from 0.0.0 broke"))
    town.until(lambda: town.latest.attempt == 2)
    town.run(1.0)
    assert [town.engine(i).incarnation for i in (0, 1)] == lives
    assert town.latest.lost == ()


def test_a_break_of_an_earlier_attempt_changes_nothing() -> None:
    town = running()
    town.kill_engine(1)
    town.until(lambda: town.latest.attempt == 2)
    town.run(1.0)
    town.say(0, control.Broken(town.cas[0].attempt, "late news"))
    town.run(1.0)
    assert town.latest.attempt == 2


def test_a_fatal_break_fails_the_job_and_no_engine_stays() -> None:
    town = running()
    text = "step 'words', partition 'file0', offset 7: ValueError: no"
    town.say(1, control.Broken(town.latest.attempt, text, fatal=True))
    town.until(lambda: town.latest.failure == text)
    town.until(lambda: all(k.engine is None for k in town.keepers.values()))
    town.run(5.0)
    assert all(k.engine is None for k in town.keepers.values())


def test_code_that_does_not_load_fails_the_job_before_any_engine_spoke() -> None:
    town = InMemoryControlPlane(2)
    town.unsound = "job.yaml:5: there is no module 'jobs'"
    town.until(lambda: town.latest.failure == town.unsound)
    assert town.latest.attempt == 0


def test_members_that_are_never_ready_are_lost_in_the_end() -> None:
    town = InMemoryControlPlane(2)
    town.mute = {1: ("Reset",)}
    town.run(2.0)
    first = town.engine(1).incarnation
    assert town.latest.attempt == 1
    town.mute = {}
    town.until(lambda: town.latest.attempt == 2)
    assert town.engine(1).incarnation != first


def test_attempts_in_vain_wait_longer_and_longer_and_say_so() -> None:
    town = running()
    town.mute = {1: ("Reset",)}
    starts = []
    town.kill_engine(1)
    for attempt in range(2, 7):
        town.until(partial(reached, town, attempt), seconds=60.0)
        starts.append(town.now)
        town.say(0, control.Broken(town.latest.attempt, "again"))
    waits = [b - a for a, b in pairwise(starts)]
    assert waits == sorted(waits)
    for attempt in range(7, 13):
        town.until(partial(reached, town, attempt), seconds=60.0)
        town.say(0, control.Broken(town.latest.attempt, "again"))
    assert town.latest.stalled is not None
    assert "attempts in a row committed nothing" in town.latest.stalled


# --- Order ----------------------------------------------------------------------------------------


def test_no_reset_before_the_attempt_is_swapped() -> None:
    town = running()
    steps = [
        str(action.latest.attempt) if isinstance(action, SwapLatest) else "reset"
        for _, _, _, _, actions in town.steps
        for action in actions
        if isinstance(action, SwapLatest)
        or (isinstance(action, SendCommand) and isinstance(action.envelope.body, control.Reset))
    ]
    assert steps.index("reset") > steps.index("1")


def test_sources_start_only_when_all_are_ready_and_old_output_is_visible() -> None:
    town = running(epoch=2)
    town.mute = {1: ("Reset",)}
    town.kill_engine(1)
    town.until(lambda: town.latest.attempt == 2)
    town.run(1.0)
    attempt = town.latest.attempt
    assert not [c for _, c in commands(town, control.Start) if c.attempt == attempt]  # type: ignore[union-attr]
    assert not [c for _, c in commands(town, control.Publish)]


def test_unpublished_output_of_the_lost_is_dealt_to_the_living() -> None:
    town = running(epoch=1)
    town.engine(1).mute = ["Commit"]
    town.until(lambda: town.latest.epoch == 2)
    assert town.latest.published_through == 1
    town.kill(1)
    town.run(1.5)
    town.start(1)
    town.until(lambda: town.latest.epoch >= 3)
    published = [c for _, c in commands(town, control.Publish)]
    handles = [h for c in published for h in c.handles]  # type: ignore[union-attr]
    assert {h.epoch for h in handles} == {2}
    assert len(handles) == 4, "all four tasks, each once"
    order = [type(c).__name__ for _, c in commands(town, control.Publish, control.Start)]
    last_publish = len(order) - order[::-1].index("Publish")
    assert "Start" in order[last_publish:]


def test_recovery_goes_back_to_the_epoch_in_the_object() -> None:
    town = running(epoch=2)
    town.kill_engine(1)
    town.until(lambda: town.latest.attempt == 2)
    chosen = town.latest.retained[-1].root
    town.run(0.5)
    resets = [c for _, c in commands(town, control.Reset) if c.attempt == 2]  # type: ignore[union-attr]
    roots = {(c.epoch, c.root) for c in resets}  # type: ignore[union-attr]
    assert roots == {(2, chosen)}


# --- The number of workers at an attempt ----------------------------------------------------------


def test_an_attempt_takes_the_wanted_number_when_the_old_one_cannot_come_back() -> None:
    town = running(3, epoch=1)
    town.kill(2)
    town.run(1.5)
    town.want(workers=2)
    town.until(lambda: town.latest.attempt == 2)
    assert (town.latest.workers, town.latest.version) == (2, 2)
    epoch = town.latest.epoch
    town.until(lambda: town.latest.epoch > epoch + 1)
    assert town.latest.settled == 2
    reset = commands(town, control.Reset)[-1][1]
    assert isinstance(reset, control.Reset)
    assert (reset.assignment.version, reset.assignment.workers) == (2, 2)


def test_a_task_of_a_smaller_attempt_that_is_left_over_is_ended() -> None:
    town = running(3, epoch=1)
    town.want(workers=2)
    town.say(0, control.Broken(town.latest.attempt, "broke"))
    town.until(lambda: town.latest.attempt == 2 and town.latest.epoch >= 2)
    town.run(1.0)
    assert town.engine(2).status.attempt == 0, "a fresh engine that runs nothing"


# --- Another leader -------------------------------------------------------------------------------


def test_a_new_leader_leaves_a_running_attempt_alone() -> None:
    town = running(epoch=2)
    old = town.leader()
    engines = {o: k.engine for o, k in town.keepers.items()}
    town.post(old.ordinal, Retire())
    town.until(lambda: town.latest.term == 2)
    epoch = town.latest.epoch
    town.until(lambda: town.latest.epoch >= epoch + 2)
    assert town.latest.attempt == 1
    assert {o: k.engine for o, k in town.keepers.items()} == engines
    assert all(e is not None and e.heard.count("Reset") == 1 for e in engines.values())


def test_a_new_leader_finishes_an_attempt_that_was_only_swapped() -> None:
    town = InMemoryControlPlane(2)
    town.cut = lambda a, b, body: isinstance(body, control.Reset)
    town.until(lambda: town.latest.attempt == 1)
    town.cut = lambda a, b, body: False
    town.kill(town.leader().ordinal)
    town.run(1.0)
    town.start(0)
    town.until(lambda: town.latest.epoch >= 1)


def test_a_killed_leader_is_replaced_before_its_lease_runs_out() -> None:
    town = running(epoch=1)
    town.kill(town.leader().ordinal)
    town.until(lambda: town.latest.term == 2, seconds=1.5)


def test_with_three_workers_another_has_to_confirm_that_the_leader_is_dead() -> None:
    town = running(3, epoch=1)
    leader = town.leader().ordinal
    town.kill(leader)
    town.until(lambda: town.latest.term == 2, seconds=1.5)
    confirmed = [
        event
        for _, _, _, event, _ in town.steps
        if isinstance(getattr(getattr(event, "envelope", None), "body", None), control.Confirm)
    ]
    assert confirmed


def test_a_stopped_leader_that_wakes_up_changes_nothing() -> None:
    town = running(epoch=2)
    old = town.leader().ordinal
    town.freeze(old)
    town.until(lambda: town.latest.term == 2)
    cas = len(town.cas)
    town.thaw(old)
    town.run(0.2)
    assert all(s.term == 2 for s in town.cas[cas:])
    epoch = town.latest.epoch
    town.until(lambda: town.latest.epoch > epoch + 1)


def test_a_leader_without_its_lease_stops_acting() -> None:
    town = running(epoch=1)
    leader = town.leader()
    town.lease = ("somebody", 99)
    town.until(lambda: leader.coordinator.leads() is None)
    assert leader.coordinator.leads() is None


def test_addresses_of_the_dead_are_not_those_of_the_living() -> None:
    town = running(epoch=1)
    town.kill(1)
    keeper = town.start(1)
    town.until(lambda: town.latest.attempt == 2)
    members = town.blobs[town.latest.members.name]  # type: ignore[union-attr]
    assert isinstance(members, control.MembersFile)
    assert [m.keeper for m in members.members] == ["keeper-0-1", keeper.address]
    assert members.members[1].incarnation == Incarnation("e1.3.1")
