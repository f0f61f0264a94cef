"""The receiver's end of all channels of a task: queues bounded by credit, one place to take from.

stream handlers, local senders --push--> one queue per channel --poll--> task thread
                                                                    |
                                credit to the sender of the channel <+
"""

from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol

import pyarrow as pa

from penstock.base.limits import JOINED_BYTES_MAX
from penstock.contract.ids import ChannelId, TaskId, Version
from penstock.model.elements import Control, Credit, Data, Element, EndOfStream
from penstock.protocol.channel import Owed, ReceiveChannel
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
    """All input channels of one task. ``poll`` is for the task's thread, the rest for any."""

    def __init__(self, task: TaskId, wakeup: Wakeup) -> None:
        self.task = task
        self.lock = Lock()
        self.wakeup = wakeup
        self._channels: dict[ChannelId, InputChannel] = {}
        self._ready: deque[InputChannel] = deque()
        self._plain: dict[int, bool] = {}  # by edge

    def add(self, state: ReceiveChannel, teller: Teller | None) -> InputChannel:
        """Add a channel; without a teller it gives no credit until :meth:`InputChannel.tell`."""
        channel = InputChannel(state, self, teller)
        with self.lock:
            assert state.channel not in self._channels, f"{state.channel} is there already"
            self._channels[state.channel] = channel
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
        behind its barrier is held by not reading it. Small batches that wait one behind another
        are taken as one, so that the work of a task that is behind gets cheaper; with them those
        of other channels of the same edge for which ``joins`` is true, as if of the one returned.
        """
        with self.lock:
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
        return channel.state.channel, taken[0] if len(taken) == 1 else _joined(taken)

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
        size, edge = sum(data.charge for data in taken), first.channel.edge
        if size >= JOINED_BYTES_MAX or not self._is_plain(edge, taken[0]):
            return others
        for _ in range(len(self._ready)):  # a whole turn: what is not taken keeps its place
            channel = self._ready.popleft()
            if not channel.live:
                continue
            head, name = channel.queue[0], channel.channel
            fits = isinstance(head, Data) and size + head.charge <= JOINED_BYTES_MAX
            if fits and name.edge == edge and joins(name):
                more = self._take(channel, size)
                size += sum(data.charge for data in more)
                taken += more
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

    def _take(self, channel: InputChannel, size: int = 0) -> list[Any]:
        """Take one element, or as many batches as may be joined with others of ``size`` bytes."""
        queue, state = channel.queue, channel.state
        first = queue.popleft()
        taken = [first]
        if isinstance(first, Data):
            state.on_take(first.charge)
            size += first.charge
            while queue and isinstance(after := queue[0], Data):
                size += after.charge
                if size > JOINED_BYTES_MAX:
                    break
                taken.append(queue.popleft())
                state.on_take(after.charge)
        else:
            state.on_take()
        if queue:
            self._ready.append(channel)
        else:
            channel.ready = False
        return taken


def _joined(parts: list[Batch]) -> Batch:
    charge = sum(part.charge for part in parts)
    rows = sum(part.rows for part in parts)
    return Data(join(parts), rows, charge, *bounds(parts))
