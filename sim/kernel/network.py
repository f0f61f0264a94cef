"""The virtual network: control messages that may be lost, and streams that stall and break.

A host is a worker. Links are directed pairs of hosts, so a cut may be one-way. A control message
over a cut link is lost. A message that its sender has given up may still arrive, late and in another
order. A stream over a cut link stalls, like TCP, and goes on when the link heals. A stream that
stalls too long breaks, and both ends learn of it. A process that dies breaks its streams. Within a
stream nothing is lost, repeated or reordered. Between streams no order is promised.
"""

from dataclasses import dataclass, field

from sim.kernel.faults import Verdict
from sim.kernel.kernel import SECOND, SimKernel

FAST_US = (100, 2_000)
SLOW_US = (2_000, 200_000)
LATE_US = (2_000, 3 * SECOND)
BREAK_US = (SECOND // 2, 4 * SECOND)


@dataclass(frozen=True, slots=True)
class Packet:
    """A control message at its receiver; ``source`` is the process that sent it."""

    source: str
    body: object


@dataclass(frozen=True, slots=True)
class Carried:
    """A message of a stream at one of its ends. ``body`` is what the other end has sent."""

    stream: int
    body: object


@dataclass(frozen=True, slots=True)
class SimStreamBroken:
    """A stream broke. Each end learns of it at its own time."""

    stream: int


@dataclass(frozen=True, slots=True)
class _Stalled:
    """The time limit of a stalled stream is over."""

    stream: int


@dataclass(slots=True)
class SimStream:
    """One connection between two processes. ``parked``: messages that wait until a link heals."""

    ends: tuple[str, str]
    parked: list[tuple[str, object]] = field(default_factory=list)
    open: bool = True


class Network:
    """All links and streams of the cluster, and the node that keeps their time limits."""

    def __init__(self, kernel: SimKernel, host_of: dict[str, str]) -> None:
        """``host_of`` names the host of each process. Processes of one host are never cut."""
        self.kernel = kernel
        self.host_of = host_of
        self.cuts: dict[tuple[str, str], bool] = {}
        self.slow_chance = 0.02
        self._streams: dict[int, SimStream] = {}
        self._serial = 0

    # --- control messages ----------------------------------------------------------------

    def send(self, source: str, target: str, body: object, verdict: Verdict) -> None:
        """Send a control message. A verdict or a cut may lose it or delay it."""
        if verdict is Verdict.FAILED or self.cut(source, target):
            self.kernel.happened("control message lost")
            return
        if verdict is Verdict.UNKNOWN:
            self.kernel.happened("control message late")
            self.kernel.at(self._between(LATE_US), target, Packet(source, body))
            return
        self.kernel.at(self._delay(), target, Packet(source, body), lane=("c", source, target))

    # --- streams -------------------------------------------------------------------------

    def open(self, source: str, target: str) -> int:
        """Open a stream. It breaks at once when no process listens, like a refused dial."""
        self._serial += 1
        self._streams[self._serial] = SimStream((source, target))
        if not self.kernel.alive(target):
            self.break_stream(self._serial)
        return self._serial

    def carry(self, stream: int, source: str, body: object) -> None:
        """Send a message to the other end. A broken stream ignores it."""
        state = self._streams.get(stream)
        if state is None or not state.open:
            return
        target = state.ends[1] if source == state.ends[0] else state.ends[0]
        if self.cut(source, target) or state.parked:
            if not state.parked:
                self.kernel.at(self._between(BREAK_US), "net", _Stalled(stream))
            state.parked.append((source, body))
            return
        self._deliver(stream, state, target, Carried(stream, body))

    def close(self, stream: int) -> None:
        """Forget a stream without breaking it, because both ends know that it has ended."""
        self._streams.pop(stream, None)

    def break_stream(self, stream: int) -> None:
        """Break a stream. Messages under way still arrive, then each end learns of the break."""
        state = self._streams.get(stream)
        if state is None or not state.open:
            return
        state.open = False
        for end in state.ends:
            self._deliver(stream, state, end, SimStreamBroken(stream))
        del self._streams[stream]

    def break_all_of(self, process: str) -> None:
        """Break every stream of a process that died."""
        for serial in [s for s, state in self._streams.items() if process in state.ends]:
            self.break_stream(serial)

    def all_streams(self) -> list[int]:
        """List the open streams, oldest first."""
        return list(self._streams)

    def handle(self, event: object, now: float) -> None:
        """Break a stream that has stalled for too long."""
        assert isinstance(event, _Stalled)
        state = self._streams.get(event.stream)
        if state is not None and state.parked:
            self.kernel.happened("stream broke after a stall")
            self.break_stream(event.stream)

    # --- links ---------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> bool:
        """Return whether messages from one process to another do not pass now."""
        return self.cuts.get((self.host_of[source], self.host_of[target]), False)

    def set_cut(self, source_host: str, target_host: str, is_cut: bool) -> None:
        """Cut or heal one direction between two hosts. Stalled streams go on when it heals."""
        self.cuts[source_host, target_host] = is_cut
        if not is_cut:
            self._unpark()

    def heal(self) -> None:
        """Heal every link."""
        self.cuts.clear()
        self.slow_chance = 0.0
        self._unpark()

    def _unpark(self) -> None:
        for serial, state in list(self._streams.items()):
            parked, state.parked = state.parked, []
            for source, body in parked:
                self.carry(serial, source, body)

    def _deliver(self, serial: int, state: SimStream, target: str, event: object) -> None:
        self.kernel.at(self._delay(), target, event, lane=("s", serial, target))

    def _delay(self) -> int:
        slow = self.kernel.streams.schedule.random() < self.slow_chance
        return self._between(SLOW_US if slow else FAST_US)

    def _between(self, bounds: tuple[int, int]) -> int:
        return self.kernel.streams.schedule.randint(*bounds)
