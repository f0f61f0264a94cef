"""Generates data points of machines from a seed, and computes with Spark what the example ``equipment`` must report.

Every file is a machine with 66 fields, as those of the DEBS 2012 Grand Challenge: a sensor's bit changes at random, and
the bit of its valve follows after a delay that grows by one to three per cent a day. The other fields vary slowly.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_spark import folders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POWER = ("mf01", "mf02", "mf03", "pc13", "pc14", "pc15", "pc25", "pc26", "pc27", "res")
BITS = ("bm05", "bm06", "bm07", "bm08", "bm09", "bm10")
PAIRS = tuple(zip(BITS[:3], BITS[3:], strict=True))
FILLER = tuple(f"f{number:02d}" for number in range(19, 67))
SCHEMA = pa.schema(
    [
        pa.field("ts", pa.int64()),
        pa.field("index", pa.int64()),
        *(pa.field(name, pa.int32()) for name in POWER),
        *(pa.field(name, pa.bool_()) for name in BITS),
        *(pa.field(name, pa.int32()) for name in FILLER),
        pa.field("machine", pa.int64()),
    ]
)
START_NS = 1_330_000_000_000_000_000  # 2012-02-23
DAY_NS = 86_400_000_000_000
Numbers = npt.NDArray[np.int64]

EDGES = """
select machine, sensor, is_valve, ts, row from (
  select machine, ts, row, sensor, is_valve, bit,
         lag(bit) over (partition by machine, sensor, is_valve order by row) as before
  from readings lateral view stack(6,
    'bm05', false, bm05, 'bm06', false, bm06, 'bm07', false, bm07,
    'bm05', true, bm08, 'bm06', true, bm09, 'bm07', true, bm10) as sensor, is_valve, bit
) where bit != before
"""
DELAYS = """
select machine, sensor, ts, ts - since as delay from (
  select *, lag(is_valve) over changes as was_valve, lag(ts) over changes as since
  from edges window changes as (partition by machine, sensor order by row, is_valve)
) where is_valve and not was_valve
"""
WATCHED = """
select machine, sensor, ts, delay, first(ts) over day as oldest_ts, first(delay) over day as oldest_delay,
       count(*) over day as n, sum(t) over day as st, sum(t * t) over day as stt,
       sum(d) over day as sd, sum(t * d) over day as std
from (select *, cast(ts - {start} as decimal(19, 0)) as t, cast(delay as decimal(19, 0)) as d from delays)
window day as (partition by machine, sensor order by ts range between {day} preceding and current row)
"""


@dataclass(frozen=True, slots=True)
class EquipmentRequest:
    """The numbers of rows and files, the time between two rows, and how long sensors and valves take.

    A sensor changes after ``toggle_ns``, its valve ``delay_ns`` later: each is drawn between the two bounds.
    """

    rows: int = 1_000_000
    files: int = 1
    step_ns: int = 10_000_000
    toggle_ns: tuple[int, int] = (5_000_000_000, 60_000_000_000)
    delay_ns: tuple[int, int] = (200_000_000, 1_500_000_000)
    seed: int = 1


def describe(request: EquipmentRequest) -> dict[str, Any]:
    """Return what identifies the dataset: two equal descriptions mean equal files."""
    pairs = {"toggle_ns": list(request.toggle_ns), "delay_ns": list(request.delay_ns)}
    return {"kind": "equipment", "format": 1, **asdict(request), **pairs}


def write(spark: "SparkSession", request: EquipmentRequest, folder: Path, *, replace: bool = False) -> dict[str, Any]:
    """Write the dataset into ``folder`` and return its marker."""
    return folders.write_parts(spark, folder, describe(request), partial(rows_of, request), replace=replace)


def rows_of(request: EquipmentRequest, number: int) -> pa.Table:
    """Make the rows of file ``number``, one machine. They depend only on the request and this number."""
    count = folders.part_rows(request.rows, request.files, number)
    random = np.random.Generator(np.random.PCG64([request.seed, number]))
    time = START_NS + np.arange(count, dtype=np.int64) * request.step_ns
    bits: dict[str, npt.NDArray[np.bool_]] = {}
    for sensor, valve in PAIRS:
        changes, answers = _changes(request, random, count)
        bits[sensor], bits[valve] = (_bit(time, each, random) for each in (changes, answers))
    columns: dict[str, Any] = {"ts": time, "index": np.arange(count), "machine": np.full(count, number)} | bits
    for name in (*POWER, *FILLER):
        columns[name] = random.integers(0, 20_000) + np.arange(count) // random.integers(50, 5000)
    return pa.Table.from_arrays([pa.array(columns[f.name], f.type) for f in SCHEMA], schema=SCHEMA)


def _changes(request: EquipmentRequest, random: np.random.Generator, count: int) -> tuple[Numbers, Numbers]:
    """Draw when a sensor changes, and when its valve does."""
    length = count * request.step_ns
    most = 2 + length // request.toggle_ns[0]
    times = np.cumsum(random.integers(*request.toggle_ns, most, endpoint=True))
    times = times[times < length]
    growth = 1 + random.uniform(0.01, 0.03) * times / DAY_NS
    jitter = random.normal(1, 0.001, len(times))
    delays = random.integers(*request.delay_ns, endpoint=True) * growth * jitter
    return times, times + delays.astype(np.int64)


def _bit(time: Numbers, changes: Numbers, random: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return a bit at each time; it changes at the first reading that is not before a change."""
    passed = np.searchsorted(np.sort(changes), time - START_NS, side="right")
    bits: npt.NDArray[np.bool_] = (passed + random.integers(2)) % 2 == 1
    return bits


def view(spark: "SparkSession", folder: Path) -> None:
    """Name the delays of a dataset, and what is watched of them, for SQL: ``delays`` and ``watched``."""
    rows = spark.read.parquet(str(folder)).selectExpr("*", "_metadata.row_index as row")
    rows.createOrReplaceTempView("readings")
    spark.sql(EDGES).createOrReplaceTempView("edges")
    spark.sql(DELAYS).createOrReplaceTempView("delays")
    spark.sql(WATCHED.format(start=START_NS, day=DAY_NS - 1)).createOrReplaceTempView("watched")


def delays(spark: "SparkSession") -> "DataFrame":
    """Return the delays of the dataset in view: ``machine, sensor, ts, delay``."""
    return spark.sql("select machine, sensor, ts, delay from delays")


def alarms(spark: "SparkSession") -> "DataFrame":
    """Return the alarms: ``machine, sensor, ts, delay, oldest_ts, oldest_delay``."""
    return spark.sql(
        "select machine, sensor, ts, delay, oldest_ts, oldest_delay from watched where delay * 100 > oldest_delay * 101"
    )


def trends(spark: "SparkSession") -> Iterator[tuple[Any, ...]]:
    """Return the trends: ``machine, sensor, ts, count, oldest_ts, slope, intercept``, from sums that are exact."""
    for row in spark.sql("select * from watched").collect():
        n, t, tt, d, td = row.n, int(row.st), int(row.stt), int(row.sd), int(row.std)
        base = row.oldest_ts - START_NS
        t, tt, td = t - n * base, tt - 2 * base * t + n * base * base, td - base * d
        spread = n * tt - t * t
        if spread:
            line = (n * td - t * d) / spread, (d * tt - t * td) / spread
            yield (row.machine, row.sensor, row.ts, n, row.oldest_ts, *line)
