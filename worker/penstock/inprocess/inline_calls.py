"""Makes the asynchronous calls of a task in the thread of its caller, by an event loop that runs while it is asked.

A thread runs one event loop at a time. A notebook runs its cells in one. So there the loop of the calls runs in
another thread, and the caller waits for it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from penstock.base.limits import LOOKUP_TRIES_MAX
from penstock.base.threads import ThreadPoolExecutor
from penstock.steps.enrich.async_calls import Ask, CallOutcome, outcome_of

T = TypeVar("T")


class InlineCalls:
    """The :class:`~penstock.steps.enrich.async_calls.AsyncCalls` of a task without threads."""

    def __init__(self) -> None:
        """Begin without a call."""
        self.tries_max: int | None = LOOKUP_TRIES_MAX
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: dict[asyncio.Task[CallOutcome], object] = {}

    def begin(self, source: object, call: int, ask: Ask) -> None:
        """Begin a call: it goes on while answers are waited for."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        self._running[self._loop.create_task(outcome_of(call, ask))] = source

    @property
    def answered(self) -> bool:
        """Return whether answers can be waited for."""
        return bool(self._running)

    def answers(self, source: object) -> list[CallOutcome]:
        """Run the calls of ``source`` until one has its answer, and return the answers that have come."""
        own = [task for task, of in self._running.items() if of is source]
        if not own or self._loop is None:
            return []
        done, _ = _run(self._loop, asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED))
        for task in done:
            del self._running[task]
        return sorted((task.result() for task in done), key=lambda answer: answer.call)

    def close(self) -> None:
        """Cancel all calls."""
        if self._loop is None:
            return
        for task in self._running:
            task.cancel()
        if self._running:
            _run(self._loop, asyncio.wait(self._running))
        self._running.clear()
        self._loop.close()
        self._loop = None


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run a loop of ours until ``work`` is done, and return what it gives."""
    if not _runs_a_loop():
        return loop.run_until_complete(work)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(loop.run_until_complete, work)
        try:
            return running.result()
        finally:
            if not running.done():  # the caller was interrupted
                loop.call_soon_threadsafe(loop.stop)


def _runs_a_loop() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
