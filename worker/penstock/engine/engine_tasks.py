"""The tasks of one engine as threads: made, told, ended, as the engine's core says."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.base.limits import RESET_DEADLINE_S
from penstock.base.threads import end_process, monotonic
from penstock.contract.ids import Attempt, Epoch, Ordinal, TaskId
from penstock.engine.build import JobParts
from penstock.engine.task_runtime import Stop, TaskRuntime
from penstock.engine.task_thread import TaskThread
from penstock.model.elements import Barrier
from penstock.protocol.engine import engine_messages as em
from penstock.protocol.task import task_messages as ev
from penstock.transport.exchange import Exchange, Peer, Wiring
from penstock.transport.input import Wakeup

log = logging.getLogger(__name__)

EXIT_STUCK = 70  # a task did not end: the process does


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    """What the tasks need of their worker."""

    ordinal: Ordinal
    job: JobParts
    exchange: Exchange
    host: TaskRuntime


class EngineTasks:
    """The threads of the tasks here, and the actions of the engine's core that are about them.

    For the worker's main thread; :meth:`inject` may be called from any thread.
    """

    def __init__(self, place: TaskPlacement) -> None:
        """Begin without tasks."""
        self.threads: dict[TaskId, TaskThread] = {}
        self._place = place
        self._wakeups: dict[TaskId, Wakeup] = {}

    def make(self, order: em.MakeTasks, attempt: Attempt) -> None:
        """Make and start the threads; they load, and say when they are ready or prepared."""
        for task in order.tasks:
            self.threads[task] = self._thread(task, order, attempt)
        for task in order.tasks:
            self.threads[task].start()

    def tell(self, event: ev.Event | Stop) -> None:
        """Put an event into the inbox of every task."""
        for thread in self.threads.values():
            thread.inbox.put(event)

    def inject(self, barrier: Barrier) -> None:
        """Give a barrier to the source tasks."""
        for thread in tuple(self.threads.values()):
            if thread.core.state.splits is not None:
                thread.inbox.put(ev.Injected(barrier))

    def drop(self, tasks: Iterable[TaskId]) -> None:
        """Forget tasks that join for a table which is off. They end by themselves."""
        for task in tasks:
            self.threads.pop(task).inbox.put(ev.ResetTo(Epoch(0)))

    def retire(self, tasks: Iterable[TaskId]) -> None:
        """Wait for tasks whose work has ended."""
        self._end([self.threads[task] for task in tasks if task in self.threads], Stop())

    def end(self, order: ev.ResetTo | Stop) -> None:
        """End all tasks. One that does not within the deadline ends the process.

        Only a reset says what was not committed, so only a reset discards prepared output.
        """
        self._end(list(self.threads.values()), order)
        self._wakeups.clear()

    def open(self, order: em.OpenStreams, attempt: Attempt) -> None:
        """Open channels; what comes in wakes the tasks here."""
        peers = {o: Peer(m.incarnation, m.flight) for o, m in order.members.items()}
        wakeups = {task: w for task, w in self._wakeups.items() if task in self.threads}
        schemas = self._place.job.schemas
        wiring = Wiring(peers, order.channels, schemas, wakeups, order.version)
        self._place.exchange.open_attempt(attempt, wiring)

    def _end(self, threads: list[TaskThread], order: ev.ResetTo | Stop) -> None:
        for thread in threads:
            thread.inbox.put(order)
        deadline = monotonic() + RESET_DEADLINE_S
        for thread in threads:
            thread.join(max(0.0, deadline - monotonic()))
            if thread.is_alive():
                log.critical("event=task_stuck task=%s deadline_s=%g", thread.task, RESET_DEADLINE_S)
                end_process(EXIT_STUCK)
            del self.threads[thread.task]

    def _thread(self, task: TaskId, order: em.MakeTasks, attempt: Attempt) -> TaskThread:
        # One wakeup for a task id, also when a cancelled table made the task before: its input,
        # which is there already, sets this one.
        wakeup = self._wakeups.setdefault(task, Wakeup())
        parts = self._place.job.parts(task, order, attempt)
        return TaskThread(parts, self._place.host, wakeup)
