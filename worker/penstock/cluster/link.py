"""The socket between a keeper and its engine: length, then canonical JSON; nothing else.

The keeper makes a connected pair, the engine inherits one end. The kernel closes a dead
process's end at once, so each side learns of the other's death without any timeout.

Not gRPC: the engine shares its interpreter with user code that may hold the lock for seconds,
and a socket of its own needs no threads or server on that side.
"""

import socket
import threading
from typing import Any, Generic, TypeVar

from penstock.base.errors import ConfigError
from penstock.cluster.framing import LENGTH, LinkClosed, body_length, end, framed, read_exactly
from penstock.contract.codec import Message, decode
from penstock.contract.control_messages import Command, EngineReport
from penstock.contract.ids import Term
from penstock.contract.status import EngineProgress

Received = TypeVar("Received")


class TermedCommand(Message, tag="TermedCommand"):
    """A command that the keeper has checked, with the term under which it was given."""

    term: Term
    command: Command


FromEngine = EngineReport | EngineProgress


class _Link(Generic[Received]):
    """Both directions of one stream socket. ``receive`` is for one thread, ``send`` for any."""

    def __init__(self, connection: socket.socket, kind: Any) -> None:
        self._socket = connection
        self._kind = kind
        self._sending = threading.Lock()

    def receive(self) -> Received:
        """Wait for the next message. Raises LinkClosed at the end, PeerError on nonsense."""
        length = body_length(read_exactly(self._socket, LENGTH.size))
        message: Received = decode(self._kind, read_exactly(self._socket, length))
        return message

    def close(self) -> None:
        """End both directions; a thread waiting in ``receive`` gets LinkClosed. Idempotent."""
        end(self._socket)

    def _send(self, message: object) -> None:
        head, body = framed(message)
        try:
            with self._sending:
                self._socket.sendall(head + body)
        except OSError as error:
            raise LinkClosed(str(error)) from error


class EngineLink(_Link[TermedCommand]):
    """The engine's end."""

    @classmethod
    def connect(cls, address: str) -> "EngineLink":
        """Take over the inherited socket ``fd:N``. Raises ConfigError on any other address."""
        kind, _, number = address.partition(":")
        if kind != "fd" or not number.isdecimal():
            raise ConfigError(f"socket {address!r}: an engine is started by its keeper (fd:N)")
        return cls(socket.socket(fileno=int(number)), TermedCommand)

    def send(self, report: FromEngine) -> None:
        """Say something to the keeper; blocks while its buffer is full. Raises LinkClosed."""
        self._send(report)


class KeeperLink(_Link[FromEngine]):
    """The keeper's end."""

    def __init__(self, connection: socket.socket) -> None:
        """Own one end of a connected pair."""
        super().__init__(connection, FromEngine)

    def send(self, term: Term, command: Command) -> None:
        """Pass a command on; blocks while the engine's buffer is full. Raises LinkClosed."""
        self._send(TermedCommand(term, command))
