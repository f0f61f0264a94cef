"""Peers that are not of the job, break the protocol, stop or die are refused or reported."""

import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.base.errors import ConfigError
from penstock.base.limits import CREDIT_FIRST_BYTES, ORPHAN_HANDLERS_MAX
from penstock.base.values import replace
from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
)
from penstock.contract.settings import ShuffleSettings
from penstock.model import wire
from penstock.model.elements import Data, Watermark
from penstock.model.wire import DataHead
from penstock.transport.batches import fingerprint, measure, pack
from penstock.transport.exchange import Exchange, Identity, Peer
from penstock.transport.stream import FlightEndpoint
from penstock.transport.transport_events import OrphansExceeded, StreamBroken, StreamRefused

Make = Callable[..., Any]
SCHEMA = pa.schema([("word", pa.string())])
DEADLINE_S = 60
ROWS = pa.record_batch([["x"] * 10], schema=SCHEMA)


def task(stage: int, worker: int) -> TaskId:
    return TaskId(StageIndex(stage), Ordinal(worker), 0)


def channel(start: int, end: int) -> ChannelId:
    return ChannelId(0, task(0, start), task(1, end))


HELLO = wire.ChannelHello(JobUid("job-1"), Attempt(1), Incarnation("life-0"), channel(0, 1), fingerprint(SCHEMA))
LINK = wire.LinkHello(HELLO.job_uid, HELLO.attempt, HELLO.incarnation, Ordinal(0), Ordinal(1))


# --- Handshakes of workers ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"job": JobUid("job-2")}, "this worker runs another job than job-2"),
        ({"schema": pa.schema([("n", pa.int64())])}, "all workers must run the same job"),
    ],
)
def test_a_mismatch_is_refused_and_the_sender_reads_why(
    make_worker: Make, changes: dict[str, Any], reason: str
) -> None:
    a, b = make_worker(0, **changes), make_worker(1)
    known = {0: Peer(Incarnation("life-0"), a.exchange.location), 1: b.peer()}
    b.open(1, known, channel(0, 1))
    a.open(1, known, channel(0, 1))
    refused = a.event(StreamRefused)
    assert reason in refused.reason
    assert (refused.attempt, refused.peer) == (1, 1)


def test_a_lower_attempt_is_refused(make_worker: Make) -> None:
    a, b = make_worker(0), make_worker(1)
    members = {0: a.peer(), 1: b.peer()}
    b.open(5, members, channel(0, 1))
    a.open(4, members, channel(0, 1))
    assert "attempt 4 is over: this worker is in attempt 5" in a.event(StreamRefused).reason


def test_a_higher_attempt_is_held_without_credit_until_the_receiver_resets(
    make_worker: Make,
) -> None:
    a, b = make_worker(0), make_worker(1)
    members = {0: a.peer(), 1: b.peer()}
    b.open(1, members, channel(0, 1))
    a.open(2, members, channel(0, 1))
    batch = pa.record_batch([["new"]], schema=SCHEMA)
    a.send(1, Data(batch, 1, measure(batch)))
    assert b.try_take(0.1) is None
    assert a.exchange.output(channel(0, 1)).stats().elements == 0
    b.exchange.reset(Attempt(2))
    assert a.exchange.output(channel(0, 1)).stats().elements == 0
    b.exchange.open_attempt(Attempt(2), b.wiring(members, channel(0, 1)))
    assert b.take()[1].payload.column(0).to_pylist() == ["new"]
    assert a.events == b.events == []


def test_a_peer_that_is_not_there_is_a_broken_stream(make_worker: Make) -> None:
    a = make_worker(0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        nobody = Peer(Incarnation("life-1"), f"grpc://127.0.0.1:{taken.getsockname()[1]}")
        a.open(1, {0: a.peer(), 1: nobody}, channel(0, 1))
        assert a.event(StreamBroken).peer == 1


def test_a_port_in_use_is_an_error_that_says_so() -> None:
    identity = Identity(JobUid("j"), Ordinal(0), Incarnation("i"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port}: Address already in use"):
            Exchange(identity, ShuffleSettings(), print, FlightEndpoint(port=port))


# --- A raw client: any bytes it likes -------------------------------------------------------------


class Stream:
    """A call to a worker whose content the test makes."""

    def __init__(self, client: Any, command: bytes) -> None:
        self.writer, self.reader = client.do_exchange(fl.FlightDescriptor.for_command(command))

    def read(self) -> bytes:
        message: bytes = self.reader.read_chunk().app_metadata.to_pybytes()
        return message

    def end(self) -> None:
        self.reader.cancel()
        with pytest.raises((fl.FlightError, pa.ArrowException)):
            self.writer.close()


class RawPeer:
    """Worker 0, whose messages the test makes, against a real worker 1."""

    def __init__(self, worker: Any) -> None:
        self._client = fl.FlightClient(worker.exchange.location)
        self.streams: list[Stream] = []

    def open(self, command: bytes) -> Stream:
        self.streams.append(Stream(self._client, command))
        return self.streams[-1]

    def open_channel(self) -> Stream:
        """Shake hands and wait for the credit."""
        link = self.open(wire.encode_hello(LINK))
        assert wire.decode_reply(link.read()) == wire.HandshakeReply(wire.AdmissionVerdict.ACCEPTED)
        stream = self.open(wire.encode_hello(HELLO))
        reply = wire.HandshakeReply(wire.AdmissionVerdict.ACCEPTED, HELLO.channel)
        assert wire.decode_reply(link.read()) == reply
        assert wire.decode_credits(link.read())[0].granted == CREDIT_FIRST_BYTES
        return stream


@contextmanager
def raw_peer(make_worker: Make) -> Iterator[tuple[RawPeer, Any]]:
    worker = make_worker(1)
    nobody = Peer(HELLO.incarnation, "grpc://127.0.0.1:1")
    worker.open(1, {0: nobody, 1: worker.peer()}, channel(0, 1))
    raw = RawPeer(worker)
    try:
        yield raw, worker
    finally:  # a worker waits for the calls of its peers, so a failed test would hang without this
        for stream in raw.streams:
            stream.end()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (b"", "fails its checksum"),
        (b"GET / HTTP/1.1", "fails its checksum"),
        (wire.seal(b"\x77" + bytes(40)), "not a handshake"),
        (
            wire.encode_hello(replace(HELLO, wire_version=9)),
            "peer speaks wire version 9, this worker speaks 2: run the same release",
        ),
        (wire.encode_hello(replace(HELLO, job_uid=JobUid("x"))), "runs another job than x"),
    ],
)
def test_a_peer_of_another_job_is_refused_with_a_reason(make_worker: Make, command: bytes, reason: str) -> None:
    with raw_peer(make_worker) as (raw, worker):
        stream = raw.open(command)
        with pytest.raises(fl.FlightUnauthorizedError, match=reason):
            stream.read()
        assert worker.events == []


def test_a_missing_element_breaks_the_attempt_and_the_channel_is_never_redialled(
    make_worker: Make,
) -> None:
    with raw_peer(make_worker) as (raw, worker):
        stream = raw.open_channel()
        stream.writer.write_metadata(wire.encode_control(1, Watermark(1)))
        stream.writer.write_metadata(wire.encode_control(3, Watermark(3)))
        broken = worker.event(StreamBroken)
        assert broken.channel == channel(0, 1)
        assert "element 3 came after 1: elements are missing or repeated" in broken.reason
        with pytest.raises(fl.FlightUnauthorizedError, match="never redialled"):
            raw.open(wire.encode_hello(HELLO)).read()


def charged(rows: int, charge: int, *, packed: bool = False) -> bytes:
    return wire.encode_data(1, DataHead(rows, charge, packed=packed))


def packed(rows: pa.RecordBatch, charge: int) -> bytes:
    message: bytes = pack(rows, rows.schema, charged(10, charge, packed=True)).to_pybytes()
    return message


def outside() -> pa.RecordBatch:
    """Ten texts, the first of which begins and ends somewhere else in memory."""
    ends = pa.py_buffer(struct.pack("<11i", 0, 1 << 30, *[10] * 9))
    words = pa.Array.from_buffers(pa.string(), 10, [None, ends, pa.py_buffer(bytes(10))])
    return pa.record_batch([words], schema=SCHEMA)


@pytest.mark.parametrize(
    ("metadata", "batch", "reason"),
    [
        (charged(10, 700), outside(), "invalid batch"),
        (packed(outside(), 700), None, "invalid batch"),
        (b"\x01junk", ROWS, "fails its checksum"),
        (charged(11, 700), ROWS, "11 rows are announced, others came"),
        (charged(10, 512), pa.record_batch([["y" * 2000] * 10], schema=SCHEMA), "is charged as"),
        (charged(10, 700), ROWS.rename_columns(["other"]), "announced was"),
        (wire.encode_control(1, Watermark(1)), ROWS, "a control element with a body"),
        (charged(10, 700), None, "10 rows are announced"),
        (packed(ROWS.slice(1), 700), None, "10 rows are announced, others came"),
        (packed(ROWS.rename_columns(["other"]), 700), None, "announced was"),
        (packed(pa.record_batch([["y" * 2000] * 10], schema=SCHEMA), 700), None, "unpacks to"),
        (packed(pa.record_batch([["y" * 2000] * 10], schema=SCHEMA), 512), None, "unpacks to"),
        (packed(ROWS, 700), ROWS, "behind metadata of another kind"),
        (charged(10, 700) + packed(ROWS, 700), None, "behind metadata of another kind"),
        (charged(10, 700, packed=True), None, "with its metadata"),
        (charged(10, 700, packed=True), ROWS, "with its metadata"),
        (charged(10, 700, packed=True) + b"junk" * 20, None, "are no Arrow stream"),
        (packed(ROWS, 700)[:-200], None, "are no Arrow stream"),
    ],
)
def test_an_element_that_breaks_the_rules_breaks_the_attempt(
    make_worker: Make, metadata: bytes, batch: pa.RecordBatch | None, reason: str
) -> None:
    with raw_peer(make_worker) as (raw, worker):
        stream = raw.open_channel()
        if batch is None:
            stream.writer.write_metadata(metadata)
        else:
            stream.writer.begin(batch.schema)
            stream.writer.write_with_metadata(batch, metadata)
        assert reason in worker.event(StreamBroken).reason
        assert worker.try_take(0.0) is None


def test_data_beyond_the_credit_breaks_the_attempt(make_worker: Make) -> None:
    with raw_peer(make_worker) as (raw, worker):
        stream = raw.open_channel()
        big = pa.record_batch([["z" * (5 << 20)]], schema=SCHEMA)
        stream.writer.begin(SCHEMA)
        for sequence in (1, 2):
            head = wire.encode_data(sequence, DataHead(1, measure(big)))
            stream.writer.write_with_metadata(big, head)
        assert "exceed the credit" in worker.event(StreamBroken).reason


def test_closing_before_the_end_of_the_stream_is_a_break(make_worker: Make) -> None:
    with raw_peer(make_worker) as (raw, worker):
        stream = raw.open_channel()
        stream.writer.done_writing()
        assert "closed the stream before its end" in worker.event(StreamBroken).reason


# --- Other processes ------------------------------------------------------------------------------


def wait_until(holds: Callable[[], bool], worker: Any) -> None:
    until = monotonic() + DEADLINE_S
    while not holds():
        assert monotonic() < until
        worker.take_wakeup.wait(0.01)


def test_a_killed_sender_is_reported(make_worker: Make, make_process: Make) -> None:
    a = make_worker(0)
    b = make_process("send", a)
    a.open(1, b.members, channel(0, 1), channel(1, 0))
    a.take()
    b.signal(signal.SIGKILL)
    broken = a.event(StreamBroken)
    assert (broken.attempt, broken.peer) == (1, 1)


def test_a_killed_receiver_is_reported_while_the_sender_waits_for_credit(make_worker: Make, make_process: Make) -> None:
    a = make_worker(0)
    b = make_process("sleep", a)
    a.open(1, b.members, channel(0, 1), channel(1, 0))
    big = pa.record_batch([["w" * (1 << 20)] * 4], schema=SCHEMA)
    element = Data(big, 4, measure(big))
    while a.exchange.output(channel(0, 1)).try_send(element) or a.send_wakeup.wait(0.3):
        pass
    b.signal(signal.SIGKILL)
    assert a.event(StreamBroken).peer == 1


def test_a_blocked_write_delays_no_reset_and_no_other_peer(make_worker: Make, make_process: Make) -> None:
    wide = {"high_watermark_bytes": 1 << 30, "low_watermark_bytes": 1 << 29}
    a = make_worker(0, **wide)
    b = make_process("sleep", a, **wide)
    a.open(1, b.members, channel(0, 1), channel(1, 0))
    output = a.exchange.output(channel(0, 1))
    big = pa.record_batch([["w" * (1 << 20)] * 4], schema=SCHEMA)
    element = Data(big, 4, measure(big))
    a.send(1, element)
    wait_until(lambda: output.stats().credit_bytes > 1 << 29, a)
    b.signal(signal.SIGSTOP)
    while output.try_send(element) or a.send_wakeup.wait(0.3):
        pass
    assert output.stats().credit_bytes > 1 << 29, "it must be the socket that blocks"
    successor = make_worker(1, "life-2", **wide)
    members = {0: a.peer(), 1: successor.peer()}
    for worker in (a, successor):
        worker.open(2, members, channel(0, 1))
    a.send(1, element)
    assert successor.take()[1].rows == 1, "a large batch is cut before the first credit"
    assert a.events == []
    b.signal(signal.SIGKILL)


def test_handlers_of_a_stopped_peer_are_orphans_after_a_reset_until_it_is_gone(
    make_worker: Make, make_process: Make
) -> None:
    a = make_worker(0)
    b = make_process("send", a)
    a.open(1, b.members, channel(0, 1), channel(1, 0))
    a.take()
    b.signal(signal.SIGSTOP)
    a.exchange.reset(Attempt(2))
    assert a.exchange.stats().orphans >= 1
    assert a.events == []
    b.signal(signal.SIGKILL)
    wait_until(lambda: not a.exchange.stats().orphans, a)
    assert a.events == []


def test_a_link_ends_at_its_other_end_too_when_its_attempt_ends(make_worker: Make) -> None:
    a, b = make_worker(0), make_worker(1)
    members = {0: a.peer(), 1: b.peer()}
    for worker in (a, b):
        worker.open(1, members, channel(0, 1))
    a.send(1, Data(ROWS, 10, measure(ROWS)))
    b.take()
    assert b.exchange.stats().handlers == 2, "one of the channel, one of the link"
    a.exchange.reset(Attempt(2))
    wait_until(lambda: not b.exchange.stats().handlers, b)


def test_too_many_handlers_that_only_their_peer_can_end_are_reported(make_worker: Make) -> None:
    channels = [
        ChannelId(0, TaskId(StageIndex(0), Ordinal(0), slot), task(1, 1)) for slot in range(ORPHAN_HANDLERS_MAX + 1)
    ]
    worker = make_worker(1)
    worker.open(1, {0: Peer(HELLO.incarnation, "grpc://127.0.0.1:1"), 1: worker.peer()}, *channels)
    raw = RawPeer(worker)
    for name in channels:
        raw.open(wire.encode_hello(replace(HELLO, channel=name)))
    wait_until(lambda: worker.exchange.stats().handlers == len(channels), worker)
    worker.exchange.reset(Attempt(2))
    for stream in raw.streams:
        stream.end()
    assert worker.events == [OrphansExceeded(len(channels))]
