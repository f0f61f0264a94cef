"""Spark and the workers compute the same hash, and so the same key group, for every key."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.model.keys import hash_columns, key_groups

DAY_US = 86_400_000_000
MONEY = ["0", "0.001", None, "-5.25", "999999999999999.999", "7", "8"]
COLUMNS = {
    "text": pa.array(["", "a", None, "ä€𝄞", "x" * 31, "y" * 32, "z" * 257]),
    "raw": pa.array([b"", b"\x00", None, b"\xff\x00", b"q" * 32, b"r" * 70, b"1"]),
    "flag": pa.array([True, False, None, True, False, True, None]),
    "tiny": pa.array([0, -1, 127, -128, None, 5, 6], pa.int8()),
    "small": pa.array([0, -1, 32767, -32768, None, 5, 6], pa.int16()),
    "whole": pa.array([0, -1, 2**31 - 1, -(2**31), None, 5, 6], pa.int32()),
    "big": pa.array([0, -1, 2**63 - 1, -(2**63), None, 5, 6], pa.int64()),
    "single": pa.array([0.0, -0.0, float("nan"), 1.5, None, float("inf"), -2.25], pa.float32()),
    "double": pa.array([0.0, -0.0, float("nan"), 0.1, None, float("-inf"), 1e300]),
    "day": pa.array([0, 1, None, 20000, -1, 5, 6], pa.int32()).cast(pa.date32()),
    "time": pa.array([0, -1, None, 20_000 * DAY_US, 1, 5, 6], pa.timestamp("us", "UTC")),
    "money": pa.array([None if n is None else Decimal(n) for n in MONEY], pa.decimal128(18, 3)),
}
TABLE = pa.table(COLUMNS)


def test_every_type_hashes_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "keys.parquet")
    names = TABLE.column_names
    keys = [*([name] for name in names), ["text", "big"], names]
    wanted = [f"xxhash64({', '.join(key)}) as h{i}" for i, key in enumerate(keys)]
    groups = [f"cast(pmod(h{i}, 100) as int) as g{i}" for i in range(len(keys))]
    frame = spark.read.parquet(str(tmp_path / "keys.parquet"))
    rows = frame.coalesce(1).selectExpr(*wanted).selectExpr("*", *groups).collect()
    for i, key in enumerate(keys):
        ours = hash_columns([TABLE.column(name) for name in key])
        assert ours.view("int64").tolist() == [row[f"h{i}"] for row in rows], key
        assert key_groups(ours, 100).tolist() == [row[f"g{i}"] for row in rows], key
