"""A virtual server in a process of its own, so that the kit for connectors can kill those that call it.

A request is a name and arguments; requests are served one at a time, so each is one atomic step. One that has to wait
for another one is tried again behind it, and after a short time, because what it waits for may have an end of its own.
"""

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Condition, Lock, Thread
from typing import Any

from sim.servers import Waits

STARTS_WITHIN_S = 60
TRIED_AGAIN_S = 0.05


@contextmanager
def served(make: Callable[[], Any]) -> Iterator["Caller"]:
    """Serve what ``make`` makes, while the ``with`` lasts. ``make`` is a name of a module."""
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "server")
        spawned = multiprocessing.get_context("spawn")
        ready = spawned.Event()
        process = spawned.Process(target=_serve, args=(make, address, ready), daemon=True)
        process.start()
        try:
            assert ready.wait(STARTS_WITHIN_S), "the virtual server does not start"
            yield Caller(address)
        finally:
            process.kill()
            process.join()


class Caller:
    """Calls the server. A process that was forked has a connection of its own, for all of its threads."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._pid, self._lock = os.getpid(), Lock()
        self._connection: Connection[Any, Any] | None = None

    def __call__(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Make one request. Raises what the server raises, and OSError."""
        if self._pid != os.getpid():
            self._pid, self._lock, self._connection = os.getpid(), Lock(), None
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = Client(self._address)
                    self._connection.send(str(self._pid))
                self._connection.send((name, arguments))
                good, answer = self._connection.recv()
            except BaseException:
                self._connection = None  # what it was about is not known
                raise
        if not good:
            raise answer
        return answer


def _serve(make: Callable[[], Any], address: str, ready: Any) -> None:
    server, turn = make(), Condition()
    with Listener(address) as listener:
        ready.set()
        while True:
            with suppress(OSError, EOFError):  # a client that was killed meanwhile
                Thread(target=_answer, args=(server, turn, listener.accept()), daemon=True).start()


def _answer(server: Any, turn: Condition, connection: "Connection[Any, Any]") -> None:
    client = ""
    with connection, suppress(OSError, EOFError):
        client = connection.recv()
        while True:
            name, arguments = connection.recv()
            with turn:
                answer = _served(getattr(server, name), arguments, turn)
                turn.notify_all()
            connection.send(answer)
    with turn:
        server.client_ended(client)
        turn.notify_all()


def _served(method: Callable[..., Any], arguments: tuple[Any, ...], turn: Condition) -> tuple[bool, Any]:
    """Return whether a request is answered, and the answer or the error that the client raises."""
    while True:
        try:
            return True, method(*arguments)
        except Waits:
            turn.wait(TRIED_AGAIN_S)
        except Exception as error:
            return False, error
