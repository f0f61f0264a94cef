"""The kernel of the simulation: virtual time, seeded ties, lives of nodes, a hash of the trace.

There is one thread and one heap. An event waits for ``(time, tie)``. The tie is drawn from the
schedule stream, so the seed chooses the order of events of one instant. Events of one *lane* never
overtake each other: a lane is one stream, one socket, or one process's queue.

A node has *lives*. Killing a node ends its life, and events for that life are dropped. A paused
node (SIGSTOP) keeps its events until it goes on. Time is in whole microseconds, so no result
depends on the rounding of a float.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Protocol

SECOND = 1_000_000
LIVES_MAX = 10_000


class SimNode(Protocol):
    """A receiver of events: a process of the simulated cluster, or a service."""

    def handle(self, event: object, now: float) -> None:
        """Take one event; ``now`` is the node's own monotonic clock in seconds."""
        ...


class SimCrash(Exception):
    """Raised inside a node's handler: the process dies at once."""


class Violation(BaseException):  # no error of the code that runs
    """A promise is broken. ``rule`` is the letter of the invariant.

    A server finds it inside the call of an engine, which must not take it for an error of that server.
    """

    def __init__(self, rule: str, text: str) -> None:
        """Keep the letter: reports and mutants are sorted by it."""
        super().__init__(f"{rule}: {text}")
        self.rule = rule


@dataclass(slots=True)
class SimProcess:
    """A node as the kernel knows it: its life, whether it runs, offset and rate of its clock."""

    node: SimNode
    life: int = 1
    alive: bool = True
    paused: bool = False
    clock_offset_us: int = 0
    clock_rate: float = 1.0
    backlog: list["Entry"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    """One event under way: its node, the life of the node, and its lane."""

    name: str
    life: int
    event: object
    lane: object = None


class Streams:
    """Separate random streams: adding a fault shifts neither the workload nor the schedule."""

    def __init__(self, seed: int) -> None:
        """Derive each stream from the seed and its own name (text seeds ignore the hash seed)."""
        self.workload = Random(f"{seed}/workload")
        self.schedule = Random(f"{seed}/schedule")
        self.faults = Random(f"{seed}/faults")
        self.hints = Random(f"{seed}/hints")


class SimKernel:
    """Virtual time and the order of events. The kernel does not know what events mean."""

    def __init__(self, seed: int, on_crash: Callable[[str], None]) -> None:
        """Start at time 0 without nodes. ``on_crash`` is called when a handler raises SimCrash."""
        self.streams = Streams(seed)
        self.now_us = 0
        self.handled = 0
        self.sometimes: dict[str, int] = {}
        self.listener: Callable[[str, int], None] | None = None
        self.delivered: Callable[[object], None] | None = None
        self.lines: list[str] | None = None
        self.describe: Callable[[object], str] = repr
        self._on_crash = on_crash
        self._heap: list[tuple[int, float, int, Entry]] = []
        self._pushed = 0
        self._lane_time: dict[object, int] = {}
        self._processes: dict[str, SimProcess] = {}
        self._trace = blake2b(digest_size=16)

    # --- nodes ---------------------------------------------------------------------------

    def add(self, name: str, node: SimNode, offset_us: int = 0, rate: float = 1.0) -> None:
        """Start a node, or a new life of a killed node."""
        old = self._processes.get(name)
        life = 1 if old is None else old.life + 1
        assert life < LIVES_MAX, f"{name} was restarted {life} times"
        self._processes[name] = SimProcess(node, life, clock_offset_us=offset_us, clock_rate=rate)

    def kill(self, name: str) -> None:
        """End the life of a node. Its memory and its pending events are lost."""
        process = self._processes[name]
        process.alive = False
        process.backlog.clear()
        self.note("kill", name)

    def pause(self, name: str) -> None:
        """Stop a node without killing it. Its events wait."""
        self._processes[name].paused = True
        self.note("pause", name)

    def resume(self, name: str) -> None:
        """Let a paused node go on. The waiting events come now; only the order of each lane is kept."""
        process = self._processes[name]
        if not process.paused:
            return
        process.paused = False
        self.note("resume", name)
        waiting, process.backlog = process.backlog, []
        for entry in self._between_lanes(waiting):
            self._push(self.now_us, entry, tie=-1.0)

    def _between_lanes(self, waiting: list["Entry"]) -> list["Entry"]:
        """Shuffle the waiting events, because the order in which sockets are read is not defined."""
        places = [entry.lane if entry.lane is not None else object() for entry in waiting]
        queues: dict[object, deque[Entry]] = {}
        for place, entry in zip(places, waiting, strict=True):
            queues.setdefault(place, deque()).append(entry)
        self.streams.schedule.shuffle(places)
        return [queues[place].popleft() for place in places]

    def names(self) -> list[str]:
        """List every node that was ever added, in order."""
        return list(self._processes)

    def alive(self, name: str) -> bool:
        """Return whether a node is running or merely paused."""
        process = self._processes.get(name)
        return process is not None and process.alive

    def paused(self, name: str) -> bool:
        """Return whether a node is stopped by a pause."""
        return self._processes[name].paused

    def life(self, name: str) -> int:
        """Return the number of the node's present life."""
        return self._processes[name].life

    def clock(self, name: str) -> float:
        """Return a node's own monotonic time in seconds: its offset and rate applied."""
        process = self._processes[name]
        return process.clock_offset_us / SECOND + self.now_us * process.clock_rate / SECOND

    def until_clock(self, name: str, at: float) -> int:
        """Return the microseconds until a node's clock shows ``at``; at least 0."""
        missing = at - self.clock(name)
        return max(0, int(missing * SECOND / self._processes[name].clock_rate) + 1)

    # --- events --------------------------------------------------------------------------

    def at(self, delay_us: int, name: str, event: object, lane: object = None) -> None:
        """Give ``event`` to the present life of a node after a delay, in the order of its lane."""
        process = self._processes.get(name)
        if process is None or not process.alive:
            return
        due = self.now_us + max(0, delay_us)
        if lane is not None:
            due = max(due, self._lane_time.get(lane, -1) + 1)
            self._lane_time[lane] = due
        self._push(due, Entry(name, process.life, event, lane))

    def run(self, until_us: int, done: Callable[[], bool] | None = None) -> bool:
        """Handle events up to a time. True when ``done`` is true, False at the end of the time."""
        while self._heap and self._heap[0][0] <= until_us:
            due, _, _, entry = heappop(self._heap)
            self.now_us = due
            self.dispatch(entry)
            if done is not None and done():
                return True
        self.now_us = max(self.now_us, until_us) if done is None else self.now_us
        return False

    def dispatch(self, entry: Entry) -> None:
        """Give one event to its node, unless that life is over. SimCrash ends the node."""
        process = self._processes[entry.name]
        if not process.alive or process.life != entry.life:
            return
        if process.paused:
            process.backlog.append(entry)
            return
        self.handled += 1
        self.note(type(entry.event).__name__, entry.name)
        if self.lines is not None:
            text = self.describe(entry.event)
            if text:
                self.lines.append(f"{self.now_us / SECOND:10.6f} {entry.name:<8} {text}")
        if self.delivered is not None:
            self.delivered(entry.event)
        try:
            process.node.handle(entry.event, self.clock(entry.name))
        except SimCrash:
            self._on_crash(entry.name)

    def _push(self, due: int, entry: Entry, tie: float | None = None) -> None:
        self._pushed += 1
        tie = self.streams.schedule.random() if tie is None else tie
        heappush(self._heap, (due, tie, self._pushed, entry))

    # --- what is remembered of a run -----------------------------------------------------

    def note(self, what: str, name: str) -> None:
        """Add one fact to the hash of the trace."""
        self._trace.update(f"{self.now_us} {name} {what}\n".encode())

    def log(self, text: str) -> None:
        """Add a line to the readable trace, when one is kept."""
        if self.lines is not None:
            self.lines.append(f"{self.now_us / SECOND:10.6f} -- {text}")

    def happened(self, what: str) -> None:
        """Count a state that matters and call the listener. Faults may be aimed at such a state."""
        count = self.sometimes[what] = self.sometimes.get(what, 0) + 1
        if self.listener is not None:
            self.listener(what, count)

    def trace_hash(self) -> str:
        """Return the hash of all events, in order. Equal seeds give equal hashes."""
        return self._trace.hexdigest()
