"""Makes the asynchronous calls of a task in the thread of its caller, by an event loop that runs while it is asked."""

import asyncio

from penstock.steps.enrich.async_calls import Ask, CallOutcome, outcome_of


class InlineCalls:
    """The :class:`~penstock.steps.enrich.async_calls.AsyncCalls` of a task without threads."""

    def __init__(self) -> None:
        """Begin without a call."""
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
        done, _ = self._loop.run_until_complete(asyncio.wait(own, return_when=asyncio.FIRST_COMPLETED))
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
            self._loop.run_until_complete(asyncio.wait(self._running))
        self._running.clear()
        self._loop.close()
        self._loop = None
