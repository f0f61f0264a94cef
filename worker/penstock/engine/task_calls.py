"""Makes the asynchronous calls of one task: an event loop in a thread of its own, begun with the first call."""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from penstock.base.limits import CALLS_END_S
from penstock.base.threads import Event, Thread
from penstock.steps.enrich.async_calls import Ask, CallOutcome, outcome_of


class TaskCalls:
    """The :class:`~penstock.steps.enrich.async_calls.AsyncCalls` of an engine's task."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Call ``wake``, from another thread, when an answer has come."""
        self.tries_max: int | None = None
        self._wake = wake
        self._answers: dict[object, list[CallOutcome]] = defaultdict(list)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._running: set[asyncio.Task[CallOutcome]] = set()

    def begin(self, source: object, call: int, ask: Ask) -> None:
        """Begin a call. The thread of the task calls this."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = Thread(target=self._run, args=(self._loop,), name="calls", daemon=True)
            self._thread.start()
        self._loop.call_soon_threadsafe(self._begin, source, call, ask)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.close()

    def _begin(self, source: object, call: int, ask: Ask) -> None:
        assert self._loop is not None, "it runs this"
        task = self._loop.create_task(outcome_of(call, ask))
        self._running.add(task)

        def done(ended: asyncio.Task[CallOutcome]) -> None:
            self._running.discard(ended)
            if not ended.cancelled():
                self._answers[source].append(ended.result())
                self._wake()

        task.add_done_callback(done)

    @property
    def answered(self) -> bool:
        """Return whether answers have come."""
        return any(self._answers.values())

    def answers(self, source: object) -> list[CallOutcome]:
        """Return the answers to calls of ``source`` that have come since the last time."""
        found = self._answers[source]
        taken = found[:]
        del found[: len(taken)]  # the other thread only appends
        return taken

    def close(self) -> None:
        """Cancel all calls. A call that holds up its event loop is left behind."""
        if self._loop is None or self._thread is None:
            return
        over = Event()
        self._loop.call_soon_threadsafe(self._cancel, over)
        if over.wait(CALLS_END_S):
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALLS_END_S)

    def _cancel(self, over: Event) -> None:
        assert self._loop is not None, "it runs this"
        for task in self._running:
            task.cancel()
        ending = self._loop.create_task(_gone(tuple(self._running)))
        ending.add_done_callback(lambda _: over.set())


async def _gone(tasks: "tuple[asyncio.Task[CallOutcome], ...]") -> None:
    await asyncio.wait(tasks, timeout=CALLS_END_S) if tasks else None
