"""Messages on a stream socket: four bytes of length, then canonical JSON."""

import socket
import struct
from contextlib import suppress

from penstock.base.errors import PeerError
from penstock.base.limits import CONTROL_MESSAGE_BYTES_MAX
from penstock.contract.codec import encode

LENGTH = struct.Struct(">I")


class LinkClosed(Exception):
    """The other process is gone, or this end was closed."""


def framed(message: object) -> tuple[bytes, bytes]:
    """Return the head and the body of a message. Raises PeerError when it is too long."""
    body = encode(message)
    _check(len(body))
    return LENGTH.pack(len(body)), body


def body_length(head: bytes) -> int:
    """Read a head. Raises PeerError when the message is too long."""
    (length,) = LENGTH.unpack(head)
    _check(length)
    return int(length)


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Wait for ``size`` bytes. Raises LinkClosed at the end."""
    pieces = bytearray()
    while len(pieces) < size:
        try:
            piece = connection.recv(size - len(pieces))
        except OSError as error:
            raise LinkClosed(str(error)) from error
        if not piece:
            raise LinkClosed("the other process ended")
        pieces += piece
    return bytes(pieces)


def end(connection: socket.socket) -> None:
    """End both directions; a thread that reads gets LinkClosed. Idempotent."""
    with suppress(OSError):  # already ended by the other side: what is wanted
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _check(length: int) -> None:
    if length > CONTROL_MESSAGE_BYTES_MAX:
        raise PeerError(f"a message of {length} bytes, at most {CONTROL_MESSAGE_BYTES_MAX}")
