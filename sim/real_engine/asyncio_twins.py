"""The event loop of a task's asynchronous calls, on the virtual clock. It takes the place of ``asyncio`` in
``engine/task_calls.py``.

The loop is that of asyncio, with another clock and another way to wait: there are no sockets, so it waits for its next
timer, or for a call from another thread. The functions of the job and the calls of the step use asyncio as they are.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, TypeVarTuple, Unpack

from penstock.base import threads

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Waits:
    """What a loop waits with, in the place of a selector."""

    def __init__(self) -> None:
        self._called = threads.Event()

    def select(self, timeout: float | None) -> list[object]:
        """Wait until :meth:`wake` is called, or the time is over."""
        self._called.wait(timeout)
        self._called.clear()
        return []

    def wake(self) -> None:
        """End a wait that goes on, or the next one."""
        self._called.set()


class SimLoop(asyncio.BaseEventLoop):
    """See the module. It belongs to the process of the thread that runs it."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Waits()

    def time(self) -> float:
        """Return the virtual time."""
        return threads.monotonic()

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> "asyncio.Future[T]":
        """Let a thread of a pool call a function. The result comes to the loop, unless it is closed."""
        done: asyncio.Future[T] = self.create_future()

        def settle(ended: Any) -> None:
            if done.cancelled():
                return
            if (error := ended.exception()) is None:
                done.set_result(ended.result())
            else:
                done.set_exception(error)

        def over(ended: Any) -> None:
            if not self.is_closed():
                self.call_soon_threadsafe(settle, ended)

        work = executor.submit(func, *args)
        done.add_done_callback(lambda _: work.cancel())
        work.add_done_callback(over)
        return done

    def _process_events(self, _events: list[object]) -> None:
        """Do nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        self._selector.wake()


class SimAsyncio:
    """Twin of the names of ``asyncio`` that the calls of a task use."""

    AbstractEventLoop = asyncio.AbstractEventLoop
    Task = asyncio.Task
    new_event_loop = SimLoop
    set_event_loop = staticmethod(asyncio.set_event_loop)
    wait = staticmethod(asyncio.wait)
