"""Twins of the names in ``penstock.base.threads``: the same contracts, under the scheduler.

A lock, a queue, a clock of the engine has no argument that could carry a scheduler. So the twins use
the scheduler of the run that is going on, see :func:`begin`. There is one run at a time in a process.

The contract tests in ``tests/unit/sim/test_thread_twins.py`` run over the originals as well.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty
from random import Random
from typing import Any, Self
from uuid import UUID

from sim.real_engine.thread_scheduler import SimThread, ThreadScheduler, VirtualClock

_US = 1_000_000


class Running:
    """The run that is going on: its scheduler, its clock, its random numbers."""

    scheduler: ThreadScheduler
    clock: VirtualClock
    names: Random
    end_process: Callable[[int], None]

    @property
    def now(self) -> float:
        """Return the virtual time in seconds."""
        return self.clock.now_us / _US


run = Running()


def begin(scheduler: ThreadScheduler, clock: VirtualClock, names: Random, end_process: Callable[[int], None]) -> None:
    """Let the twins use this scheduler. ``end_process`` ends the process of the calling thread."""
    run.scheduler, run.clock, run.names, run.end_process = scheduler, clock, names, end_process


class Deadline:
    """The end of a wait; None waits without an end."""

    __slots__ = ("_at_us",)

    def __init__(self, timeout: float | None) -> None:
        self._at_us = None if timeout is None else run.clock.now_us + int(max(timeout, 0.0) * _US)

    def left_us(self) -> int | None:
        """Return what is left of it; None without an end."""
        return None if self._at_us is None else self._at_us - run.clock.now_us

    def wait(self, waiting: deque[SimThread]) -> bool:
        """Wait in a queue until woken (True). At the end of the time leave the queue (False)."""
        left_us = self.left_us()
        if left_us is not None and left_us <= 0:
            return False
        me = run.scheduler.current
        waiting.append(me)
        try:
            return run.scheduler.block(left_us)
        finally:
            if me in waiting:
                waiting.remove(me)


def _wake_first(waiting: deque[SimThread]) -> None:
    """Wake the thread that has waited longest, except those that will never run again."""
    while waiting:
        first = waiting.popleft()
        if not first.dead:
            run.scheduler.wake(first)
            return


# --- threading


class Lock:
    """Twin of ``threading.Lock``."""

    __slots__ = ("_held", "_waiting")

    def __init__(self) -> None:
        self._held = False
        self._waiting: deque[SimThread] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock."""
        run.scheduler.point()
        if not blocking and self._held:
            return False
        deadline = Deadline(None if timeout < 0 else timeout)
        while self._held:
            if not deadline.wait(self._waiting) and self._held:
                return False
        self._held = True
        return True

    def release(self) -> None:
        """Give it back."""
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self.let_go()
        if not run.scheduler.unwinding:
            run.scheduler.point()

    def let_go(self) -> None:
        """Give it back, and keep the baton."""
        self._held = False
        _wake_first(self._waiting)

    def locked(self) -> bool:
        """Return whether somebody has it."""
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class Condition:
    """Twin of ``threading.Condition`` with a lock of its own or a plain one."""

    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = lock or Lock()
        self._waiting: deque[SimThread] = deque()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Give the lock back, wait for a notice, take the lock again."""
        self._need_lock()
        deadline = Deadline(timeout)
        self._lock.let_go()
        told = deadline.wait(self._waiting)
        self._lock.acquire()
        return told

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until a predicate is true; return its value."""
        deadline = Deadline(timeout)
        while not (found := predicate()):
            left_us = deadline.left_us()
            if left_us is not None and left_us <= 0:
                return found
            self.wait(None if left_us is None else left_us / _US)
        return found

    def notify(self, n: int = 1) -> None:
        """Wake up to ``n`` threads."""
        self._need_lock()
        for _ in range(min(n, len(self._waiting))):
            _wake_first(self._waiting)

    def notify_all(self) -> None:
        """Wake all threads."""
        self.notify(len(self._waiting))

    def _need_lock(self) -> None:
        if not self._lock.locked() and not run.scheduler.unwinding:
            raise RuntimeError("cannot wait or notify without the lock")


class Event:
    """Twin of ``threading.Event``."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: deque[SimThread] = deque()

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it, and wake all that wait."""
        self._set = True
        while self._waiting:
            _wake_first(self._waiting)
        run.scheduler.point()

    def clear(self) -> None:
        """Take it back."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set."""
        run.scheduler.point()
        deadline = Deadline(timeout)
        if not self._set:
            deadline.wait(self._waiting)
        return self._set


class Thread:
    """Twin of ``threading.Thread``. It belongs to the process of the thread that starts it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: tuple[Any, ...] = (),
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args = target, args
        self.name, self.daemon = name or "thread", daemon
        self._thread: SimThread | None = None

    def run(self) -> None:
        """Do the thread's work; a subclass may replace it."""
        if self._target is not None:
            self._target(*self._args)

    def start(self) -> None:
        """Start it, once."""
        if self._thread is not None:
            raise RuntimeError("threads can only be started once")
        scheduler = run.scheduler
        self._thread = scheduler.spawn(self.run, self.name, scheduler.current.process)

    def is_alive(self) -> bool:
        """Return whether it runs."""
        return self._thread is not None and not self._thread.done

    @property
    def ident(self) -> int | None:
        """Return its number; None before the start."""
        return None if self._thread is None else self._thread.number

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        if self._thread is None:
            raise RuntimeError("cannot join thread before it is started")
        run.scheduler.point()
        deadline, joiners = Deadline(timeout), deque[SimThread]()
        while self.is_alive():
            self._thread.joiners.append(run.scheduler.current)
            if not deadline.wait(joiners):
                return


class Timer(Thread):
    """Twin of ``threading.Timer``."""

    def __init__(self, interval: float, function: Callable[[], object]) -> None:
        super().__init__(name="timer")
        self._interval, self._function = interval, function
        self._cancelled = Event()

    def cancel(self) -> None:
        """Do not call the function any more."""
        self._cancelled.set()

    def run(self) -> None:
        """Call the function when the time is over."""
        if not self._cancelled.wait(self._interval):
            self._function()


# --- queue


class SimpleQueue:
    """Twin of ``queue.SimpleQueue``."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: deque[SimThread] = deque()

    @classmethod
    def __class_getitem__(cls, _item: object) -> type["SimpleQueue"]:
        return cls

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item."""
        self._items.append(item)
        _wake_first(self._waiting)
        run.scheduler.point()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the oldest item. Raises Empty."""
        run.scheduler.point()
        deadline = Deadline(timeout)
        while not self._items:
            if not block or (not deadline.wait(self._waiting) and not self._items):
                raise Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        """Take the oldest item now. Raises Empty."""
        return self.get(block=False)

    def empty(self) -> bool:
        """Return whether it is empty."""
        return not self._items

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._items)


# --- concurrent.futures


class Future:
    """Twin of ``concurrent.futures.Future``."""

    def __init__(self) -> None:
        self._over = Event()
        self._running = self._cancelled = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._calls: list[Callable[[Future], object]] = []

    @classmethod
    def __class_getitem__(cls, _item: object) -> type["Future"]:
        return cls

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises what the work raised."""
        if not self._over.wait(timeout):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end; return the error."""
        if not self._over.wait(timeout):
            raise TimeoutError
        return self._error

    def done(self) -> bool:
        """Return whether it is over."""
        return self._over.is_set()

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._cancelled

    def cancel(self) -> bool:
        """Cancel work that has not begun."""
        if self._running or self.done():
            return self._cancelled
        self._cancelled = True
        self._end()
        return True

    def set_running_or_notify_cancel(self) -> bool:
        """Begin, unless it was cancelled."""
        self._running = not self._cancelled
        return self._running

    def set_result(self, result: Any) -> None:
        """End with a result."""
        self._result = result
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """End with an error."""
        self._error = error
        self._end()

    def add_done_callback(self, call: Callable[["Future"], object]) -> None:
        """Call a function at the end, or now."""
        if self.done():
            call(self)
        else:
            self._calls.append(call)

    def _end(self) -> None:
        self._over.set()
        for call in self._calls:
            call(self)


class Executor:
    """Twin of ``concurrent.futures.Executor``: a type."""


class ThreadPoolExecutor(Executor):
    """Twin of ``concurrent.futures.ThreadPoolExecutor``."""

    def __init__(self, max_workers: int = 4, thread_name_prefix: str = "pool") -> None:
        self._threads_max, self._name = max_workers, thread_name_prefix
        self._work = SimpleQueue()
        self._threads: list[Thread] = []
        self._idle = 0
        self._over = False

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Let a thread of the pool call a function. Raises RuntimeError after the shutdown."""
        if self._over:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = Future()
        self._work.put((future, lambda: call(*args, **kwargs)))
        if not self._idle and len(self._threads) < self._threads_max:
            thread = Thread(target=self._serve, name=f"{self._name}_{len(self._threads)}")
            self._threads.append(thread)
            thread.start()
        return future

    def map(self, call: Callable[..., Any], /, *items: Iterable[Any]) -> Iterator[Any]:
        """Let threads of the pool call a function for each item; return the results in order."""
        futures = [self.submit(call, *arguments) for arguments in zip(*items, strict=False)]
        return (future.result() for future in futures)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; end the threads when what waits is done."""
        self._over = True
        while cancel_futures and not self._work.empty():
            future, _ = self._work.get()
            future.cancel()
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _serve(self) -> None:
        while True:
            self._idle += 1
            work = self._work.get()
            self._idle -= 1
            if work is None:
                return
            _do(*work)


def _do(future: Future, call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except Exception as error:  # whoever asks for the result gets it
        future.set_exception(error)
    else:
        future.set_result(result)


# --- time, uuid, os


def monotonic() -> float:
    """Twin of ``time.monotonic``."""
    return run.now


def monotonic_ns() -> int:
    """Twin of ``time.monotonic_ns``."""
    return run.clock.now_us * 1_000


def perf_counter() -> float:
    """Twin of ``time.perf_counter``."""
    return run.now


def thread_time() -> float:
    """Twin of ``time.thread_time``: the points of the calling thread, as time."""
    return run.scheduler.current.worked_us / _US


def sleep(seconds: float) -> None:
    """Twin of ``time.sleep``."""
    run.scheduler.block(int(seconds * _US))


def uuid4() -> UUID:
    """Twin of ``uuid.uuid4``: the seed's."""
    return UUID(int=run.names.getrandbits(128), version=4)


def end_process(status: int) -> None:
    """Twin of ``os._exit``: the simulated process ends."""
    run.end_process(status)


TWINS = {
    twin.__name__: twin
    for twin in (
        Condition,
        Empty,
        Event,
        Executor,
        Future,
        Lock,
        SimpleQueue,
        Thread,
        ThreadPoolExecutor,
        Timer,
        end_process,
        monotonic,
        monotonic_ns,
        perf_counter,
        sleep,
        thread_time,
        uuid4,
    )
}
