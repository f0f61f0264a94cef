"""Generates readings of motes from a seed, and computes with Spark what the example ``spike`` must report.

Every file is a split, and has all readings of its motes. Two readings in a hundred are those of a mote whose battery is
empty.
"""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock_spark import folders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [pa.field("mote", pa.int64()), pa.field("ts", pa.timestamp("us")), pa.field("temperature", pa.float64())]
)
START_US = 1_078_012_800_000_000  # 2004-02-29
STEP_US = 500_000
DYING = 122.153
DAY_US = 86_400_000_000
SPIKES = """
select mote, ts, temperature, average from (
  select *, sum(units) over recent / count(*) over recent / 10000D as average
  from (select *, cast(rint(temperature * 10000) as bigint) as units from readings)
  window recent as (partition by mote order by row rows between 999 preceding and current row)
) where abs(temperature - average) > 0.25D * average
"""


@dataclass(frozen=True, slots=True)
class SpikeRequest:
    """The numbers of rows, files and motes."""

    rows: int = 1_000_000
    files: int = 8
    motes: int = 54
    seed: int = 1


def describe(request: SpikeRequest) -> dict[str, Any]:
    """Return what identifies the dataset: two equal descriptions mean equal files."""
    return {"kind": "spike", "format": 2, **asdict(request)}


def write(spark: "SparkSession", request: SpikeRequest, folder: Path, *, replace: bool = False) -> dict[str, Any]:
    """Write the dataset into ``folder`` and return its marker."""
    return folders.write_parts(spark, folder, describe(request), partial(rows_of, request), replace=replace)


def rows_of(request: SpikeRequest, number: int) -> pa.Table:
    """Make the rows of file ``number``. They depend only on the request and this number."""
    count = folders.part_rows(request.rows, request.files, number)
    random = np.random.Generator(np.random.PCG64([request.seed, number]))
    own = np.arange(number, request.motes, request.files) + 1
    mote = own[np.arange(count) % len(own)]
    time = START_US + np.arange(count, dtype=np.int64) * STEP_US
    day = 21 + 1.8 * np.sin(2 * np.pi * (time % DAY_US) / DAY_US + mote / 7) + random.normal(0, 0.05, count)
    temperature = np.where(random.random(count) < 0.02, DYING, np.round(day, 4))
    columns = [pa.array(values, f.type) for values, f in zip((mote, time, temperature), SCHEMA, strict=True)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def spikes(spark: "SparkSession", folder: Path) -> "DataFrame":
    """Return the spikes: ``mote, ts, temperature, average``."""
    rows = spark.read.parquet(str(folder)).selectExpr("*", "_metadata.row_index as row")
    rows.createOrReplaceTempView("readings")
    return spark.sql(SPIKES)
