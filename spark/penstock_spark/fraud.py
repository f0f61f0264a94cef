"""Generates transactions from a seed, and computes with Spark what the example ``fraud`` must report.

Every file is a split, and has all transactions of its entities. Amounts, types and times are drawn independently, so a
few transactions in a hundred are improbable.
"""

from collections.abc import Sequence
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
    [pa.field("entity_id", pa.string()), pa.field("transaction_id", pa.string()), pa.field("state", pa.string())]
)
LETTERS = (("LMH", (0.35, 0.53, 0.12)), ("NH", (0.85, 0.15)), ("LNS", (0.35, 0.45, 0.20)))
UNKNOWN = "???"
SCORED = """
with numbered as (
  select *, lag(state, 1) over w as s1, lag(state, 2) over w as s2,
         lag(state, 3) over w as s3, lag(state, 4) over w as s4
  from known window w as (partition by entity_id order by row)
)
select entity_id, transaction_id, ((m[s4 || s3] + m[s3 || s2]) + m[s2 || s1] + m[s1 || state]) / 4 as score
from numbered cross join misses where s4 is not null
"""


@dataclass(frozen=True, slots=True)
class FraudRequest:
    """The numbers of rows, files and entities, and the share of rows with an unknown state."""

    rows: int = 1_000_000
    files: int = 8
    entities: int = 60_000
    unknown_share: float = 0.0
    seed: int = 1


def describe(request: FraudRequest) -> dict[str, Any]:
    """Return what identifies the dataset: two equal descriptions mean equal files."""
    return {"kind": "fraud", "format": 2, **asdict(request)}


def write(spark: "SparkSession", request: FraudRequest, folder: Path, *, replace: bool = False) -> dict[str, Any]:
    """Write the dataset into ``folder`` and return its marker."""
    return folders.write_parts(spark, folder, describe(request), partial(rows_of, request), replace=replace)


def rows_of(request: FraudRequest, number: int) -> pa.Table:
    """Make the rows of file ``number``. They depend only on the request and this number."""
    count = folders.part_rows(request.rows, request.files, number)
    random = np.random.Generator(np.random.PCG64([request.seed, number]))
    own = np.arange(number, request.entities, request.files)
    entities = np.array([f"C{entity:09d}" for entity in own], dtype=object)
    letters = [np.array(list(names), dtype=object)[random.choice(len(names), count, p=p)] for names, p in LETTERS]
    states = letters[0] + letters[1] + letters[2]
    states[random.random(count) < request.unknown_share] = UNKNOWN
    ids = [f"{number:04d}-{place:010d}" for place in range(count)]
    columns = [entities[random.integers(0, len(own), count)], ids, states]
    return pa.Table.from_arrays([pa.array(column, pa.string()) for column in columns], schema=SCHEMA)


def scores(spark: "SparkSession", folder: Path, states: Sequence[str], probabilities: Any) -> "DataFrame":
    """Return the score of each transaction: ``entity_id, transaction_id, score``.

    ``probabilities[i][j]`` is that of state j after state i. Rows of other states are left out. The four
    terms are added in the order of time, as the example adds them.
    """
    misses = {
        before + after: 1.0 - float(probabilities[i][j])
        for i, before in enumerate(states)
        for j, after in enumerate(states)
    }
    spark.createDataFrame([(misses,)], "m map<string, double>").createOrReplaceTempView("misses")
    rows = spark.read.parquet(str(folder)).selectExpr("*", "_metadata.row_index as row")
    rows.where(rows.state.isin(list(states))).createOrReplaceTempView("known")
    return spark.sql(SCORED)
