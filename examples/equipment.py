"""Monitoring of manufacturing equipment: do valves answer ever later? (DEBS 2012 Grand Challenge, query 1)

A machine has three additive sensors (``bm05`` to ``bm07``) and three valves (``bm08`` to ``bm10``). When a sensor
changes, its valve changes a little later. The job reports each delay, an alarm when a delay is more than one per cent
above the oldest one of the last 24 hours, and the trend of the delays of these 24 hours.
"""

from decimal import Decimal
from typing import Any, Literal

import penstock as ps

SENSORS = ("bm05", "bm06", "bm07")
VALVES = ("bm08", "bm09", "bm10")
PAIR = ("machine", "sensor")
DAY_NS = 86_400_000_000_000
ALARM_PER_CENT = 101


@ps.record
class Reading:
    """What is read of the 66 fields of a data point, with one machine."""

    ts: int
    bm05: bool
    bm06: bool
    bm07: bool
    bm08: bool
    bm09: bool
    bm10: bool


@ps.record
class MachineReading(Reading):
    """The same, with several machines."""

    machine: int


@ps.record
class State:
    """The six bits of a machine at a time."""

    machine: int
    ts: int
    bits: int


@ps.record
class Edge:
    """A change of a sensor, or of its valve."""

    machine: int
    sensor: ps.Enum[SENSORS]  # type: ignore[valid-type]
    is_valve: bool
    ts: int


@ps.record
class Delay:
    """How long a valve took, in nanoseconds; ``ts`` is the time of the valve's change."""

    machine: int
    sensor: ps.Enum[SENSORS]  # type: ignore[valid-type]
    ts: int
    delay: int


@ps.record
class Alarm:
    """A delay that is too long, and the oldest one of the 24 hours before."""

    machine: int
    sensor: str
    ts: int
    delay: int
    oldest_ts: int
    oldest_delay: int


@ps.record
class Trend:
    """The line of least squares through ``count`` delays: ``intercept + slope * (time - oldest_ts)`` nanoseconds."""

    machine: int
    sensor: str
    ts: int
    count: int
    oldest_ts: int
    slope: float
    intercept: float


@ps.record
class Letter:
    """A row that is not used, and why."""

    error_step: str
    error: str
    ts: int | None


@ps.state
class Last:
    """The newest reading of a machine."""

    is_known: bool = False
    ts: int = 0
    bits: int = 0


@ps.state
class Pending:
    """When a sensor changed, until its valve does."""

    since: int | None = None


@ps.state
class Day:
    """The delays of the last 24 hours, and their sums. Times count from ``base``, that of the oldest one."""

    delays: ps.List[tuple[int, int]]
    base: int = 0
    t: ps.Decimal[38, 0] = Decimal(0)  # type: ignore[valid-type]
    tt: ps.Decimal[38, 0] = Decimal(0)  # type: ignore[valid-type]
    d: ps.Decimal[38, 0] = Decimal(0)  # type: ignore[valid-type]
    td: ps.Decimal[38, 0] = Decimal(0)  # type: ignore[valid-type]


def packed(r: Reading) -> int:
    """Return the six bits as one number."""
    sensors = (1 if r.bm05 else 0) | (2 if r.bm06 else 0) | (4 if r.bm07 else 0)
    valves = (8 if r.bm08 else 0) | (16 if r.bm09 else 0) | (32 if r.bm10 else 0)
    return sensors | valves


def project(r: Reading) -> State:
    """Keep the bits of the only machine."""
    return State(0, r.ts, packed(r))


def project_machine(r: MachineReading) -> State:
    """Keep the bits of a machine."""
    return State(r.machine, r.ts, packed(r))


def edges(r: State, s: Last, out: ps.Out[Edge]) -> None:
    """Emit what has changed since the last reading. In one reading a sensor changes before its valve."""
    if s.is_known:
        if r.ts < s.ts:
            raise ValueError(
                f"time goes back from {s.ts} to {r.ts}: a machine's readings must be in order, in one file"
            )
        changed = s.bits ^ r.bits
        if changed != 0:
            tell(r, out, changed, "bm05")
            tell(r, out, changed >> 1, "bm06")
            tell(r, out, changed >> 2, "bm07")
    s.is_known = True
    s.ts = r.ts
    s.bits = r.bits


def tell(r: State, out: ps.Out[Edge], changed: int, sensor: str) -> None:
    """Emit the changes of one pair: bit 0 is its sensor, bit 3 its valve."""
    if changed & 1 != 0:
        out.emit(Edge(r.machine, sensor, False, r.ts))
    if changed >> 3 & 1 != 0:
        out.emit(Edge(r.machine, sensor, True, r.ts))


def matcher(*, refuses: bool) -> Any:
    """Return the function that measures delays. ``refuses``: a valve's change without a sensor's is an error."""

    def delay(r: Edge, s: Pending, out: ps.Out[Delay]) -> None:
        if not r.is_valve:
            s.since = r.ts  # a newer change of the sensor replaces one that still waits
        elif s.since is not None:
            out.emit(Delay(r.machine, r.sensor, r.ts, r.ts - s.since))
            s.since = None
        elif refuses:
            raise ValueError(f"the valve of {r.sensor} changes, and no change of the sensor waits for it")

    return delay


def watch(r: Delay, s: Day, out: ps.Out[Trend, {"alarms": Alarm}]) -> None:  # noqa: F821
    """Compare a delay with the oldest one of 24 hours, and emit the trend of all of them."""
    t, tt, d, td = int(s.t), int(s.tt), int(s.d), int(s.td)
    while len(s.delays) and s.delays[0][0] <= r.ts - DAY_NS:
        at, gone = s.delays.popleft()
        at -= s.base
        t, tt, d, td = t - at, tt - at * at, d - gone, td - at * gone
    n = len(s.delays)
    oldest_ts, oldest = s.delays[0] if n else (r.ts, r.delay)
    shift, s.base = oldest_ts - s.base, oldest_ts
    t, tt, td = t - n * shift, tt - 2 * shift * t + n * shift * shift, td - shift * d
    at = r.ts - oldest_ts
    n, t, tt, d, td = n + 1, t + at, tt + at * at, d + r.delay, td + at * r.delay
    s.delays.append((r.ts, r.delay))
    s.t, s.tt, s.d, s.td = Decimal(t), Decimal(tt), Decimal(d), Decimal(td)
    if r.delay * 100 > oldest * ALARM_PER_CENT:
        out.to("alarms", Alarm(r.machine, r.sensor, r.ts, r.delay, oldest_ts, oldest))
    spread = n * tt - t * t
    if spread:
        slope, intercept = (n * td - t * d) / spread, (d * tt - t * td) / spread
        out.emit(Trend(r.machine, r.sensor, r.ts, n, oldest_ts, slope, intercept))


def letter(r: Letter) -> Letter:
    """Keep what all dead letters have."""
    return r


def job(params: ps.Parameters) -> ps.Job:
    """Monitor one machine, or several."""
    output, dead_letters = params["output"], params["dead_letters"]
    several = params.boolean("machines")
    on_error: Literal["dead-letter", "fail"] = "dead-letter" if dead_letters else "fail"
    columns = {"ts": "int64", **dict.fromkeys(SENSORS + VALVES, "bool")} | ({"machine": "int64"} if several else {})
    job = ps.Job()
    announce = params.get("announce")
    source = ps.ingest(2, announce) if announce else ps.parquet(params["input"], rate=params.integer("rate"))
    readings = job.source("readings", source, columns=columns)
    states = readings.map("project", project_machine if several else project, on_error=on_error)
    changes = states.key_by("machine").process("edges", edges, on_error=on_error)
    delays = changes.key_by(*PAIR).process("delays", matcher(refuses=bool(dead_letters)), on_error=on_error)
    delays.sink("delays_out", ps.parquet(f"{output}/delays"))
    trends = delays.key_by(*PAIR).process("watch", watch)
    trends.sink("trends", ps.parquet(f"{output}/trends"))
    trends.output("alarms").sink("alarms", ps.parquet(f"{output}/alarms"))
    if dead_letters:
        letters = [
            each.dead_letter.map(f"{name}_letter", letter)
            for name, each in (("project", states), ("edges", changes), ("delays", delays))
        ]
        letters[0].union(*letters[1:]).sink("letters", ps.parquet(dead_letters))
    return job
