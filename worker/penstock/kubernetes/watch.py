"""Reports a change of one object at once: a watch that is opened again whenever it ends.

It carries no state: a reader that is woken reads the object. So a missed event costs the poll interval
of the reader, never a wrong decision; and a watch that is silent for too long is not trusted.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from penstock.base.errors import PeerError
from penstock.contract.codec import parsed
from penstock.kubernetes.answers import ApiRefused, ApiUnanswered
from penstock.kubernetes.client import ApiClient

WATCH_TIMEOUT_S = 290  # the server ends it by then; shorter than the idle limits of balancers
SILENCE_MAX_S = 300.0
RETRY_S = 2.0  # from one watch to the next, at least


class ObjectWatch:
    """Calls ``changed`` (on its own thread) at each event of one named object."""

    def __init__(self, client: ApiClient, collection: str, name: str) -> None:
        """Watch ``collection``/``name``, such as ``configmaps``; nothing is opened yet."""
        self._client = client
        self._path = f"/api/v1/namespaces/{client.namespace}/{collection}"
        self._name = name
        self._stop = threading.Event()

    def start(self, changed: Callable[[], None]) -> None:
        """Begin; the thread ends with the process, or after :meth:`stop`."""
        threading.Thread(target=self._run, args=(changed,), name="watch", daemon=True).start()

    def stop(self) -> None:
        """Open no other watch."""
        self._stop.set()

    def _run(self, changed: Callable[[], None]) -> None:
        while not self._stop.is_set():
            opened = time.monotonic()
            # What is refused or cut off is seen by the reader's own poll; here only patience. A server that is
            # about to end may answer each watch, and end it at once.
            with suppress(ApiRefused, ApiUnanswered):
                self._follow(changed)
            self._stop.wait(max(0.0, RETRY_S - (time.monotonic() - opened)))

    def _follow(self, changed: Callable[[], None]) -> None:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._name}",  # what RBAC by name asks for
            "timeoutSeconds": str(WATCH_TIMEOUT_S),
            "allowWatchBookmarks": "false",
        }
        with self._client.lines(self._path, SILENCE_MAX_S, **query) as lines:
            for line in lines:
                if _is_error(line):
                    return
                changed()
                if self._stop.is_set():
                    return


def _is_error(line: str) -> bool:
    try:
        return bool(parsed(line).get("type") == "ERROR")
    except (PeerError, AttributeError):
        return True
