"""Sends the status of the engine to the keeper: at each change, and repeatedly as a heartbeat."""

from collections.abc import Callable

from penstock.base.threads import Event, Thread
from penstock.contract.control_messages import EngineStatus


class StatusReporter(Thread):
    """Sends the status when it has changed, and again after each interval without a change."""

    def __init__(
        self,
        draw: Callable[[], EngineStatus],
        send: Callable[[EngineStatus], None],
        interval_s: float,
    ) -> None:
        """Get the status from ``draw``, on this thread only, and send it with ``send``."""
        super().__init__(name="status", daemon=True)
        self._draw = draw
        self._send = send
        self._interval_s = interval_s
        self._changed = Event()
        self._over = False

    def changed(self) -> None:
        """Check the status soon. From any thread; never blocks."""
        self._changed.set()

    def stop(self) -> None:
        """End the thread after the present message."""
        self._over = True
        self._changed.set()

    def run(self) -> None:
        """Send until stopped."""
        sent: EngineStatus | None = None
        while not self._over:
            changed_now = self._changed.wait(self._interval_s)
            self._changed.clear()
            status = self._draw()
            if status != sent or not changed_now:
                sent = status
                self._send(status)
