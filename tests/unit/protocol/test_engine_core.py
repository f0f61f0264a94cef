"""The engine core: orders that come twice, late, or in the middle of another one."""

from dataclasses import dataclass, field

from penstock.base.values import replace
from penstock.contract import control_messages as c
from penstock.contract.codec import ABSENT
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    Ordinal,
    TaskId,
    Term,
    Version,
)
from penstock.contract.latest import Member
from penstock.contract.manifest import BlobRef
from penstock.contract.plan import Assignment, next_assignment
from penstock.protocol.engine import engine_messages as em
from penstock.protocol.engine.engine_core import EngineCore, TaskMarks
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskCore, TaskSetup
from tests.support.task_harness import OUT, PLAN, THREE, TWO, task

REF = BlobRef(BlobName("root"), "hash", 1)
MEMBERS = tuple(Member(Ordinal(i), Incarnation(f"life-{i}"), "k", "f") for i in range(3))
FOUR = replace(next_assignment(PLAN, TWO, 3), version=Version(THREE.version + 1))


@dataclass(slots=True)
class Task:
    core: TaskCore
    marks: TaskMarks = field(default_factory=TaskMarks)


@dataclass(slots=True)
class Engine:
    """A core and the simplest shell: actions are performed at once, or recorded."""

    ordinal: Ordinal
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    did: list[em.Action] = field(default_factory=list)
    makes: bool = True
    core: EngineCore = field(init=False)

    def __post_init__(self) -> None:
        self.core = EngineCore(self.ordinal, PLAN, lambda: list(self.tasks.values()))

    def __call__(self, order: c.Command) -> list[em.Action]:
        self.did = []
        self.perform(em.OrderReceived(Term(1), order, 0))
        return self.did

    def perform(self, event: em.Event) -> None:
        for action in self.core.step(event):
            self.did.append(action)
            match action:
                case em.ClaimOutput(order, root):
                    self.perform(em.OutputClaimed(order, root))
                case em.ReadManifest(order):
                    self.perform(em.ManifestRead(order, None))
                case em.MakeTasks() if self.makes:
                    for name in action.tasks:
                        setup = TaskSetup(PLAN, name, action.assignment, 1000, joining=action.joining)
                        self.tasks[name] = Task(TaskCore(setup))
                case em.DropTasks(tasks) | em.RetireTasks(tasks):
                    for name in tasks:
                        del self.tasks[name]
                case em.EndTasks():
                    self.tasks.clear()

    def reach(self, **marks: object) -> None:
        for made in self.tasks.values():
            for name, value in marks.items():
                setattr(made.marks, name, value)


def reset(table: Assignment = TWO, attempt: int = 1) -> c.Reset:
    return c.Reset(Attempt(attempt), Epoch(0), None, table, MEMBERS[:2], ())


def prepare(table: Assignment, attempt: int = 1) -> c.Prepare:
    return c.Prepare(Attempt(attempt), table, MEMBERS, Epoch(0), None, ())


def running(ordinal: int = 0, table: Assignment = TWO) -> Engine:
    engine = Engine(Ordinal(ordinal))
    engine(reset(table))
    engine.reach(ready=True, resumed=table.version)
    engine(c.Start(Attempt(1)))
    return engine


def kinds(actions: list[em.Action]) -> list[type]:
    return [type(action) for action in actions]


def told(actions: list[em.Action]) -> list[ev.Event]:
    return [action.event for action in actions if isinstance(action, em.TellTasks)]


def test_an_attempt_ends_the_one_before_and_is_begun_once() -> None:
    engine = Engine(Ordinal(0))
    begun = kinds(engine(reset()))
    assert begun == [em.EndTasks, em.ResetStreams, em.ClaimOutput, em.MakeTasks, em.WatchInputs]
    assert engine(reset()) == []
    engine.reach(ready=True)
    assert kinds(engine(c.Start(Attempt(1)))) == [em.OpenStreams, em.SweepStaging, em.TellTasks]
    assert engine(c.Start(Attempt(1))) == []
    assert engine.core.status().running == 1


def test_an_order_of_another_attempt_is_dropped() -> None:
    engine = running()
    assert engine(c.Commit(Attempt(2), Epoch(1), TWO.version)) == []
    assert engine(c.Start(Attempt(0))) == []


def test_an_engine_whose_tasks_are_not_made_yet_is_not_ready() -> None:
    engine = Engine(Ordinal(0), makes=False)
    engine(reset())
    assert engine.core.status() == c.EngineStatus(attempt=Attempt(1))


def test_a_member_stays_ready_while_a_joining_task_is_made_and_is_not_prepared() -> None:
    engine = running(1, next_assignment(PLAN, TWO, 1))
    assert engine.tasks == {}
    engine.makes = False
    engine(prepare(replace(TWO, version=Version(9))))
    status = engine.core.status()
    assert (status.running, status.prepared) == (1, 0)


def test_a_table_that_was_called_off_is_not_prepared_again() -> None:
    engine = running()
    assert told(engine(prepare(THREE))) == [ev.Proposed(THREE, None)]
    assert engine(prepare(THREE)) == []
    assert told(engine(c.CancelRescale(Attempt(1), THREE.version))) == [ev.Cancelled(THREE.version)]
    assert engine(prepare(THREE)) == [], "late: its version is used up"
    assert told(engine(prepare(FOUR))) == [ev.Proposed(FOUR, None)]


def test_an_order_to_call_off_that_overtakes_is_remembered() -> None:
    engine = running()
    assert engine(c.CancelRescale(Attempt(1), THREE.version)) == []
    assert engine(prepare(THREE)) == []


def test_a_higher_table_calls_the_one_before_off() -> None:
    engine = running()
    engine(prepare(THREE))
    assert told(engine(prepare(FOUR))) == [ev.Cancelled(THREE.version), ev.Proposed(FOUR, None)]


def test_a_joiner_is_ready_and_running_with_its_table() -> None:
    engine = Engine(Ordinal(2))
    engine(prepare(THREE))
    assert engine.core.status() == c.EngineStatus(attempt=Attempt(1), exhausted=True)
    engine.reach(prepared=THREE.version)
    status = engine.core.status()
    assert (status.ready, status.running, status.prepared) == (1, 1, THREE.version)


def test_an_adoption_is_repeated_until_all_tasks_have_resumed() -> None:
    engine = running()
    engine(prepare(THREE))
    adopt = c.Adopt(Attempt(1), THREE.version, Epoch(1), REF)
    engine.did = []
    first = engine.core.step(em.OrderReceived(Term(1), adopt, 0))
    assert kinds(first) == [em.OpenStreams, em.ReadManifest]
    again = engine.core.step(em.OrderReceived(Term(1), adopt, 0))
    assert kinds(again) == [em.ReadManifest], "its streams are open"
    engine.reach(resumed=THREE.version)
    assert engine.core.step(em.OrderReceived(Term(1), adopt, 0)) == []


def test_a_worker_without_tasks_resumes_and_settles_with_the_table() -> None:
    nobody = replace(next_assignment(PLAN, TWO, 1), workers=2)
    engine = running(1, nobody)
    table = replace(nobody, version=Version(5), workers=3)
    engine(prepare(table))
    assert engine.core.status().prepared == 5
    engine.core.step(em.OrderReceived(Term(1), c.Adopt(Attempt(1), Version(5), Epoch(1), REF), 0))
    assert engine.core.status().resumed == 5
    engine(c.Settled(Attempt(1), Version(5)))
    assert engine.core.status().settled == 5


def test_a_worker_that_leaves_says_so_when_all_its_tasks_have_ended() -> None:
    engine = running(1)
    one = replace(next_assignment(PLAN, TWO, 1), version=Version(7))
    engine(prepare(one))
    engine.core.step(em.OrderReceived(Term(1), c.Adopt(Attempt(1), Version(7), Epoch(1), REF), 0))
    assert not engine.core.status().left
    engine.reach(finished=True)
    assert engine.core.status().left


def test_streams_of_a_worker_in_no_table_may_close_as_they_like() -> None:
    engine = running()
    assert engine.core.may_close(Ordinal(2))
    engine(prepare(THREE))
    assert not engine.core.may_close(Ordinal(2))


def test_two_workers_that_leave_wait_for_the_end_of_each_others_streams() -> None:
    three = replace(THREE, version=Version(6))
    engine = running(1, three)
    one = replace(next_assignment(PLAN, three, 1), version=Version(7))
    engine(prepare(one))
    assert not engine.core.may_close(Ordinal(2)), "the rescale may be aborted"
    engine.core.step(em.OrderReceived(Term(1), c.Adopt(Attempt(1), Version(7), Epoch(1), REF), 0))
    assert not engine.core.may_close(Ordinal(2))
    assert not engine.core.may_close(Ordinal(0))


def test_output_of_a_lost_worker_counts_for_its_attempt_only() -> None:
    engine = running()
    engine.core.published(em.PublishFor(Attempt(1), Epoch(3), ()))
    engine.core.published(em.PublishFor(Attempt(2), Epoch(9), ()))
    assert engine.core.status().published == 3


def test_output_of_whole_sinks_says_nothing_of_what_the_tasks_here_publish() -> None:
    engine = running()
    (order,) = engine(c.PublishWhole(Attempt(1), Epoch(3), ()))
    assert isinstance(order, em.PublishFor)
    assert engine.core.status().whole is ABSENT
    engine.core.published(order)
    assert (engine.core.status().whole, engine.core.status().published) == (3, 0)


def test_the_tasks_here_are_those_of_the_table() -> None:
    assert set(running().tasks) == {task(s.index, 0) for s in PLAN.stages}
    assert task(OUT, 0) in running().tasks


def test_a_joiner_says_that_an_epoch_is_published_before_it_adopts_the_version() -> None:
    engine = Engine(Ordinal(2))
    engine(prepare(THREE))
    engine.reach(prepared=THREE.version, published=Epoch(3))
    assert engine.core.status().published == 3


def test_a_worker_without_tasks_has_published_what_is_committed() -> None:
    engine = running(1, next_assignment(PLAN, TWO, 1))
    assert engine.tasks == {}
    assert engine.core.status().published == 0
    engine(c.Commit(Attempt(1), Epoch(3), Version(1)))
    assert engine.core.status().published == 3


def test_output_is_claimed_as_new_only_without_a_checkpoint() -> None:
    fresh = em.ClaimOutput(reset(), None)
    assert fresh.fresh
    restored = em.ClaimOutput(replace(reset(), root=REF, epoch=Epoch(2)), None)
    assert not restored.fresh
    assert restored.origin is None


def test_what_is_staged_is_cleared_once_before_the_engine_has_ended() -> None:
    engine = running()
    (_, clear) = engine(c.EndStreams(Attempt(1)))
    assert isinstance(clear, em.ClearStaging)
    assert kinds(engine(c.EndStreams(Attempt(1)))) == [em.TellTasks], "it is told again until it has ended"
    engine.reach(finished=True)
    assert not engine.core.status().ended
    engine.core.cleared(em.ClearStaging(Attempt(2)))
    assert not engine.core.status().ended, "that was of another attempt"
    engine.core.cleared(clear)
    assert engine.core.status().ended
