"""Flight streams between two workers: who may open them, channels one way, credit the other way.

With trust, a caller passes three checks: TLS, where both sides have a certificate of the job's own
authority; a token in the headers, checked before a byte of the call is read; and the token's
signature over the handshake. Workers on one machine use the last two. The token is checked first
because Flight itself reads a first message of any size.

A stream carries one channel (:class:`OutStream`). Its reverse direction is unused. The link between
two workers is one more stream, with the replies and credits of all their channels.

The sender of the channels dials, and the receiver answers on the same stream. So the client is the
end that only reads, and a client can cancel its read.

    PeerLink (sender's worker, one thread)  <--replies, credits--  CreditLine (receiver's handler)
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from penstock.base.addresses import join_address
from penstock.base.errors import PeerError
from penstock.base.limits import (
    CREDIT_DELAY_S,
    CREDITS_PER_MESSAGE_MAX,
    STREAM_CHECK_INTERVAL_S,
    STREAM_PING_S,
    STREAM_UNACKNOWLEDGED_S,
)
from penstock.base.threads import Empty, Lock, SimpleQueue, Thread, monotonic, perf_counter
from penstock.base.values import replace
from penstock.contract.ids import ChannelId
from penstock.contract.settings import CompressionSettings
from penstock.contract.trust import TOKEN_HEADER, RunSecret, Shown, TrustSource, scheme
from penstock.model.elements import Credit
from penstock.model.wire import (
    REPLY,
    AdmissionVerdict,
    DataHead,
    HandshakeReply,
    Hello,
    LinkHello,
    decode_credits,
    decode_reply,
    encode_credits,
    encode_data,
    encode_hello,
    encode_reply,
)
from penstock.transport.batches import Packing, can_pack, conform, pack
from penstock.transport.input import InputChannel
from penstock.transport.output import RemoteOutput
from penstock.transport.transport_events import OnEvent, StreamBroken, StreamRefused

TOKEN_MIDDLEWARE = "token"
# A connection of its own for every attempt: one that hangs cannot hold up the next.
# gRPC limits how long sent bytes may stay unconfirmed only where pings are on, or at a server. Without this limit a
# peer that cannot be reached is noticed when the system gives up, after a quarter of an hour.
CLIENT_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", int(STREAM_PING_S * 1000)),
    ("grpc.keepalive_timeout_ms", int(STREAM_UNACKNOWLEDGED_S * 1000)),
]

_REPLY = bytes((REPLY,))
STREAM_ERRORS = (fl.FlightError, pa.ArrowException, OSError)
_NOISE = (" gRPC client debug context:", " Detail: ", " Client context:")


@dataclass(frozen=True, slots=True)
class FlightEndpoint:
    """Where to listen. ``advertised`` is the address that peers dial (None: ``host``).

    Port 0 means any free port. ``trust`` is the trust of a job, or the secret of a run, which is
    for the loopback address only. None: every caller that can connect is accepted.
    """

    host: str = "127.0.0.1"
    port: int = 0
    advertised: str | None = None
    trust: TrustSource | RunSecret | None = None

    def listens(self) -> str:
        """Return the location that the server listens on."""
        return f"{scheme(self.trust_now())}://{join_address(self.host, self.port)}"

    def location(self, port: int) -> str:
        """Return the location that peers dial; ``port`` is the port that the server got."""
        address = join_address(self.advertised or self.host, port)
        return f"{scheme(self.trust_now())}://{address}"

    def server_options(self) -> dict[str, Any]:
        """Return the options of a server that is made now: its certificates and the token check."""
        trust = self.trust_now()
        if trust is None:
            return {}
        tokens = {"middleware": {TOKEN_MIDDLEWARE: _TokenFactory(trust)}}
        return trust.server_options() | tokens

    def trust_now(self) -> Shown | None:
        """Return the newest credentials: what to present, and what to accept."""
        return None if self.trust is None else self.trust.now


LOOPBACK = FlightEndpoint()


def dial(address: str, trust: Shown | None) -> Any:
    """Return a client for a peer's location. It connects at its first call."""
    shown = {} if trust is None else trust.client_options()
    return fl.FlightClient(address, generic_options=CLIENT_OPTIONS, **shown)


def call_options(trust: Shown | None, hello: bytes) -> Any:
    """Return the options of a call whose handshake is ``hello``: its signature, if there is trust."""
    if trust is None:
        return fl.FlightCallOptions()
    return fl.FlightCallOptions(headers=[(TOKEN_HEADER.encode(), trust.token(hello).encode())])


def check_call(trust: Shown | None, context: Any, hello: bytes) -> None:
    """Refuse a call whose token does not sign its handshake. Raises FlightUnauthenticatedError."""
    if trust is None:
        return
    token: str = context.get_middleware(TOKEN_MIDDLEWARE).token
    if not trust.verifies(token, hello):
        raise fl.FlightUnauthenticatedError(
            "refused: the token does not sign this handshake: another job's, or an altered one"
        )


class _Token(fl.ServerMiddleware):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self.token = token


class _TokenFactory(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses a call without a token before any of it is read."""

    def __init__(self, trust: Shown) -> None:
        super().__init__()
        self._trust = trust

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> _Token:
        """Keep the token for the handler, which checks it against the handshake."""
        given = headers.get(TOKEN_HEADER, [])
        if len(given) != 1 or not self._trust.admits(str(given[0])):
            raise fl.FlightUnauthenticatedError("refused: a call without a worker's token")
        return _Token(str(given[0]))


def describe(error: BaseException) -> str:
    """Return the text of a stream's error in one line, without the contexts that gRPC appends."""
    text = " ".join(str(error).split())
    for noise in _NOISE:
        text = text.split(noise, 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class OutStream:
    """One DoExchange call. Only the sender thread calls it, except :meth:`cancel`.

    Nothing is written before the receiver has accepted it, which the link says.
    """

    def __init__(
        self,
        client: Any,
        hello: Hello,
        schema: pa.Schema,
        compression: CompressionSettings,
        *,
        trust: Shown | None = None,
    ) -> None:
        self._client = client
        self._hello = hello
        self._schema = schema
        self._packing = Packing(compression) if can_pack(compression, schema) else None
        self._trust = trust
        self._writer: Any = None
        self._reader: Any = None
        self._watcher: Thread | None = None
        self._begun = False
        self._cancelled = False

    def open(self) -> None:
        """Begin the call with the handshake. Raises FlightError when the peer cannot be reached."""
        hello = encode_hello(self._hello)
        descriptor = fl.FlightDescriptor.for_command(hello)
        options = call_options(self._trust, hello)
        self._writer, self._reader = self._client.do_exchange(descriptor, options)
        if self._cancelled:
            self._reader.cancel()

    def send_batch(self, sequence: int, head: DataHead, batch: pa.RecordBatch, *, waited_s: float = 0.0) -> None:
        """Write a batch, packed where that is faster. May block.

        ``waited_s`` is how long the batch has waited for credit.
        """
        rows = conform(batch, self._schema)
        packs = self._packing is not None and self._packing.packs(rows, head.charge)
        start = perf_counter()
        if not (packs and self._write_packed(sequence, head, rows)):
            self._write_plain(rows, encode_data(sequence, head))
        if self._packing is not None:
            self._packing.sent(perf_counter() - start + waited_s)

    def _write_packed(self, sequence: int, head: DataHead, rows: pa.RecordBatch) -> bool:
        """Write a batch packed; return False and write nothing when packing makes it larger."""
        metadata = encode_data(sequence, replace(head, packed=True))
        message = pack(rows, self._schema, metadata)
        if message.size > head.charge:
            return False
        self._writer.write_metadata(message)
        return True

    def _write_plain(self, rows: pa.RecordBatch, metadata: bytes) -> None:
        if not self._begun:
            self._begun = True
            self._writer.begin(self._schema)
        self._writer.write_with_metadata(rows, metadata)

    def send_control(self, metadata: bytes) -> None:
        """Write an element without a body. May block."""
        self._writer.write_metadata(metadata)

    def watch(self, on_end: Callable[[Exception], None]) -> None:
        """Call ``on_end`` when the call has ended, however it ended, from a thread that waits for that."""
        self._watcher = Thread(target=self._wait_for_end, args=(on_end,), name="watch-stream", daemon=True)
        self._watcher.start()

    def _wait_for_end(self, on_end: Callable[[Exception], None]) -> None:
        try:
            self._reader.read_chunk()  # the receiver writes nothing here
        except StopIteration:
            on_end(PeerError("the receiver has ended the call"))
        except STREAM_ERRORS as error:
            on_end(error)
        else:
            on_end(PeerError("the receiver wrote to a stream from which it only reads"))

    def cancel(self) -> None:
        """End a blocked write, from any thread. Later writes fail."""
        self._cancelled = True
        if self._reader is not None:
            self._reader.cancel()

    def close(self) -> None:
        """End the call and, unless it was cancelled, wait for the peer's handler.

        Raises FlightError.
        """
        try:
            if self._watcher is not None:
                if not self._cancelled:
                    self._writer.done_writing()
                self._watcher.join()  # a call cannot be closed while it is read
            self._writer.close()
        except STREAM_ERRORS:
            if not self._cancelled:  # a cancelled call raises its error again when it is closed
                raise


MakeStream = Callable[[Any, ChannelId], OutStream]


class PeerLink:
    """The link to one peer: dials it, opens the streams of the outputs, receives their credit."""

    def __init__(
        self,
        hello: LinkHello,
        address: str,
        make_stream: MakeStream,
        on_event: OnEvent,
        endpoint: FlightEndpoint = LOOPBACK,
    ) -> None:
        self._hello = hello
        self._address = address
        self._make_stream = make_stream
        self._on_event = on_event
        self._endpoint = endpoint
        self._lock = Lock()
        self._outputs: dict[ChannelId, RemoteOutput] = {}
        self._client: Any = None
        self._shown: Shown | None = None
        self._reader: Any = None
        self._up = False
        self._closed = False
        self._thread = Thread(target=self._run, name=f"link-{hello.receiver}", daemon=True)

    def start(self) -> None:
        """Begin to dial."""
        self._thread.start()

    def add(self, outputs: Iterable[RemoteOutput]) -> None:
        """Open the streams of these channels, now or as soon as the link is up."""
        with self._lock:
            new = list(outputs)
            self._outputs.update((output.channel, output) for output in new)
            if self._up:
                self._connect(new)

    def close(self) -> None:
        """End the link, from any thread. Later failures are not reported."""
        with self._lock:
            self._closed = True
            reader = self._reader
        if reader is not None:
            reader.cancel()

    def _run(self) -> None:
        try:
            self._listen()
        except StopIteration:
            self._report_broken("the peer has closed the link")
        except PeerError as error:
            self._report_broken(str(error))
        except STREAM_ERRORS as error:
            self._report_broken(describe(error))

    def _listen(self) -> None:
        trust = self._endpoint.trust_now()
        client = dial(self._address, trust)
        hello = encode_hello(self._hello)
        descriptor = fl.FlightDescriptor.for_command(hello)
        writer, reader = client.do_exchange(descriptor, call_options(trust, hello))
        try:
            with self._lock:
                self._client, self._shown, self._reader = client, trust, reader
                if self._closed:
                    return
            while True:
                self._on_message(reader.read_chunk().app_metadata)
        finally:
            reader.cancel()
            self._close_writer(writer)

    def _close_writer(self, writer: Any) -> None:
        try:
            writer.close()
        except STREAM_ERRORS:
            return  # a cancelled call repeats its error when it is closed

    def _on_message(self, metadata: Any) -> None:
        if metadata is None:
            raise PeerError("a message without metadata on the link")
        message = metadata.to_pybytes()
        if message[:1] == _REPLY:
            self._on_reply(decode_reply(message))
            return
        for credit in decode_credits(message):
            self._output(credit.channel).on_credit(credit)

    def _on_reply(self, reply: HandshakeReply) -> None:
        if reply.verdict is AdmissionVerdict.REFUSED:
            self.close()
            peer, attempt = self._hello.receiver, self._hello.attempt
            self._on_event(StreamRefused(attempt, peer, reply.channel, reply.reason))
        elif reply.channel is not None:
            self._output(reply.channel).accept()
        else:
            with self._lock:
                self._up = True
                self._connect(self._outputs.values())

    def _output(self, channel: ChannelId) -> RemoteOutput:
        output = self._outputs.get(channel)
        if output is None:
            raise PeerError(f"the peer speaks of channel {channel}, which does not lead to it")
        return output

    def _connect(self, outputs: Iterable[RemoteOutput]) -> None:
        trust = self._endpoint.trust_now()
        if trust is not self._shown:  # a client keeps the certificates it was made with
            self._client, self._shown = dial(self._address, trust), trust
        for output in outputs:
            output.connect(self._make_stream(self._client, output.channel))

    def _report_broken(self, reason: str) -> None:
        with self._lock:
            over = self._closed or (bool(self._outputs) and all(o.ended for o in self._outputs.values()))
            self._closed = True
        if not over:
            hello = self._hello
            self._on_event(StreamBroken(hello.attempt, hello.receiver, None, reason))


class CreditLine:
    """The receiver's end of a link: collects the credit that channels owe, and writes it."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[HandshakeReply | tuple[InputChannel, bool] | None] = SimpleQueue()

    def owe(self, channel: InputChannel, urgent: bool) -> None:
        """Send the credit of a channel; unless urgent, wait CREDIT_DELAY_S to send more at once."""
        self._calls.put((channel, urgent))

    def reply(self, reply: HandshakeReply) -> None:
        """Send the answer to a handshake."""
        self._calls.put(reply)

    def stop(self) -> None:
        """End :meth:`run`."""
        self._calls.put(None)

    def run(self, write: Callable[[bytes], None], is_cancelled: Callable[[], bool]) -> None:
        """Write until stopped or until the caller is gone. Raises FlightError when a write fails."""
        owing: dict[ChannelId, InputChannel] = {}
        due: float | None = None
        while True:
            wait = STREAM_CHECK_INTERVAL_S if due is None else max(due - monotonic(), 0.0)
            try:
                call = self._calls.get(timeout=wait)
            except Empty:
                if owing:
                    _write_credits(write, owing)
                    due = None
                elif is_cancelled():
                    return
                continue
            if call is None:
                return
            if isinstance(call, HandshakeReply):
                write(encode_reply(call))
                continue
            channel, urgent = call
            owing[channel.channel] = channel
            if urgent:
                due = 0.0  # the rest of the queue is read first and goes along
            elif due is None:
                due = monotonic() + CREDIT_DELAY_S


def _write_credits(write: Callable[[bytes], None], owing: dict[ChannelId, InputChannel]) -> None:
    credits_now: list[Credit] = [channel.credit() for channel in owing.values()]
    owing.clear()
    for start in range(0, len(credits_now), CREDITS_PER_MESSAGE_MAX):
        write(encode_credits(credits_now[start : start + CREDITS_PER_MESSAGE_MAX]))
