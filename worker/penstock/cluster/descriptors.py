"""Messages that carry open files with them, over one Unix stream socket."""

import socket
import threading
from typing import Any

from penstock.cluster.framing import LENGTH, LinkClosed, body_length, end, framed, read_exactly
from penstock.contract.codec import decode

DESCRIPTORS_MAX = 3  # of one message


class DescriptorLink:
    """One end of such a socket; :meth:`receive` is for one thread, :meth:`send` for any."""

    def __init__(self, connection: socket.socket, kind: Any) -> None:
        """Own ``connection``; ``kind`` is what the other side says."""
        self.socket = connection
        self._kind = kind
        self._sending = threading.Lock()

    def send(self, message: object, *descriptors: int) -> None:
        """Send one message, and copies of file descriptors with it. Raises LinkClosed."""
        head, body = framed(message)
        try:
            with self._sending:
                socket.send_fds(self.socket, [head], descriptors)
                self.socket.sendall(body)
        except OSError as error:
            raise LinkClosed(str(error)) from error

    def receive(self) -> tuple[Any, list[int]]:
        """Wait for a message; the descriptors that came with it are the caller's to close.

        Raises LinkClosed, and PeerError on nonsense.
        """
        head, descriptors = self._head()
        return decode(self._kind, read_exactly(self.socket, body_length(head))), descriptors

    def close(self) -> None:
        """End both directions; a thread that waits in ``receive`` gets LinkClosed. Idempotent."""
        end(self.socket)

    def _head(self) -> tuple[bytes, list[int]]:
        try:
            head, descriptors, _, _ = socket.recv_fds(self.socket, LENGTH.size, DESCRIPTORS_MAX)
        except OSError as error:
            raise LinkClosed(str(error)) from error
        if not head:
            raise LinkClosed("the other side ended")
        return head + read_exactly(self.socket, LENGTH.size - len(head)), descriptors
