"""The raw samples of one run, and the series that are computed from them."""

from dataclasses import dataclass, field
from typing import Any

from bench import histogram
from penstock.connectors.discard_sink import ROWS_AT_PREFIX, TICKS_PER_S

Series = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Event:
    """A disturbance of the job and its time. ``detail`` is its result."""

    at: float
    what: str
    detail: str = ""


@dataclass(slots=True)
class Samples:
    """Raw samples of a run. Times are seconds since its start, on the monotonic clock.

    ``memory`` is resident bytes and ``cpu`` CPU seconds of all engines, ``wire`` the bytes that
    the loopback interface has carried. ``stolen`` is for how long the host had kept a processor to
    itself since it started, the mean over all. ``switches`` counts context switches, and ``collections`` has
    those of Python's garbage collector. ``totals`` is what the sinks have published, and ``shed`` the rows that a node
    did not send.
    """

    begun: float = 0.0
    statuses: list[dict[str, Any]] = field(default_factory=list)
    memory: Series = field(default_factory=list)
    cpu: Series = field(default_factory=list)
    wire: Series = field(default_factory=list)
    stolen: Series = field(default_factory=list)
    switches: Series = field(default_factory=list)
    collections: list[list[dict[str, float]]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    shed: int = 0
    pauses: list[dict[str, Any]] = field(default_factory=list)
    first_file_s: float | None = None
    exit_code: int = -1
    seconds: float = 0.0

    def step(self, name: str, what: str) -> Series:
        """Return (time, value) of one counter of one step, which engines tell once a second."""
        found: Series = []
        for status in self.statuses:
            steps = [step for step in status["steps"] if step["name"] == name]
            found.extend((status["at"], step[what]) for step in steps)
        return found

    def epochs(self) -> list[dict[str, Any]]:
        """List the committed checkpoints that were seen, each once, with ``at``."""
        seen: dict[int, dict[str, Any]] = {}
        for status in self.statuses:
            if (found := status["checkpoint"]) is None:
                continue
            known = seen.get(found["epoch"])
            # Size and time are told a little later than the epoch.
            if known is None or found["bytes"] > known["bytes"]:
                seen[found["epoch"]] = {**found, "at": known["at"] if known else status["at"]}
        return [seen[epoch] for epoch in sorted(seen)]

    @property
    def output(self) -> dict[str, int]:
        """Return the totals of all rows that came out, those that were shed included."""
        return {**self.totals, "rows": self.totals.get("rows", 0) + self.shed}

    def ticks(self) -> Series:
        """Return (time, rows) of every tenth of a second between the first rows and the last.

        These are rows that were committed, at the time at which the sink took them.
        """
        start = len(ROWS_AT_PREFIX)
        rows = {int(k[start:]): n for k, n in self.totals.items() if k.startswith(ROWS_AT_PREFIX)}
        if not rows:
            return []
        span = range(min(rows), max(rows) + 1)
        return [(tick / TICKS_PER_S - self.begun, rows.get(tick, 0)) for tick in span]

    def ages(self) -> dict[int, dict[int, int]]:
        """Return the buckets of latency by second since the start."""
        found = histogram.by_second(self.totals)
        return {second - int(self.begun): buckets for second, buckets in sorted(found.items())}
