"""The sender's end of a channel as a task sees it; on one worker, and over a stream.

task thread --try_send, put--> SendChannel --pump--> LocalOutput: the receiver's queue
                                                     RemoteOutput: a sender thread, a stream
"""

from collections.abc import Callable
from threading import Lock
from time import monotonic

import pyarrow as pa

from penstock.base.limits import SENDS_PER_TURN_MAX
from penstock.contract.ids import ChannelId, Version
from penstock.model.elements import Control, Credit, Data, EndOfStream, LatencyMarker
from penstock.model.wire import DataHead, encode_control
from penstock.protocol.channel.flow_control import Fill, Outgoing, SendChannel
from penstock.transport.batches import bounds, compact, join, pieces
from penstock.transport.input import InputChannel
from penstock.transport.stats import OutputStats
from penstock.transport.stream import OutStream
from penstock.transport.wakeup import Wakeup

Batch = Data[pa.RecordBatch]


class Output:
    """One output channel of a task. No call blocks; ``wakeup`` is set when there is news.

    News: room after a refusal, or another ``receiver_version``.
    """

    def __init__(
        self, channel: ChannelId, state: SendChannel[pa.RecordBatch], wakeup: Wakeup
    ) -> None:
        self.channel = channel
        self._state = state
        self.wakeup = wakeup
        self._lock = Lock()
        self._refused = False
        self._refused_at = 0.0
        self._closed = False
        self._stats = OutputStats(channel)

    def try_send(self, element: Batch | LatencyMarker, *, more: bool = False) -> bool:
        """Queue rows or a latency marker; False, and nothing changed, when the channel is full.

        With ``more`` the caller is busy and calls :meth:`hand_on` or :meth:`flush` before it waits:
        no other thread is woken before that, only to wait for the interpreter. A batch of more
        than half a window is cut in pieces. Raises ConfigError when one row is larger than an
        element may be.
        """
        now = monotonic()
        with self._lock:
            if isinstance(element, LatencyMarker):
                taken = self._state.offer_marker(element)
            else:
                taken = self._offer(element, now)
            self._count_wait(taken, now)
            if taken:
                self._ready(now, more)
        return taken

    def hand_on(self) -> None:
        """Wake whoever goes on with what was queued with ``more``."""
        with self._lock:
            self._ready(monotonic())

    def put(self, control: Control) -> None:
        """Queue a control element behind everything before it. Never refused."""
        with self._lock:
            self._state.put(control)
            self._ready(monotonic())

    def flush(self) -> None:
        """Let the rows that wait for more rows leave now."""
        with self._lock:
            self._state.flush()
            self._ready(monotonic())

    @property
    def full(self) -> bool:
        """True when rows would be refused now."""
        return self._state.full

    @property
    def window(self) -> int:
        """Bytes that may wait at the receiver at its present pace."""
        return self._state.window

    @property
    def receiver_version(self) -> Version:
        """The newest assignment the receiver said it has loaded."""
        return self._state.receiver_version

    @property
    def ended(self) -> bool:
        """True when the end of stream was put: a close after it is no break."""
        return self._state.ended

    def on_credit(self, credit: Credit) -> None:
        """Hear of credit or a new version. Raises PeerError when it cannot be true."""
        with self._lock:
            if self._closed:
                return
            self._hear(credit)
            self._on_room()

    def _hear(self, credit: Credit) -> None:
        """Count a grant; wake the task for a new version, or for room. The lock is held."""
        before = self._state.receiver_version
        self._state.on_credit(credit)
        if self._state.receiver_version != before or (self._refused and self._state.roomy):
            self.wakeup.set()

    def close(self) -> None:
        """Drop everything and send nothing any more: the attempt is over."""
        raise NotImplementedError

    def stats(self) -> OutputStats:
        """Return counters as they stand; the object belongs to the caller."""
        with self._lock:
            self._stats.waiting_bytes = self._state.waiting_bytes
            self._stats.credit_bytes = self._state.credit
            return self._stats.copy()

    def _ready(self, now: float, more: bool = False) -> None:
        """React to something new in the queue; the lock is held."""
        raise NotImplementedError

    def _on_room(self) -> None:
        """React to new credit; the lock is held."""
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

    def _left(self, outgoing: Outgoing[pa.RecordBatch]) -> None:
        """Count what has left, and wake the task if it waits for the room; the lock is held."""
        element = outgoing.element
        if isinstance(element, Fill):
            self._stats.count(sum(part.rows for part in element.parts), element.charge)
        else:
            self._stats.count(0, 0)
        if self._refused and self._state.roomy:
            self.wakeup.set()


class LocalOutput(Output):
    """A channel inside one worker: batches pass by reference, under the same credit rules.

    Nothing is buffered while there is credit. The thread that makes progress possible, sender
    or receiver, moves the elements. Credit is fetched where it has run out, and brought only
    while it is waited for (``starved``) or when there is much of it.
    """

    def __init__(
        self, state: SendChannel[pa.RecordBatch], wakeup: Wakeup, receiver: InputChannel
    ) -> None:
        super().__init__(receiver.channel, state, wakeup)
        self._receiver = receiver
        self._untold = False  # elements were pushed and the receiver not woken
        self.starved = False
        state.accept()

    def close(self) -> None:
        """Drop everything and move nothing any more: the attempt is over."""
        with self._lock:
            self._closed = True

    def hand_on(self) -> None:
        """Wake the receiver if it has not been.

        Needs no lock: besides the sender only the receiver's own thread pushes, and it looks
        again before it sleeps.
        """
        if self._untold:
            self._untold = False
            self._receiver.wake()

    def flush(self) -> None:
        """Wake the receiver if it has not been: no rows wait for more rows here."""
        self.hand_on()

    def _offer(self, data: Batch, now: float) -> bool:
        if not self._closed and data.charge <= self._state.piece_bytes:
            data = compact(data)
            sequence = self._state.passes(data)
            if sequence is not None:
                self._stats.count(data.rows, data.charge)
                self._untold = True
                self._receiver.push(sequence, data, wake=False)
                return True
        return super()._offer(data, now)

    def _ready(self, now: float, more: bool = False) -> None:
        if self._state.closed and not self._closed:
            self._move(now)
        if not more:
            self.hand_on()

    def _move(self, now: float) -> None:
        """Move what there is credit for; before it is called starved, ask for more."""
        self._move_on(now)
        if self._state.closed:
            self.starved = True  # first: what is taken from now on is brought
            self._hear(self._receiver.credit())
            self._move_on(now)
        self.starved = self._state.closed

    def _move_on(self, now: float) -> None:
        while (outgoing := self._state.take(now)) is not None:
            self._left(outgoing)
            self._untold = True
            element = outgoing.element
            if isinstance(element, Fill):
                for part in element.parts:  # one: a local channel opens no fill
                    self._receiver.push(outgoing.sequence, part, wake=False)
            else:
                self._receiver.push(outgoing.sequence, element, wake=False)

    def _on_room(self) -> None:
        self._ready(monotonic())


class RemoteOutput(Output):
    """A channel to another worker. One sender thread pumps it; only that thread writes."""

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
        self._waited_s = 0.0  # for credit, by what leaves next
        self.timer = 0.0  # the deadline that the sender thread has in its book

    # --- From other threads -------------------------------------------------------------------

    def connect(self, stream: OutStream) -> None:
        """Take the stream, for the sender thread to open: the link to the peer is up."""
        with self._lock:
            if not self._closed:
                self._stream = stream
                self._call_sender()

    def accept(self) -> None:
        """Hear that the receiver accepted the stream."""
        with self._lock:
            self._state.accept()
            self._on_room()
            self._waited_s = 0.0  # that was for the peer, not for credit

    def close(self) -> None:
        """Drop everything and cancel a write that blocks; the sender thread closes the stream."""
        with self._lock:
            self._closed = True
            stream = self._stream
            self._call_sender()
        if stream is not None:
            stream.cancel()

    def _ready(self, now: float, more: bool = False) -> None:
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
        """Send what may leave, up to a turn's share; return when to come back, if it is known.

        Blocks while the peer's socket is full. Raises FlightError when the stream is broken.
        """
        with self._lock:
            # Before anything is looked at: a call from now on is another turn, never lost.
            self._scheduled = False
            stream = None if self._closed or self._opened else self._stream
        if stream is not None:
            self._opened = True
            stream.open()
        for _ in range(SENDS_PER_TURN_MAX):
            with self._lock:
                outgoing = None if self._closed else self._state.take(monotonic())
                if outgoing is None:
                    due = self._rest()
                    break
                self._left(outgoing)
            self._write(outgoing)
        else:
            due = None
            with self._lock:
                self._call_sender()
        if self._closed:
            self._close_stream()
        return due

    def _rest(self) -> float | None:
        """Note why nothing leaves: no credit, or rows that wait for more rows."""
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
