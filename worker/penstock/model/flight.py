"""A Flight server whose certificates can be renewed while it serves.

A Flight server keeps the certificates that it was made with. So a renewal starts another server at
the same address: open streams continue at the old server, and new connections reach the new one.
"""

from collections.abc import Callable
from typing import Any

from penstock.base.errors import ConfigError
from penstock.base.limits import LISTEN_PAUSE_S, LISTEN_TRIES
from penstock.base.threads import Event, Lock, Thread


class RenewableServer:
    """A Flight server that a renewal replaces. Between the two, a connection may be refused once.

    ``make`` gets a port and returns a server that listens on it. It raises ConfigError when the
    port is in use.
    """

    def __init__(self, make: Callable[[int], Any], port: int) -> None:
        """Listen. Port 0 means any free port, which later servers keep."""
        self._make = make
        self._lock = Lock()
        self._server = make(port)
        self.port: int = self._server.port
        self._shutting_down: list[Thread] = []
        self._closed = False

    def renew(self) -> None:
        """Listen with the newest certificates. Blocks for milliseconds.

        Raises ConfigError when another process took the address: then no server listens.
        """
        with self._lock:
            if self._closed:
                return
            self._shutting_down = [thread for thread in self._shutting_down if thread.is_alive()]
            self._shutting_down.append(_shut_down(self._server))
            self._server = self._listen_again()

    def close(self, timeout_s: float) -> bool:
        """Stop listening; False when handlers still wait for their callers after the timeout."""
        with self._lock:
            self._closed = True
            leaving = [*self._shutting_down, _shut_down(self._server)]
        for thread in leaving:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in leaving)

    def _listen_again(self) -> Any:
        pause = Event()
        for _ in range(LISTEN_TRIES):
            try:
                return self._make(self.port)
            except ConfigError:  # the old server has not stopped listening yet
                pause.wait(LISTEN_PAUSE_S)
        return self._make(self.port)


def _shut_down(server: Any) -> Thread:
    """Stop listening at once. The thread returned ends when the last open stream ends."""
    thread = Thread(target=server.shutdown, name="flight-shutdown", daemon=True)
    thread.start()
    return thread
