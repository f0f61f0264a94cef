import threading
from collections.abc import Iterator

import pytest

from penstock.base.errors import PeerError
from penstock.cluster.control import DELIVER
from penstock.cluster.rpc import Client, Nothing, Server
from penstock.contract.control import CheckpointWanted, Envelope
from penstock.contract.ids import Attempt, JobUid, Ordinal, Term
from penstock.keeper.couriers import Couriers
from penstock.keeper.inbox import ForCoordinator, Inbox
from penstock.protocol.events import PeerRefused


def dial(address: str) -> Client:
    return Client(address, "secret")


def envelope(attempt: int) -> Envelope:
    return Envelope(JobUid("uid"), Term(1), Ordinal(0), CheckpointWanted(Attempt(attempt)))


class Peer:
    """A keeper's door that notes what arrives."""

    def __init__(self) -> None:
        self.heard: list[Envelope] = []
        self.refuse = False
        self.arrived = threading.Semaphore(0)
        self.server = Server({DELIVER: self._deliver}, "secret")

    def _deliver(self, message: Envelope) -> Nothing:
        self.heard.append(message)
        self.arrived.release()
        if self.refuse:
            raise PeerError("not here")
        return Nothing()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.server.close()


def test_messages_arrive_in_order(peer: Peer) -> None:
    couriers = Couriers(Inbox(), dial, print)
    sent = [envelope(number) for number in range(20)]
    for message in sent:
        couriers.send(peer.server.address, message)
    for _ in sent:
        assert peer.arrived.acquire(timeout=10)
    assert peer.heard == sent


def test_a_refused_dial_is_told_to_the_coordinator(peer: Peer) -> None:
    inbox = Inbox()
    peer.server.close()
    Couriers(inbox, dial, print).send(peer.server.address, envelope(1))
    assert inbox.take(10) == ForCoordinator(PeerRefused(peer.server.address))


def test_a_peer_that_refuses_for_one_reason_makes_one_line(peer: Peer) -> None:
    lines: list[str] = []
    peer.refuse = True
    couriers = Couriers(Inbox(), dial, lines.append)
    for number in range(5):
        couriers.send(peer.server.address, envelope(number))
    for _ in range(5):
        assert peer.arrived.acquire(timeout=10)
    assert lines == [f"{peer.server.address} refused a message: not here"]


def test_a_silent_peer_delays_nobody(peer: Peer) -> None:
    inbox, released = Inbox(), threading.Event()

    def hang(_message: Envelope) -> Nothing:
        released.wait(30)
        return Nothing()

    silent = Server({DELIVER: hang}, "secret")
    couriers = Couriers(inbox, dial, print)
    for number in range(2000):
        couriers.send(silent.address, envelope(number))
    couriers.send(peer.server.address, envelope(1))
    assert peer.arrived.acquire(timeout=10)
    released.set()
    silent.close()
