"""The Flight server of a worker: admits streams and moves their elements into the queues.

A handler never waits for room in a queue, because credit bounds the queue. It waits in two places:
for the next message of its caller, and, while its stream is held, for the decision on its handshake.
"""

import socket
from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from penstock.base.errors import ConfigError, PeerError
from penstock.base.limits import HELD_STREAMS_MAX, STREAM_CHECK_INTERVAL_S
from penstock.base.threads import Condition, Lock
from penstock.base.values import replace
from penstock.contract.ids import Attempt, ChannelId, Incarnation, JobUid, Ordinal
from penstock.model.elements import Control, Data
from penstock.model.flight import RenewableServer
from penstock.model.ipc import spelt, validate
from penstock.model.wire import (
    AdmissionVerdict,
    ChannelHello,
    DataHead,
    HandshakeReply,
    Hello,
    decode,
    decode_hello,
    encode_reply,
)
from penstock.protocol.channel.admission import Admission, AdmissionDecision
from penstock.transport.batches import CHARGES_MAX, fingerprint, split_message, unpack
from penstock.transport.input import InputChannel
from penstock.transport.stream import STREAM_ERRORS, CreditLine, FlightEndpoint, check_call, describe
from penstock.transport.transport_events import OnEvent, StreamBroken


class Inbound:
    """What one attempt receives: its channels from other workers, and a credit line per sender."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.channels: dict[ChannelId, InputChannel] = {}
        self.schemas: dict[ChannelId, pa.Schema] = {}
        self._lines: dict[Ordinal, CreditLine] = {}
        self._dropped: list[CreditLine] = []
        self._lock = Lock()

    def line(self, sender: Ordinal) -> CreditLine:
        """Return the line to a worker; the first of its streams to arrive makes it."""
        with self._lock:
            return self._lines.setdefault(sender, CreditLine())

    def drop_line(self, sender: Ordinal) -> None:
        """Forget the line to a worker that leaves; it ends when that worker closes the link."""
        with self._lock:
            line = self._lines.pop(sender, None)
            if line is not None:
                self._dropped.append(line)

    def stop(self) -> None:
        """End the handlers of links. The handlers of channels end when their callers do."""
        with self._lock:
            for line in [*self._lines.values(), *self._dropped]:
                line.stop()


class Receiver:
    """Everything that a handler does; :class:`FlightServer` only calls it."""

    def __init__(self, job_uid: JobUid, ordinal: Ordinal, on_event: OnEvent) -> None:
        self._admission = Admission(job_uid, ordinal)
        self._on_event = on_event
        self._changed = Condition()
        self._inbound = Inbound(Attempt(0))
        self._held = 0
        self._closing = False
        self._handlers: dict[int, Attempt] = {}

    # --- From the exchange --------------------------------------------------------------------

    def reset(self, attempt: Attempt) -> None:
        """End the previous attempt: detach its handlers, and hold streams of ``attempt``."""
        with self._changed:
            self._admission.reset(attempt)
            self._inbound.stop()
            self._inbound = Inbound(attempt)
            self._changed.notify_all()

    def admit(
        self,
        members: Mapping[Ordinal, Incarnation],
        channels: Mapping[ChannelId, InputChannel],
        schemas: Mapping[ChannelId, pa.Schema],
    ) -> None:
        """Admit the streams of these channels, in the attempt of the last reset."""
        fingerprints = {channel: fingerprint(schemas[channel]) for channel in channels}
        with self._changed:
            self._inbound.channels.update(channels)
            self._inbound.schemas.update(schemas)
            if self._admission.is_open:
                self._admission.extend(members, fingerprints)
            else:
                self._admission.open(members, fingerprints)
            self._changed.notify_all()

    def forget(self, members: Collection[Ordinal], channels: Collection[ChannelId]) -> None:
        """Forget members and channels that a rescale has ended; their streams end by themselves."""
        with self._changed:
            self._admission.forget(members, channels)
            for channel in channels:
                self._inbound.channels.pop(channel, None)
            for member in members:
                self._inbound.drop_line(member)

    def close(self) -> None:
        """Refuse the held streams, and end the handlers that can be ended."""
        with self._changed:
            self._closing = True
            self._inbound.stop()
            self._changed.notify_all()

    def count(self) -> tuple[int, int]:
        """Return (working handlers, orphans: handlers of attempts that are over)."""
        with self._changed:
            orphans = sum(a < self._admission.attempt for a in self._handlers.values())
            return len(self._handlers) - orphans, orphans

    # --- On the threads of the server ---------------------------------------------------------

    def handle(self, context: Any, command: bytes, reader: Any, writer: Any) -> None:
        """Serve one stream to its end. Raises FlightError to refuse it."""
        try:
            hello = decode_hello(command)
        except PeerError as error:
            raise fl.FlightUnauthorizedError(f"refused: {error}") from error
        decision, inbound = self._decide(hello, context)
        if isinstance(hello, ChannelHello):
            self._answer(hello, decision, inbound)
        if decision.verdict is not AdmissionVerdict.ACCEPTED:
            if not isinstance(hello, ChannelHello):
                _refuse_link(decision, writer)
            raise fl.FlightUnauthorizedError(f"refused: {decision.reason}")
        me = id(reader)
        with self._changed:
            self._handlers[me] = inbound.attempt
        try:
            self._serve(hello, inbound, (context, reader, writer))
        finally:
            with self._changed:
                del self._handlers[me]

    def _decide(self, hello: Hello, context: Any) -> tuple[AdmissionDecision, Inbound]:
        """Wait while the stream is held; return the decision and the attempt's inbound state."""
        with self._changed:
            while not self._closing:
                decision = self._admission.admit(hello)
                if decision.verdict is not AdmissionVerdict.HELD:
                    return decision, self._inbound
                if self._held >= HELD_STREAMS_MAX:
                    break
                self._held += 1
                self._changed.wait(STREAM_CHECK_INTERVAL_S)
                self._held -= 1
                if context.is_cancelled():
                    return AdmissionDecision(AdmissionVerdict.REFUSED, "the caller is gone"), self._inbound
            reason = "this worker is closing" if self._closing else "too many streams are held"
            return AdmissionDecision(AdmissionVerdict.REFUSED, reason), self._inbound

    def _answer(self, hello: ChannelHello, decision: AdmissionDecision, inbound: Inbound) -> None:
        line = inbound.line(hello.sender)
        if inbound.attempt == hello.attempt:  # otherwise the line leads to another incarnation
            line.reply(HandshakeReply(decision.verdict, hello.channel, decision.reason))
        if decision.verdict is AdmissionVerdict.ACCEPTED:
            inbound.channels[hello.channel].begin(line)

    def _serve(self, hello: Hello, inbound: Inbound, stream: tuple[Any, Any, Any]) -> None:
        context, reader, writer = stream
        if not isinstance(hello, ChannelHello):
            line = inbound.line(hello.sender)
            line.reply(HandshakeReply(AdmissionVerdict.ACCEPTED))
            line.run(writer.write_metadata, context.is_cancelled)
            return
        channel = inbound.channels[hello.channel]
        try:
            receive(reader, channel, inbound.schemas[hello.channel])
        except (PeerError, *STREAM_ERRORS) as error:
            self._report_broken(hello, channel, str(error) if isinstance(error, PeerError) else describe(error))
        except StopIteration:
            self._report_broken(hello, channel, "the sender closed the stream before its end")

    def _report_broken(self, hello: ChannelHello, channel: InputChannel, reason: str) -> None:
        if channel.live:  # and not ended: receive() reads nothing behind the end of a stream
            self._on_event(StreamBroken(hello.attempt, hello.sender, hello.channel, reason))


def receive(reader: Any, channel: InputChannel, schema: pa.Schema) -> None:
    """Queue every element of a stream until its end, or until the channel is detached.

    Raises PeerError when the peer breaks a rule, StopIteration or FlightError when the stream ends
    too early.
    """
    checked = False
    while not channel.state.ended:
        chunk = reader.read_chunk()
        if not channel.live or chunk.app_metadata is None:
            if channel.live:
                raise PeerError(f"channel {channel.channel}: a message without metadata")
            return
        metadata, packed = split_message(chunk.app_metadata)
        sequence, head = decode(metadata)
        batch = chunk.data
        if batch is not None and not checked:
            checked = True
            _check_schema(reader.schema, schema, channel.channel)
        if packed is not None:
            batch = _unpacked(head, batch, packed, schema, channel.channel)
        if not channel.push(sequence, _element(head, batch, channel.channel)):
            return


def _unpacked(
    head: DataHead | Control,
    batch: pa.RecordBatch | None,
    packed: pa.Buffer,
    schema: pa.Schema,
    channel: ChannelId,
) -> pa.RecordBatch:
    if not (isinstance(head, DataHead) and head.packed) or batch is not None:
        raise PeerError(f"channel {channel}: {packed.size} bytes behind metadata of another kind")
    return unpack(packed, head, schema)


def _element(
    head: DataHead | Control, batch: pa.RecordBatch | None, channel: ChannelId
) -> Data[pa.RecordBatch] | Control:
    if not isinstance(head, DataHead):
        if batch is not None:
            raise PeerError(f"channel {channel}: a control element with a body")
        return head
    if batch is None or batch.num_rows != head.rows:
        raise PeerError(f"channel {channel}: {head.rows} rows are announced, others came")
    if batch.get_total_buffer_size() > CHARGES_MAX * head.charge:
        raise PeerError(
            f"channel {channel}: a batch of {batch.get_total_buffer_size()} bytes is charged as {head.charge}"
        )
    try:
        validate(batch)
    except PeerError as error:
        raise PeerError(f"channel {channel}: {error}") from error
    return Data(batch, head.rows, head.charge, head.min_ts, head.max_ts)


def _check_schema(got: pa.Schema, expected: pa.Schema, channel: ChannelId) -> None:
    if not got.equals(expected, check_metadata=False):
        raise PeerError(f"channel {channel}: batches are [{spelt(got)}], announced was [{expected}]")


def _refuse_link(decision: AdmissionDecision, writer: Any) -> None:
    """Send the reason on the link itself: that is what the caller reads."""
    try:
        writer.write_metadata(encode_reply(HandshakeReply(AdmissionVerdict.REFUSED, None, decision.reason)))
    except STREAM_ERRORS:
        return  # the caller is gone


Handle = Callable[[Any, bytes, Any, Any], None]


class FlightServer(fl.FlightServerBase):  # type: ignore[misc]
    """Listens as soon as it is made. It serves DoExchange only."""

    def __init__(self, endpoint: FlightEndpoint, handle: Handle) -> None:
        try:
            super().__init__(endpoint.listens(), **endpoint.server_options())
        except pa.ArrowException as error:
            raise ConfigError(_listen_problem(endpoint.host, endpoint.port)) from error
        self._handle = handle
        self._trust = endpoint.trust_now()

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Check the token of one stream and pass the stream to the handler."""
        hello = descriptor.command or b""
        check_call(self._trust, context, hello)
        self._handle(context, hello, reader, writer)


class Listener(RenewableServer):
    """The server that peers dial. Raises ConfigError when the address cannot be listened on."""

    def __init__(self, endpoint: FlightEndpoint, handle: Handle) -> None:
        def make(port: int) -> FlightServer:
            return FlightServer(replace(endpoint, port=port), handle)

        super().__init__(make, endpoint.port)
        self.location = endpoint.location(self.port)


def _listen_problem(host: str, port: int) -> str:
    """Return a text for people: why the server could not listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, port))
        except OSError as error:
            return (
                f"cannot listen on {host}:{port}: {error.strerror}. Choose another port, or end the process that has it"
            )
    return f"cannot listen on {host}:{port}"
