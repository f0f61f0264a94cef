"""Cooperative scheduling: one thread gives passes to all tasks of a job, to tasks near the sinks first.

In a pass a task does one thing. A task that has nothing to do rests until its wakeup is set. A task
that has no room to send to lets other tasks work in the middle of its own pass, until there is room.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from penstock.base.threads import Executor, Future
from penstock.contract.ids import TaskId
from penstock.engine.task_runtime import TaskParts, TaskProgress
from penstock.engine.task_thread import TaskLoop
from penstock.transport.input import Wakeup

Work = Callable[[], object]


class CooperativeWakeup(Wakeup):
    """A wakeup that never sleeps: a task that waits on it rests, or lets other tasks work."""

    __slots__ = ("_run_others", "progress", "rested")

    def __init__(self, run_others: Work) -> None:
        """Call ``run_others`` when the task waits for room."""
        super().__init__()
        self._run_others = run_others
        self.progress: TaskProgress | None = None
        self.rested = False

    @property
    def woken(self) -> bool:
        """Return whether there is something new for the task."""
        return not self._unset.locked()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return at once whether there is something new."""
        if super().wait(0.0):
            return True
        if self.progress is not None and self.progress.blocked_at is not None:
            self._run_others()
        else:
            self.rested = True
        return False


class ScheduledTask:
    """A task and its wakeup. ``busy`` is true within its pass."""

    __slots__ = ("busy", "handling", "loop", "parts", "wakeup")

    def __init__(self, loop: TaskLoop, parts: TaskParts, wakeup: CooperativeWakeup) -> None:
        self.loop = loop
        self.parts = parts
        self.wakeup = wakeup
        self.busy = False
        self.handling = False  # the last order is not carried out completely
        wakeup.progress = loop.progress

    @property
    def is_source(self) -> bool:
        """Return whether the task reads a source."""
        return self.parts.source is not None

    def may_work(self, reading: bool) -> bool:
        """Return whether the task has something to do. With ``reading``, sources are read."""
        if self.busy:
            return False
        if self.is_source and not reading:
            return self.handling or not self.loop.inbox.empty
        if self.wakeup.woken or not self.wakeup.rested or self.loop.waits:
            return True
        ticks_in_s = self.loop.ticks_in_s()
        return ticks_in_s is not None and ticks_in_s <= 0

    def work(self, reading: bool) -> None:
        """Run one pass. Raises what a step, a source or a sink raises."""
        self.busy, self.wakeup.rested = True, False
        try:
            if self.is_source and not reading:
                self.handling = self.loop.handle_orders()
            else:
                self.loop.run_pass()
        finally:
            self.busy = False


class TaskScheduler:
    """The tasks of a job, and work that is done between two passes."""

    def __init__(self) -> None:
        """Begin without tasks."""
        self.tasks: dict[TaskId, ScheduledTask] = {}
        self.deferred: deque[Work] = deque()
        self._in_order: list[ScheduledTask] = []
        self._reading = True

    def add(self, tasks: Mapping[TaskId, ScheduledTask]) -> None:
        """Give passes to these tasks, too. Tasks of the last stage come first."""
        self.tasks |= tasks
        self._sort()

    def remove(self, tasks: Iterable[TaskId]) -> None:
        """Give no more passes to these tasks."""
        for task in tasks:
            self.tasks.pop(task, None)
        self._sort()

    def _sort(self) -> None:
        self._in_order = [self.tasks[name] for name in sorted(self.tasks, key=lambda name: -name.stage)]

    def ask_sources(self) -> None:
        """Ask each source again in the next pass: there may be rows, or time may have passed."""
        for task in self._in_order:
            if task.is_source:
                task.wakeup.rested = False

    def settle(self) -> None:
        """Give passes until no task has anything to do. Read no source meanwhile."""
        self._reading = False
        try:
            while self.run_one():
                pass
        finally:
            self._reading = True

    def run_one(self) -> bool:
        """Do one thing. Return False if there is nothing to do."""
        if self.deferred:
            self.deferred.popleft()()
            return True
        for task in self._in_order:
            if task.may_work(self._reading):
                task.work(self._reading)
                return True
        return False

    def run_others(self) -> None:
        """Do one thing while a task waits for room."""
        assert self.run_one(), "a task has no room to send to, and no other task can make room"


class DeferredExecutor(Executor):
    """An executor that runs its work between two passes, on the caller's thread."""

    def __init__(self, deferred: "deque[Work]") -> None:
        """Put work into ``deferred``."""
        self._deferred = deferred

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Run it later. Nobody waits for its result."""
        self._deferred.append(partial(fn, *args, **kwargs))
        return Future()
