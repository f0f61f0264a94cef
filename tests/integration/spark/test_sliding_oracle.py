"""The example with sliding windows against Spark SQL, which groups the same Parquet files by window.

Each file is a split. A row is late if the end of its first window plus the lateness is not after the largest earlier
time of its file, minus the bound on disorder. Spark computes that with a window function. The other rows are grouped
by ``window(ts, '10 minutes', '1 minute')``.
"""

import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.integration.local_job import REPOSITORY
from tests.integration.test_temperature import FILES, readings, written

SCHEMA = pa.schema({"mote": pa.int64(), "ts": pa.timestamp("us"), "temperature": pa.float64()})
JUDGED = """
select mote, ts, temperature,
       coalesce(window(ts, '1 minute').end + interval 10 seconds <= earlier - interval 30 seconds, false) as late
from (select *, max(ts) over (partition by file order by row
                              rows between unbounded preceding and 1 preceding) as earlier from readings)
"""
LATE = "select mote, ts, temperature from judged where late"
RECENT = """
select mote, window.start, window.end, count(*), sum(temperature), max(temperature)
from judged where not late group by mote, window(ts, '10 minutes', '1 minute')
"""


def plain(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Count rows. Times are those of UTC, without a zone."""
    return Counter(tuple(x.replace(tzinfo=None) if isinstance(x, datetime) else x for x in row) for row in rows)


def compare(spark: SparkSession, folder: Path, example: str, queries: tuple[str, str, str]) -> tuple[int, int]:
    """Run an example over readings, and compare what it wrote with what Spark finds.

    ``queries`` judge the rows, compute the output, and list the late rows. Returns how many rows both have.
    """
    (folder / "in").mkdir()
    for file in range(FILES):
        table = pa.Table.from_pylist([row._asdict() for row in readings(file)], SCHEMA)
        pq.write_table(table, folder / "in" / f"part-{file}.parquet")
    folders = {"input": "in", "output": "out", "late": "late"}
    settings = [part for name, to in folders.items() for part in ("--set", f"job.parameters.{name}={folder / to}")]
    command = [sys.executable, "-m", "penstock.cli", "run", str(REPOSITORY / "examples" / example)]
    subprocess.run([*command, "--workers", "2", "--dir", str(folder / "state"), *settings], check=True)

    spark.read.parquet(str(folder / "in")).selectExpr(
        "mote", "cast(ts as timestamp) as ts", "temperature", "_metadata.file_name file", "_metadata.row_index row"
    ).createOrReplaceTempView("readings")
    judged, output, late = queries
    spark.sql(judged).createOrReplaceTempView("judged")
    found, expected = plain(written(folder / "out")), plain([tuple(row) for row in spark.sql(output).collect()])
    assert found == expected
    found_late = plain(written(folder / "late"))
    assert found_late == plain([tuple(row) for row in spark.sql(late).collect()])
    return found.total(), found_late.total()


def test_spark_finds_the_same_windows_and_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    found, late = compare(spark, tmp_path, "sliding.yaml", (JUDGED, RECENT, LATE))
    assert late > 100
    assert found > 300
