"""Messages on Unix stream sockets: four bytes of length, then canonical JSON.

One such socket connects a keeper and its engine. The keeper makes a connected pair, and the engine
inherits one end. The kernel closes the end of a dead process at once, so each side learns of the
other's death without a time limit. Another socket connects a keeper and the process that starts its
engines; messages on it carry open files as well.

It is not gRPC: an engine shares its interpreter with user code that may hold its lock for seconds,
and such a socket needs no threads and no server there.
"""

import os
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any, Generic, TypeVar

from penstock.base.errors import ConfigError, PeerError
from penstock.base.limits import CONTROL_MESSAGE_BYTES_MAX
from penstock.contract.codec import Message, decode, encode
from penstock.contract.control_messages import Command, EngineReport
from penstock.contract.ids import Term
from penstock.contract.status import EngineProgress

LENGTH = struct.Struct(">I")


class LinkClosed(Exception):
    """The other process is gone, or this end was closed."""


def framed(message: object) -> tuple[bytes, bytes]:
    """Return the head and the body of a message. Raises PeerError when it is too long."""
    body = encode(message)
    if len(body) > CONTROL_MESSAGE_BYTES_MAX:
        raise PeerError(
            f"{type(message).__name__} has {len(body)} bytes, at most {CONTROL_MESSAGE_BYTES_MAX} are possible in one"
            " message: fewer splits (input files), steps or workers make it smaller"
        )
    return LENGTH.pack(len(body)), body


def body_length(head: bytes) -> int:
    """Read a head. Raises PeerError when the message is too long."""
    (length,) = LENGTH.unpack(head)
    if length > CONTROL_MESSAGE_BYTES_MAX:
        raise PeerError(f"a message of {length} bytes, at most {CONTROL_MESSAGE_BYTES_MAX}")
    return int(length)


def read_exactly(connection: socket.socket, size: int, until: float | None = None) -> bytes:
    """Wait for ``size`` bytes. Raises LinkClosed at the end, and at ``until`` (monotonic seconds)."""
    pieces = bytearray()
    while len(pieces) < size:
        try:
            _wait_until(connection, until)
            piece = connection.recv(size - len(pieces))
        except OSError as error:
            raise LinkClosed(str(error)) from error
        if not piece:
            raise LinkClosed("the other process ended")
        pieces += piece
    return bytes(pieces)


def _wait_until(connection: socket.socket, until: float | None) -> None:
    """Let the next read wait no longer. Raises TimeoutError, which is an OSError, when the time is over."""
    if until is not None:
        left_s = until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the message came too slowly")
        connection.settimeout(left_s)


def end(connection: socket.socket) -> None:
    """End both directions; a thread that reads gets LinkClosed. Idempotent."""
    with suppress(OSError):  # already ended by the other side: what is wanted
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


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
        """Wait for the next message. Raises LinkClosed at the end, PeerError on anything that is no message."""
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
            self.close()  # part of a message may be in the stream, and the other side waits for what never comes
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
        """Pass a command on; blocks while the engine's buffer is full. Raises LinkClosed.

        Raises PeerError when the command is too long for one message.
        """
        self._send(TermedCommand(term, command))


DESCRIPTORS_MAX = 3  # of one message


class DescriptorLink:
    """One end of such a socket; :meth:`receive` is for one thread, :meth:`send` for any."""

    def __init__(self, connection: socket.socket, kind: Any) -> None:
        """Own ``connection``; ``kind`` is what the other side says."""
        self.socket = connection
        self._kind = kind
        self._sending = threading.Lock()

    def send(self, message: object, *descriptors: int) -> None:
        """Send one message, and copies of file descriptors with it. Raises LinkClosed; the link has ended then."""
        head, body = framed(message)
        try:
            with self._sending:
                socket.send_fds(self.socket, [head], descriptors)
                self.socket.sendall(body)
        except OSError as error:
            self.close()  # for the same reason as in _Link._send
            raise LinkClosed(str(error)) from error

    def receive(self, until: float | None = None) -> tuple[Any, list[int]]:
        """Wait for a message; the descriptors that came with it are the caller's to close.

        Raises LinkClosed, also when the message is not whole at ``until`` (monotonic seconds; None: never), and
        PeerError on anything that is no message. No descriptor stays open then.
        """
        first, descriptors = self._first(until)
        try:
            head = first + read_exactly(self.socket, LENGTH.size - len(first), until)
            return decode(self._kind, read_exactly(self.socket, body_length(head), until)), descriptors
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise

    def close(self) -> None:
        """End both directions; a thread that waits in ``receive`` gets LinkClosed. Idempotent."""
        end(self.socket)

    def _first(self, until: float | None) -> tuple[bytes, list[int]]:
        """Wait for the first bytes of a head, and what descriptors come with them."""
        try:
            self.socket.settimeout(None)  # an earlier call may have had a limit
            _wait_until(self.socket, until)
            head, descriptors, _, _ = socket.recv_fds(self.socket, LENGTH.size, DESCRIPTORS_MAX)
        except OSError as error:
            raise LinkClosed(str(error)) from error
        if not head:
            raise LinkClosed("the other side ended")
        return head, descriptors
