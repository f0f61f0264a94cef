import os
import socket
import threading
import time

import pytest

from penstock.base.errors import ConfigError, PeerError
from penstock.base.limits import CONTROL_MESSAGE_BYTES_MAX
from penstock.cluster.host import Begin, Kill
from penstock.cluster.link import LENGTH, DescriptorLink, EngineLink, KeeperLink, LinkClosed, TermedCommand
from penstock.contract.control_messages import EngineStatus, Shutdown, Start
from penstock.contract.ids import Attempt, Incarnation, Term


def pair() -> tuple[KeeperLink, EngineLink, socket.socket]:
    ours, theirs = socket.socketpair()
    raw = socket.socket(fileno=os.dup(theirs.fileno()))
    return KeeperLink(ours), EngineLink.connect(f"fd:{theirs.detach()}"), raw


def test_both_directions() -> None:
    keeper, engine, raw = pair()
    keeper.send(Term(7), Start(Attempt(1)))
    keeper.send(Term(8), Shutdown(Incarnation("life"), "done"))
    engine.send(EngineStatus(ready=Attempt(3)))
    assert engine.receive() == TermedCommand(Term(7), Start(Attempt(1)))
    assert engine.receive() == TermedCommand(Term(8), Shutdown(Incarnation("life"), "done"))
    assert keeper.receive() == EngineStatus(ready=Attempt(3))
    for link in (keeper, engine, raw):
        link.close()


def test_large_messages_from_many_threads_do_not_mix() -> None:
    keeper, engine, raw = pair()
    texts = [letter * 300_000 for letter in "abcd"]
    threads = [
        threading.Thread(target=keeper.send, args=(Term(1), Shutdown(Incarnation("life"), text))) for text in texts
    ]
    for thread in threads:
        thread.start()
    received = [engine.receive().command for _ in texts]
    for thread in threads:
        thread.join()
    assert {c.reason for c in received if isinstance(c, Shutdown)} == set(texts)
    for link in (keeper, engine, raw):
        link.close()


def test_a_link_on_which_a_message_was_not_sent_ends_for_both_sides() -> None:
    ours, theirs = socket.socketpair()
    keeper, engine = KeeperLink(ours), EngineLink.connect(f"fd:{theirs.detach()}")
    ours.shutdown(socket.SHUT_WR)  # the engine can still speak, as after any error of this one call
    with pytest.raises(LinkClosed):
        keeper.send(Term(7), Start(Attempt(1)))
    with pytest.raises(LinkClosed):
        keeper.receive()
    with pytest.raises(LinkClosed):
        engine.send(EngineStatus(ready=Attempt(3)))
    engine.close()


def test_the_other_side_ending_is_seen_at_once() -> None:
    keeper, engine, raw = pair()
    raw.close()
    engine.close()
    with pytest.raises(LinkClosed):
        keeper.receive()
    with pytest.raises(LinkClosed):
        keeper.send(Term(1), Shutdown(Incarnation("life"), "x"))
    keeper.close()
    keeper.close()


def test_closing_wakes_a_waiting_receiver() -> None:
    keeper, engine, raw = pair()
    woken: list[bool] = []

    def wait() -> None:
        with pytest.raises(LinkClosed):
            keeper.receive()
        woken.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    keeper.close()
    thread.join(10)
    assert woken == [True]
    engine.close()
    raw.close()


@pytest.mark.parametrize(
    "data",
    [
        LENGTH.pack(CONTROL_MESSAGE_BYTES_MAX + 1),
        LENGTH.pack(3) + b"{]x",
        LENGTH.pack(2) + b"{}",
        LENGTH.pack(15) + b'{"is":"Nobody"}',
    ],
)
def test_nonsense_is_an_error_of_the_peer(data: bytes) -> None:
    keeper, engine, raw = pair()
    raw.sendall(data)
    with pytest.raises(PeerError):
        keeper.receive()
    for link in (keeper, engine, raw):
        link.close()


@pytest.mark.parametrize("address", ["", "fd:", "fd:x", "/tmp/socket", "tcp:1"])
def test_an_engine_is_started_by_its_keeper(address: str) -> None:
    with pytest.raises(ConfigError, match="started by its keeper"):
        EngineLink.connect(address)


def descriptor_link() -> tuple[socket.socket, DescriptorLink]:
    theirs, ours = socket.socketpair()
    return theirs, DescriptorLink(ours, Begin)


def test_a_link_on_which_a_descriptor_was_not_sent_ends_for_both_sides() -> None:
    theirs, link = descriptor_link()
    link.socket.shutdown(socket.SHUT_WR)  # the other side can still speak, as after any error of this one call
    with pytest.raises(LinkClosed):
        link.send(Kill(Incarnation("life")))
    with pytest.raises(BrokenPipeError):
        theirs.sendall(b"{")
    theirs.close()


@pytest.mark.parametrize(("body", "error"), [(b"{garbage}", PeerError), (b"", LinkClosed)], ids=["garbage", "cut-off"])
def test_descriptors_of_a_message_that_is_none_are_closed(body: bytes, error: type[Exception]) -> None:
    theirs, link = descriptor_link()
    reads, writes = os.pipe()
    socket.send_fds(theirs, [LENGTH.pack(9)], [writes])
    os.close(writes)
    theirs.sendall(body)
    theirs.close()
    with pytest.raises(error):
        link.receive()
    assert os.read(reads, 1) == b"", "nobody holds the other end of the pipe"
    os.close(reads)
    link.close()


@pytest.mark.parametrize("said", [b"", LENGTH.pack(9)[:2], LENGTH.pack(9) + b"{"])
def test_a_message_that_is_not_whole_in_time_ends_the_link(said: bytes) -> None:
    theirs, link = descriptor_link()
    theirs.sendall(said)
    with pytest.raises(LinkClosed, match=r"too slowly|timed out"):
        link.receive(time.monotonic() + 0.01)
    theirs.close()
    link.close()


def test_time_that_is_over_ends_the_link_though_more_bytes_wait() -> None:
    theirs, link = descriptor_link()
    theirs.sendall(LENGTH.pack(9) + b"{")
    with pytest.raises(LinkClosed, match="too slowly"):
        link.receive(time.monotonic())
    theirs.close()
    link.close()
