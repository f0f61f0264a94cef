"""Generates the traffic of expressways from a seed, for the example ``linear_road``.

Every file is an expressway. Cars enter it at random, report their position each 30 seconds, slow down where there is a
jam, and leave it. A few pairs of cars drive one behind the other and stop at one position: an accident. A few reports
come with a question.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_spark import folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAR = ("Type", "Time", "VID", "Spd", "XWay", "Lane", "Dir", "Seg", "Pos")
NAMES = (*CAR, "QID", "Sinit", "Send", "DOW", "TOD", "Day")
SCHEMA = pa.schema([pa.field(name, pa.int64()) for name in NAMES])
SEGMENT_FEET = 5280
REPORT_S = 30
FEET_PER_REPORT = SEGMENT_FEET * REPORT_S / 3600  # at one mile per hour
TRIP_REPORTS = 24
STOP_REPORTS = 8
EXIT_LANE = 4
NONE = -1
Numbers = npt.NDArray[np.int64]
Place = tuple[int, int, int]  # expressway, direction, segment


@dataclass(frozen=True, slots=True)
class LinearRoadRequest:
    """The numbers of rows, files and segments, how long it lasts, and the shares of accidents and questions."""

    rows: int = 1_000_000
    files: int = 2
    segments: int = 100
    seconds: int = 3600
    accident_share: float = 0.002
    question_share: float = 0.01
    seed: int = 1


def describe(request: LinearRoadRequest) -> dict[str, Any]:
    """Return what identifies the dataset: two equal descriptions mean equal files."""
    return {"kind": "linear-road", "format": 1, **asdict(request)}


def write(spark: "SparkSession", request: LinearRoadRequest, folder: Path, *, replace: bool = False) -> dict[str, Any]:
    """Write the dataset into ``folder`` and return its marker."""
    return folders.write_parts(spark, folder, describe(request), partial(rows_of, request), replace=replace)


def rows_of(request: LinearRoadRequest, number: int) -> pa.Table:
    """Make the rows of file ``number``, one expressway. They depend only on the request and this number."""
    count = folders.part_rows(request.rows, request.files, number)
    random = np.random.Generator(np.random.PCG64([request.seed, number]))
    trips = 64 + count * (request.seconds + TRIP_REPORTS * REPORT_S) // (request.seconds * TRIP_REPORTS // 2)
    rows = {name: np.empty(0, np.int64) for name in NAMES}
    while len(rows["VID"]) < count:  # how long trips are is drawn, too
        rows, trips = _traffic(request, random, number, trips), trips + trips // 2
    order = np.lexsort((rows["Type"], rows["VID"], rows["Time"]))
    columns = {name: values[order][:count] for name, values in rows.items()}
    return pa.Table.from_arrays([pa.array(columns[name]) for name in NAMES], schema=SCHEMA)


def _traffic(request: LinearRoadRequest, random: np.random.Generator, xway: int, trips: int) -> dict[str, Numbers]:
    wrecked = random.random(trips) < request.accident_share
    pairs = np.concatenate([np.arange(trips), np.flatnonzero(wrecked)])  # a second car behind each wrecked one
    entered = random.integers(-TRIP_REPORTS * REPORT_S, request.seconds, trips)[pairs]
    entered[trips:] += random.integers(1, REPORT_S, len(pairs) - trips)
    direction, lane = random.integers(0, 2, trips)[pairs], random.integers(1, EXIT_LANE, trips)[pairs]
    first = random.integers(2, TRIP_REPORTS - STOP_REPORTS, trips)
    stops_at = np.where(wrecked, first, TRIP_REPORTS)[pairs]
    positions, speeds = _drives(request, random, (trips, pairs), direction, stops_at)
    step = np.arange(TRIP_REPORTS)
    time = entered[:, None] + step * REPORT_S
    on_road = (positions >= 0) & (positions < request.segments * SEGMENT_FEET)
    is_last = on_road & ~np.pad(on_road[:, 1:], ((0, 0), (0, 1)))
    lanes = np.where(step == 0, 0, np.where(is_last, EXIT_LANE, lane[:, None]))
    kept = np.cumprod(on_road, axis=1).astype(bool) & (time >= 0) & (time < request.seconds)
    car = np.broadcast_to(np.arange(len(pairs))[:, None], kept.shape)
    shown = {
        "Time": time,
        "VID": car * request.files + xway,
        "Spd": speeds,
        "Lane": lanes,
        "Dir": np.broadcast_to(direction[:, None], kept.shape),
        "Seg": positions // SEGMENT_FEET,
        "Pos": positions,
    }
    reports = {name: values[kept] for name, values in shown.items()}
    return _with_questions(request, random, xway, reports)


def _drives(
    request: LinearRoadRequest,
    random: np.random.Generator,
    cars: tuple[int, Numbers],
    direction: Numbers,
    stops_at: Numbers,
) -> tuple[Numbers, Numbers]:
    """Return position and speed of each car at each report. A pair drives alike. A quarter of the road is slow."""
    trips, pairs = cars
    length = request.segments * SEGMENT_FEET
    position = random.integers(0, length, trips)[pairs]
    wishes = random.integers(45, 75, (trips, TRIP_REPORTS))[pairs]
    jammed = random.integers(5, 35, (trips, TRIP_REPORTS))[pairs]
    positions, speeds = np.empty(wishes.shape, np.int64), np.empty(wishes.shape, np.int64)
    for step in range(TRIP_REPORTS):
        is_slow = (position * 4 // length) % 4 == 1
        stands = (step > stops_at) & (step <= stops_at + STOP_REPORTS)
        speed = np.where(stands, 0, np.where(is_slow, jammed[:, step], wishes[:, step]))
        position = position + np.where(direction == 0, 1, -1) * (speed * FEET_PER_REPORT).astype(np.int64) * (step > 0)
        positions[:, step], speeds[:, step] = position, speed
    return positions, speeds


def _with_questions(
    request: LinearRoadRequest, random: np.random.Generator, xway: int, reports: dict[str, Numbers]
) -> dict[str, Numbers]:
    """Add what a row of each kind has not, and questions: two in three for a balance, else for an expenditure."""
    count = len(reports["VID"])
    asked = np.flatnonzero(random.random(count) < request.question_share)
    kind = np.where(random.random(len(asked)) < 2 / 3, 2, 3)
    number = np.arange(len(asked)) * request.files + xway
    rows = {}
    for name in NAMES:
        more = np.full(len(asked), NONE)
        if name in ("Time", "VID"):
            more = reports[name][asked]
        elif name in ("Type", "QID", "XWay", "Day"):
            day = np.where(kind == 3, random.integers(0, 3, len(asked)), NONE)
            more = {"Type": kind, "QID": number, "XWay": np.full(len(asked), xway), "Day": day}[name]
        plain = {"Type": 0, "XWay": xway}.get(name, NONE)
        rows[name] = np.concatenate([reports.get(name, np.full(count, plain)), more]).astype(np.int64)
    return rows


# --- What the job must say ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answers:
    """The rows of the four outputs, by the names of their columns in the example."""

    tolls: list[tuple[Any, ...]]
    accidents: list[tuple[Any, ...]]
    balances: list[tuple[Any, ...]]
    expenditures: list[tuple[Any, ...]]


def expected(rows: Iterable[dict[str, int]]) -> Answers:
    """Compute the answers in plain Python, from rows without errors: the definition, word by word."""
    ordered = sorted(rows, key=lambda r: (r["VID"], r["Time"], r["Type"]))
    reports = [r for r in ordered if r["Type"] == 0]
    accidents, blocked = _accidents(_standing(reports))
    cars, speeds = _minutes(reports)
    tolls = []
    for r, before in zip(reports, [None, *reports], strict=False):
        is_new = before is None or before["VID"] != r["VID"] or _place(before) != _place(r)
        if is_new and r["Lane"] != EXIT_LANE:
            place, minute = _place(r), r["Time"] // 60
            known = [speeds[place, m] for m in range(minute - 5, minute) if (place, m) in speeds]
            lav = sum(known, Fraction(0)) / len(known) if known else Fraction(0)
            n = cars.get((place, minute - 1), 0)
            free = lav >= 40 or n <= 50 or (place, minute - 1) in blocked
            tolls.append((r["VID"], r["Time"], *place, lav, n, 0 if free else 2 * (n - 50) ** 2))
    return Answers(tolls, accidents, *_answers(ordered, tolls))


def _place(r: dict[str, int]) -> Place:
    return r["XWay"], r["Dir"], r["Seg"]


def _minutes(reports: list[dict[str, int]]) -> tuple[dict[Any, int], dict[Any, Fraction]]:
    """Return the number of cars and their mean speed, by segment and minute."""
    of_car: dict[Any, list[int]] = defaultdict(list)
    for r in reports:
        of_car[_place(r), r["Time"] // 60, r["VID"]].append(r["Spd"])
    means: dict[Any, list[Fraction]] = defaultdict(list)
    for (place, minute, _), some in of_car.items():
        means[place, minute].append(Fraction(sum(some), len(some)))
    return {k: len(m) for k, m in means.items()}, {k: sum(m, Fraction(0)) / len(m) for k, m in means.items()}


def _standing(reports: list[dict[str, int]]) -> dict[Any, dict[int, set[int]]]:
    """Return which cars are known to stand, by position and second."""
    found: dict[Any, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    same = 0
    for r, before in zip(reports, [None, *reports], strict=False):
        names = ("VID", "XWay", "Dir", "Lane", "Pos")
        same = same + 1 if before is not None and all(before[n] == r[n] for n in names) else 1
        if same >= 4:
            for second in range(r["Time"], r["Time"] + REPORT_S):
                found[r["XWay"], r["Dir"], r["Lane"], r["Seg"], r["Pos"]][second].add(r["VID"])
    return found


def _accidents(standing: dict[Any, dict[int, set[int]]]) -> tuple[list[tuple[Any, ...]], set[Any]]:
    """Return the accidents, and the segments and minutes in which one is ahead."""
    accidents, blocked = [], set()
    for position, by_second in standing.items():
        xway, direction, _, segment, _ = position
        seconds = sorted(second for second, cars in by_second.items() if len(cars) > 1)
        for second in seconds:
            for n in range(5):
                blocked.add(((xway, direction, segment - n if direction == 0 else segment + n), second // 60))
        begins = [s for i, s in enumerate(seconds) if i == 0 or s != seconds[i - 1] + 1]
        ends = [s + 1 for i, s in enumerate(seconds) if i + 1 == len(seconds) or s + 1 != seconds[i + 1]]
        accidents += [(*position, begin, end) for begin, end in zip(begins, ends, strict=True)]
    return accidents, blocked


def _answers(
    rows: list[dict[str, int]], tolls: list[tuple[Any, ...]]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    paid: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for vid, time, xway, *_, toll in tolls:
        paid[vid].append((time, xway, toll))
    balances, expenditures = [], []
    for r in rows:
        vid, time, qid = r["VID"], r["Time"], r["QID"]
        if r["Type"] == 2:
            balances.append((qid, vid, time, sum(toll for at, _, toll in paid[vid] if at <= time)))
        elif r["Type"] == 3:
            today = sum(toll for at, xway, toll in paid[vid] if at <= time and xway == r["XWay"])
            expenditures.append((qid, vid, time, r["XWay"], r["Day"], today if r["Day"] == 0 else 0))
    return balances, expenditures
