"""Generates the traffic of expressways from a seed, for the example ``linear_road``.

Every file is an expressway. Cars enter it at random, report their position each 30 seconds, slow down where there is a
jam, and leave it. A few pairs of cars drive one behind the other and stop at one position: an accident. A few reports
come with a question.
"""

from dataclasses import asdict, dataclass
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
