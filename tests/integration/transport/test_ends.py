"""How a stream ends: closed behind its last element, cancelled when its peer hangs, noticed when its call fails."""

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.contract.ids import Attempt, ChannelId, Incarnation, JobUid, Ordinal, StageIndex, TaskId, Version
from penstock.contract.settings import CompressionSettings
from penstock.model.elements import EndOfStream
from penstock.model.wire import ChannelHello
from penstock.protocol.channel.flow_control import SendChannel
from penstock.transport.batches import fingerprint
from penstock.transport.input import Wakeup
from penstock.transport.output import RemoteOutput, SenderThread
from penstock.transport.stream import OutStream, describe, dial

DEADLINE_S = 30.0
SCHEMA = pa.schema([("word", pa.string())])
CHANNEL = ChannelId(0, TaskId(StageIndex(0), Ordinal(0), 0), TaskId(StageIndex(1), Ordinal(1), 0))
HELLO = ChannelHello(JobUid("job"), Attempt(1), Incarnation("life-0"), CHANNEL, fingerprint(SCHEMA))


class HangingPeer(fl.FlightServerBase):  # type: ignore[misc]
    """Takes one stream. Reads it only when told to, and ends its call only when released."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.called, self.reads, self.read_to_its_end, self.released = (threading.Event() for _ in range(4))

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self.called.set()
        self.reads.wait()
        try:
            while True:
                reader.read_chunk()
        except StopIteration:
            self.read_to_its_end.set()
        except (fl.FlightError, pa.ArrowException):
            return  # the caller has cancelled the call
        self.released.wait()


class RefusingPeer(fl.FlightServerBase):  # type: ignore[misc]
    """Ends each call at once."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        raise fl.FlightUnauthorizedError("not today")


@pytest.fixture
def peer() -> Iterator[HangingPeer]:
    made = HangingPeer()
    yield made
    made.reads.set()
    made.released.set()
    made.shutdown()


@pytest.fixture
def broken() -> list[str]:
    return []


@pytest.fixture
def sender(broken: list[str]) -> Iterator[SenderThread]:
    made = SenderThread("sender", lambda _, error: broken.append(str(error)))
    yield made
    made.stop()


@pytest.fixture
def watched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.transport.output.STREAM_UNWATCHED_S", 0.0)


@pytest.fixture
def output(peer: HangingPeer, sender: SenderThread) -> Iterator[RemoteOutput]:
    """An output whose stream has reached the peer."""
    made = RemoteOutput(CHANNEL, SendChannel(1000, 0.0, Version(1)), Wakeup(), sender.schedule)
    client = dial(f"grpc://127.0.0.1:{peer.port}", None)
    made.connect(OutStream(client, HELLO, SCHEMA, CompressionSettings()))
    assert peer.called.wait(DEADLINE_S)
    yield made
    made.close()


def test_the_end_of_an_attempt_does_not_wait_for_a_peer_that_hangs(
    output: RemoteOutput, sender: SenderThread, broken: list[str]
) -> None:
    output.close()
    sender.stop()
    assert sender.join(DEADLINE_S)
    assert broken == [], "a stream that this worker has cancelled is not broken"


def test_a_stream_is_closed_behind_its_last_element(
    output: RemoteOutput, peer: HangingPeer, sender: SenderThread, broken: list[str]
) -> None:
    peer.reads.set()
    output.accept()
    output.put(EndOfStream())
    assert peer.read_to_its_end.wait(DEADLINE_S)
    peer.released.set()
    sender.stop()
    assert sender.join(DEADLINE_S)
    assert broken == []


@pytest.mark.usefixtures("watched_at_once")
def test_a_call_that_fails_before_it_is_accepted_is_noticed_though_nothing_is_written() -> None:
    reasons: SimpleQueue[str] = SimpleQueue()
    sender = SenderThread("sender", lambda _, error: reasons.put(describe(error)))
    output = RemoteOutput(CHANNEL, SendChannel(1000, 0.0, Version(1)), Wakeup(), sender.schedule)
    with RefusingPeer() as refusing:
        client = dial(f"grpc://127.0.0.1:{refusing.port}", None)
        output.connect(OutStream(client, HELLO, SCHEMA, CompressionSettings()))
        assert "not today" in reasons.get(timeout=DEADLINE_S)
        sender.stop()
        assert sender.join(DEADLINE_S)
    assert reasons.empty()


@pytest.mark.usefixtures("watched_at_once")
def test_a_call_that_is_watched_and_accepted_late_ends_like_any_other(
    output: RemoteOutput, peer: HangingPeer, sender: SenderThread, broken: list[str]
) -> None:
    test_a_stream_is_closed_behind_its_last_element(output, peer, sender, broken)


@pytest.mark.usefixtures("watched_at_once")
def test_a_call_that_is_watched_is_cancelled_with_its_attempt(
    output: RemoteOutput, sender: SenderThread, broken: list[str]
) -> None:
    test_the_end_of_an_attempt_does_not_wait_for_a_peer_that_hangs(output, sender, broken)
