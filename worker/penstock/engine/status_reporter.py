"""Tells the keeper where the engine stands: when that changes, and again as a sign of life."""

import threading
from collections.abc import Callable

from penstock.contract.control_messages import EngineStatus


class StatusReporter(threading.Thread):
    """Sends the status when it has changed, and anew after each interval without a change."""

    def __init__(
        self,
        draw: Callable[[], EngineStatus],
        send: Callable[[EngineStatus], None],
        interval_s: float,
    ) -> None:
        """Draw with ``draw``, on this thread only, and send with ``send``."""
        super().__init__(name="status", daemon=True)
        self._draw = draw
        self._send = send
        self._interval_s = interval_s
        self._news = threading.Event()
        self._over = False

    def changed(self) -> None:
        """Look again soon. From any thread; never blocks."""
        self._news.set()

    def stop(self) -> None:
        """End the thread after what it is saying."""
        self._over = True
        self._news.set()

    def run(self) -> None:
        """Tell until stopped."""
        said: EngineStatus | None = None
        while not self._over:
            news = self._news.wait(self._interval_s)
            self._news.clear()
            status = self._draw()
            if status != said or not news:
                said = status
                self._send(status)
