"""The receiver's end of all channels of a task: one queue per channel, bounded by credit.

stream handlers, local senders --push--> one queue per channel --poll--> task thread
                                                                    |
                                credit to the sender of the channel <+

A task with slow steps takes rows in slices, and the credit of its channels follows its speed: see
:mod:`penstock.protocol.channel.pace`.

Input, credit and orders all wake the task's thread through one flag (:class:`Wakeup`).
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import pyarrow as pa

from penstock.base.limits import ELEMENT_FIXED_CHARGE_BYTES
from penstock.base.threads import Lock
from penstock.contract.ids import ChannelId, TaskId, Version
from penstock.model.elements import Control, Credit, Data, Element, EndOfStream
from penstock.protocol.channel.flow_control import Owed, ReceiveChannel, cut
from penstock.protocol.channel.pace import CreditWindows, Pace
from penstock.transport.batches import bounds, has_dictionaries, join
from penstock.transport.stats import InputStats

Batch = Data[pa.RecordBatch]


class Wakeup:
    """A flag that one thread waits for and clears. Setting it twice is the same as once.

    Cheaper than ``threading.Event`` on the hot path: one lock, no condition.
    """

    __slots__ = ("_unset",)

    def __init__(self) -> None:
        self._unset = Lock()
        self._unset.acquire()

    def set(self) -> None:
        """Wake the waiting thread, or let its next wait return at once. Never blocks."""
        if self._unset.locked():
            try:
                self._unset.release()
            except RuntimeError:  # another thread set it between the two lines
                return

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until set, clear the flag and return True; return False after the timeout."""
        return self._unset.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))


class CreditCarrier(Protocol):
    """Carries credit to the sender of a channel."""

    def owe(self, channel: "InputChannel", urgent: bool) -> None:
        """Fetch ``channel.credit()`` and send it: at once, or soon, with the credit of others.

        A sender on the same worker may fetch it itself; it is sent once that sender waits for it.
        """
        ...


class InputChannel:
    """One input channel: its queue, and the credit owed to its sender. :class:`TaskInput` makes it."""

    __slots__ = ("_carrier", "_owing", "_task", "live", "queue", "ready", "state", "stats")

    def __init__(self, state: ReceiveChannel, task: "TaskInput", carrier: CreditCarrier | None) -> None:
        self.state = state
        self.queue: deque[Batch | Control] = deque()
        self.ready = False
        self.live = True
        self.stats = InputStats(state.channel)
        self._task = task
        self._carrier = carrier
        self._owing = Owed.NOTHING

    @property
    def channel(self) -> ChannelId:
        """The id of the channel."""
        return self.state.channel

    def push(self, sequence: int, element: Batch | Control, *, wake: bool = True) -> bool:
        """Queue the next element and wake the task; return False when the channel is detached.

        With ``wake=False`` the caller wakes the task later. Never blocks. Raises PeerError on a
        gap in the sequence and on data beyond the credit.
        """
        queued = self._task.push(self, sequence, element)
        if queued and wake:
            self.wake()
        return queued

    def wake(self) -> None:
        """Wake the task."""
        self._task.wakeup.set()

    def begin(self, carrier: CreditCarrier) -> None:
        """Begin to give credit through ``carrier``: the stream has been accepted."""
        self._carrier = carrier
        self.settle()

    def settle(self) -> None:
        """Ask the carrier to send credit, if the sender is owed more than was asked for before."""
        owed = self.state.owed()
        if owed > self._owing and self._carrier is not None and self.live:
            self._owing = owed
            self._carrier.owe(self, owed is Owed.NOW)

    def credit(self) -> Credit:
        """Return the present credit; the caller sends it now."""
        with self._task.lock:
            self._owing = Owed.NOTHING
            return self.state.credit()


class TaskInput:
    """All input channels of one task.

    Only the task's thread calls ``poll`` and ``worked``; any thread may call the rest.
    """

    def __init__(self, task: TaskId, wakeup: Wakeup) -> None:
        self.task = task
        self.lock = Lock()
        self.wakeup = wakeup
        self._channels: dict[ChannelId, InputChannel] = {}
        self._ready: deque[InputChannel] = deque()
        self._plain: dict[int, bool] = {}  # by edge
        self._pace = Pace()
        self._windows = CreditWindows()
        self._rows_left = 0  # how many more rows this poll may take
        self._bytes_left = 0
        self._taken_bytes = 0  # of the rows of this poll, without fixed costs

    def add(self, state: ReceiveChannel, carrier: CreditCarrier | None) -> InputChannel:
        """Add a channel. Without a carrier it gives no credit until :meth:`InputChannel.begin`."""
        channel = InputChannel(state, self, carrier)
        with self.lock:
            assert state.channel not in self._channels, f"{state.channel} is there already"
            self._channels[state.channel] = channel
            self._windows.begin(c.state for c in self._channels.values())
        return channel

    @property
    def empty(self) -> bool:
        """True when nothing is queued. An element that arrives later wakes the task."""
        return not self._ready

    def poll(
        self,
        reads: Callable[[ChannelId], bool],
        joins: Callable[[ChannelId], bool],
    ) -> tuple[ChannelId, Element[pa.RecordBatch]] | None:
        """Take the next element of a channel for which ``reads`` is true, or None. Never blocks.

        Channels are read round-robin. An element that is not taken stays queued, and its credit stays spent:
        a channel that waits behind its barrier is held in this way. When an element has more rows
        than the task should take at once, its first rows are taken and the others stay at the head
        of the channel. Small batches that wait one behind another are joined to one element, so
        that a task that is behind works more cheaply. Batches of other channels of the same edge
        are joined too where ``joins`` is true; they count as rows of the channel returned.
        """
        with self.lock:
            self._rows_left, self._bytes_left = self._pace.slice_rows, self._pace.joined_bytes
            self._taken_bytes = 0
            for _ in range(len(self._ready)):
                channel = self._ready.popleft()
                if not channel.live:
                    continue
                if reads(channel.state.channel):
                    taken = self._take(channel)
                    break
                self._ready.append(channel)
            else:
                return None
            others: list[InputChannel] = []
            if self._ready and isinstance(taken[0], Data):
                others = self._take_across(channel, taken, lambda c: reads(c) and joins(c))
        channel.settle()
        for other in others:
            other.settle()
        return channel.state.channel, self._as_one_element(taken)

    def worked(self, data: Batch, seconds: float, waited_s: float, now: float) -> None:
        """Record the time that the steps needed for ``data``: slices and credit follow it.

        ``seconds`` includes ``waited_s``, spent waiting for credit; ``now`` is monotonic seconds.
        """
        size = max(data.charge - ELEMENT_FIXED_CHARGE_BYTES, 0)
        self._pace.worked(data.rows, size, seconds, waited_s)
        self._resize(now)

    def bound(self, rows_per_s: float, now: float) -> None:
        """Take the steps for no faster than this: they wait for answers. ``now`` is monotonic seconds."""
        self._pace.bound(rows_per_s)
        self._resize(now)

    def _resize(self, now: float) -> None:
        if not self._windows.due(now):
            return
        with self.lock:
            channels = {channel.state: channel for channel in self._channels.values()}
            changed = self._windows.share(self._pace, channels, now)
        for state in changed:
            channels[state].settle()

    def announce(self, version: Version) -> None:
        """Tell all senders that this task has loaded ``version``: they release the rows they hold."""
        with self.lock:
            channels = list(self._channels.values())
            for channel in channels:
                channel.state.version = max(channel.state.version, version)
        for channel in channels:
            channel.settle()

    def detach(self, name: ChannelId) -> None:
        """Drop a channel and its queue; nothing more is taken from its stream."""
        with self.lock:
            channel = self._channels.pop(name, None)
            if channel is not None:
                channel.live = False
                channel.queue.clear()

    def detach_all(self) -> None:
        """Drop all channels: the attempt is over."""
        for name in list(self._channels):
            self.detach(name)

    def push(self, channel: InputChannel, sequence: int, element: Batch | Control) -> bool:
        """Queue an element as :meth:`InputChannel.push` does; the task is not woken."""
        with self.lock:
            if not channel.live:
                return False
            if isinstance(element, Data):
                channel.state.on_element(sequence, element.charge)
                channel.stats.rows += element.rows
                channel.stats.bytes += element.charge
            else:
                channel.state.on_element(sequence, end=isinstance(element, EndOfStream))
            channel.stats.elements += 1
            channel.queue.append(element)
            if not channel.ready:
                channel.ready = True
                self._ready.append(channel)
        return True

    def stats(self) -> list[InputStats]:
        """Return the present counters of all channels."""
        with self.lock:
            for channel in self._channels.values():
                channel.stats.queued_bytes = channel.state.queued_bytes
            return [channel.stats.copy() for channel in self._channels.values()]

    def _take_across(
        self, first: InputChannel, taken: list[Any], joins: Callable[[ChannelId], bool]
    ) -> list[InputChannel]:
        """Add batches of other channels to ``taken``. Return the channels that these batches came from."""
        others: list[InputChannel] = []
        edge = first.channel.edge
        if self._bytes_left <= 0 or not self._rows_left or not self._is_plain(edge, taken[0]):
            return others
        for _ in range(len(self._ready)):  # a whole round, so that the order of the rest stays
            channel = self._ready.popleft()
            if not channel.live:
                continue
            name = channel.channel
            if self._fits(channel.queue[0]) and name.edge == edge and joins(name):
                taken += self._take(channel)
                others.append(channel)
            else:
                self._ready.append(channel)
        return others

    def _is_plain(self, edge: int, data: Batch) -> bool:
        """Say whether rows of several senders can always be joined, whatever their values are.

        Dictionary-encoded rows cannot: the joined dictionary may be too large for its index type.
        """
        plain = self._plain.get(edge)
        if plain is None:
            plain = self._plain[edge] = not has_dictionaries(data.payload.schema)
        return plain

    def _take(self, channel: InputChannel) -> list[Any]:
        """Take one element or a slice of it, and join as many batches behind it as allowed."""
        queue, state = channel.queue, channel.state
        if isinstance(queue[0], Data):
            taken: list[Any] = [self._take_rows(channel)]
            while queue and self._fits(queue[0]):
                taken.append(self._take_rows(channel))
        else:
            taken = [queue.popleft()]
            state.on_take()
        if queue:
            self._ready.append(channel)
        else:
            channel.ready = False
        return taken

    def _fits(self, element: Batch | Control) -> bool:
        """Say whether rows of an element may be joined with the rows already taken."""
        if not isinstance(element, Data) or not self._rows_left:
            return False
        charge = element.charge
        if element.rows > self._rows_left:
            charge = charge * self._rows_left // element.rows
        return charge <= self._bytes_left

    def _take_rows(self, channel: InputChannel) -> Batch:
        """Take the batch at the head of a channel, or as many of its rows as may still be taken."""
        data = channel.queue[0]
        assert isinstance(data, Data), "only rows are taken in slices"
        if data.rows > self._rows_left:
            data, channel.queue[0] = cut(data, self._rows_left, pa.RecordBatch.slice)
            channel.state.on_slice(data.charge)
            self._taken_bytes += data.charge
        else:
            channel.queue.popleft()
            channel.state.on_take(data.charge)
            self._taken_bytes += data.charge - ELEMENT_FIXED_CHARGE_BYTES
        self._rows_left -= data.rows
        self._bytes_left -= data.charge
        return data

    def _as_one_element(self, taken: list[Any]) -> Element[pa.RecordBatch]:
        """Return what was taken as one element. Its charge counts the fixed cost once."""
        first: Element[pa.RecordBatch] = taken[0]
        charge = self._taken_bytes + ELEMENT_FIXED_CHARGE_BYTES
        if not isinstance(first, Data) or (len(taken) == 1 and first.charge == charge):
            return first
        return Data(join(taken), sum(part.rows for part in taken), charge, *bounds(taken))
