"""Joins against Spark SQL, which joins the same Parquet files by key and window, or by key and a range of times.

Each file is a split. A row is late for a window join if the end of its window is not after the largest earlier time of
its file, minus the bound on disorder; for an interval join if its time is below that. Spark computes that with a
window function, and joins the other rows.
"""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import penstock as ps
from penstock.contract.graph import How

SIZE_US, BOUND_US = 60_000_000, 30_000_000
LOWER_US, UPPER_US = -20_000_000, 45_000_000
US = pa.timestamp("us")

JUDGED = """
create or replace temp view {name} as
select * from (
    select *, us - pmod(us, {size}) as start,
           coalesce({late}, false) as late
    from (select *, max(us) over (partition by file order by row
                                  rows between unbounded preceding and 1 preceding) as earlier
          from {name}_rows))
"""
JOINED = """
select coalesce({key}) as id, o.us as at, o.item, o.price, p.us as paid, p.by
from (select * from orders where not late) o {how} join (select * from payments where not late) p
on o.id = p.order and {near}
"""


def make(folder: Path, columns: tuple[str, str, str], seed: int) -> None:
    """Write two files of 700 rows. Some are late, some have no key."""
    folder.mkdir()
    key, time, word = columns
    for file in range(2):
        draw = Random(10 * seed + file)
        rows: list[dict[str, Any]] = []
        for number in range(700):
            us = number * 1_000_000 - draw.choice((0, 0, 5, 25, 120)) * 1_000_000 + file
            named = {key: None if draw.random() < 0.03 else draw.randrange(60), time: us, word: f"w{number % 7}"}
            rows.append(named if word == "by" else {**named, "price": draw.choice((None, number / 4))})
        table = pa.Table.from_pylist(rows)
        at = table.schema.get_field_index(time)
        pq.write_table(table.set_column(at, time, table[time].cast(US)), folder / f"part-{file}.parquet")


def joined(folder: Path, how: How, *, interval: bool) -> ps.Result:
    job = ps.Job()
    bound = f"{BOUND_US}us"
    orders = job.source("orders", ps.parquet(str(folder / "orders")), event_time="at", out_of_orderness=bound)
    payments = job.source("payments", ps.parquet(str(folder / "payments")), event_time="paid", out_of_orderness=bound)
    if interval:
        both = orders.join_interval(
            "both", payments, on={"id": "order"}, lower=f"{LOWER_US}us", upper=f"{UPPER_US}us", how=how.value
        )
    else:
        both = orders.join("both", payments, on={"id": "order"}, within=f"{SIZE_US}us", how=how.value)
    both.sink("out", ps.discard())
    both.late.sink("late", ps.discard())
    both.late_right.sink("late-right", ps.discard())
    return ps.run(job, collect=True)


def view(spark: SparkSession, folder: Path, name: str, time: str, late: str) -> None:
    frame = spark.read.parquet(str(folder / name))
    frame.selectExpr(
        "*", f"unix_micros(cast({time} as timestamp)) as us", "_metadata.file_name file", "_metadata.row_index row"
    ).createOrReplaceTempView(f"{name}_rows")
    spark.sql(JUDGED.format(name=name, size=SIZE_US, late=late))


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    plain = [c.cast(pa.int64()) if c.type == US else c for c in table.columns]
    return Counter(zip(*(c.to_pylist() for c in plain), strict=True))


WINDOW = (False, f"us - pmod(us, {SIZE_US}) + {SIZE_US} <= earlier - {BOUND_US}", "o.start = p.start")
INTERVAL = (True, f"us < earlier - {BOUND_US}", f"p.us - o.us between {LOWER_US} and {UPPER_US}")


@pytest.mark.parametrize("kind", [WINDOW, INTERVAL], ids=["window", "interval"])
@pytest.mark.parametrize("how", list(How))
def test_spark_joins_the_same_rows(spark: SparkSession, tmp_path: Path, how: How, kind: tuple[bool, str, str]) -> None:
    interval, is_late, near = kind
    make(tmp_path / "orders", ("id", "at", "item"), 1)
    make(tmp_path / "payments", ("order", "paid", "by"), 2)
    view(spark, tmp_path, "orders", "at", is_late)
    view(spark, tmp_path, "payments", "paid", is_late)
    result = joined(tmp_path, how, interval=interval)
    expected = Counter(
        tuple(row) for row in spark.sql(JOINED.format(how=how, key="o.id, p.order", near=near)).collect()
    )
    found = rows_of(result["out"].to_arrow())
    assert found == expected
    assert found.total() > 1000
    for name, output in (("orders", "late"), ("payments", "late-right")):
        late = spark.sql(f"select count(*) from {name} where late").collect()[0][0]
        assert len(list(result[output])) == late > 50
