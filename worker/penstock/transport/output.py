"""The sender's end of a channel: what a task sees of it, on one worker and over a stream.

    task thread --try_send, put--> SendChannel --pump--> LocalOutput: the receiver's queue
                                                         RemoteOutput: a sender thread, a stream

On one worker a batch passes by reference, under the same credit rules as over a stream. A few sender
threads write all streams of a worker.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.base.limits import SENDS_PER_PUMP_MAX, STREAM_UNWATCHED_S
from penstock.base.threads import Empty, Lock, SimpleQueue, Thread, monotonic
from penstock.contract.ids import ChannelId, TaskId, Version
from penstock.contract.settings import ShuffleSettings
from penstock.model.elements import Control, Credit, Data, EndOfStream, LatencyMarker
from penstock.model.wire import DataHead, encode_control
from penstock.protocol.channel.flow_control import Fill, Outgoing, ReceiveChannel, SendChannel
from penstock.transport.batches import bounds, compact, join, pieces
from penstock.transport.input import InputChannel, TaskInput, Wakeup
from penstock.transport.stats import OutputStats

if TYPE_CHECKING:
    from penstock.transport.stream import OutStream

Batch = Data[pa.RecordBatch]


class Output:
    """One output channel of a task. No call blocks.

    ``wakeup`` is set when there is room again after a refusal, and when ``receiver_version`` changes.
    """

    def __init__(self, channel: ChannelId, state: SendChannel[pa.RecordBatch], wakeup: Wakeup) -> None:
        self.channel = channel
        self._state = state
        self.wakeup = wakeup
        self._lock = Lock()
        self._refused = False
        self._refused_at = 0.0
        self._closed = False
        self._stats = OutputStats(channel)

    def try_send(self, element: Batch | LatencyMarker, *, more: bool = False) -> bool:
        """Queue rows or a latency marker; return False and change nothing when the channel is full.

        With ``more`` the caller promises to call :meth:`wake_receiver` or :meth:`flush` before it
        waits. Until then no other thread is woken: it would only wait for the interpreter lock. A
        batch of more than half a window is cut into pieces. Raises RowNotSentError when one row is
        larger than an element may be.
        """
        now = monotonic()
        with self._lock:
            if isinstance(element, LatencyMarker):
                taken = self._state.offer_marker(element)
            else:
                taken = self._offer(element, now)
            self._count_wait(taken, now)
            if taken:
                self._on_queued(now, more)
        return taken

    def wake_receiver(self) -> None:
        """Wake the thread that sends or receives what was queued with ``more``."""
        with self._lock:
            self._on_queued(monotonic())

    def put(self, control: Control) -> None:
        """Queue a control element behind all elements queued before. Never refused."""
        with self._lock:
            self._state.put(control)
            self._on_queued(monotonic())

    def flush(self) -> None:
        """Send now the rows that wait in the buffer for more rows."""
        with self._lock:
            self._state.flush()
            self._on_queued(monotonic())

    @property
    def full(self) -> bool:
        """True when rows would be refused now."""
        return self._state.full

    def outstanding_rows(self) -> int:
        """Return how many rows were queued that the receiver's task has not taken, as far as is known here."""
        return self._state.outstanding_rows

    @property
    def window(self) -> int:
        """How many bytes may wait at the receiver at its present speed."""
        return self._state.window

    @property
    def receiver_version(self) -> Version:
        """The newest assignment version that the receiver has reported as loaded."""
        return self._state.receiver_version

    @property
    def ended(self) -> bool:
        """True once the end of stream is queued: a close after it is no failure."""
        return self._state.ended

    def on_credit(self, credit: Credit) -> None:
        """Take credit or a new version. Raises PeerError when it contradicts what was sent."""
        with self._lock:
            if self._closed:
                return
            self._apply_credit(credit)
            self._on_room()

    def _apply_credit(self, credit: Credit) -> None:
        """Add credit; wake the task for a new version or for room. The caller holds the lock."""
        before = self._state.receiver_version
        self._state.on_credit(credit)
        if self._state.receiver_version != before or (self._refused and self._state.roomy):
            self.wakeup.set()

    def close(self) -> None:
        """Drop everything and send nothing more: the attempt is over."""
        raise NotImplementedError

    def stats(self) -> OutputStats:
        """Return a copy of the present counters."""
        with self._lock:
            self._stats.waiting_bytes = self._state.waiting_bytes
            self._stats.credit_bytes = self._state.credit
            return self._stats.copy()

    def _on_queued(self, now: float, more: bool = False) -> None:
        """React to a new element in the queue. The caller holds the lock."""
        raise NotImplementedError

    def _on_room(self) -> None:
        """React to new credit. The caller holds the lock."""
        raise NotImplementedError

    def _offer(self, data: Batch, now: float) -> bool:
        if self._state.full:
            return False
        if data.charge <= self._state.piece_bytes:
            self._state.offer_rest(compact(data), now)
            return True
        for piece in pieces(data, self._state.piece_bytes):
            self._state.offer_rest(piece, now)
        return True

    def _count_wait(self, taken: bool, now: float) -> None:
        if not taken and not self._refused:
            self._refused, self._refused_at = True, now
            self._stats.refusals += 1
        elif taken and self._refused:
            self._refused = False
            self._stats.waited_s += now - self._refused_at

    def _count_sent(self, outgoing: Outgoing[pa.RecordBatch]) -> None:
        """Count a sent element; wake the task if it waits for room. The caller holds the lock."""
        element = outgoing.element
        if isinstance(element, Fill):
            self._stats.count(sum(part.rows for part in element.parts), element.charge)
        else:
            self._stats.count(0, 0)
        if self._refused and self._state.roomy:
            self.wakeup.set()


class LocalOutput(Output):
    """A channel inside one worker: batches pass by reference, under the same credit rules.

    Nothing is buffered while there is credit. Either thread, sender or receiver, moves the elements
    as soon as it makes that possible. The sender fetches credit when it has run out. The receiver
    passes credit only while the sender waits for it (``starved``), or when there is much of it.
    """

    def __init__(self, state: SendChannel[pa.RecordBatch], wakeup: Wakeup, receiver: InputChannel) -> None:
        super().__init__(receiver.channel, state, wakeup)
        self._receiver = receiver
        self._unwoken = False  # elements were pushed, and the receiver was not woken
        self.starved = False
        state.accept()

    def close(self) -> None:
        """Drop everything and pass on nothing more: the attempt is over."""
        with self._lock:
            self._closed = True

    def wake_receiver(self) -> None:
        """Wake the receiver, unless it was woken since the last push.

        Needs no lock: apart from the sender only the receiver's own thread pushes, and that thread
        checks its queue before it sleeps.
        """
        if self._unwoken:
            self._unwoken = False
            self._receiver.wake()

    def flush(self) -> None:
        """Wake the receiver. A local channel holds no rows back to collect more."""
        self.wake_receiver()

    def outstanding_rows(self) -> int:
        """Return how many rows were queued that the receiver's task has not taken."""
        with self._lock:
            if not self._closed:
                self._apply_credit(self._receiver.credit())
                self._on_room()
            return self._state.outstanding_rows

    def _offer(self, data: Batch, now: float) -> bool:
        if not self._closed and data.charge <= self._state.piece_bytes:
            data = compact(data)
            sequence = self._state.passes(data)
            if sequence is not None:
                self._stats.count(data.rows, data.charge)
                self._unwoken = True
                self._receiver.push(sequence, data, wake=False)
                return True
        return super()._offer(data, now)

    def _on_queued(self, now: float, more: bool = False) -> None:
        if self._state.closed and not self._closed:
            self._pass_on(now)
        if not more:
            self.wake_receiver()

    def _pass_on(self, now: float) -> None:
        """Pass on what there is credit for; before the channel counts as starved, fetch more."""
        self._pass_available(now)
        if self._state.closed:
            self.starved = True  # set first: the receiver passes on what it frees from now on
            self._apply_credit(self._receiver.credit())
            self._pass_available(now)
        self.starved = self._state.closed

    def _pass_available(self, now: float) -> None:
        while (outgoing := self._state.take(now)) is not None:
            self._count_sent(outgoing)
            self._unwoken = True
            element = outgoing.element
            if isinstance(element, Fill):
                for part in element.parts:  # exactly one: a local channel never collects rows
                    self._receiver.push(outgoing.sequence, part, wake=False)
            else:
                self._receiver.push(outgoing.sequence, element, wake=False)

    def _on_room(self) -> None:
        self._on_queued(monotonic())


class RemoteOutput(Output):
    """A channel to another worker. One sender thread writes it; no other thread does."""

    def __init__(
        self,
        channel: ChannelId,
        state: SendChannel[pa.RecordBatch],
        wakeup: Wakeup,
        schedule: Callable[["RemoteOutput"], None],
    ) -> None:
        super().__init__(channel, state, wakeup)
        self._schedule = schedule
        self._stream: OutStream | None = None
        self._opened = False
        self._scheduled = False
        self._armed = False
        self._starved = False
        self._starved_since: float | None = None
        self._waited_s = 0.0  # how long the next batch has waited for credit
        self._watch_at: float | None = None  # when to watch the call, if it is not accepted by then
        self._call_error: Exception | None = None
        self.timer = 0.0  # the deadline that the sender thread has noted for this channel

    # --- From other threads -------------------------------------------------------------------

    def connect(self, stream: "OutStream") -> None:
        """Take the stream, which the sender thread will open. The link to the peer is up."""
        with self._lock:
            if not self._closed:
                self._stream = stream
                self._call_sender()

    def accept(self) -> None:
        """Begin to send: the receiver has accepted the stream."""
        with self._lock:
            self._state.accept()
            self._on_room()
            self._waited_s = 0.0  # the wait until now was for the peer, not for credit

    def close(self) -> None:
        """Drop everything and cancel a blocked write. The sender thread closes the stream."""
        with self._lock:
            self._closed = True
            stream = self._stream
            self._call_sender()
        if stream is not None:
            stream.cancel()

    def _on_queued(self, now: float, more: bool = False) -> None:
        if self._closed or self._scheduled:
            return
        to_send = self._state.closed and not self._starved
        to_arm = not (more or self._armed) and self._state.wakes_at() is not None
        if to_send or to_arm:
            self._call_sender()

    def _on_room(self) -> None:
        self._starved = False
        if self._starved_since is not None:
            self._waited_s += monotonic() - self._starved_since
            self._starved_since = None
        if self._state.closed and not self._scheduled:
            self._call_sender()

    def _call_sender(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self)

    # --- On the sender thread -----------------------------------------------------------------

    def pump(self) -> float | None:
        """Send what may be sent, at most ``SENDS_PER_PUMP_MAX`` elements; return when to call again, if known.

        Blocks while the peer's socket is full. Raises FlightError when the stream is broken.
        """
        with self._lock:
            # Reset first: a call from now on schedules another call, so none is lost.
            self._scheduled = False
            stream = None if self._closed or self._opened else self._stream
            failed = None if self._closed else self._call_error
        if failed is not None:
            raise failed
        if stream is not None:
            self._opened = True
            stream.open()
            self._watch_at = monotonic() + STREAM_UNWATCHED_S
        for _ in range(SENDS_PER_PUMP_MAX):
            with self._lock:
                outgoing = None if self._closed else self._state.take(monotonic())
                if outgoing is None:
                    due = self._note_blocked()
                    break
                self._count_sent(outgoing)
            self._write(outgoing)
        else:
            due = None
            with self._lock:
                self._call_sender()
        if self._closed:
            self._close_stream()
            return None
        return self._watch(due)

    def _watch(self, due: float | None) -> float | None:
        """Watch a call that is not accepted for long; return ``due``, or when to look again if that is earlier.

        Nothing is written before the call is accepted. So nobody would notice that it has failed. Once it
        is accepted, the receiver notices.
        """
        if self._watch_at is None:
            return due
        if not self._state.accepted and monotonic() < self._watch_at:
            return self._watch_at if due is None else min(due, self._watch_at)
        self._watch_at = None
        if not self._state.accepted:
            assert self._stream is not None, "opened without a stream"
            self._stream.watch(self._on_call_ended)
        return due

    def _on_call_ended(self, error: Exception) -> None:
        """Let the sender thread report the error, unless the channel has ended. On the thread that watches."""
        with self._lock:
            if not self._closed:
                self._call_error = error
                self._call_sender()

    def _note_blocked(self) -> float | None:
        """Note why nothing can be sent: no credit, or rows that wait for more rows."""
        self._starved = self._state.closed
        if self._starved and self._starved_since is None:
            self._starved_since = monotonic()
        due = self._state.wakes_at()
        self._armed = due is not None
        return due

    def _write(self, outgoing: Outgoing[pa.RecordBatch]) -> None:
        stream, element = self._stream, outgoing.element
        assert stream is not None, "accepted without a stream"
        if isinstance(element, Fill):
            batch = join(element.parts)
            head = DataHead(batch.num_rows, element.charge, *bounds(element.parts))
            waited_s, self._waited_s = self._waited_s, 0.0
            stream.send_batch(outgoing.sequence, head, batch, waited_s=waited_s)
            return
        stream.send_control(encode_control(outgoing.sequence, element))
        if isinstance(element, EndOfStream):
            self._closed = True

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None and self._opened:
            stream.close()


OnBroken = Callable[[RemoteOutput, BaseException], None]


class SenderThread:
    """Pumps the outputs that ask for it, and the outputs whose deadline has passed."""

    def __init__(self, name: str, on_broken: OnBroken) -> None:
        self._calls: SimpleQueue[RemoteOutput | None] = SimpleQueue()
        self._due: list[tuple[float, int, RemoteOutput]] = []
        self._count = 0
        self._on_broken = on_broken
        self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def schedule(self, output: RemoteOutput) -> None:
        """Ask the thread to pump ``output`` soon. Never blocks."""
        self._calls.put(output)

    def stop(self) -> None:
        """End the thread after the work that is queued now. Never blocks."""
        self._calls.put(None)

    def join(self, timeout_s: float) -> bool:
        """Wait until a stopped thread has ended; False when it still writes after the timeout."""
        self._thread.join(timeout_s)
        return not self.alive

    @property
    def alive(self) -> bool:
        """True until the thread has ended."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while (output := self._next()) is not None:
            try:
                due = output.pump()
            except Exception as error:  # any error is reported and ends the attempt
                output.close()
                self._on_broken(output, error)
                continue
            if due is not None and due != output.timer:
                output.timer = due
                self._count += 1
                heapq.heappush(self._due, (due, self._count, output))

    def _next(self) -> RemoteOutput | None:
        """Return the next output to pump; None to stop."""
        while True:
            wait = None
            if self._due:
                wait = self._due[0][0] - monotonic()
                if wait <= 0:
                    return heapq.heappop(self._due)[2]
            try:
                return self._calls.get(timeout=wait)
            except Empty:
                continue


class LocalCreditCarrier:
    """Passes credit to a sender on the same worker. The sender also fetches it when it runs out."""

    def __init__(self, output: LocalOutput) -> None:
        self._output = output

    def owe(self, channel: InputChannel, urgent: bool) -> None:
        """Pass the credit now if it is urgent or waited for; otherwise the sender fetches it."""
        if urgent or self._output.starved:
            self._output.on_credit(channel.credit())


def receive_state(
    channel: ChannelId, settings: ShuffleSettings, version: Version, *, prompt: bool = False
) -> ReceiveChannel:
    """Make the receiver's end of a channel. A ``prompt`` one reports every element that its task takes."""
    sizes = settings.high_watermark_bytes, settings.low_watermark_bytes
    return ReceiveChannel(channel, *sizes, version, prompt=prompt)


def join_locally(
    channels: Sequence[ChannelId],
    ends: tuple[Mapping[TaskId, TaskInput], Mapping[TaskId, Wakeup]],
    settings: ShuffleSettings,
    version: Version,
) -> dict[ChannelId, LocalOutput]:
    """Open channels between tasks of this process and return the sender's end of each.

    ``ends`` are the inputs of the receivers and the wakeups of the senders, by task.
    """
    inputs, wakeups = ends
    receivers = [  # add all before the first gives credit: the channels of a task share its memory
        inputs[c.receiver].add(receive_state(c, settings, version), None) for c in channels
    ]
    outputs: dict[ChannelId, LocalOutput] = {}
    for channel, receiver in zip(channels, receivers, strict=True):
        state = SendChannel[pa.RecordBatch](settings.buffer_bytes, 0.0, version)
        output = outputs[channel] = LocalOutput(state, wakeups[channel.sender], receiver)
        receiver.begin(LocalCreditCarrier(output))
    return outputs
