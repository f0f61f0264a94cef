"""Whose turn it is among the tasks of one thread: those nearest to the sinks first.

A task whose turn it is does one thing. One that has nothing to do rests until its wakeup is set.
One that has no room to send to lets the others work, in the middle of its turn, until it has.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from penstock.engine.task_runtime import TaskParts, TaskProgress
from penstock.engine.task_thread import TaskLoop
from penstock.transport.wakeup import Wakeup

Work = Callable[[], object]


class TurnWakeup(Wakeup):
    """A wakeup that never sleeps: who waits on it rests, or lets ``others`` work."""

    __slots__ = ("_others", "progress", "rested")

    def __init__(self, others: Work) -> None:
        """Call ``others`` when the task waits for room."""
        super().__init__()
        self._others = others
        self.progress: TaskProgress | None = None
        self.rested = False

    @property
    def woken(self) -> bool:
        """Say whether there is something new for the task."""
        return not self._unset.locked()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Say at once whether there is something new."""
        if super().wait(0.0):
            return True
        if self.progress is not None and self.progress.blocked_at is not None:
            self._others()
        else:
            self.rested = True
        return False


class Seat:
    """A task and its wakeup. ``busy`` is true within its turn."""

    __slots__ = ("busy", "heeds", "loop", "parts", "wakeup")

    def __init__(self, loop: TaskLoop, parts: TaskParts, wakeup: TurnWakeup) -> None:
        self.loop = loop
        self.parts = parts
        self.wakeup = wakeup
        self.busy = False
        self.heeds = False  # it has more to do for the order that it heard last
        wakeup.progress = loop.progress

    @property
    def reads_source(self) -> bool:
        """Say whether the task reads a source."""
        return self.parts.source is not None

    def may_work(self, reading: bool) -> bool:
        """Say whether the task has something to do; ``reading``: sources are read."""
        if self.busy:
            return False
        if self.reads_source and not reading:
            return self.heeds or not self.loop.inbox.empty
        return self.wakeup.woken or not self.wakeup.rested

    def work(self, reading: bool) -> None:
        """Take one turn. Raises what a step, a source or a sink raises."""
        self.busy, self.wakeup.rested = True, False
        try:
            if self.reads_source and not reading:
                self.heeds = self.loop.heed()
            else:
                self.loop.turn()
        finally:
            self.busy = False


class Turns:
    """The seats of a job, and what is to be done between two turns."""

    def __init__(self) -> None:
        """Begin without seats."""
        self.later: deque[Work] = deque()
        self._seats: list[Seat] = []
        self._reading = True

    def seat(self, seats: Iterable[Seat]) -> None:
        """Give turns to these; those of the last stage come first."""
        self._seats = sorted(seats, key=lambda s: s.loop.task.stage, reverse=True)

    def ask_sources(self) -> None:
        """Let each source be asked again: rows may have come, or time may have passed."""
        for seat in self._seats:
            if seat.reads_source:
                seat.wakeup.rested = False

    def settle(self) -> None:
        """Work until nobody has anything to do, and read no source meanwhile."""
        self._reading = False
        try:
            while self.one():
                pass
        finally:
            self._reading = True

    def one(self) -> bool:
        """Do one thing; say whether there was one."""
        if self.later:
            self.later.popleft()()
            return True
        for seat in self._seats:
            if seat.may_work(self._reading):
                seat.work(self._reading)
                return True
        return False

    def others(self) -> None:
        """Work while a task waits for room."""
        assert self.one(), "a task has no room to send to, and nobody can make any"


class Later(Executor):
    """Does what it is given between two turns."""

    def __init__(self, later: "deque[Work]") -> None:
        """Put work into ``later``."""
        self._later = later

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Do it later; nobody waits for what it returns."""
        self._later.append(partial(fn, *args, **kwargs))
        return Future()
