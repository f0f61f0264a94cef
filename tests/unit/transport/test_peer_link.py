"""The link to a peer: credit that is owed is sent, and a link that breaks too early is reported."""

from typing import Any, cast

import pyarrow.flight as fl
import pytest

from penstock.base.errors import PeerError
from penstock.contract.ids import Attempt, ChannelId, Incarnation, JobUid, Ordinal, StageIndex, TaskId, Version
from penstock.model.elements import Credit
from penstock.model.wire import LinkHello, decode_credits, encode_credits
from penstock.transport.stream import CreditLine, PeerLink
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
    metadata = type("Metadata", (), {"to_pybytes": lambda _: message})()
    with pytest.raises(PeerError, match="which does not lead to it"):
        link([])._on_message(metadata)


def test_a_peer_that_is_not_there_is_reported_and_a_link_that_was_closed_is_not() -> None:
    events: list[Any] = []
    made = link(events)
    made.close()
    made._report_broken(str(fl.FlightUnavailableError("gone")))
    assert events == []
