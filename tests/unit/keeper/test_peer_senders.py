import threading
import time
from collections.abc import Iterator

import pytest

from penstock.base.errors import PeerError
from penstock.base.limits import PEER_SENDER_IDLE_S
from penstock.cluster.rpc import DELIVER, Client, Nothing, Server
from penstock.contract.control_messages import CheckpointWanted, Envelope
from penstock.contract.ids import Attempt, JobUid, Ordinal, Term
from penstock.keeper.keeper_messages import ForCoordinator, KeeperInbox, PeerSenders
from penstock.protocol.keeper_core_messages import PeerRefused


def dial(address: str) -> Client:
    return Client(address, "secret")


def envelope(attempt: int) -> Envelope:
    return Envelope(JobUid("uid"), Term(1), Ordinal(0), CheckpointWanted(Attempt(attempt)))


class Peer:
    """The server of a keeper, which notes what arrives."""

    def __init__(self) -> None:
        self.heard: list[Envelope] = []
        self.refuse = False
        self.failures = 0
        self.arrived = threading.Semaphore(0)
        self.server = Server({DELIVER: self._deliver}, "secret")

    def _deliver(self, message: Envelope) -> Nothing:
        self.heard.append(message)
        self.arrived.release()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("can't start new thread")
        if self.refuse:
            raise PeerError("not here")
        return Nothing()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.server.close()


def test_messages_arrive_in_order(peer: Peer) -> None:
    senders = PeerSenders(KeeperInbox(), dial, print, time.monotonic)
    sent = [envelope(number) for number in range(20)]
    for message in sent:
        senders.send(peer.server.address, message)
    for _ in sent:
        peer.arrived.acquire()  # it comes, however busy the machine is
    assert peer.heard == sent


def test_a_refused_dial_is_told_to_the_coordinator(peer: Peer) -> None:
    inbox = KeeperInbox()
    peer.server.close()
    PeerSenders(inbox, dial, print, time.monotonic).send(peer.server.address, envelope(1))
    assert inbox.take(10) == ForCoordinator(PeerRefused(peer.server.address))


def test_a_peer_that_refuses_for_one_reason_makes_one_line(peer: Peer) -> None:
    lines: list[str] = []
    peer.refuse = True
    senders = PeerSenders(KeeperInbox(), dial, lines.append, time.monotonic)
    for number in range(5):
        senders.send(peer.server.address, envelope(number))
    for _ in range(5):
        peer.arrived.acquire()
    assert lines == [f"{peer.server.address} refused a message: not here"]


def test_a_peer_that_fails_once_hears_the_next_message(peer: Peer) -> None:
    peer.failures = 1
    senders = PeerSenders(KeeperInbox(), dial, print, time.monotonic)
    for number in range(2):
        senders.send(peer.server.address, envelope(number))
    assert [peer.arrived.acquire(timeout=10) for _ in range(2)] == [True, True]


def test_a_silent_peer_delays_nobody(peer: Peer) -> None:
    inbox, released = KeeperInbox(), threading.Event()

    def hang(_message: Envelope) -> Nothing:
        released.wait()
        return Nothing()

    silent = Server({DELIVER: hang}, "secret")
    senders = PeerSenders(inbox, dial, print, time.monotonic)
    for number in range(2000):
        senders.send(silent.address, envelope(number))
    senders.send(peer.server.address, envelope(1))
    peer.arrived.acquire()
    released.set()
    silent.close()


def threads_of(addresses: list[str]) -> list[threading.Thread]:
    names = {f"peer-sender-{address}" for address in addresses}
    return [thread for thread in threading.enumerate() if thread.name in names]


def test_addresses_of_earlier_lives_leave_no_thread_and_no_channel(peer: Peer) -> None:
    now = 0.0
    closed: list[str] = []

    class Noted(Client):
        def close(self) -> None:
            closed.append(self.address)
            super().close()

    senders = PeerSenders(KeeperInbox(), lambda a: Noted(a, "secret"), print, lambda: now)
    gone = [f"127.0.0.1:{port}" for port in range(1, 21)]  # nobody listens there
    for address in gone:
        now += PEER_SENDER_IDLE_S / 4
        senders.send(address, envelope(1))
        senders.send(peer.server.address, envelope(2))
    for thread in threads_of(gone[:16]):
        thread.join(10)
    assert not threads_of(gone[:16])
    assert closed == gone[:16]
    for _ in gone:
        peer.arrived.acquire()  # one that is written to stays
