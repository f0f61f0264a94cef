"""The channels of one worker: its tasks hear of a reset, and old outputs break nothing."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.contract.ids import Attempt, ChannelId, Incarnation, JobUid, Ordinal, StageIndex, TaskId, Version
from penstock.contract.settings import ShuffleSettings
from penstock.model.elements import EndOfStream
from penstock.transport.exchange import Exchange, Identity, Peer, Wiring
from penstock.transport.input import Wakeup
from penstock.transport.transport_events import StreamBroken

SENDER = TaskId(StageIndex(0), Ordinal(0), 0)
HERE, THERE = (ChannelId(0, SENDER, TaskId(StageIndex(1), Ordinal(worker), 0)) for worker in (0, 1))
SCHEMAS = {0: pa.schema([("word", pa.string())])}


@pytest.fixture
def events() -> list[Any]:
    return []


@pytest.fixture
def exchange(events: list[Any]) -> Iterator[Exchange]:
    identity = Identity(JobUid("job"), Ordinal(0), Incarnation("life-0"))
    made = Exchange(identity, ShuffleSettings(), events.append)
    yield made
    assert made.close()


def wiring(exchange: Exchange, wakeups: dict[TaskId, Wakeup]) -> Wiring:
    members = {
        Ordinal(0): Peer(Incarnation("life-0"), exchange.location),
        Ordinal(1): Peer(Incarnation("life-1"), exchange.location),  # it will refuse: that is another life
    }
    return Wiring(members, (HERE, THERE), SCHEMAS, wakeups, Version(1))


def opened(exchange: Exchange) -> dict[TaskId, Wakeup]:
    wakeups = {SENDER: Wakeup(), HERE.receiver: Wakeup()}
    exchange.reset(Attempt(1))
    exchange.open_attempt(Attempt(1), wiring(exchange, wakeups))
    for wakeup in wakeups.values():
        wakeup.wait(0)
    return wakeups


def test_every_task_wakes_at_a_reset(exchange: Exchange) -> None:
    wakeups = opened(exchange)
    exchange.reset(Attempt(2))
    assert all(wakeup.wait(0) for wakeup in wakeups.values())


def test_a_stream_that_breaks_is_reported_unless_its_channel_has_ended_or_is_replaced(
    exchange: Exchange, events: list[Any]
) -> None:
    opened(exchange)
    output: Any = exchange.output(THERE)

    def breaks() -> list[Any]:
        exchange._on_broken(output, OSError("reset by peer"))
        return [e for e in events if isinstance(e, StreamBroken) and e.channel == THERE]

    (told,) = breaks()
    assert (told.attempt, told.peer) == (Attempt(1), Ordinal(1))
    events.clear()
    exchange.retire([THERE])
    assert breaks() == [], "a rescale has ended it"
    exchange.extend(_more(exchange))
    assert breaks() == [], "another output has its name"


def _more(exchange: Exchange) -> Wiring:
    one = wiring(exchange, {SENDER: Wakeup()})
    return Wiring(one.members, (THERE,), one.schemas, one.wakeups, Version(2))


def test_an_output_that_has_sent_its_end_may_break(exchange: Exchange, events: list[Any]) -> None:
    opened(exchange)
    output: Any = exchange.output(THERE)
    output.put(EndOfStream())
    exchange._on_broken(output, OSError("reset by peer"))
    assert not [e for e in events if isinstance(e, StreamBroken) and e.channel == THERE]


def test_a_stream_of_an_ended_attempt_breaks_nothing(exchange: Exchange, events: list[Any]) -> None:
    opened(exchange)
    output: Any = exchange.output(THERE)
    exchange.reset(Attempt(2))
    exchange._on_broken(output, OSError("reset by peer"))
    assert not [e for e in events if isinstance(e, StreamBroken) and e.attempt == Attempt(2)]
