"""A Flight server whose certificates are renewed while it serves.

A Flight server keeps the certificates that it was made with. So a renewal makes another one at the
same address: streams that are open go on at the old one, and whoever dials meets the new one.
"""

from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any

from penstock.base.errors import ConfigError
from penstock.base.limits import LISTEN_PAUSE_S, LISTEN_TRIES


class RenewableServer:
    """One Flight server, and another in its place; between the two a dial may be refused once.

    ``make`` gets the port to listen on and returns a server that listens; it raises ConfigError
    when that is taken.
    """

    def __init__(self, make: Callable[[int], Any], port: int) -> None:
        """Listen; port 0: any free one, which is kept."""
        self._make = make
        self._lock = Lock()
        self._server = make(port)
        self.port: int = self._server.port
        self._leaving: list[Thread] = []
        self._closed = False

    def renew(self) -> None:
        """Listen with the certificates of now. Blocks for milliseconds.

        Raises ConfigError when the address was lost meanwhile: then nobody is heard.
        """
        with self._lock:
            if self._closed:
                return
            self._leaving = [thread for thread in self._leaving if thread.is_alive()]
            self._leaving.append(_leave(self._server))
            self._server = self._listen_again()

    def close(self, timeout_s: float) -> bool:
        """Stop listening; False when handlers still wait for their callers after the timeout."""
        with self._lock:
            self._closed = True
            leaving = [*self._leaving, _leave(self._server)]
        for thread in leaving:
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in leaving)

    def _listen_again(self) -> Any:
        pause = Event()
        for _ in range(LISTEN_TRIES):
            try:
                return self._make(self.port)
            except ConfigError:  # the old server is still about to stop listening
                pause.wait(LISTEN_PAUSE_S)
        return self._make(self.port)


def _leave(server: Any) -> Thread:
    """Stop listening, at once; the thread ends with the last of the streams that are open."""
    thread = Thread(target=server.shutdown, name="flight-shutdown", daemon=True)
    thread.start()
    return thread
