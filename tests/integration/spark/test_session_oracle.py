"""The example with session windows against Spark SQL, which groups the same Parquet files by ``session_window``.

Each file is a split. A row is late if its time plus the lateness is before the largest earlier time of its file, minus
the bound on disorder. Spark computes that with a window function. The other rows are grouped by ``session_window``. To
Spark, a row that comes exactly a gap after another one is of the same session; here it begins another. So Spark gets a
gap that is a microsecond shorter, and its ends are moved by that.
"""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.integration.spark.test_sliding_oracle import LATE, compare

JUDGED = """
select mote, ts, temperature,
       coalesce(ts + interval 10 seconds < earlier - interval 30 seconds, false) as late
from (select *, max(ts) over (partition by file order by row
                              rows between unbounded preceding and 1 preceding) as earlier from readings)
"""
SPELLS = """
select mote, session_window.start, session_window.end + interval 1 microsecond,
       count(*), sum(temperature), max(temperature)
from judged where not late group by mote, session_window(ts, '4 seconds 999999 microseconds')
"""


def test_spark_finds_the_same_sessions_and_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    found, late = compare(spark, tmp_path, "sessions.yaml", (JUDGED, SPELLS, LATE))
    assert late > 100
    assert found > 100
