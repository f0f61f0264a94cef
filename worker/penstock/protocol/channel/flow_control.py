"""The two ends of a channel without a socket: order, credit, and the element that may leave next.

    sender's task --offer, put--> SendChannel --take--> (stream) --> ReceiveChannel --> queue
                                      ^                                    |
                                      +------ Credit (cumulative) ---------+--on_take-- task

Data waits in *fills*: offered batches that travel as one element. A fill is closed when it is large
enough, at a deadline from its first batch, or by a control element that must not overtake it. A
batch that is large by itself travels alone. Watermarks and latency markers may be late but never
early. So they wait behind the open fill and do not close it.

Of a channel a receiver knows the last watermark and whether the channel is idle. A watermark ends
idleness. So watermarks and marks of idleness that wait side by side, without rows and without a
barrier between them, say no more than the last watermark and, if it is last, ``Idle``. Only these are
kept. The receiver does not see a channel idle that was idle while nothing could leave: its time is
never ahead of what it would have been, and is the same after the last element.

Credit: the receiver grants bytes, and the sender spends the charge of each data element. Both count
the same charge, because the charge travels with the element. Control elements are free.
``Credit.received`` counts the elements that the receiver's task has *taken*. Only by that number
does the sender know what is outstanding. A receiver of a prompt channel says it after every take.

The window follows the pace of the receiver's task (:mod:`pace`). Credit carries the window. The
sender keeps at most half a window in its buffer, and sends no larger element unless it is one row.
A receiver may take an element in slices. The slices spend exactly the charge of the element.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from math import inf
from typing import Generic

from penstock.base.errors import PeerError
from penstock.base.limits import (
    CHANNEL_ACTIVE_S,
    CONTROLS_WAITING_MAX,
    CREDIT_FIRST_CHANNEL_BYTES_MIN,
    ELEMENT_BYTES_MAX,
    ELEMENT_FIXED_CHARGE_BYTES,
)
from penstock.base.values import hot_dataclass
from penstock.contract.ids import ChannelId, Version
from penstock.model.elements import Active, Control, Credit, Data, EndOfStream, Idle, LatencyMarker, P, Watermark

CHARGE_MAX = ELEMENT_BYTES_MAX + ELEMENT_FIXED_CHARGE_BYTES

# A channel with so many control elements is full. The other half is for those that cannot be refused, as barriers.
_CONTROLS_FULL = CONTROLS_WAITING_MAX // 2
_PROGRESS = (Watermark, Idle, Active)
_LARGE_SHARE = 4  # a batch of a quarter of the buffer travels alone: joining would only copy it


@hot_dataclass
class Fill(Generic[P]):
    """Batches that travel as one data element. ``charge`` counts the fixed cost once."""

    parts: tuple[Data[P], ...]
    charge: int


@hot_dataclass
class Outgoing(Generic[P]):
    """The next element of a channel, and its sequence number. Numbers begin at 1."""

    sequence: int
    element: Fill[P] | Control


class SendChannel(Generic[P]):
    """The sender's end. It holds ``buffer_bytes`` plus one element at most, in the calls' order.

    Data is also refused when ``CONTROLS_WAITING_MAX // 2`` control elements wait: between small rows there
    may be more of them than rows.

    Half of the window is the bound where it is less than ``buffer_bytes``. A batch of several rows
    is cut before it is offered when its charge is above ``piece_bytes``: rows for half of the
    window, and the fixed cost. With the fixed cost a small window does not lead to elements of one
    row. No element leaves before :meth:`accept`. For one thread at a time; ``now`` is in monotonic
    seconds.
    """

    __slots__ = (
        "_accepted",
        "_buffer_bytes",
        "_controls",
        "_ended",
        "_flush_interval_s",
        "_granted",
        "_last_data",
        "_limit",
        "_open",
        "_open_bytes",
        "_open_until",
        "_queue",
        "_rows",
        "_rows_left",
        "_rows_taken",
        "_sequence",
        "_spent",
        "_taken",
        "_trailing",
        "_untaken",
        "piece_bytes",
        "receiver_version",
        "waiting_bytes",
        "window",
    )

    def __init__(self, buffer_bytes: int, flush_interval_s: float, version: Version) -> None:
        self._buffer_bytes = buffer_bytes
        self._flush_interval_s = flush_interval_s
        self._queue: deque[Fill[P] | Control] = deque()
        self._open: list[Data[P]] = []
        self._open_bytes = 0
        self._open_until = 0.0
        self._trailing: deque[Fill[P] | Control] = deque()
        self._controls = 0
        self._accepted = False
        self._ended = False
        self._sequence = 0
        self._last_data = 0
        self._granted = 0
        self._spent = 0
        self._taken = 0
        self._rows = 0  # that were ever offered; of these have left, and were taken:
        self._rows_left = 0
        self._rows_taken = 0
        self._untaken: deque[tuple[int, int]] = deque()  # elements that have left: number, and rows up to its last
        self.receiver_version = version
        self.waiting_bytes = 0
        self._follow(CREDIT_FIRST_CHANNEL_BYTES_MIN)

    # --- From the task ------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """True when data would be refused: the waiting bytes or control elements have reached their bound."""
        return self.waiting_bytes >= self._limit or self._controls >= _CONTROLS_FULL

    @property
    def roomy(self) -> bool:
        """True when half of the buffer is free, so that a refused task is worth waking."""
        return 2 * self.waiting_bytes <= self._limit and 2 * self._controls <= _CONTROLS_FULL

    @property
    def outstanding_rows(self) -> int:
        """Rows that were offered, and that the receiver's task has not taken as far as its credit says."""
        return self._rows - self._rows_taken

    def offer(self, data: Data[P], now: float) -> bool:
        """Take a batch into the open fill. False when the channel is full; then nothing changes."""
        if self.full:
            return False
        self.offer_rest(data, now)
        return True

    def offer_rest(self, data: Data[P], now: float) -> None:
        """Take a batch or a piece of one. The caller has seen that the channel was not full."""
        assert not self._ended, "data after the end of the stream"
        assert data.charge <= CHARGE_MAX, f"a charge of {data.charge} bytes was not split"
        large = _LARGE_SHARE * data.charge >= self._buffer_bytes
        if large or self._open_bytes + data.charge > self._limit:
            self.flush()
        if not self._open:
            self._open_until = now + self._flush_interval_s
        self._open.append(data)
        self._rows += data.rows
        self._open_bytes += data.charge
        self.waiting_bytes += data.charge
        full = self._open_bytes >= self._limit
        if large or full or self._flush_interval_s <= 0:
            self.flush()

    def offer_marker(self, marker: LatencyMarker) -> bool:
        """Take a latency marker behind the rows before it. False when the channel is full."""
        assert not self._ended, "a marker after the end of the stream"
        if self.full:
            return False
        (self._trailing if self._open else self._queue).append(marker)
        self._controls += 1
        return True

    def put(self, control: Control) -> None:
        """Queue a control element behind everything before it. Never refused."""
        assert not self._ended, "an element after the end of the stream"
        assert self._controls < CONTROLS_WAITING_MAX, "control elements pile up"
        if isinstance(control, Watermark):
            self._put_progress(self._trailing if self._open else self._queue, control)
            return
        if self._open:
            self._close_fill()
        self._queue_trailing()  # a barrier never overtakes a pending watermark
        if isinstance(control, _PROGRESS):
            self._put_progress(self._queue, control)
            return
        self._queue.append(control)
        self._controls += 1
        self._ended = isinstance(control, EndOfStream)

    def passes(self, data: Data[P]) -> int | None:
        """Let a batch leave at once and return its number. None when anything holds it back.

        This is :meth:`offer` and :meth:`take` in one call, for a channel without a stream.
        """
        if self._queue or self._open or not self._accepted or not self._may_spend(data.charge):
            return None
        assert not self._ended, "data after the end of the stream"
        self._spent += data.charge
        self._sequence += 1
        self._last_data = self._sequence
        self._rows += data.rows
        self._leaves(data.rows)
        return self._sequence

    def _leaves(self, rows: int) -> None:
        """Note that the newest element has left with so many rows."""
        self._rows_left += rows
        self._untaken.append((self._sequence, self._rows_left))

    def flush(self) -> None:
        """Close the open fill, so that it may leave before its deadline."""
        if self._open:  # marks wait only behind an open fill
            self._close_fill()
            self._queue_trailing()

    def _close_fill(self) -> None:
        parts = tuple(self._open)
        repeated = (len(parts) - 1) * ELEMENT_FIXED_CHARGE_BYTES
        charge = max(self._open_bytes - repeated, ELEMENT_FIXED_CHARGE_BYTES)
        self.waiting_bytes += charge - self._open_bytes
        self._queue.append(Fill(parts, charge))
        self._open = []
        self._open_bytes = 0

    def _put_progress(self, queue: "deque[Fill[P] | Control]", element: Watermark | Idle | Active) -> None:
        """Queue an element, and drop the unsent ones directly before it that it supersedes."""
        mark: Watermark | None = None
        while queue and isinstance(queue[-1], _PROGRESS):
            before = queue.pop()
            self._controls -= 1
            if mark is None and isinstance(before, Watermark):
                mark = before
        kept = progress(mark, element)
        queue.extend(kept)
        self._controls += len(kept)

    def _queue_trailing(self) -> None:
        self._queue.extend(self._trailing)
        self._trailing.clear()

    # --- From the receiver --------------------------------------------------------------------

    def accept(self) -> None:
        """Let elements leave from now on: the handshake was accepted."""
        self._accepted = True

    @property
    def accepted(self) -> bool:
        """True once elements may leave."""
        return self._accepted

    def on_credit(self, credit: Credit) -> None:
        """Count a grant. An old or repeated one changes nothing, because all numbers only rise.

        Raises PeerError when the receiver has taken more elements than were sent.
        """
        if credit.received > self._sequence:
            raise PeerError(
                f"channel {credit.channel}: receiver took {credit.received} elements, "
                f"but only {self._sequence} were sent"
            )
        self._granted = max(self._granted, credit.granted)
        self._taken = max(self._taken, credit.received)
        while self._untaken and self._untaken[0][0] <= self._taken:
            self._rows_taken = self._untaken.popleft()[1]
        self.receiver_version = max(self.receiver_version, credit.version)
        if credit.window != self.window:
            self._follow(credit.window)

    def _follow(self, window: int) -> None:
        self.window = window
        self.piece_bytes = min(window // 2 + ELEMENT_FIXED_CHARGE_BYTES, CHARGE_MAX)
        self._limit = min(self._buffer_bytes, max(window // 2, 1))

    # --- To the stream ------------------------------------------------------------------------

    def take(self, now: float) -> Outgoing[P] | None:
        """Return the next element that may leave. None until credit, a flush or a deadline comes."""
        if self._open and now >= self._open_until:
            self.flush()
        if not self._accepted or not self._queue:
            return None
        element = self._queue[0]
        if isinstance(element, Fill):
            if not self._may_spend(element.charge):
                return None
            self._spent += element.charge
            self.waiting_bytes -= element.charge
            self._last_data = self._sequence + 1
        else:
            self._controls -= 1
        self._queue.popleft()
        self._sequence += 1
        if isinstance(element, Fill):
            self._leaves(sum(part.rows for part in element.parts))
        return Outgoing(self._sequence, element)

    def _may_spend(self, charge: int) -> bool:
        if self._spent + charge <= self._granted:
            return True
        # An element larger than the window may leave when nothing is outstanding. Else it never could.
        return self._taken >= self._last_data

    @property
    def closed(self) -> bool:
        """True when an element waits for no deadline: only credit may be missing."""
        return bool(self._queue)

    def wakes_at(self) -> float | None:
        """Return when the open fill is due; None when no deadline runs."""
        return self._open_until if self._open else None

    @property
    def ended(self) -> bool:
        """True when the end of stream was put. Closing the stream after that is no break."""
        return self._ended

    @property
    def drained(self) -> bool:
        """True when nothing waits, in the open fill or behind it."""
        return not (self._queue or self._open or self._trailing)

    @property
    def credit(self) -> int:
        """Bytes that may leave at once; negative after an element larger than the window."""
        return self._granted - self._spent

    @property
    def sent(self) -> int:
        """Elements that have left."""
        return self._sequence


def progress(mark: Watermark | None, last: Watermark | Idle | Active) -> tuple[Watermark | Idle | Active, ...]:
    """Return what a receiver has to know of elements side by side: their last watermark, and the last of them."""
    match last:
        case Watermark():
            return (last,)
        case Idle():
            return (last,) if mark is None else (mark, last)
        case Active():
            return (last,) if mark is None else (mark,)  # a watermark ends idleness


class Owed(IntEnum):
    """When the sender must get its credit: not now, with the next credit sent, or at once."""

    NOTHING = 0
    SOON = 1
    NOW = 2


def cut(data: Data[P], rows: int, take: Callable[[P, int, int], P]) -> tuple[Data[P], Data[P]]:
    """Cut an element behind its first ``rows`` rows, fewer than all. Return both parts.

    ``take(payload, start, count)`` returns rows of a payload. The charges of the parts add up to
    that of the element, so that a receiver of both gives back what was spent. The second part has
    the fixed cost. Both parts have the bounds of event time of the whole.
    """
    assert 0 < rows < data.rows, f"{rows} of {data.rows} rows are no slice"
    left = data.rows - rows
    charge = max(data.charge - ELEMENT_FIXED_CHARGE_BYTES, 0) * rows // data.rows
    rest = data.charge - charge
    return (
        Data(take(data.payload, 0, rows), rows, charge, data.min_ts, data.max_ts),
        Data(take(data.payload, rows, left), left, rest, data.min_ts, data.max_ts),
    )


class ReceiveChannel:
    """The receiver's end: it checks the order, bounds its queue by grants, and knows what it owes.

    The queue belongs to the caller. When the queue reaches the window, nothing is granted until it
    has fallen to a share of the window: the share that the low watermark is of the high one. The
    window is never larger than the high watermark. A ``prompt`` channel owes its sender word of every
    element taken, because the sender asks how many rows are outstanding. For one thread at a time.
    """

    __slots__ = (
        "_active_at",
        "_arrived",
        "_choked",
        "_ended",
        "_high",
        "_low",
        "_prompt",
        "_received",
        "_refill",
        "_seen",
        "_spent",
        "_taken",
        "_told",
        "_told_taken",
        "_told_version",
        "_told_window",
        "channel",
        "queued_bytes",
        "version",
        "window",
    )

    def __init__(
        self, channel: ChannelId, high_watermark: int, low_watermark: int, version: Version, *, prompt: bool = False
    ) -> None:
        assert 0 <= low_watermark < high_watermark, "watermarks need a gap"
        self.channel = channel
        self._prompt = prompt
        self._high = high_watermark
        self._low = low_watermark
        self.version = version
        self.queued_bytes = 0
        self._arrived = 0
        self._received = 0
        self._taken = 0
        self._spent = 0
        self._choked = False
        self._ended = False
        self._told = 0
        self._told_taken = 0
        self._told_version = Version(-1)
        self._told_window = 0
        self._seen = 0
        self._active_at = -inf
        self._set_window(high_watermark)

    # --- The window ---------------------------------------------------------------------------

    def begin(self, window: int) -> None:
        """Begin with a window, at most the high watermark, if nothing is granted yet."""
        if not self._told:
            self._set_window(min(window, self._high))

    def resize(self, window: int) -> bool:
        """Change the window, at most to the high watermark. Return whether it has changed.

        Small changes are not made, because they are not worth a message. Grants stay: after a fall
        nothing is granted until enough was spent.
        """
        window = min(window, self._high)
        small = 4 * abs(window - self.window) <= self.window
        # A small change is made only to reach the high watermark.
        if window == self.window or (small and window < self._high):
            return False
        self._set_window(window)
        if self.queued_bytes < window:
            self._choked = False
        return True

    def brings_rows(self, now: float) -> bool:
        """Return whether rows wait, or have come in the last half second. Ask this regularly."""
        if self.queued_bytes or self._received > self._seen:
            self._seen, self._active_at = self._received, now
        return now - self._active_at < CHANNEL_ACTIVE_S

    def _set_window(self, window: int) -> None:
        self.window = window
        self._refill = window * self._low // self._high

    # --- Elements and credit ------------------------------------------------------------------

    def on_element(self, sequence: int, charge: int = 0, *, end: bool = False) -> None:
        """Admit the next element to the queue. ``charge`` is 0 for control elements.

        Raises PeerError on a gap or a repetition, on an element after the end of the stream, and on
        data beyond the credit. Each of these would lose rows or memory silently.
        """
        if sequence != self._arrived + 1:
            raise PeerError(
                f"channel {self.channel}: element {sequence} came after {self._arrived}: "
                "elements are missing or repeated"
            )
        if self._ended:
            raise PeerError(f"channel {self.channel}: an element follows the end of the stream")
        if charge and self._received + charge > self._told and self.queued_bytes:
            raise PeerError(
                f"channel {self.channel}: {charge} bytes exceed the credit by {self._received + charge - self._told}"
            )
        self._arrived = sequence
        self._ended = end
        self._received += charge
        self.queued_bytes += charge
        if self.queued_bytes >= self.window:
            self._choked = True

    def on_take(self, charge: int = 0) -> None:
        """Count an element that the task has taken from the queue."""
        assert self._taken < self._arrived, "more elements taken than arrived"
        self._taken += 1
        self.on_slice(charge)

    def on_slice(self, charge: int) -> None:
        """Count rows of the first element that the task has taken. The other rows stay queued."""
        assert charge <= self.queued_bytes, "more bytes taken than queued"
        self.queued_bytes -= charge
        self._spent += charge
        if self.queued_bytes <= self._refill:
            self._choked = False

    def owed(self) -> Owed:
        """Return when the sender must get its credit. A version or half a window is sent at once.

        So is word of an element taken from a prompt channel.

        Less credit can wait while the queue holds data, because the task goes on and owes more soon.
        Another window can wait a little: until then the sender may cut its batches too large.
        """
        if self.version > self._told_version or (self._prompt and self._taken > self._told_taken):
            return Owed.NOW
        grant = self._grant() - self._told
        if grant >= self.window - self._refill:
            return Owed.NOW
        if self.window != self._told_window:
            return Owed.SOON
        if self.queued_bytes:
            return Owed.NOTHING
        return Owed.SOON if grant or self._taken > self._told_taken else Owed.NOTHING

    def credit(self) -> Credit:
        """Return the present credit for sending. Nothing is owed afterwards."""
        self._told = self._grant()
        self._told_taken = self._taken
        self._told_version = self.version
        self._told_window = self.window
        return Credit(self.channel, self._told, self._taken, self.version, self.window)

    def _grant(self) -> int:
        if self._choked:
            return self._told
        return max(self._told, self._spent + self.window)

    @property
    def ended(self) -> bool:
        """True when the end of stream has arrived. A close after that is no break."""
        return self._ended

    @property
    def arrived(self) -> int:
        """Elements that have arrived."""
        return self._arrived
