"""The kernel of the simulation, when processes of the cluster have threads.

The kernel runs on the driver's thread of the scheduler. Between two events it lets the threads run, and
their points move the one clock. A process that dies or stops takes its threads with it.
"""

from collections.abc import Callable
from heapq import heappop
from random import Random

from sim.kernel.kernel import Entry, SimKernel, Violation
from sim.real_engine.thread_scheduler import ThreadScheduler


class ThreadedKernel(SimKernel):
    """See the module. A node that has threads gives them its own name as their process."""

    def __init__(self, seed: int, on_crash: Callable[[str], None]) -> None:
        super().__init__(seed, on_crash)
        self.scheduler = ThreadScheduler(self, Random(f"{seed}/threads"), self._switched)

    def kill(self, name: str) -> None:
        """End the life of a node and its threads."""
        super().kill(name)
        self.scheduler.kill(name)

    def pause(self, name: str) -> None:
        """Stop a node and its threads."""
        super().pause(name)
        self.scheduler.stop(name)

    def resume(self, name: str) -> None:
        """Let a stopped node and its threads go on."""
        super().resume(name)
        self.scheduler.resume(name)

    def run(self, until_us: int, done: Callable[[], bool] | None = None) -> bool:
        """Handle events up to a time, and let the threads run between them."""
        while self.now_us < until_us or self._is_due(until_us):
            due = self._heap[0][0] if self._heap else until_us
            self.scheduler.drive(min(due, until_us))
            self._check_threads()
            if self._is_due(min(self.now_us, until_us)):
                self.dispatch(heappop(self._heap)[3])
                if done is not None and done():
                    return True
        return False

    def _is_due(self, at_us: int) -> bool:
        return bool(self._heap) and self._heap[0][0] <= at_us

    def _push(self, due: int, entry: Entry, tie: float | None = None) -> None:
        super()._push(due, entry, tie)
        self.scheduler.call_driver(due)

    def _check_threads(self) -> None:
        if self.scheduler.failed is not None:
            thread, error = self.scheduler.failed
            if isinstance(error, Violation):
                raise error
            raise Violation("X", f"{thread.name} of {thread.process} died: {error!r}") from error

    def _switched(self, what: str) -> None:
        self.note(what, "threads")
