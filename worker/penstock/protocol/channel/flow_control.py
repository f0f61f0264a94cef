"""The two ends of a channel, without a socket: order, credit, and what may leave next.

    sender's task --offer, put--> SendChannel --take--> (stream) --> ReceiveChannel --> queue
                                      ^                                    |
                                      +------ Credit (cumulative) ---------+--on_take-- task

Data waits in *fills*: offered batches that will travel as one element. A fill is closed by its
size, by a deadline from its first batch, or by a control element that must not overtake it.
A batch that is large by itself travels alone.
Watermarks and latency markers may be late but never early, so they wait behind the open fill
instead of closing it.

Credit. The receiver grants bytes, the sender spends the charge of each data element, and both
count the same charge, because it travels with the element. Control elements are free.
``Credit.received`` counts the elements that the receiver's task has *taken*: only then does the
sender know that nothing is outstanding.

The window follows the pace of the receiver's task (:mod:`pace`). Credit carries it, so that the
sender keeps no more than half a window in its buffer and sends no larger element, unless it is one
row. A receiver may take an element in slices: they spend its charge, and together exactly that.
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
from penstock.model.elements import Control, Credit, Data, EndOfStream, LatencyMarker, P, Watermark

CHARGE_MAX = ELEMENT_BYTES_MAX + ELEMENT_FIXED_CHARGE_BYTES

_LARGE_SHARE = 4  # a batch of a quarter of the buffer travels alone: joining would only copy it


@hot_dataclass
class Fill(Generic[P]):
    """Batches that travel as one data element; ``charge`` counts the fixed cost once."""

    parts: tuple[Data[P], ...]
    charge: int


@hot_dataclass
class Outgoing(Generic[P]):
    """The next element of a channel and its sequence number, which begins at 1."""

    sequence: int
    element: Fill[P] | Control


class SendChannel(Generic[P]):
    """The sender's end: bounded by ``buffer_bytes`` plus one element, in the order of the calls.

    Where half of the window is less than ``buffer_bytes``, that is the bound. ``piece_bytes`` is
    the charge above which a batch of several rows is cut before it is offered: rows for half of
    the window, and the fixed cost, so that a small window does not make elements of one row.
    Before :meth:`accept` nothing leaves. One thread at a time; ``now`` is monotonic seconds.
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
        "_sequence",
        "_spent",
        "_taken",
        "_trailing",
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
        self.receiver_version = version
        self.waiting_bytes = 0
        self._follow(CREDIT_FIRST_CHANNEL_BYTES_MIN)

    # --- From the task ------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """True when data would be refused: what waits has reached its bound."""
        return self.waiting_bytes >= self._limit

    @property
    def roomy(self) -> bool:
        """True when half of the buffer is free: worth waking a task that was refused."""
        return 2 * self.waiting_bytes <= self._limit

    def offer(self, data: Data[P], now: float) -> bool:
        """Take a batch into the open fill; False, and nothing changed, when the channel is full."""
        if self.full:
            return False
        self.offer_rest(data, now)
        return True

    def offer_rest(self, data: Data[P], now: float) -> None:
        """Take a batch, or a piece of one, of a caller who saw that the channel was not full."""
        assert not self._ended, "data after the end of the stream"
        assert data.charge <= CHARGE_MAX, f"a charge of {data.charge} bytes was not split"
        large = _LARGE_SHARE * data.charge >= self._buffer_bytes
        if large or self._open_bytes + data.charge > self._limit:
            self.flush()
        if not self._open:
            self._open_until = now + self._flush_interval_s
        self._open.append(data)
        self._open_bytes += data.charge
        self.waiting_bytes += data.charge
        full = self._open_bytes >= self._limit
        if large or full or self._flush_interval_s <= 0:
            self.flush()

    def offer_marker(self, marker: LatencyMarker) -> bool:
        """Take a latency marker behind the rows before it; False when the channel is full."""
        assert not self._ended, "a marker after the end of the stream"
        if self.full or self._controls >= CONTROLS_WAITING_MAX // 2:
            return False
        self._trail(marker)
        return True

    def put(self, control: Control) -> None:
        """Queue a control element behind everything before it. Never refused."""
        assert not self._ended, "an element after the end of the stream"
        assert self._controls < CONTROLS_WAITING_MAX, "control elements pile up"
        if isinstance(control, Watermark):
            self._trail(control)
            return
        if self._open:
            self._close_fill()
        self._queue_trailing()  # a barrier never overtakes a pending watermark
        self._queue.append(control)
        self._controls += 1
        self._ended = isinstance(control, EndOfStream)

    def passes(self, data: Data[P]) -> int | None:
        """Let a batch leave at once and return its number; None where anything holds it back.

        It is :meth:`offer` and :meth:`take` in one, for a channel without a stream.
        """
        if self._queue or self._open or not self._accepted or not self._may_spend(data.charge):
            return None
        assert not self._ended, "data after the end of the stream"
        self._spent += data.charge
        self._sequence += 1
        self._last_data = self._sequence
        return self._sequence

    def flush(self) -> None:
        """Close the open fill, so that it may leave before its deadline."""
        if self._open:  # else nothing trails: marks wait behind an open fill only
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

    def _trail(self, element: Watermark | LatencyMarker) -> None:
        """Queue behind the open fill; an unsent watermark replaces the one before it."""
        queue = self._trailing if self._open else self._queue
        if isinstance(element, Watermark) and queue and isinstance(queue[-1], Watermark):
            queue[-1] = element
            return
        queue.append(element)
        self._controls += 1

    def _queue_trailing(self) -> None:
        self._queue.extend(self._trailing)
        self._trailing.clear()

    # --- From the receiver --------------------------------------------------------------------

    def accept(self) -> None:
        """Hear that the handshake was accepted: elements may leave from now on."""
        self._accepted = True

    def on_credit(self, credit: Credit) -> None:
        """Count a grant; an old or repeated one changes nothing, for all its numbers only rise."""
        if credit.received > self._sequence:
            raise PeerError(
                f"channel {credit.channel}: receiver took {credit.received} elements, "
                f"but only {self._sequence} were sent"
            )
        self._granted = max(self._granted, credit.granted)
        self._taken = max(self._taken, credit.received)
        self.receiver_version = max(self.receiver_version, credit.version)
        if credit.window != self.window:
            self._follow(credit.window)

    def _follow(self, window: int) -> None:
        self.window = window
        self.piece_bytes = min(window // 2 + ELEMENT_FIXED_CHARGE_BYTES, CHARGE_MAX)
        self._limit = min(self._buffer_bytes, max(window // 2, 1))

    # --- To the stream ------------------------------------------------------------------------

    def take(self, now: float) -> Outgoing[P] | None:
        """Return the next element that may leave, or None until credit, a flush or a deadline."""
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
        return Outgoing(self._sequence, element)

    def _may_spend(self, charge: int) -> bool:
        if self._spent + charge <= self._granted:
            return True
        # One element larger than the window would never leave; with nothing outstanding it may.
        return self._taken >= self._last_data

    @property
    def closed(self) -> bool:
        """True when an element waits that no deadline holds back: only credit may be missing."""
        return bool(self._queue)

    def wakes_at(self) -> float | None:
        """Return when the open fill is due; None when no deadline runs."""
        return self._open_until if self._open else None

    @property
    def ended(self) -> bool:
        """True when the end of stream was put: closing the stream after it is no break."""
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


class Owed(IntEnum):
    """Whether the sender must hear of its credit: not, with the next ones, or at once."""

    NOTHING = 0
    SOON = 1
    NOW = 2


def cut(data: Data[P], rows: int, take: Callable[[P, int, int], P]) -> tuple[Data[P], Data[P]]:
    """Cut an element behind its first ``rows`` rows, fewer than all; return both parts.

    ``take`` returns of a payload the rows from an index on, so many. The charges add up to that of
    the element, so that whoever takes both gives back what was spent; the fixed cost goes with the
    second part. The bounds of event time are those of the whole.
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
    """The receiver's end: checks the order, bounds its queue by grants, knows what it owes.

    The queue itself belongs to the caller. Above the window nothing is granted until the queue is
    down to the same share of it that the low watermark is of the high one, which the window never
    exceeds. One thread at a time.
    """

    __slots__ = (
        "_active_at",
        "_arrived",
        "_choked",
        "_ended",
        "_high",
        "_low",
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
        self, channel: ChannelId, high_watermark: int, low_watermark: int, version: Version
    ) -> None:
        assert 0 <= low_watermark < high_watermark, "watermarks need a gap"
        self.channel = channel
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
        """Begin with a window, or with the high watermark if that is less; none is granted yet."""
        if not self._told:
            self._set_window(min(window, self._high))

    def resize(self, window: int) -> bool:
        """Change the window, at most to the high watermark; small changes are not worth telling.

        What was granted stays granted: after a fall nothing is granted until what was spent allows
        it. Says whether the window has changed.
        """
        window = min(window, self._high)
        small = 4 * abs(window - self.window) <= self.window
        if window == self.window or (small and window < self._high):  # the last bit counts, too
            return False
        self._set_window(window)
        if self.queued_bytes < window:
            self._choked = False
        return True

    def brings_rows(self, now: float) -> bool:
        """Return whether rows wait, or have come in the last half second; to be asked regularly."""
        if self.queued_bytes or self._received > self._seen:
            self._seen, self._active_at = self._received, now
        return now - self._active_at < CHANNEL_ACTIVE_S

    def _set_window(self, window: int) -> None:
        self.window = window
        self._refill = window * self._low // self._high

    # --- Elements and credit ------------------------------------------------------------------

    def on_element(self, sequence: int, charge: int = 0, *, end: bool = False) -> None:
        """Admit the next element to the queue; ``charge`` is 0 for control elements.

        Raises PeerError on a gap or repetition, on anything after the end of the stream, and on
        data beyond the credit: each would lose rows or memory silently.
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
                f"channel {self.channel}: {charge} bytes exceed the credit "
                f"by {self._received + charge - self._told}"
            )
        self._arrived = sequence
        self._ended = end
        self._received += charge
        self.queued_bytes += charge
        if self.queued_bytes >= self.window:
            self._choked = True

    def on_take(self, charge: int = 0) -> None:
        """Count an element that the task has taken off the queue."""
        assert self._taken < self._arrived, "more elements taken than arrived"
        self._taken += 1
        self.on_slice(charge)

    def on_slice(self, charge: int) -> None:
        """Count rows of the first element that the task has taken; the others stay queued."""
        assert charge <= self.queued_bytes, "more bytes taken than queued"
        self.queued_bytes -= charge
        self._spent += charge
        if self.queued_bytes <= self._refill:
            self._choked = False

    def owed(self) -> Owed:
        """Return whether the sender must hear of news: a version or half a window at once.

        Less can wait while the queue holds data: the task goes on taking, and owes more soon.
        Another window can wait a little, for the sender may cut its batches too large meanwhile.
        """
        if self.version > self._told_version:
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
        """Return the credit as it stands, for sending; nothing is owed afterwards."""
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
        """True when the end of stream has arrived: a close after it is no break."""
        return self._ended

    @property
    def arrived(self) -> int:
        """Elements that have arrived."""
        return self._arrived
