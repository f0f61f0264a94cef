"""The threads of an engine's tasks: which of them get a barrier, and what becomes of those that join in vain."""

from types import SimpleNamespace
from typing import Any, cast

from penstock.contract.ids import Attempt, Epoch, Ordinal, TaskId
from penstock.engine.task_runtime import TaskParts
from penstock.engine.worker import EngineTasks, TaskPlacement
from penstock.protocol.engine import engine_messages as em
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskCore
from penstock.protocol.task.task_state import TaskSetup
from tests.support.fakes import FakeClock
from tests.support.task_harness import COUNT, PLAN, SOURCE, SPLITS, TWO, barrier, task

HERE = (task(SOURCE, 0), task(COUNT, 0))


class Unstarted(EngineTasks):
    """Makes the threads and starts none: their inboxes keep what they are told."""

    def make(self, order: em.MakeTasks, attempt: Attempt) -> None:
        for name in order.tasks:
            self.threads[name] = self._thread(name, order, attempt)


def parts(name: TaskId, *_: object) -> TaskParts:
    core = TaskCore(TaskSetup(PLAN, name, TWO, 1000, first_splits=SPLITS))
    return TaskParts(core, cast(Any, None), (), {})


def joining(*names: TaskId) -> em.MakeTasks:
    return em.MakeTasks(names, TWO, None, (), joining=True)


def made() -> Unstarted:
    job, host = SimpleNamespace(parts=parts), SimpleNamespace(clock=FakeClock(), work_clock=float)
    engine = Unstarted(TaskPlacement(Ordinal(0), cast(Any, job), cast(Any, None), cast(Any, host)))
    engine.make(joining(*HERE), Attempt(1))
    return engine


def test_a_barrier_is_given_to_sources_only() -> None:
    engine = made()
    engine.inject(barrier(1))
    told = [engine.threads[name].inbox.take() for name in HERE]
    assert told == [ev.Injected(barrier(1)), None], "the others meet it in band"


def test_a_task_that_joined_in_vain_is_reset_and_the_next_is_woken_by_the_same_input() -> None:
    engine = made()
    before = engine.threads[HERE[1]]
    engine.drop(HERE[1:])
    assert before.inbox.reset == ev.ResetTo(Epoch(0)), "what it has staged is in no epoch"
    engine.make(joining(HERE[1]), Attempt(1))
    after = engine.threads[HERE[1]]
    assert after is not before
    assert after.inbox._wakeup is before.inbox._wakeup
