"""Linear Road as a routing workload: nine light steps, and three notifications for each report, all of them empty.

The suite of the actor paper has this program. It is no toll system: its averages are flushed at every report, its
counts never exceed one, and its tolls are always zero. What it measures is how fast rows pass three branches. Its
operators keep their state without keys; here they have keys, so the notifications do not depend on the number of tasks.
The example ``linear_road`` computes tolls.

    reports -> dispatcher -+-> position toll -------------------------------+
                           +-> average speed -> last average -> speed toll -+-> notifications
                           +-> count --------------------------> count toll -+
"""

import penstock as ps

COLUMNS = ("Type", "Time", "VID", "Spd", "XWay", "Lane", "Dir", "Seg", "Pos")
SEGMENT = ("XWay", "Dir", "Seg")
CROWDED = 50
POSITION, SPEED, COUNT = 0, 1, 2  # the branches


@ps.record
class Row:
    """A row of the input."""

    Type: int
    Time: int
    VID: int
    Spd: int
    XWay: int
    Dir: int
    Seg: int


@ps.record
class Report:
    """A report of a position."""

    Time: int
    VID: int
    Spd: int
    XWay: int
    Dir: int
    Seg: int


@ps.record
class Mean:
    """The mean speed in a segment."""

    Time: int
    VID: int
    XWay: int
    Dir: int
    Seg: int
    speed: int


@ps.record
class Cars:
    """The number of cars in a segment."""

    Time: int
    VID: int
    XWay: int
    Dir: int
    Seg: int
    cars: int


@ps.record
class Notification:
    """A notification of a branch; its toll is zero."""

    branch: ps.int8
    VID: int
    Time: int
    toll: int


@ps.state
class Segment:
    """The segment of a car."""

    Seg: int = 0


@ps.state
class Before:
    """The report before this one."""

    is_known: bool = False
    Time: int = 0
    Spd: int = 0
    XWay: int = 0
    Dir: int = 0
    Seg: int = 0


@ps.state
class Speeds:
    """The last speeds of a segment."""

    last: ps.Ring[ps.int16, 11]  # type: ignore[valid-type]


@ps.state
class Minute:
    """The newest value of a segment."""

    minute: int = 0
    value: int = 0


def dispatch(r: Row, out: ps.Out[Report]) -> None:
    """Keep reports of positions."""
    if r.Type == 0:
        out.emit(Report(r.Time, r.VID, r.Spd, r.XWay, r.Dir, r.Seg))


def position_toll(r: Report, s: Segment, out: ps.Out[Notification]) -> None:
    """Note the segment, and notify."""
    s.Seg = r.Seg
    out.emit(Notification(POSITION, r.VID, r.Time, 0))


def average(r: Report, s: Before, out: ps.Out[Mean]) -> None:
    """Emit the mean of one report, the one before: the minute is flushed each time."""
    if s.is_known:
        out.emit(Mean(s.Time, r.VID, s.XWay, s.Dir, s.Seg, s.Spd))
    s.is_known = True
    s.Time = r.Time
    s.Spd = r.Spd
    s.XWay = r.XWay
    s.Dir = r.Dir
    s.Seg = r.Seg


def last_average(r: Mean, s: Speeds, out: ps.Out[Mean]) -> None:
    """Emit the mean of the last eleven speeds."""
    last = s.last
    last.append(r.speed)
    total = 0
    for speed in last:
        total += speed
    out.emit(Mean(r.Time, r.VID, r.XWay, r.Dir, r.Seg, total // len(last)))


def speed_toll(r: Mean, s: Minute, out: ps.Out[Notification]) -> None:
    """Note the speed, and notify."""
    s.minute = r.Time // 60
    s.value = r.speed
    out.emit(Notification(SPEED, r.VID, r.Time, 0))


def count(r: Report, s: Minute, out: ps.Out[Cars]) -> None:
    """Emit a count of one: the minute is flushed each time."""
    s.minute = r.Time // 60
    out.emit(Cars(r.Time, r.VID, r.XWay, r.Dir, r.Seg, 1))


def count_toll(r: Cars, s: Minute, out: ps.Out[Notification]) -> None:
    """Note a count above 50, which never comes, and notify."""
    if r.cars > CROWDED:
        s.value = r.cars
    out.emit(Notification(COUNT, r.VID, r.Time, 0))


def job(params: ps.Parameters) -> ps.Job:
    """Route each report through three branches."""
    job = ps.Job()
    announce = params.get("announce")
    source = ps.ingest(2, announce) if announce else ps.parquet(params["input"], rate=params.integer("rate"))
    rows = job.source("reports", source, columns=dict.fromkeys(COLUMNS, "int64"))
    reports = rows.flat_map("dispatcher", dispatch)
    positions = reports.key_by("VID").process("position_toll", position_toll)
    speeds = reports.key_by("VID").process("average_speed", average)
    lasts = speeds.key_by(*SEGMENT).process("last_average", last_average)
    means = lasts.key_by(*SEGMENT).process("speed_toll", speed_toll)
    cars = reports.key_by(*SEGMENT).process("count_cars", count)
    counts = cars.key_by(*SEGMENT).process("count_toll", count_toll)
    sink = ps.parquet(params["output"]) if params["output"] else ps.discard()
    positions.union(means, counts).sink("notifications", sink)
    return job
