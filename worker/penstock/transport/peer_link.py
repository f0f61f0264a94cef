"""The link between two workers: a stream with the replies and credits of all their channels.

The sender of the channels dials, and the receiver answers on the same stream. So the client is the
end that only reads, and a client can cancel its read.

    PeerLink (sender's worker, one thread)  <--replies, credits--  CreditLine (receiver's handler)
"""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow.flight as fl

from penstock.base.errors import PeerError
from penstock.base.limits import (
    CREDIT_DELAY_S,
    CREDITS_PER_MESSAGE_MAX,
    STREAM_CHECK_INTERVAL_S,
)
from penstock.base.threads import Empty, Lock, SimpleQueue, Thread, monotonic
from penstock.contract.ids import ChannelId
from penstock.contract.trust import Shown
from penstock.model.elements import Credit
from penstock.model.wire import (
    REPLY,
    AdmissionVerdict,
    HandshakeReply,
    LinkHello,
    decode_credits,
    decode_reply,
    encode_credits,
    encode_hello,
    encode_reply,
)
from penstock.transport.input import InputChannel
from penstock.transport.output import RemoteOutput
from penstock.transport.stream import LOOPBACK, STREAM_ERRORS, FlightEndpoint, OutStream, call_options, describe, dial
from penstock.transport.transport_events import OnEvent, StreamBroken, StreamRefused

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
        if message[0] == REPLY:
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
