"""The receiver's end of all channels of a task: queues bounded by credit, one place to take from.

stream handlers, local senders --push--> one queue per channel --poll--> task thread
                                                                    |
                                credit to the sender of the channel <+

Before a slow step rows are taken in slices, and the windows of the channels follow its pace: see
:mod:`penstock.protocol.channel.pace`.
"""

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa

from penstock.base.limits import ELEMENT_FIXED_CHARGE_BYTES
from penstock.contract.ids import ChannelId, TaskId, Version
from penstock.model.elements import Control, Credit, Data, Element, EndOfStream
from penstock.protocol.channel.flow_control import Owed, ReceiveChannel, cut
from penstock.protocol.channel.pace import CreditWindows, Pace
from penstock.transport.batches import bounds, has_dictionaries, join
from penstock.transport.stats import InputStats
from penstock.transport.wakeup import Wakeup

Batch = Data[pa.RecordBatch]


class Teller(Protocol):
    """Carries credit to the sender of a channel."""

    def owe(self, channel: "InputChannel", urgent: bool) -> None:
        """Fetch ``channel.credit()`` and bring it: at once, or soon, with that of others.

        A sender on the same worker may be left to fetch it, until it waits for it.
        """
        ...


class InputChannel:
    """One input channel: its queue and what is owed to its sender. Made by :class:`TaskInput`."""

    __slots__ = ("_owing", "_task", "_teller", "live", "queue", "ready", "state", "stats")

    def __init__(self, state: ReceiveChannel, task: "TaskInput", teller: Teller | None) -> None:
        self.state = state
        self.queue: deque[Batch | Control] = deque()
        self.ready = False
        self.live = True
        self.stats = InputStats(state.channel)
        self._task = task
        self._teller = teller
        self._owing = Owed.NOTHING

    @property
    def channel(self) -> ChannelId:
        """The name of the channel."""
        return self.state.channel

    def push(self, sequence: int, element: Batch | Control, *, wake: bool = True) -> bool:
        """Queue the next element and wake the task; False when the channel is detached.

        Without ``wake`` the caller wakes it later. Never blocks. Raises PeerError on a gap and on
        data beyond the credit.
        """
        queued = self._task.push(self, sequence, element)
        if queued and wake:
            self.wake()
        return queued

    def wake(self) -> None:
        """Wake the task."""
        self._task.wakeup.set()

    def tell(self, teller: Teller) -> None:
        """Begin to give credit, through ``teller``: the stream has been accepted."""
        self._teller = teller
        self.settle()

    def settle(self) -> None:
        """Let the sender hear what it is owed, if it is owed more than it was called for."""
        owed = self.state.owed()
        if owed > self._owing and self._teller is not None and self.live:
            self._owing = owed
            self._teller.owe(self, owed is Owed.NOW)

    def credit(self) -> Credit:
        """Return the credit as it stands, for sending now."""
        with self._task.lock:
            self._owing = Owed.NOTHING
            return self.state.credit()


class TaskInput:
    """All input channels of one task.

    ``poll`` and ``worked`` are for the task's thread, the rest for any.
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
        self._rows_left = 0  # of the slice that is taken now
        self._bytes_left = 0
        self._taken_bytes = 0  # of the rows that are taken now, without fixed costs

    def add(self, state: ReceiveChannel, teller: Teller | None) -> InputChannel:
        """Add a channel; without a teller it gives no credit until :meth:`InputChannel.tell`."""
        channel = InputChannel(state, self, teller)
        with self.lock:
            assert state.channel not in self._channels, f"{state.channel} is there already"
            self._channels[state.channel] = channel
            self._windows.begin(c.state for c in self._channels.values())
        return channel

    @property
    def empty(self) -> bool:
        """True when nothing is queued; what arrives afterwards wakes the task."""
        return not self._ready

    def poll(
        self,
        reads: Callable[[ChannelId], bool],
        joins: Callable[[ChannelId], bool] | None = None,
    ) -> tuple[ChannelId, Element[pa.RecordBatch]] | None:
        """Take the next element of a channel for which ``reads`` is true, or None. Never blocks.

        Channels take turns. What is not read stays queued and its credit stays spent: a channel
        behind its barrier is held by not reading it. Of an element with more rows than the task
        should take at once the first ones are taken; the others stay at the head of their channel.
        Small batches that wait one behind another are taken as one, so that the work of a task that
        is behind gets cheaper; with them those of other channels of the same edge for which
        ``joins`` is true, as if of the one returned.
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
            if joins is not None and self._ready and isinstance(taken[0], Data):
                others = self._take_across(channel, taken, lambda c: reads(c) and joins(c))
        channel.settle()
        for other in others:
            other.settle()
        return channel.state.channel, self._whole(taken)

    def worked(self, data: Batch, seconds: float, waited_s: float, now: float) -> None:
        """Count what the steps took for ``data``: slices and credit follow.

        Of ``seconds`` it waited ``waited_s`` for credit; ``now`` is monotonic seconds.
        """
        size = max(data.charge - ELEMENT_FIXED_CHARGE_BYTES, 0)
        self._pace.worked(data.rows, size, seconds, waited_s)
        if not self._windows.due(now):
            return
        with self.lock:
            channels = {channel.state: channel for channel in self._channels.values()}
            changed = self._windows.share(self._pace, channels, now)
        for state in changed:
            channels[state].settle()

    def announce(self, version: Version) -> None:
        """Tell all senders that this task has loaded ``version``: they release what they hold."""
        with self.lock:
            channels = list(self._channels.values())
            for channel in channels:
                channel.state.version = max(channel.state.version, version)
        for channel in channels:
            channel.settle()

    def detach(self, name: ChannelId) -> None:
        """Drop a channel and what it has queued; nothing more is taken from its stream."""
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
        """Queue an element; see :meth:`InputChannel.push`. The task is not woken."""
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
        """Return the counters of all channels as they stand."""
        with self.lock:
            for channel in self._channels.values():
                channel.stats.queued_bytes = channel.state.queued_bytes
            return [channel.stats.copy() for channel in self._channels.values()]

    def _take_across(
        self, first: InputChannel, taken: list[Any], joins: Callable[[ChannelId], bool]
    ) -> list[InputChannel]:
        """Add batches of other channels to those taken; return these channels."""
        others: list[InputChannel] = []
        edge = first.channel.edge
        if self._bytes_left <= 0 or not self._rows_left or not self._is_plain(edge, taken[0]):
            return others
        for _ in range(len(self._ready)):  # a whole turn: what is not taken keeps its place
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
        """Say whether rows of several senders can be put together whatever their values are.

        Their dictionaries may not: together they can be too large for the type of their indices.
        """
        plain = self._plain.get(edge)
        if plain is None:
            plain = self._plain[edge] = not has_dictionaries(data.payload.schema)
        return plain

    def _take(self, channel: InputChannel) -> list[Any]:
        """Take one element or a slice of it, and as many batches behind it as may be joined."""
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
        """Say whether rows of an element may be joined with those that are taken."""
        if not isinstance(element, Data) or not self._rows_left:
            return False
        charge = element.charge
        if element.rows > self._rows_left:
            charge = charge * self._rows_left // element.rows
        return charge <= self._bytes_left

    def _take_rows(self, channel: InputChannel) -> Batch:
        """Take the batch at the head of a channel, or as many of its rows as are left to take."""
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

    def _whole(self, taken: list[Any]) -> Element[pa.RecordBatch]:
        """Return what was taken as one element; its charge counts the fixed cost once."""
        first: Element[pa.RecordBatch] = taken[0]
        charge = self._taken_bytes + ELEMENT_FIXED_CHARGE_BYTES
        if not isinstance(first, Data) or (len(taken) == 1 and first.charge == charge):
            return first
        return Data(join(taken), sum(part.rows for part in taken), charge, *bounds(taken))
