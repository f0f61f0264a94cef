"""The sender threads: a few threads that write all channels of a worker to their streams."""

import heapq
from collections.abc import Callable

from penstock.base.threads import Empty, SimpleQueue, Thread, monotonic
from penstock.transport.output import RemoteOutput

OnBroken = Callable[[RemoteOutput, BaseException], None]


class SenderThread:
    """Pumps the outputs that ask for it, and the outputs whose deadline has passed."""

    def __init__(self, name: str, on_broken: OnBroken) -> None:
        self._calls: SimpleQueue[RemoteOutput | None] = SimpleQueue()
        self._due: list[tuple[float, int, RemoteOutput]] = []
        self._count = 0
        self._on_broken = on_broken
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def schedule(self, output: RemoteOutput) -> None:
        """Ask the thread to pump ``output`` soon. Never blocks."""
        self._calls.put(output)

    def stop(self) -> None:
        """End the thread after the work that is queued now. Never blocks."""
        self._calls.put(None)

    def join(self, timeout_s: float) -> bool:
        """Wait until a stopped thread has ended; False when it still writes after the timeout."""
        self._thread.join(timeout_s)
        return not self.alive

    @property
    def alive(self) -> bool:
        """True until the thread has ended."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while (output := self._next()) is not None:
            try:
                due = output.pump()
            except Exception as error:  # any error is reported and ends the attempt
                output.close()
                self._on_broken(output, error)
                continue
            if due is not None and due != output.timer:
                output.timer = due
                self._count += 1
                heapq.heappush(self._due, (due, self._count, output))

    def _next(self) -> RemoteOutput | None:
        """Return the next output to pump; None to stop."""
        while True:
            wait = None
            if self._due:
                wait = self._due[0][0] - monotonic()
                if wait <= 0:
                    return heapq.heappop(self._due)[2]
            try:
                return self._calls.get(timeout=wait)
            except Empty:
                continue
