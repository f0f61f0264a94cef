"""The temperature oracle: keyed tumbling windows with late rows, computed by Spark alone.

Each file is a split. Let m be the largest event time of the earlier rows of the split, minus the
source's bound on disorder. A row is late if and only if the end of its window plus the allowed lateness
is at or before m. Late rows go to the side output, which is compared as a multiset. All other rows go
to windows, which are compared row by row. Sums and means may differ by rounding (``TOLERANCE``),
because the sum of floating-point numbers depends on their order. All else must be equal.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock_spark.folders import demand_columns, parquet_files
from penstock_spark.word_oracle import output_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOLERANCE = 1e-9  # relative; much larger than the rounding of a sum in another order
EXAMPLES_MAX = 10
WINDOW_COLUMNS = ("mote", "window_start", "window_end", "count", "sum", "min", "max", "mean")
INPUT_COLUMNS = ("mote", "ts", "temperature")

JUDGED = """
select mote, us, temperature, start, start + {size} + {lateness} <= earlier - {bound} as late from (
    select mote, us, temperature, us - pmod(us, {size}) as start,
           max(us) over (partition by file order by row
                         rows between unbounded preceding and 1 preceding) as earlier
    from input
)
"""

EXPECTED = """
select mote, start as window_start, start + {size} as window_end, count(temperature) as count,
       sum(temperature) as sum, min(temperature) as min, max(temperature) as max,
       avg(temperature) as mean
from judged where not coalesce(late, false) group by mote, start
"""

WINDOWS = """
select *, expected is null or found is null or expected <> 1 or found <> 1
    or not (e_end <=> f_end and e_count <=> f_count and e_min <=> f_min and e_max <=> f_max
            and {near_sum} and {near_mean}) as differs
from (select mote, window_start, window_end as e_end, count as e_count, sum as e_sum, min as e_min,
             max as e_max, mean as e_mean, 1 as expected from expected)
full outer join
     (select mote as f_mote, window_start as f_start, count(*) as found, min(window_end) as f_end,
             min(count) as f_count, min(sum) as f_sum, min(min) as f_min, min(max) as f_max,
             min(mean) as f_mean from found group by mote, window_start)
on mote <=> f_mote and window_start <=> f_start
"""

NEAR = "coalesce(abs(e_{0} - f_{0}) <= {1} * greatest(abs(e_{0}), 1), e_{0} <=> f_{0})"

LATE = """
select mote, us, temperature, sum(expected) as expected, sum(found) as found from (
    select mote, us, temperature, 1 as expected, 0 as found from judged where late
    union all select mote, us, temperature, 0, 1 from late_found
) group by mote, us, temperature
"""


@dataclass(frozen=True, slots=True)
class Windowing:
    """The job's parameters of time, in microseconds."""

    size_us: int
    bound_us: int
    lateness_us: int = 0


@dataclass(frozen=True, slots=True)
class Folders:
    """Dataset, output, and the side output of late rows if it is compared."""

    dataset: Path
    output: Path
    late: Path | None = None


@dataclass(frozen=True, slots=True)
class WindowVerdict:
    """The result: numbers of windows and late rows that were expected, found and different."""

    rows: int
    windows_expected: int
    windows_found: int
    windows_differing: int
    late_expected: int
    late_found: int
    late_differing: int
    first: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Return whether no window and no late row differs."""
        return self.windows_differing == 0 and self.late_differing == 0

    def as_dict(self) -> dict[str, object]:
        """Return what the JSON report holds."""
        return {"exact": self.exact, **asdict(self)}


def check(spark: "SparkSession", folders: Folders, windowing: Windowing) -> WindowVerdict:
    """Compare output and late folder with the dataset.

    Raises ConfigError for missing folders and columns, StateError for unreadable files.
    """
    _input_view(spark, folders.dataset)
    _output_view(spark, output_files(folders.output), WINDOW_COLUMNS, "found")
    late_files = output_files(folders.late) if folders.late else []
    _output_view(spark, late_files, INPUT_COLUMNS, "late_found")
    numbers = {
        "size": windowing.size_us,
        "bound": windowing.bound_us,
        "lateness": windowing.lateness_us,
        "near_sum": NEAR.format("sum", TOLERANCE),
        "near_mean": NEAR.format("mean", TOLERANCE),
    }
    queries = {"judged": JUDGED, "expected": EXPECTED, "windows": WINDOWS, "lates": LATE}
    for name, query in queries.items():
        frame = spark.sql(query.format(**numbers))
        (frame.cache() if name in {"windows", "lates"} else frame).createOrReplaceTempView(name)
    return _verdict(spark, compare_late=folders.late is not None)


def _input_view(spark: "SparkSession", dataset: Path) -> None:
    files = parquet_files(dataset)
    demand_columns(files, INPUT_COLUMNS)
    frame = spark.read.parquet(*map(str, files))
    frame.selectExpr(
        "mote",
        "unix_micros(cast(ts as timestamp)) as us",
        "cast(temperature as double) as temperature",
        "_metadata.file_name as file",
        "_metadata.row_index as row",
    ).createOrReplaceTempView("input")


def _output_view(spark: "SparkSession", files: Sequence[Path], columns: Sequence[str], view: str) -> None:
    """Create a view of the output. Times are microseconds, for every kind of timestamp."""
    if not files:
        _empty(spark, columns).createOrReplaceTempView(view)
        return
    demand_columns(files, columns)
    frame = spark.read.parquet(*map(str, files))
    times = {"ts": "us", "window_start": "window_start", "window_end": "window_end"}
    frame.selectExpr(
        *(f"unix_micros(cast({c} as timestamp)) as {times[c]}" if c in times else c for c in columns)
    ).createOrReplaceTempView(view)


def _empty(spark: "SparkSession", columns: Sequence[str]) -> "DataFrame":
    doubles = {"temperature", "sum", "min", "max", "mean"}
    names = ("us" if c == "ts" else c for c in columns)
    schema = ", ".join(f"{n} {'double' if n in doubles else 'bigint'}" for n in names)
    return spark.createDataFrame([], schema)


def _verdict(spark: "SparkSession", *, compare_late: bool) -> WindowVerdict:
    windows = spark.sql(
        "select coalesce(sum(expected), 0) e, coalesce(sum(found), 0) f, count_if(differs) d from windows"
    ).collect()[0]
    lates = spark.sql(
        "select coalesce(sum(expected), 0) e, coalesce(sum(found), 0) f,"
        " coalesce(sum(abs(expected - found)), 0) d from lates"
    ).collect()[0]
    wrong = spark.sql(f"select * from windows where differs order by window_start, mote limit {EXAMPLES_MAX}").collect()
    return WindowVerdict(
        rows=spark.sql("select count(*) n from input").collect()[0].n,
        windows_expected=windows.e,
        windows_found=windows.f,
        windows_differing=windows.d,
        late_expected=lates.e,
        late_found=lates.f,
        late_differing=lates.d if compare_late else 0,
        first=tuple(str(row.asDict()) for row in wrong),
    )
