"""Linear Road: variable tolls on expressways, accidents, and answers to drivers' questions.

Every car reports its position each 30 seconds. The toll of a segment depends on the mean speed of the last five
minutes, on the number of cars in the last minute, and on whether there was an accident ahead. All that many cars have a
part in is computed in event time, so it does not depend on how the input's files interleave.

    reports -> drive -> minutes of cars -> minutes of segments -> settings ----+
                 |                               ^                             |
                 +-> stops -> wrecks ------------+                             v
                 +-> crossings of segments ----------------------------------> tolls -> balances, expenditures
                 +-> questions ------------------------------------------------------->
"""

from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import penstock as ps

REPORT, BALANCE, EXPENDITURE, TRAVEL_TIME = 0, 2, 3, 4
EXIT_LANE = 4
LAST_SEGMENT = 99
STOPPED_REPORTS = 4
AHEAD = 5  # segments: that of an accident, and four before it
SPEED_UNITS = 2520  # of a mile per hour: the mean of up to ten whole numbers is a whole number of units
SLOW, CROWDED = 40, 50  # tolls are taken below this speed and above this number of cars
SECOND, MINUTE = ps.seconds(1), ps.minutes(1)
SEGMENT = ("XWay", "Dir", "Seg")
COLUMNS = ("Type", "Time", "VID", "Spd", "XWay", "Lane", "Dir", "Seg", "Pos", "QID", "Day")
TOLLED = {"VID": "int64", "XWay": "int64", "Dir": "int64", "Seg": "int64", "lav": "double", "cars": "int64"}


@ps.record
class Row:
    """A row of the input. Its columns are named as they were published."""

    Type: int
    Time: ps.Time
    VID: int
    Spd: int
    XWay: int
    Lane: int
    Dir: int
    Seg: int
    Pos: int
    QID: int
    Day: int


@ps.record
class Report:
    """The speed of a car in a segment."""

    VID: int
    XWay: int
    Dir: int
    Seg: int
    Spd: int
    Time: ps.Time


@ps.record
class Crossing:
    """A car that enters a segment."""

    VID: int
    XWay: int
    Dir: int
    Seg: int
    Time: ps.Time


@ps.record
class Stop:
    """A car that stands at a position."""

    VID: int
    XWay: int
    Dir: int
    Lane: int
    Seg: int
    Pos: int
    Time: ps.Time


@ps.record
class Entry:
    """A toll of a car, or a question: Type says which."""

    Type: int
    VID: int
    XWay: int
    QID: int
    Day: int
    toll: int
    Time: ps.Time


@ps.record
class CarMinute:
    """The reports of a car in a segment and a minute."""

    XWay: int
    Dir: int
    Seg: int
    speed: int
    reports: int
    window_end: ps.Time


@ps.record
class Part:
    """What one car, or one accident ahead, adds to a minute of a segment."""

    XWay: int
    Dir: int
    Seg: int
    cars: int
    speed: int | None
    blocked: int
    window_end: ps.Time


@ps.record
class SegmentMinute:
    """A minute of a segment."""

    XWay: int
    Dir: int
    Seg: int
    minute: int
    cars: int
    speed: float | None
    blocked: int
    window_end: ps.Time


@ps.record
class Minutes:
    """The last five minutes of a segment: the mean of their speeds, and the last one of them that had cars."""

    XWay: int
    Dir: int
    Seg: int
    lav: float | None
    minute: int
    cars: int
    blocked: int
    window_end: ps.Time


@ps.record
class Setting:
    """What decides the tolls of a segment in the minute that begins at ``window_end``."""

    XWay: int
    Dir: int
    Seg: int
    lav: float | None
    cars: int
    blocked: int
    window_end: ps.Time


@ps.record
class Standing:
    """A second in which a car, or two cars, are known to stand at a position."""

    XWay: int
    Dir: int
    Lane: int
    Seg: int
    Pos: int
    cars: int
    window_end: ps.Time


@ps.record
class Wreck:
    """An accident: two cars stand at one position."""

    XWay: int
    Dir: int
    Lane: int
    Seg: int
    Pos: int
    window_start: ps.Time
    window_end: ps.Time


@ps.record
class Accident:
    """An accident, and when it was detected and cleared (s)."""

    XWay: int
    Dir: int
    Lane: int
    Seg: int
    Pos: int
    Time: int
    Cleared: int


@ps.record
class Toll:
    """The toll of a car that enters a segment."""

    VID: int
    XWay: int
    Dir: int
    Seg: int
    lav: float
    cars: int
    toll: int
    Time: ps.Time


@ps.record
class Notification:
    """The toll of a car that enters a segment; Time in seconds."""

    VID: int
    Time: int
    XWay: int
    Dir: int
    Seg: int
    lav: float
    cars: int
    toll: int


@ps.record
class Balance:
    """The tolls of a car until now."""

    QID: int
    VID: int
    Time: int
    balance: int


@ps.record
class Expenditure:
    """The tolls of a car on an expressway on a day; day 0 is today."""

    QID: int
    VID: int
    Time: int
    XWay: int
    Day: int
    expenditure: int


@ps.record
class Letter:
    """A row that is not used, or not wholly, and why."""

    VID: int | None
    Time: ps.Time | None
    error: str


@ps.state
class Car:
    """The last report of a car, and how many in a row had its position."""

    time: ps.Time = -1
    xway: int = -1
    direction: int = -1
    lane: int = -1
    segment: int = -1
    position: int = -1
    same: int = 0
    asked: int = 0
    asked_at: ps.Time = -1


@ps.state
class Account:
    """The tolls of a car."""

    total: int = 0


# --- Cars -----------------------------------------------------------------------------------


def drive(r: Row, s: Car, out: ps.Out[Report, {"crossings": Crossing, "stops": Stop, "questions": Entry}]) -> None:  # noqa: F821
    """Tell reports, crossings, stops and questions of a car apart."""
    if r.Type == BALANCE or r.Type == EXPENDITURE:  # noqa: PLR1714  `in` is not compiled
        s.asked = s.asked + 1 if s.asked_at == r.Time else 1
        s.asked_at = r.Time
        # A microsecond for each question of this second: they come one by one, after the toll of the same second.
        out.to("questions", Entry(r.Type, r.VID, r.XWay, r.QID, r.Day, 0, r.Time + s.asked))
        return
    if r.Type == TRAVEL_TIME:
        return  # nobody has ever answered these questions
    if r.Type != REPORT or not 0 <= r.Seg <= LAST_SEGMENT or not 0 <= r.Dir <= 1 or r.Spd < 0:
        raise ValueError(f"Type {r.Type}, Dir {r.Dir}, Seg {r.Seg}, Spd {r.Spd} are no report and no question")
    if r.Time == s.time:
        raise ValueError(f"car {r.VID} is in segments {s.segment} and {r.Seg} at once")
    if r.Time < s.time:
        raise ValueError(f"car {r.VID} goes back in time, by {(s.time - r.Time) // SECOND} s")
    there = r.XWay == s.xway and r.Dir == s.direction
    if r.Lane != EXIT_LANE and not (there and r.Seg == s.segment):
        out.to("crossings", Crossing(r.VID, r.XWay, r.Dir, r.Seg, r.Time))
    s.same = s.same + 1 if there and r.Lane == s.lane and r.Pos == s.position else 1
    s.time = r.Time
    s.xway = r.XWay
    s.direction = r.Dir
    s.lane = r.Lane
    s.segment = r.Seg
    s.position = r.Pos
    if s.same >= STOPPED_REPORTS:
        out.to("stops", Stop(r.VID, r.XWay, r.Dir, r.Lane, r.Seg, r.Pos, r.Time))
    out.emit(Report(r.VID, r.XWay, r.Dir, r.Seg, r.Spd, r.Time))


# --- Segments -------------------------------------------------------------------------------
# A result of a window belongs to the minute or second that has ended, so its time is a microsecond before the end.


def speed(r: CarMinute) -> Part:
    """Return what a car adds to the minute of its segment."""
    return Part(r.XWay, r.Dir, r.Seg, 1, r.speed * SPEED_UNITS // r.reports, 0, r.window_end - 1)


def block(r: Wreck, out: ps.Out[Part]) -> None:
    """Tell the segment of an accident and those before it."""
    for n in range(AHEAD):
        segment = r.Seg - n if r.Dir == 0 else r.Seg + n
        if 0 <= segment <= LAST_SEGMENT:
            out.emit(Part(r.XWay, r.Dir, segment, 0, None, 1, r.window_end))


def segment_minute(r: Setting) -> SegmentMinute:
    """Number the minute."""
    minute = r.window_end // MINUTE - 1
    return SegmentMinute(r.XWay, r.Dir, r.Seg, minute, r.cars, r.lav, r.blocked, r.window_end - 1)


def setting(r: Minutes) -> Setting:
    """Return what decides tolls. Cars and accidents count only if they were there in the last minute."""
    is_last = r.minute == r.window_end // MINUTE - 1
    return Setting(r.XWay, r.Dir, r.Seg, r.lav, r.cars if is_last else 0, r.blocked if is_last else 0, r.window_end)


# --- Accidents ------------------------------------------------------------------------------


def standing(r: Standing) -> Standing:
    """Give a second its own time."""
    return Standing(r.XWay, r.Dir, r.Lane, r.Seg, r.Pos, r.cars, r.window_end - 1)


def wreck(r: Standing, out: ps.Out[Wreck]) -> None:
    """Keep the seconds in which two cars stand at a position."""
    if r.cars > 1:
        out.emit(Wreck(r.XWay, r.Dir, r.Lane, r.Seg, r.Pos, r.window_end - SECOND, r.window_end - 1))


def accident(r: Wreck) -> Accident:
    """Return an accident from its first to its last second."""
    return Accident(r.XWay, r.Dir, r.Lane, r.Seg, r.Pos, r.window_start // SECOND, r.window_end // SECOND - 1)


# --- Tolls ----------------------------------------------------------------------------------


def tolls(crossings: pa.RecordBatch, settings: pa.RecordBatch) -> pa.RecordBatch:
    """Return the toll of each crossing; without a setting the segment was empty."""
    cars = np.asarray(pc.fill_null(settings["cars"], 0))
    blocked = np.asarray(pc.fill_null(settings["blocked"], 0))
    lav = np.asarray(pc.fill_null(settings["lav"], 0.0)) / SPEED_UNITS
    toll = np.where((lav < SLOW) & (cars > CROWDED) & (blocked == 0), 2 * (cars - CROWDED) ** 2, 0)
    same = [crossings[name] for name in ("VID", *SEGMENT)]
    return pa.record_batch([*same, lav, cars, toll], [*TOLLED, "toll"])


def notification(r: Toll) -> Notification:
    """Return what the driver hears."""
    return Notification(r.VID, r.Time // SECOND, r.XWay, r.Dir, r.Seg, r.lav, r.cars, r.toll)


def payment(r: Toll, out: ps.Out[Entry]) -> None:
    """Keep the tolls that are not zero."""
    if r.toll > 0:
        out.emit(Entry(REPORT, r.VID, r.XWay, 0, 0, r.toll, r.Time))


# --- Accounts -------------------------------------------------------------------------------


@ps.record
class Ordered:
    """An entry behind its window."""

    Type: int
    VID: int
    XWay: int
    QID: int
    Day: int
    toll: int
    window_start: ps.Time


def letter(r: Letter) -> Letter:
    """Keep what all dead letters have."""
    return r


def late_report(r: Report) -> Letter:
    """Tell a report that is not counted."""
    return Letter(r.VID, r.Time, "its minute is over: the speed does not count. See job.parameters.disorder")


def late_crossing(r: Crossing) -> Letter:
    """Tell a car that pays no toll."""
    return Letter(r.VID, r.Time, "later rows came before in its file: no toll. See job.parameters.disorder")


def balance(r: Ordered, s: Account, out: ps.Out[Balance]) -> None:
    """Add a toll, or answer with the sum."""
    s.total += r.toll
    if r.Type == BALANCE:
        out.emit(Balance(r.QID, r.VID, r.window_start // SECOND, s.total))


def spender(history: dict[tuple[int, int, int], int]) -> Any:
    """Return the function that answers for one expressway. ``history`` has the tolls of car, expressway and day."""

    def expenditure(r: Ordered, s: Account, out: ps.Out[Expenditure]) -> None:
        s.total += r.toll
        if r.Type == EXPENDITURE:
            spent = s.total if r.Day == 0 else history.get((r.VID, r.XWay, r.Day), 0)
            out.emit(Expenditure(r.QID, r.VID, r.window_start // SECOND, r.XWay, r.Day, spent))

    return expenditure


def read_history(folder: str) -> dict[tuple[int, int, int], int]:
    """Read the tolls of the days before: Parquet with VID, XWay, Day and Toll. Raises ConfigError."""
    if not folder:
        return {}
    try:
        table = pq.read_table(folder, columns=["VID", "XWay", "Day", "Toll"])
    except (OSError, pa.ArrowInvalid) as error:
        raise ps.ConfigError(f"history {folder}: {error}") from error
    keys = zip(*(table[name].to_pylist() for name in ("VID", "XWay", "Day")), strict=True)
    return dict(zip(keys, table["Toll"].to_pylist(), strict=True))


# --- The job --------------------------------------------------------------------------------


def job(params: ps.Parameters) -> ps.Job:
    """Compute tolls, accidents, balances and expenditures."""
    output, dead_letters = params["output"], params["dead_letters"]
    on_error: Literal["dead-letter", "fail"] = "dead-letter" if dead_letters else "fail"
    job = ps.Job()
    announce = params.get("announce")
    source = ps.ingest(2, announce) if announce else ps.parquet(params["input"], rate=params.integer("rate"))
    columns = dict.fromkeys(COLUMNS, "int64")
    time: dict[str, Any] = {"event_time": "Time", "time_unit": "s", "out_of_orderness": params["disorder"]}
    rows = job.source("rows", source, columns=columns, **time)
    cars = rows.key_by("VID").process("drive", drive, on_error=on_error)
    wrecks = _wrecks(cars.output("stops"), output)
    minutes, tolls = _tolls(cars, wrecks)
    tolls.map("notifications", notification).sink("tolls_out", ps.parquet(f"{output}/tolls"))
    _accounts(cars.output("questions"), tolls.flat_map("payments", payment), params)
    if dead_letters:
        letters = cars.dead_letter.map("bad", letter)
        late = minutes.late.map("late_reports", late_report), tolls.late.map("late_crossings", late_crossing)
        letters.union(*late).sink("letters", ps.parquet(dead_letters))
    return job


def _wrecks(stops: ps.Stream, output: str) -> ps.Stream:
    """Find accidents. A car that stands is known to stand until its next report is due, for 30 seconds."""
    place = ("XWay", "Dir", "Lane", "Seg", "Pos")
    seconds = stops.key_by(*place, "VID").window("standing", ps.sliding("30s", "1s"), cars=ps.count())
    both = seconds.map("seconds", standing).key_by(*place).window("together", "1s", cars=ps.count())
    wrecks = both.flat_map("wrecks", wreck)
    spans = wrecks.key_by(*place).window("spans", ps.session("2s"), seconds=ps.count())
    spans.map("accidents", accident).sink("accidents_out", ps.parquet(f"{output}/accidents"))
    return wrecks


def _tolls(cars: ps.Stream, wrecks: ps.Stream) -> tuple[ps.Stream, ps.Stream]:
    """Return the minutes of cars, and the tolls of all crossings."""
    per_car = cars.key_by("VID", *SEGMENT).window("car_minutes", "1m", speed=ps.sum("Spd"), reports=ps.count())
    parts = per_car.map("speeds", speed).union(wrecks.flat_map("blocks", block))
    minutes = parts.key_by(*SEGMENT).window(
        "segment_minutes", "1m", lav=ps.mean("speed"), cars=ps.sum("cars"), blocked=ps.max("blocked")
    )
    five = (
        minutes.map("numbered", segment_minute)
        .key_by(*SEGMENT)
        .window(
            "five_minutes",
            ps.sliding("5m", "1m"),
            lav=ps.mean("speed"),
            minute=ps.last("minute"),
            cars=ps.last("cars"),
            blocked=ps.last("blocked"),
        )
    )
    settings = five.map("settings", setting)
    found = cars.output("crossings").join_interval(
        "tolls",
        settings,
        tolls,
        on=list(SEGMENT),
        lower="-59s",
        upper="0s",
        how="left",
        columns={**TOLLED, "toll": "int64"},
        event_time="Time",
    )
    return per_car, found


def _accounts(questions: ps.Stream, paid: ps.Stream, params: ps.Parameters) -> None:
    """Answer questions. A window of a microsecond puts the entries of a car in the order of their times."""
    entries = paid.union(questions)
    last = {name: ps.last(name) for name in ("Type", "QID", "Day", "toll")}
    of_car = entries.filter("for_balance", lambda b: pc.not_equal(b["Type"], EXPENDITURE)).key_by("VID")
    answers = of_car.window("by_car", "1us", XWay=ps.last("XWay"), **last).key_by("VID").process("balance", balance)
    answers.sink("balances", ps.parquet(f"{params['output']}/balances"))
    of_way = entries.filter("for_expenditure", lambda b: pc.not_equal(b["Type"], BALANCE)).key_by("VID", "XWay")
    spent = spender(read_history(params["history"]))
    told = of_way.window("by_way", "1us", **last).key_by("VID", "XWay").process("expenditure", spent)
    told.sink("expenditures", ps.parquet(f"{params['output']}/expenditures"))
