"""The link to a peer: credit that is owed is sent, and a link that breaks too early is reported."""

import os
import socket
from typing import Any, cast

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.base.errors import PeerError
from penstock.base.limits import STREAM_UNACKNOWLEDGED_S
from penstock.contract.ids import Attempt, ChannelId, Incarnation, JobUid, Ordinal, StageIndex, TaskId, Version
from penstock.model.elements import Credit
from penstock.model.wire import LinkHello, decode_credits, encode_credits
from penstock.transport.stream import CreditLine, PeerLink, dial
from penstock.transport.transport_events import StreamBroken


def channel(slot: int) -> ChannelId:
    return ChannelId(0, TaskId(StageIndex(0), Ordinal(0), slot), TaskId(StageIndex(1), Ordinal(1), 0))


class Owing:
    """An input channel that owes the same credit always."""

    def __init__(self, slot: int) -> None:
        self.channel = channel(slot)

    def credit(self) -> Credit:
        return Credit(self.channel, 1, 1, Version(1), 1)


class Ending:
    """An output that has sent its end of stream, or has not."""

    def __init__(self, slot: int, *, ended: bool) -> None:
        self.channel = channel(slot)
        self.ended = ended


def link(events: list[Any]) -> PeerLink:
    hello = LinkHello(JobUid("job"), Attempt(3), Incarnation("life"), Ordinal(0), Ordinal(1))
    return PeerLink(hello, "grpc://127.0.0.1:1", cast(Any, None), events.append)


def test_credit_that_may_wait_is_sent_soon_with_that_of_other_channels() -> None:
    line, written = CreditLine(), list[list[ChannelId]]()

    def write(message: bytes) -> None:
        written.append([credit.channel for credit in decode_credits(message)])
        line.stop()

    for slot in (0, 1, 0):
        line.owe(cast(Any, Owing(slot)), urgent=False)
    line.run(write, lambda: False)
    assert written == [[channel(0), channel(1)]]


@pytest.mark.parametrize(
    ("ended", "is_break"), [((True, True), False), ((True, False), True), ((False, False), True), ((), True)]
)
def test_a_link_may_close_when_all_its_channels_have_ended(ended: tuple[bool, ...], is_break: bool) -> None:
    events: list[Any] = []
    made = link(events)
    made.add(cast(Any, [Ending(slot, ended=over) for slot, over in enumerate(ended)]))
    for _ in range(2):
        made._report_broken("the peer has closed the link")
    told = [StreamBroken(Attempt(3), Ordinal(1), None, "the peer has closed the link")]
    assert events == (told if is_break else [])


def test_credit_for_a_channel_of_others_is_the_fault_of_the_peer() -> None:
    message = encode_credits([Credit(channel(7), 1, 1, Version(1), 1)])
    with pytest.raises(PeerError, match="which does not lead to it"):
        link([])._on_message(pa.py_buffer(message))


@pytest.mark.parametrize("message", [b"", b"\x11", b"\x10", b"what is this?"])
def test_a_message_that_is_neither_reply_nor_credit_is_the_fault_of_the_peer(message: bytes) -> None:
    with pytest.raises(PeerError, match=f"message of {len(message)} bytes fails its checksum"):
        link([])._on_message(pa.py_buffer(message))


def test_a_peer_that_is_not_there_is_reported_and_a_link_that_was_closed_is_not() -> None:
    events: list[Any] = []
    made = link(events)
    made.close()
    made._report_broken(str(fl.FlightUnavailableError("gone")))
    assert events == []


class Waiting(fl.FlightServerBase):  # type: ignore[misc]
    """A server that sends one message, and then waits until the caller ends the stream."""

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        writer.write_metadata(b"hello")
        with pytest.raises(StopIteration):
            reader.read_chunk()


def limits_of_connections_to(port: int) -> set[int]:
    """Return TCP_USER_TIMEOUT, in ms, of this process's connections to a port; 0: no limit."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            connection = socket.socket(fileno=os.dup(int(name)))
        except OSError:  # no socket
            continue
        with connection:
            if connection.family != socket.AF_UNIX and _peer_port(connection) == port:
                found.add(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
    return found


def _peer_port(connection: socket.socket) -> int | None:
    try:
        return int(connection.getpeername()[1])
    except OSError:  # it listens
        return None


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has this limit")
def test_a_peer_whose_system_confirms_nothing_is_given_up() -> None:
    server = Waiting("grpc://127.0.0.1:0")
    client = dial(f"grpc://127.0.0.1:{server.port}", None)
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(b""))
    assert reader.read_chunk().app_metadata.to_pybytes() == b"hello"
    found = limits_of_connections_to(server.port)
    writer.close()
    client.close()
    server.shutdown()
    assert found == {int(STREAM_UNACKNOWLEDGED_S * 1000)}
