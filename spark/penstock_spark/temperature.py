"""Generates a temperature dataset from a seed: sensors (motes) whose rows are out of order or late.

Every file is a split: a gateway that receives from all motes in turn. The event time of a row is the
time of its position in the file, minus a delay. Most rows have no delay. Some have a delay below the
bound, and a few above it (by up to ``late_s``). Job and oracle use the same rule to decide whether
these are late for their window. Temperatures are multiples of 1/64 degree, like those of a
14-bit sensor, so that sums are exact in any order.
"""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock_spark import folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        pa.field("mote", pa.int64()),
        pa.field("ts", pa.timestamp("us")),
        pa.field("temperature", pa.float64()),
    ]
)
START_US = 1_078_012_800_000_000  # 2004-02-29, the time of the well-known dataset of a laboratory
DYING = 122.15625  # what a mote with an empty battery reports


@dataclass(frozen=True, slots=True)
class TemperatureRequest:
    """The numbers of rows, files and motes, and how far rows are out of order."""

    rows: int = 500_000
    files: int = 8
    motes: int = 54
    seed: int = 1
    step_us: int = 500_000  # between two rows of one file
    bound_us: int = 30_000_000  # rows are out of order by at most this, except for late rows
    late_us: int = 600_000_000
    late_share: float = 0.01


def describe(request: TemperatureRequest) -> dict[str, Any]:
    """Return what identifies the dataset: two equal descriptions mean equal files."""
    return {"kind": "temperature", "format": 1, **asdict(request)}


def write(spark: "SparkSession", request: TemperatureRequest, folder: Path, *, replace: bool = False) -> dict[str, Any]:
    """Write the dataset into ``folder`` and return its marker."""
    return folders.write_parts(spark, folder, describe(request), partial(rows_of, request), replace=replace)


def rows_of(request: TemperatureRequest, number: int) -> pa.Table:
    """Make the rows of file ``number``. They depend only on the request and this number."""
    count = folders.part_rows(request.rows, request.files, number)
    random = np.random.Generator(np.random.PCG64([request.seed, number]))
    place = np.arange(count, dtype=np.int64)
    due = START_US + place * request.step_us
    mote = (place + 7 * number) % request.motes + 1
    columns = [mote, due - _delays(request, random, count), _temperatures(random, mote, due)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _delays(
    request: TemperatureRequest, random: np.random.Generator, count: int
) -> np.ndarray[Any, np.dtype[np.int64]]:
    kind = random.random(count)
    within = random.integers(0, request.bound_us, count, endpoint=True)
    beyond = request.bound_us + random.integers(1, request.late_us, count, endpoint=True)
    late = kind < request.late_share
    return np.where(late, beyond, np.where(kind < 0.3, within, 0))


def _temperatures(
    random: np.random.Generator,
    mote: np.ndarray[Any, np.dtype[np.int64]],
    due: np.ndarray[Any, np.dtype[np.int64]],
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return readings on a sine of one day between 19 and 23 degrees. Two in a hundred are outliers."""
    day = (due - START_US) / 86_400_000_000
    value = 21 + 1.8 * np.sin(2 * np.pi * day + mote / 7) + random.normal(0, 0.05, len(mote))
    wild = random.random(len(mote)) < 0.02
    return np.where(wild, DYING, np.round(value * 64) / 64)
