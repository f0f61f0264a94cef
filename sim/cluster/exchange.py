"""The data plane of one simulated engine: the real channel and admission cores over streams.

    task --offer/put--> SendChannel --take--> stream --> ReceiveChannel --> queue --> task
                             ^                                |
                             +------------- credit -----------+

Channels between tasks of one worker run through the same cores without a stream. What the
transport's threads do is done here in :meth:`SimExchange.pump`, after every event of the engine.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.base.errors import PeerError
from penstock.base.limits import ELEMENT_FIXED_CHARGE_BYTES
from penstock.contract.ids import Attempt, ChannelId, Ordinal, TaskId, Version
from penstock.contract.latest import Member
from penstock.model.elements import Barrier, Credit, Data, EndOfStream
from penstock.model.wire import AdmissionVerdict, ChannelHello, HandshakeReply
from penstock.protocol.channel.admission import Admission
from penstock.protocol.channel.flow_control import Fill, Owed, ReceiveChannel, SendChannel, cut
from sim.cluster.channel_ends import (
    ChannelLoad,
    ChannelSizes,
    Element,
    Flush,
    Outbound,
    SimInbound,
    SimStreamIdentity,
    Wire,
    join,
    pieces,
)
from sim.cluster.protocol_monitor import ProtocolMonitor
from sim.kernel.kernel import SimKernel
from sim.kernel.network import Carried, Network, SimStreamBroken

SCHEMA = b"s" * 32
SOON_US = 3_000


class SimExchange:
    """All channels of one engine in one attempt."""

    def __init__(
        self,
        kernel: SimKernel,
        network: Network,
        me: SimStreamIdentity,
        sizes: ChannelSizes,
        monitor: ProtocolMonitor,
        *,
        may_close: Callable[[Ordinal], bool],
    ) -> None:
        """``may_close`` says of a worker whether its streams may close as they like."""
        self.outbound: dict[ChannelId, Outbound] = {}
        self.inbound: dict[ChannelId, SimInbound] = {}
        self.admission = Admission(me.job_uid, me.ordinal)
        self.broken: list[str] = []
        self.versions: list[tuple[ChannelId, Version]] = []
        self._kernel = kernel
        self._network = network
        self._me = me
        self._sizes = sizes
        self._monitor = monitor
        self._may_close = may_close
        self._held: list[tuple[int, ChannelHello]] = []
        self._by_stream: dict[int, ChannelId] = {}
        self._outputs: dict[TaskId, tuple[Outbound, ...]] = {}  # of each task that was asked for
        self._inputs: dict[TaskId, tuple[tuple[ChannelId, SimInbound], ...]] = {}
        self._announced: dict[TaskId, Version] = {}
        self._loads: dict[TaskId, ChannelLoad] = {}
        self._flush_due: int | None = None
        self._base = Version(0)
        self._attempt = Attempt(0)
        self._opened = False

    # --- Life of an attempt

    def reset(self, attempt: Attempt) -> None:
        """Drop all channels and hold the streams of ``attempt`` until :meth:`open`."""
        for outbound in self.outbound.values():
            if outbound.stream is not None:
                self._network.break_stream(outbound.stream)
        for inbound in self.inbound.values():
            if inbound.stream is not None:
                self._network.break_stream(inbound.stream)
        self.outbound.clear()
        self.inbound.clear()
        self._by_stream.clear()
        self._changed()
        self._announced.clear()
        self._loads.clear()
        self.broken.clear()
        self.versions.clear()
        self._attempt = attempt
        self._opened = False
        self.admission.reset(attempt)
        self._retry_held()

    def open(self, members: Mapping[Ordinal, Member], channels: Iterable[ChannelId], version: Version) -> None:
        """Let channels of the attempt in, and dial those that begin here; others stay."""
        addresses = {m.ordinal: m.flight for m in members.values()}
        known = {m.ordinal: m.incarnation for m in members.values()}
        self._base = version
        if not self._opened:
            self.admission.open(known, {})
            self._opened = True
        mine = [c for c in channels if c.receiver.worker == self._me.ordinal]
        self.admission.extend(known, dict.fromkeys(mine, SCHEMA))
        for channel in mine:
            if channel not in self.inbound and channel.sender.worker == self._me.ordinal:
                self._join_local(channel)
        for channel in channels:
            if channel.sender.worker == self._me.ordinal and channel not in self.outbound:
                self._dial(channel, addresses[channel.receiver.worker])
        self._retry_held()

    def forget(self, gone: Sequence[ChannelId]) -> None:
        """Forget the channels that a settled version does not have: they may come again, anew."""
        self._changed()
        for channel in gone:
            for end in (self.outbound.pop(channel, None), self.inbound.pop(channel, None)):
                if end is not None and end.stream is not None:
                    self._by_stream.pop(end.stream, None)
                    self._network.close(end.stream)
        here = self._me.ordinal
        left = {w: None for c in gone for w in (c.sender.worker, c.receiver.worker) if w != here}
        kept = {**self.outbound, **self.inbound}
        stay = {w for c in kept for w in (c.sender.worker, c.receiver.worker)}
        self.admission.forget([w for w in left if w not in stay], gone)

    def _core(self, channel: ChannelId) -> ReceiveChannel:
        shown = self._announced.get(channel.receiver, self._base)
        return ReceiveChannel(channel, self._sizes.high_watermark, self._sizes.low_watermark, shown)

    def _begin(self, task: TaskId) -> None:
        """Deal the first credit out; streams that are accepted later have their share, too."""
        self._load(task).windows.begin([i.core for _, i in self.inputs(task)])

    def _changed(self) -> None:
        self._outputs.clear()
        self._inputs.clear()

    def _sender(self) -> SendChannel[tuple[object, ...]]:
        return SendChannel(self._sizes.buffer_bytes, self._sizes.flush_interval_s, Version(0))

    def _join_local(self, channel: ChannelId) -> None:
        self._changed()
        self.inbound[channel] = SimInbound(self._core(channel), None)
        self._begin(channel.receiver)
        outbound = Outbound(self._sender(), None)
        outbound.core.accept()
        self.outbound[channel] = outbound

    def _dial(self, channel: ChannelId, address: str) -> None:
        stream = self._network.open(self._me.process, address)
        self._changed()
        self.outbound[channel] = Outbound(self._sender(), stream)
        self._by_stream[stream] = channel
        hello = ChannelHello(self._me.job_uid, self.admission.attempt, self._me.incarnation, channel, SCHEMA)
        self._network.carry(stream, self._me.process, hello)

    # --- What arrives

    def carried(self, event: Carried) -> None:
        """Take a message from a stream."""
        match event.body:
            case ChannelHello() as hello:
                self._hello(event.stream, hello)
            case HandshakeReply() as reply:
                self._reply(event.stream, reply)
            case Wire() as wire:
                self._wire(event.stream, wire)
            case Credit() as credit:
                self._credit(event.stream, credit)

    def stream_broken(self, event: SimStreamBroken) -> None:
        """Hear that a stream broke; a live channel of this attempt that loses it is broken."""
        self._held = [h for h in self._held if h[0] != event.stream]
        channel = self._by_stream.pop(event.stream, None)
        if channel is None:
            return
        outbound, inbound = self.outbound.get(channel), self.inbound.get(channel)
        if outbound is not None and outbound.stream == event.stream:
            if self._may_close(channel.receiver.worker) or (outbound.core.ended and outbound.core.drained):
                return
            self.broken.append(f"stream of {channel} broke at its sender")
        elif inbound is not None and inbound.stream == event.stream and not inbound.core.ended:
            if self._may_close(channel.sender.worker):
                return
            self.broken.append(f"stream of {channel} broke at its receiver")

    def _hello(self, stream: int, hello: ChannelHello) -> None:
        decision = self.admission.admit(hello)
        if decision.verdict is AdmissionVerdict.HELD:
            self._kernel.happened("stream held at its handshake")
            self._held.append((stream, hello))
            return
        if decision.verdict is AdmissionVerdict.REFUSED:
            self._kernel.happened("stream refused at its handshake")
        else:
            self._monitor.let_in(hello.channel, self._attempt, hello.attempt)
            self._changed()
            self.inbound[hello.channel] = SimInbound(self._core(hello.channel), stream)
            self._begin(hello.channel.receiver)
            self._by_stream[stream] = hello.channel
        reply = HandshakeReply(decision.verdict, hello.channel, decision.reason)
        self._network.carry(stream, self._me.process, reply)

    def _retry_held(self) -> None:
        held, self._held = self._held, []
        for stream, hello in held:
            self._hello(stream, hello)

    def _reply(self, stream: int, reply: HandshakeReply) -> None:
        channel = self._by_stream.get(stream)
        if channel is None or channel not in self.outbound:
            return
        if reply.verdict is AdmissionVerdict.ACCEPTED:
            self.outbound[channel].core.accept()
        else:
            self.broken.append(f"{channel} was refused: {reply.reason}")

    def _wire(self, stream: int, wire: Wire) -> None:
        channel = self._by_stream.get(stream)
        inbound = self.inbound.get(channel) if channel is not None else None
        if inbound is None:
            return
        self._receive(inbound, wire)

    def _receive(self, inbound: SimInbound, wire: Wire) -> None:
        element = wire.element
        charge = element.charge if isinstance(element, Data) else 0
        try:
            inbound.core.on_element(wire.sequence, charge, end=isinstance(element, EndOfStream))
        except PeerError as error:
            self._kernel.happened("peer error")
            self.broken.append(str(error))
            return
        inbound.queue.append(element)

    def _credit(self, stream: int, credit: Credit) -> None:
        if self._by_stream.get(stream) == credit.channel:
            self._heard(credit)

    def _heard(self, credit: Credit) -> None:
        outbound = self.outbound.get(credit.channel)
        if outbound is None:
            return
        outbound.core.on_credit(credit)
        if outbound.core.receiver_version > outbound.told_version:
            outbound.told_version = outbound.core.receiver_version
            self.versions.append((credit.channel, outbound.told_version))

    # --- For the tasks

    def take(self, channel: ChannelId) -> Element:
        """Take the oldest element of a channel's queue, or a slice of it.

        Where calls take time, rows that wait behind it are taken with it, as many as a slice has.
        """
        inbound, pace = self.inbound[channel], self._load(channel.receiver).pace
        element = inbound.queue[0]
        if not isinstance(element, Data):
            inbound.queue.popleft()
            inbound.core.on_take()
            self._emptied(inbound)
            if isinstance(element, Barrier):
                now_us = self._kernel.now_us
                self._monitor.barrier_taken(self._attempt, channel, element, now_us)
            return element
        taken = self._take_rows(inbound, pace.slice_rows)
        while pace.known and inbound.queue and isinstance(inbound.queue[0], Data):
            left = pace.slice_rows - taken.rows
            if left <= 0:
                break
            more = self._take_rows(inbound, left)
            charge = taken.charge + more.charge
            taken = join(Fill((taken, more), charge))
        return taken

    def _take_rows(self, inbound: SimInbound, rows: int) -> Data[tuple[object, ...]]:
        """Take the rows at the head of a queue, at most so many of them."""
        element = inbound.queue[0]
        assert isinstance(element, Data), "only rows are taken in slices"
        if element.rows > rows:
            self._kernel.happened("element taken in slices")
            element, inbound.queue[0] = cut(element, rows, _rows_of)
            inbound.core.on_slice(element.charge)
            return element
        inbound.queue.popleft()
        inbound.core.on_take(element.charge)
        self._emptied(inbound)
        return element

    def _emptied(self, inbound: SimInbound) -> None:
        if not inbound.queue:
            self._monitor.emptied(inbound.core.channel, inbound.core.queued_bytes)

    def worked(self, task: TaskId, data: Data[tuple[object, ...]], took_us: int) -> None:
        """Count what the steps of a task take for rows."""
        load, now = self._load(task), self._kernel.now_us / 1_000_000
        size = max(data.charge - ELEMENT_FIXED_CHARGE_BYTES, 0)
        load.pace.worked(data.rows, size, took_us / 1_000_000)
        if load.windows.due(now):
            load.windows.share(load.pace, [i.core for _, i in self.inputs(task)], now)

    def _load(self, task: TaskId) -> ChannelLoad:
        return self._loads.setdefault(task, ChannelLoad())

    def put(self, channel: ChannelId, element: Element) -> None:
        """Queue an element behind all others of its channel; it waits while there is no room."""
        outbound = self.outbound[channel]
        outbound.order.put(element)
        if isinstance(element, Barrier):
            self._monitor.barrier_put(self._attempt, channel, element, self._kernel.now_us)
        outbound.waiting.append(element)
        self._offer(outbound)

    def congested(self, task: TaskId) -> bool:
        """Return whether some output of a task has no room: the task takes no input."""
        outputs = self._outputs.get(task)
        if outputs is None:
            found = tuple(o for c, o in self.outbound.items() if c.sender == task)
            outputs = self._outputs[task] = found
        return any(o.waiting for o in outputs)

    def inputs(self, task: TaskId) -> tuple[tuple[ChannelId, SimInbound], ...]:
        """Return the channels that end at a task."""
        found = self._inputs.get(task)
        if found is None:
            of_task = tuple((c, i) for c, i in self.inbound.items() if c.receiver == task)
            found = self._inputs[task] = of_task
        return found

    def windows(self, task: TaskId) -> dict[ChannelId, int]:
        """Return what may wait behind each output of a task."""
        return {c: o.core.window for c, o in self.outbound.items() if c.sender == task}

    def announce(self, task: TaskId, version: Version) -> None:
        """Carry ``version`` in the credit of every input of a task."""
        self._announced[task] = version
        for _, inbound in self.inputs(task):
            inbound.core.version = version

    def _offer(self, outbound: Outbound) -> None:
        if not outbound.waiting:
            return
        now = self._kernel.clock(self._me.process)
        while outbound.waiting:
            element = outbound.waiting[0]
            if isinstance(element, Data):
                if outbound.core.full:
                    return
                for piece in pieces(element, outbound.core.piece_bytes):
                    outbound.core.offer_rest(piece, now)
            else:
                outbound.core.put(element)
            outbound.waiting.popleft()

    # --- What the transport's threads do

    def pump(self, *, due_now: bool = False) -> None:
        """Send what may leave and the credit that is owed; set the next deadline."""
        if due_now:
            self._flush_due = None
        now = self._kernel.clock(self._me.process)
        due: float | None = None
        for channel, outbound in list(self.outbound.items()):
            self._offer(outbound)
            self._send(channel, outbound, now)
            wakes = outbound.core.wakes_at()
            due = wakes if due is None or (wakes is not None and wakes < due) else due
        soon = self._grant(all_of_it=due_now)
        if due is not None:
            self._wake(self._kernel.until_clock(self._me.process, due))
        if soon:
            self._wake(SOON_US)

    def _send(self, channel: ChannelId, outbound: Outbound, now: float) -> None:
        while True:
            outgoing = outbound.core.take(now)
            if outgoing is None:
                return
            element = outgoing.element
            outbound.order.sent(element)
            whole = join(element) if isinstance(element, Fill) else element
            wire = Wire(outgoing.sequence, whole)
            if outbound.stream is not None:
                self._network.carry(outbound.stream, self._me.process, wire)
            elif channel in self.inbound:
                self._receive(self.inbound[channel], wire)
            self._offer(outbound)

    def _grant(self, *, all_of_it: bool) -> bool:
        soon = False
        for inbound in self.inbound.values():
            owed = inbound.core.owed()
            if owed is Owed.NOTHING:
                continue
            if owed is Owed.SOON and not all_of_it:
                soon = True
                continue
            credit = inbound.core.credit()
            if inbound.stream is not None:
                self._network.carry(inbound.stream, self._me.process, credit)
            else:
                self._heard(credit)
        return soon

    def _wake(self, delay_us: int) -> None:
        at = self._kernel.now_us + delay_us
        if self._flush_due is None or at < self._flush_due:
            self._flush_due = at
            self._kernel.at(delay_us, self._me.process, Flush())


def _rows_of(rows: tuple[object, ...], first: int, count: int) -> tuple[object, ...]:
    return rows[first : first + count]
