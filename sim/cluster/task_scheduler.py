"""The schedule of the tasks of a simulated engine, and the barriers that they relay."""

from penstock.contract.ids import Attempt, TaskId
from penstock.model.elements import Barrier
from penstock.protocol.engine.engine_core import EngineCore
from penstock.protocol.task import task_messages as ev
from sim.cluster.task import SimTask
from sim.kernel.kernel import SimKernel
from sim.kernel.messages import Heard, Poll, RunTask

PASS_US = (50, 400)
POLL_US = 20_000


class SimTaskScheduler:
    """The scheduler of an engine: tasks run in any order, with small delays."""

    kernel: SimKernel
    name: str
    core: EngineCore

    def __init__(self) -> None:
        self.tasks: dict[TaskId, SimTask] = {}
        self._scheduled: dict[TaskId, bool] = {}

    @property
    def attempt(self) -> Attempt:
        """Return the attempt of the tasks here."""
        return self.core.attempt

    def spread(self, barrier: Barrier) -> None:
        """Give a barrier to the sources of this engine after a short delay."""
        self.kernel.at(self._delay_us(), self.name, Heard(self.attempt, barrier))

    def _heard(self, heard: Heard) -> None:
        if heard.attempt == self.attempt:
            sources = [t.core for t in self.tasks.values() if t.core.state.splits is not None]
            if any(core.state.aligner.begins(heard.barrier) for core in sources):
                self.kernel.happened("sources begun in band")
            self._inject(heard.barrier)

    def _inject(self, barrier: Barrier) -> None:
        for task in list(self.tasks.values()):
            if task.core.state.splits is not None:
                task.tell(ev.Injected(barrier))

    def _tell_all(self, event: ev.Event) -> None:
        for task in list(self.tasks.values()):
            task.tell(event)

    def _wake_tasks(self) -> None:
        for task_id, task in self.tasks.items():
            if self._scheduled.get(task_id, False):
                continue
            if task.candidates() or not task.quiet:
                self._scheduled[task_id] = True
                delay_us = max(self._delay_us(), task.busy_until_us - self.kernel.now_us)
                self.kernel.at(delay_us, self.name, RunTask(task_id, self.attempt))

    def _run_task(self, run: RunTask) -> None:
        task = self.tasks.get(run.task)
        if run.attempt != self.attempt or task is None:
            return
        self._scheduled[run.task] = False
        choices = task.candidates()
        if choices:
            task.take(self.kernel.streams.schedule.choice(choices))
        else:
            task.rest()

    def _poll(self) -> None:
        for task in self.tasks.values():
            if task.readers and not task.candidates():
                task.rest()
        self.kernel.at(POLL_US, self.name, Poll())

    def _delay_us(self) -> int:
        return self.kernel.streams.schedule.randint(*PASS_US)
