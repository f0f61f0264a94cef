"""The transport of one worker: all channels of an attempt, opened, grown and reset together.

    exchange = Exchange(identity, settings, on_event, endpoint)
    exchange.reset(attempt)                 # discard everything; hold streams of this attempt
    exchange.open_attempt(attempt, wiring)  # accept and dial; elements begin to flow
    exchange.extend(wiring)                 # a rescale adds channels and members
    exchange.retire(channels)               # a rescale ends channels; their close is no failure
    exchange.renew()                        # use renewed certificates for new connections
    exchange.close()

One control thread calls these methods; ``renew`` may be called from any thread. Tasks use
:meth:`Exchange.input` and :meth:`Exchange.output`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.base.limits import (
    ORPHAN_HANDLERS_MAX,
    SENDER_THREADS,
    WRITE_CANCEL_DEADLINE_S,
)
from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Incarnation,
    JobUid,
    Ordinal,
    TaskId,
    Version,
)
from penstock.contract.settings import ShuffleSettings
from penstock.model.elements import EndOfStream
from penstock.model.wire import ChannelHello, LinkHello
from penstock.protocol.channel.flow_control import SendChannel
from penstock.transport.batches import fingerprint
from penstock.transport.input import InputChannel, TaskInput, Wakeup
from penstock.transport.output import Output, RemoteOutput, SenderThread, join_locally, receive_state
from penstock.transport.server import Listener, Receiver
from penstock.transport.stats import ExchangeStats
from penstock.transport.stream import LOOPBACK, FlightEndpoint, OutStream, PeerLink, describe
from penstock.transport.transport_events import OnEvent, OrphansExceeded, StreamBroken


@dataclass(frozen=True, slots=True)
class Identity:
    """How this worker identifies itself to its peers."""

    job_uid: JobUid
    ordinal: Ordinal
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class Peer:
    """A member of the attempt: its incarnation, and the address of its Flight server."""

    incarnation: Incarnation
    address: str


@dataclass(frozen=True, slots=True)
class Wiring:
    """Channels to open. Channels that neither begin nor end on this worker are ignored.

    ``schemas`` are by edge. ``wakeups`` has an entry for every task of this worker, even for a task
    without channels. ``version`` is the assignment that this worker has loaded; peers count as
    having loaded it until they report a newer one. Channels of ``prompt`` edges report every element
    that their task takes.
    """

    members: Mapping[Ordinal, Peer]
    channels: tuple[ChannelId, ...]
    schemas: Mapping[int, pa.Schema]
    wakeups: Mapping[TaskId, Wakeup]
    version: Version
    prompt: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Current:
    """Everything that belongs to one attempt and ends with it."""

    attempt: Attempt
    inputs: dict[TaskId, TaskInput] = field(default_factory=dict)
    outputs: dict[ChannelId, Output] = field(default_factory=dict)
    links: dict[Ordinal, PeerLink] = field(default_factory=dict)
    schemas: dict[int, pa.Schema] = field(default_factory=dict)
    wakeups: dict[TaskId, Wakeup] = field(default_factory=dict)
    members: dict[Ordinal, Peer] = field(default_factory=dict)
    channels: set[ChannelId] = field(default_factory=set)
    ending: list[Output] = field(default_factory=list)
    senders: list[SenderThread] = field(default_factory=list)


class Exchange:
    """See the module docstring. Raises ConfigError when the address cannot be listened on."""

    def __init__(
        self,
        identity: Identity,
        settings: ShuffleSettings,
        on_event: OnEvent,
        endpoint: FlightEndpoint = LOOPBACK,
    ) -> None:
        self._identity = identity
        self._settings = settings
        self._on_event = on_event
        self._receiver = Receiver(identity.job_uid, identity.ordinal, on_event)
        self._listener = Listener(endpoint, self._receiver.handle)
        self._endpoint = endpoint
        self._stopping: list[SenderThread] = []
        self._current = _Current(Attempt(0))

    @property
    def location(self) -> str:
        """The address at which peers dial this worker."""
        return self._listener.location

    def renew(self) -> None:
        """Use the newest certificates for new inbound connections; open streams are not affected.

        Outbound connections take the newest certificates without this call. Raises ConfigError
        when the server cannot listen on its address again.
        """
        self._listener.renew()

    # --- Begin and end of an attempt ----------------------------------------------------------

    def reset(self, attempt: Attempt) -> None:
        """Discard all queues, buffers and streams; refuse streams of lower attempts, hold this one's.

        Blocked writes are cancelled. Blocked handlers are detached: they end when their callers
        end. A write to a peer that is stopped ends only when the connection ends. Its thread is
        left alone and counted as an orphan.
        """
        current, self._current = self._current, _Current(attempt)
        self._receiver.reset(attempt)
        for link in current.links.values():
            link.close()
        for output in [*current.outputs.values(), *current.ending]:
            output.close()
        for task in current.inputs.values():
            task.detach_all()
        for wakeup in current.wakeups.values():
            wakeup.set()
        for sender in current.senders:  # after the calls that close their streams
            sender.stop()
        self._stopping = [s for s in [*self._stopping, *current.senders] if s.alive]
        self._check_orphans()

    def open_attempt(self, attempt: Attempt, wiring: Wiring) -> None:
        """Open all channels of an attempt that :meth:`reset` has named."""
        assert attempt == self._current.attempt, f"reset to attempt {attempt} first"
        self._check_orphans()
        self.extend(wiring)

    def extend(self, wiring: Wiring) -> None:
        """Open further channels of the attempt that is open."""
        current = self._current
        current.channels.update(wiring.channels)
        current.schemas.update(wiring.schemas)
        current.members.update(wiring.members)
        current.wakeups.update(wiring.wakeups)
        for channel, output in current.outputs.items():
            output.wakeup = current.wakeups[channel.sender]  # the task may have been made again
        for task, wakeup in wiring.wakeups.items():
            current.inputs.setdefault(task, TaskInput(task, wakeup)).wakeup = wakeup
        self._admit(wiring)
        self._wire_locally(wiring)
        self._dial(wiring)

    def retire(self, channels: Iterable[ChannelId]) -> None:
        """End and forget channels that no version needs any more; unknown channels are ignored.

        Workers without a channel are forgotten too. :meth:`extend` may bring both back.
        """
        current, gone = self._current, set(channels)
        for channel in gone:
            task = current.inputs.get(channel.receiver)
            if task is not None:
                task.detach(channel)
            output = current.outputs.pop(channel, None)
            if output is not None:
                current.ending.append(output)
                if not output.ended:
                    output.put(EndOfStream())
        current.channels -= gone
        left = _workers(gone) - _workers(current.channels)
        self._receiver.forget(left, gone)
        for worker in left:
            link = current.links.pop(worker, None)
            if link is not None:
                link.close()

    def close(self, timeout_s: float = WRITE_CANCEL_DEADLINE_S) -> bool:
        """Drop everything and stop listening; False when threads remain that cannot be ended.

        A process with such threads must end through ``os._exit``: a normal exit would wait for
        them.
        """
        self.reset(self._current.attempt)
        self._receiver.close()
        stopped = [sender.join(timeout_s) for sender in self._stopping]
        return self._listener.close(timeout_s) and all(stopped)

    # --- For tasks ----------------------------------------------------------------------------

    def input(self, task: TaskId) -> TaskInput:
        """Return the inputs of a task of this worker; a source has an input without channels."""
        return self._current.inputs[task]

    def output(self, channel: ChannelId) -> Output:
        """Return the sender's end of a channel that begins on this worker."""
        return self._current.outputs[channel]

    def stats(self) -> ExchangeStats:
        """Return counters of all channels, and the number of handlers and orphans."""
        current = self._current
        return ExchangeStats(
            tuple(output.stats() for output in list(current.outputs.values())),
            tuple(s for task in list(current.inputs.values()) for s in task.stats()),
            self._receiver.count()[0],
            self._orphans(),
        )

    # --- Wiring -------------------------------------------------------------------------------

    def _admit(self, wiring: Wiring) -> None:
        me = self._identity.ordinal
        inbound: dict[ChannelId, InputChannel] = {
            channel: self._current.inputs[channel.receiver].add(
                receive_state(channel, self._settings, wiring.version, prompt=channel.edge in wiring.prompt), None
            )
            for channel in wiring.channels
            if channel.receiver.worker == me != channel.sender.worker
        }
        members = {ordinal: peer.incarnation for ordinal, peer in wiring.members.items()}
        schemas = {channel: self._current.schemas[channel.edge] for channel in inbound}
        self._receiver.admit(members, inbound, schemas)

    def _wire_locally(self, wiring: Wiring) -> None:
        me, current = self._identity.ordinal, self._current
        joined = [c for c in wiring.channels if c.sender.worker == me == c.receiver.worker]
        ends = (current.inputs, current.wakeups)
        current.outputs.update(join_locally(joined, ends, self._settings, wiring.version))

    def _dial(self, wiring: Wiring) -> None:
        me = self._identity.ordinal
        by_peer: dict[Ordinal, list[RemoteOutput]] = {}
        for channel in wiring.channels:
            if channel.sender.worker == me != channel.receiver.worker:
                output = self._remote(channel, wiring.version)
                self._current.outputs[channel] = output
                by_peer.setdefault(channel.receiver.worker, []).append(output)
        for peer, outputs in by_peer.items():
            self._link(peer).add(outputs)

    def _remote(self, channel: ChannelId, version: Version) -> RemoteOutput:
        settings = self._settings
        state = SendChannel[pa.RecordBatch](settings.buffer_bytes, settings.flush_interval_s, version)
        # All channels to a peer share a thread, so a peer that hangs blocks no other peer.
        senders = self._current.senders
        if not senders:
            senders += [SenderThread(f"sender-{n}", self._on_broken) for n in range(SENDER_THREADS)]
        sender = senders[channel.receiver.worker % len(senders)]
        wakeup = self._current.wakeups[channel.sender]
        return RemoteOutput(channel, state, wakeup, sender.schedule)

    def _link(self, peer: Ordinal) -> PeerLink:
        link = self._current.links.get(peer)
        if link is None:
            me, attempt = self._identity, self._current.attempt
            hello = LinkHello(me.job_uid, attempt, me.incarnation, me.ordinal, peer)
            make_stream = self._stream_maker(peer, attempt)
            address = self._current.members[peer].address
            link = PeerLink(hello, address, make_stream, self._on_event, self._endpoint)
            self._current.links[peer] = link
            link.start()
        return link

    def _stream_maker(self, peer: Ordinal, attempt: Attempt) -> Callable[[Any, ChannelId], OutStream]:
        me, compression = self._identity, self._settings.compression
        schemas, endpoint = self._current.schemas, self._endpoint

        def make(client: Any, channel: ChannelId) -> OutStream:
            schema = schemas[channel.edge]
            hello = ChannelHello(me.job_uid, attempt, me.incarnation, channel, fingerprint(schema))
            trust = endpoint.trust_now()
            return OutStream(client, hello, schema, compression, trust=trust)

        return make

    # --- Failures -----------------------------------------------------------------------------

    def _on_broken(self, output: RemoteOutput, error: BaseException) -> None:
        current = self._current
        if current.outputs.get(output.channel) is output and not output.ended:
            peer = output.channel.receiver.worker
            self._on_event(StreamBroken(current.attempt, peer, output.channel, describe(error)))

    def _orphans(self) -> int:
        return self._receiver.count()[1] + sum(sender.alive for sender in self._stopping)

    def _check_orphans(self) -> None:
        orphans = self._orphans()
        if orphans > ORPHAN_HANDLERS_MAX:
            self._on_event(OrphansExceeded(orphans))


def _workers(channels: Iterable[ChannelId]) -> set[Ordinal]:
    return {worker for c in channels for worker in (c.sender.worker, c.receiver.worker)}
