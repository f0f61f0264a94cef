"""Spark reads tables of Delta Lake and Iceberg that sinks have written: each row once, with its values.

Nothing of Penstock and of its clients is used to read. What the sinks tell a table of its files, Spark believes: it
opens only those files in which a condition may hold. So a wrong partition or a wrong bound loses rows here.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from penstock.connectors.delta.delta_sink import DeltaSink
from penstock.connectors.iceberg.iceberg_sink import IcebergSink
from penstock.contract.delta_options import DeltaOutput
from penstock.contract.iceberg_options import IcebergOutput
from penstock.contract.ids import Epoch, Ordinal, StageIndex, TaskId
from tests.integration.table_jobs import check_exact_through_kills
from tests.integration.word_files import counting
from tests.support.delta import Table
from tests.support.iceberg import NAME, IcebergTable, local_catalog
from tests.support.staged_output import staged
from tools.servers.fetched import ServerMissing
from tools.servers.table_spark import ALL, TableSpark

NOON = datetime(2026, 11, 27, 12, 30, 15, 123456, tzinfo=UTC)
COLUMNS: dict[str, tuple[pa.DataType, IcebergType]] = {
    "number": (pa.int64(), LongType()),
    "word": (pa.string(), StringType()),
    "day": (pa.date32(), DateType()),
    "at": (pa.timestamp("us", "UTC"), TimestamptzType()),
    "local": (pa.timestamp("us"), TimestampType()),
    "flag": (pa.bool_(), BooleanType()),
    "small": (pa.int32(), IntegerType()),
    "price": (pa.decimal128(12, 3), DecimalType(12, 3)),
    "ratio": (pa.float64(), DoubleType()),
    "half": (pa.float32(), FloatType()),
    "data": (pa.binary(), BinaryType()),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
WORDS = ["a/b=c d", None, "é%", "two\nlines", "'\"\\", " ", "word", "", "😀😀😀", 50 * "long "]
TIMES = [
    NOON,
    NOON.replace(year=1969, month=12, day=31),
    datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=1),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1582, 10, 10, tzinfo=UTC),  # the older calendar of Java lacks this day
    None,
]
RATIOS = [1.5, float("nan"), float("inf"), -float("inf"), -0.0, 0.0, None, 1e-308]
PRICES = [Decimal("-0.001"), Decimal("999999999.999"), Decimal("0.000"), None]


def _row(n: int) -> dict[str, Any]:
    at, ratio = TIMES[n % len(TIMES)], RATIOS[n % len(RATIOS)]
    return {
        "number": [n, -n, 2**63 - 1 - n, -(2**63) + n][n % 4],
        "word": WORDS[n % len(WORDS)],
        "day": at and at.date(),
        "at": at,
        "local": at and at.replace(tzinfo=None),
        "flag": [True, False, None][n % 3],
        "small": None if n == 5 else n - 5,
        "price": PRICES[n % len(PRICES)],
        "ratio": ratio,
        "half": ratio if ratio != 1e-308 else 0.5,
        "data": None if n == 3 else bytes([0, n, 255]),
    }


FILES, FILE_ROWS = 6, 4  # before a file is split by partitions
ROWS = pa.RecordBatch.from_pylist([_row(n) for n in range(FILES * FILE_ROWS)], SCHEMA)
Reader = Callable[[Sequence[str]], pa.Table]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableSpark]:
    """Start Spark once. Skips the test where it was not prepared, and says how it is."""
    try:
        running = TableSpark(tmp_path_factory.mktemp("spark"))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    try:
        yield running
    finally:
        running.close()


def test_each_count_is_there_once_though_engines_were_killed(spark: TableSpark, tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.db"
    delta = Table.in_folder(tmp_path / "table").create({"word": "string", "times": "long"})
    iceberg = IcebergTable(lambda: local_catalog(tmp_path))
    iceberg.create({"word": StringType(), "times": LongType()}, {"word": "bucket[2]"})
    given = Table.in_folder(tmp_path / "in").create({"word": "string"})
    place = {"catalog": "sqlite:///catalog.db", "table": NAME}
    sinks = {"versions": {"delta": {"table": "table"}}, "snapshots": {"iceberg": place}}
    job = counting({"delta": {"table": "in", "follow": 0.2}}, sinks)
    due = check_exact_through_kills(tmp_path, job, given.add_rows, delta, iceberg)
    for found in (spark.delta(tmp_path / "table"), spark.iceberg(catalog, NAME)):
        assert Counter((row["word"], row["times"]) for row in found.to_pylist()) == due


def delta(spark: TableSpark, folder: Path, partitions: Mapping[str, str]) -> tuple[DeltaSink, Reader]:
    """Return a sink of a new table of Delta Lake, and what reads it."""
    table = folder / "table"
    DeltaTable.create(str(table), SCHEMA, partition_by=list(partitions))
    return DeltaSink("out", DeltaOutput(table=str(table)), SCHEMA, folder / "staged"), partial(spark.delta, table)


def iceberg(spark: TableSpark, folder: Path, partitions: Mapping[str, str]) -> tuple[IcebergSink, Reader]:
    """Return a sink of a new table of Iceberg, and what reads it. ``partitions`` are transforms by columns."""
    columns = {name: kind for name, (_, kind) in COLUMNS.items()}
    IcebergTable(lambda: local_catalog(folder)).create(columns, dict(partitions))
    options = IcebergOutput(catalog=f"sqlite:///{folder}/catalog.db", table=NAME)
    sink = IcebergSink("out", options, SCHEMA, folder / "staged")
    return sink, partial(spark.iceberg, folder / "catalog.db", NAME)


def literal(value: Any) -> str:
    """Return a value of the rows as SQL has it."""
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case float():
            return f"double('{value}')"
        case bytes():
            return f"X'{value.hex()}'"
        case Decimal():
            return f"{value}BD"
        case datetime():
            return f"TIMESTAMP{'_NTZ' if value.tzinfo is None else ''}'{value.replace(tzinfo=None).isoformat()}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case other:
            raise AssertionError(f"no literal for {other!r}")


def condition(row: Mapping[str, Any]) -> str:
    """Return what holds for rows that are like this one."""
    return " AND ".join(
        f"{name} IS NULL" if value is None else f"{name} = {literal(value)}" for name, value in row.items()
    )


def as_texts(rows: pa.Table | pa.RecordBatch) -> Counter[str]:
    """Return how often each row is there; NaN is equal to NaN, and 0.0 is not -0.0."""
    return Counter(str(row) for row in rows.cast(SCHEMA).to_pylist())


@pytest.mark.parametrize(
    ("table", "partitions"),
    [
        (delta, {}),
        (delta, dict.fromkeys(("word", "day", "flag", "number"), "")),
        (iceberg, {}),
        (iceberg, dict.fromkeys(("word", "day", "at", "local", "flag", "number"), "identity")),
        (iceberg, {"word": "bucket[4]", "day": "month", "at": "hour", "local": "year", "number": "truncate[3]"}),
        (iceberg, {"word": "truncate[2]", "day": "year", "at": "day", "local": "month", "number": "bucket[3]"}),
        (iceberg, {"day": "bucket[3]", "at": "bucket[3]", "local": "hour", "small": "bucket[3]", "word": "void"}),
        (iceberg, {"at": "month", "local": "day", "small": "truncate[4]"}),
    ],
)
def test_each_row_is_there_once_and_found_by_its_values(
    spark: TableSpark, tmp_path: Path, table: Any, partitions: Mapping[str, str]
) -> None:
    sink, read = table(spark, tmp_path, partitions)
    sink.claim("job", fresh=True)
    for epoch in (1, 2):
        files = range(epoch - 1, FILES, 2)
        parts = ((TaskId(StageIndex(1), Ordinal(file), 0), ROWS.slice(file * FILE_ROWS, FILE_ROWS)) for file in files)
        handles = [staged(sink, epoch, rows, task=task) for task, rows in parts]
        for _ in range(2):  # as after a crash
            sink.publisher.publish_all(handles, Epoch(epoch))
    rows = ROWS.to_pylist()
    if table is delta and "word" in partitions:  # an empty text is a null there
        rows = [{**row, "word": row["word"] or None} for row in rows]
    due = as_texts(pa.Table.from_pylist(rows, SCHEMA))
    assert as_texts(read(ALL)) == due
    # Each query asks for one row of each file: a file that is left out is missed.
    asked = [" OR ".join(f"({condition(row)})" for row in rows[first::FILE_ROWS]) for first in range(FILE_ROWS)]
    assert as_texts(read(asked)) == due
