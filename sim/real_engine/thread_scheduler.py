"""Runs the threads of a process in turn, in an order that a seed chooses, on a virtual clock.

One thread has the baton, and only this thread runs. It may lose the baton at each *point*: a lock,
a wait, a put, a sleep, a call to a file. Between two points no other thread runs. So a run depends
on the seed alone.

Each thread is a greenlet: a stack of its own, of Python and of C, on the one thread of the system. To
pass the baton on is to switch stacks. Threads of the system would do the same, with two calls of the
kernel and a wait for Python's lock at each switch.

::

    runnable ──point, the seed chooses──> running ──block──> blocked ──woken, or its time is over──> runnable
        │                                    │                  │
        └──────────── kill ──────────────────┴──────────────────┘──> dead: never gets the baton again

A killed thread stays where it is. No ``finally`` of it runs, as after SIGKILL. When the run is over,
:meth:`ThreadScheduler.unwind` raises :class:`Unwound` in all threads that are left, and nothing that
they do then has an effect.

The *driver* is the thread that made the scheduler. It handles the events of the simulated cluster,
outside of every process. When its time has come, it runs at the next point, and it keeps the baton
until it waits in :meth:`ThreadScheduler.drive`.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from random import Random
from typing import Protocol

from greenlet import getcurrent, greenlet

from sim.kernel.kernel import Violation

POINT_US = 20  # the virtual time of a point
TURN_POINTS_MAX = 400  # so many points later a thread must let others run
AWAKE_POINTS_MAX = 20_000  # of one thread between two waits, as many as a short run has: more is a busy loop
TIMEOUTS_MAX = 2_000  # of one thread in a virtual second: more is a busy loop
SECOND_US = 1_000_000
UNWINDS_MAX = 1_000  # of one thread: it goes on after each, so it does not end
NEVER = 1 << 62

Trace = Callable[[str], None]
_priority = attrgetter("priority")


class Unwound(BaseException):
    """Raised in a thread that is left over at the end of a run."""


class BusyLoop(AssertionError):
    """A thread waits again and again, for next to no time each, or does not wait at all."""


class VirtualClock(Protocol):
    """The virtual time, in whole microseconds."""

    now_us: int


@dataclass(eq=False, slots=True)
class SimThread:
    """A thread as the scheduler knows it. ``process`` is the simulated process that it belongs to.

    ``waits`` counts its waits, so that a deadline of an earlier wait is not taken for one of the present.
    """

    number: int
    name: str
    process: str
    priority: float
    stack: greenlet = field(default_factory=getcurrent)
    blocked: bool = False
    timed_out: bool = False
    stopped: bool = False
    dead: bool = False
    done: bool = False
    waits: int = 0
    worked_us: int = 0
    awake_points: int = 0
    timeouts: int = 0
    timeouts_since_us: int = 0
    unwinds: int = 0
    joiners: list["SimThread"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SwitchStrategy:
    """How a run chooses: a random walk, or priorities that change now and then.

    ``switch`` is the chance of another thread at a point. Priorities reach orders in which one thread
    is much slower than the others (Burckhardt and others, "A randomized scheduler with probabilistic
    guarantees of finding bugs", 2010).
    """

    by_priority: bool
    switch: float

    @classmethod
    def drawn(cls, draw: Random) -> "SwitchStrategy":
        """Draw a strategy: each seed has its own."""
        by_priority = draw.random() < 0.5
        return cls(by_priority, draw.choice((0.002, 0.01, 0.05) if by_priority else (0.02, 0.1, 0.3)))


class ThreadScheduler:
    """See the module. Every method is called by the thread that has the baton."""

    def __init__(self, clock: VirtualClock, draw: Random, trace: Trace) -> None:
        """Make the calling thread the driver. ``trace`` gets each switch."""
        self._clock = clock
        self._draw = draw
        self._trace = trace
        self._strategy = SwitchStrategy.drawn(draw)
        self._threads: list[SimThread] = []
        self._runnable: list[SimThread] = []
        self._sleeping: list[tuple[int, int, int, SimThread]] = []  # deadline, thread, wait
        self._stopped: set[str] = set()
        self._lowest = 0.0
        self._turn = 0
        self._driver_at = NEVER
        self.unwinding = False  # when the run is over: nothing has an effect any more
        self.points = 0
        self.switches = 0
        self.failed: tuple[SimThread, BaseException] | None = None
        self.at_rest: Callable[[], None] | None = None  # called when no thread can run, before time passes
        self.driver = self._new("driver", "")
        self.current = self.driver

    # --- Threads and processes

    def spawn(self, run: Callable[[], object], name: str, process: str) -> SimThread:
        """Start a thread of a process."""
        thread = self._new(name, process)
        thread.stack = greenlet(lambda *_: self._run(thread, run), self.driver.stack)
        self._runnable.append(thread)
        self._trace(f"start {thread.number} {name} of {process}")
        self.point()
        return thread

    def kill(self, process: str) -> None:
        """End the threads of a process: none of them gets the baton again."""
        for thread in self._threads:
            if thread.process == process and not thread.done:
                thread.dead = True
        self._runnable = [t for t in self._runnable if not t.dead]

    def vanish(self) -> None:
        """Let the calling thread, whose process was killed, never run again."""
        assert self.current.dead, "only a killed thread vanishes"
        self._pass_on(self._next())
        raise AssertionError("a killed thread got the baton")

    def stop(self, process: str) -> None:
        """Stop the threads of a process, as SIGSTOP does. Only the driver calls it."""
        self._stopped.add(process)
        for thread in [t for t in self._runnable if t.process == process]:
            thread.stopped = True
            self._runnable.remove(thread)

    def resume(self, process: str) -> None:
        """Let the threads of a stopped process go on."""
        self._stopped.discard(process)
        for thread in self._threads:
            if thread.process == process and thread.stopped and not thread.dead:
                thread.stopped = False
                self._runnable.append(thread)

    def unwind(self) -> int:
        """End all threads that are left; return the number of those that did not end."""
        self.unwinding = True
        for thread in self._threads:  # one that ends may start another
            if thread.done or thread is self.driver:
                continue
            self.current = thread
            if thread.stack:  # it has begun
                thread.stack.throw(Unwound)
            else:
                thread.done = True
        self.current = self.driver
        return sum(not thread.done for thread in self._threads if thread is not self.driver)

    # --- Points

    def point(self) -> None:
        """Take a little time. Perhaps another thread runs before this returns."""
        me = self.current
        if self.unwinding:
            self._unwind_more(me)
        if me is self.driver:
            return
        self.points += 1
        me.awake_points += 1
        if me.awake_points > AWAKE_POINTS_MAX:
            self._fail(BusyLoop(f"{me.name} has not waited for {AWAKE_POINTS_MAX} points"))
        me.worked_us += POINT_US
        self._clock.now_us += POINT_US
        self._end_waits()
        best = self._chosen(me)
        if best is not me:
            self._pass_on(best)

    def block(self, timeout_us: int | None = None) -> bool:
        """Wait until woken (True), or until the time is over (False)."""
        me = self.current
        if self.unwinding:
            self._unwind_more(me)
        assert me is not self.driver, "the driver waits in drive()"
        me.blocked, me.timed_out = True, False
        me.waits += 1
        me.awake_points = 0
        self._runnable.remove(me)
        if timeout_us is not None:
            deadline = self._clock.now_us + max(timeout_us, POINT_US)
            heapq.heappush(self._sleeping, (deadline, me.number, me.waits, me))
        self._pass_on(self._next())
        if me.timed_out:
            self._count_timeout(me)
        return not me.timed_out

    def wake(self, thread: SimThread) -> None:
        """End the wait of a thread. It runs when the seed says so."""
        if thread.blocked and not self.unwinding:
            self._end_wait(thread, timed_out=False)

    # --- The driver

    def drive(self, until_us: int) -> None:
        """Let the others run until a time, or until :meth:`call_driver` names an earlier one."""
        assert self.current is self.driver
        self._driver_at = until_us
        if until_us > self._clock.now_us:
            other = self._next()
            if other is not self.driver:
                self._pass_on(other)
        self._driver_at = NEVER

    def call_driver(self, at_us: int) -> None:
        """Let the driver run no later than at a time."""
        self._driver_at = min(self._driver_at, at_us)

    # --- Inside

    def _new(self, name: str, process: str) -> SimThread:
        thread = SimThread(len(self._threads), name, process, self._draw.random())
        self._threads.append(thread)
        return thread

    def _run(self, thread: SimThread, run: Callable[[], object]) -> None:
        asyncio._set_running_loop(None)
        try:
            run()
        except Unwound:
            pass
        except BaseException as error:  # the run is judged by it
            if not self.unwinding:
                self._fail(error)
        thread.done = True
        if self.unwinding:
            return
        for joiner in thread.joiners:
            self.wake(joiner)
        self._runnable.remove(thread)
        thread.stack.parent = self._given_to(self._next()).stack  # who goes on when this returns

    def _unwind_more(self, me: SimThread) -> None:
        """Raise Unwound again in a thread that went on after it. One that never ends is left alone."""
        me.unwinds += 1
        if me.unwinds > UNWINDS_MAX:
            self.driver.stack.switch()
        raise Unwound

    def _count_timeout(self, me: SimThread) -> None:
        if self._clock.now_us - me.timeouts_since_us > SECOND_US:
            me.timeouts, me.timeouts_since_us = 0, self._clock.now_us
        me.timeouts += 1
        if me.timeouts > TIMEOUTS_MAX:
            self._fail(BusyLoop(f"{me.name} waits {TIMEOUTS_MAX} times in a second until its time is over"))

    def _end_waits(self) -> None:
        while self._sleeping and self._sleeping[0][0] <= self._clock.now_us:
            _, _, wait, thread = heapq.heappop(self._sleeping)
            if thread.blocked and thread.waits == wait:
                self._end_wait(thread, timed_out=True)

    def _end_wait(self, thread: SimThread, *, timed_out: bool) -> None:
        thread.blocked, thread.timed_out = False, timed_out
        if thread.dead:
            return
        if thread.process in self._stopped:
            thread.stopped = True
        else:
            self._runnable.append(thread)

    def _chosen(self, me: SimThread) -> SimThread:
        """Return who runs after a point of ``me``, which may be ``me``."""
        if self._driver_at <= self._clock.now_us:
            return self.driver
        if not self._strategy.by_priority:
            if self._draw.random() < self._strategy.switch:
                return self._draw.choice(self._runnable)
            return me
        self._turn += 1
        if self._turn > TURN_POINTS_MAX or self._draw.random() < self._strategy.switch:
            self._lowest -= 1.0
            me.priority = self._lowest
            self._turn = 0
        return max(self._runnable, key=_priority)

    def _next(self) -> SimThread:
        """Return who runs now that the calling thread does not. When all wait, time passes."""
        while self._driver_at > self._clock.now_us:
            self._end_waits()
            if self._runnable:
                by_priority = self._strategy.by_priority
                return max(self._runnable, key=_priority) if by_priority else self._draw.choice(self._runnable)
            self._check_rest()
            deadline = self._sleeping[0][0] if self._sleeping else NEVER
            self._clock.now_us = max(self._clock.now_us, min(deadline, self._driver_at))
        return self.driver

    def _check_rest(self) -> None:
        """Call the check. It runs on any thread, so its error ends the run and not that thread."""
        if self.at_rest is None or self.failed is not None:
            return
        try:
            self.at_rest()
        except (AssertionError, Violation) as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the run: the driver looks at :attr:`failed` before anybody else runs."""
        if self.failed is None:
            self.failed = (self.current, error)
        self._driver_at = self._clock.now_us

    def _pass_on(self, other: SimThread) -> None:
        """Give the baton to another thread, and wait until it comes back."""
        if other is not self.current:
            loop = asyncio._get_running_loop()  # of this stack: asyncio keeps it for each thread of the system
            self._given_to(other).stack.switch()
            asyncio._set_running_loop(loop)

    def _given_to(self, other: SimThread) -> SimThread:
        """Note that another thread has the baton."""
        self.switches += 1
        self._turn = 0
        self._trace(f"{self.current.number}>{other.number} {self.points}")
        self.current = other
        return other
