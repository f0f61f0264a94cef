"""Spark makes the state that a new job begins with, and reads the state that the job has then."""

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from tests.integration.test_command_line import penstock
from tests.support.balances_job import write_job

ACCOUNTS, ROWS = 5_000, 20_000


def test_spark_makes_the_first_state_of_a_job_and_reads_the_last(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"account": f"account-{(i * 7) % 6_000}", "amount": i % 101 - 30} for i in range(ROWS)]
    job = str(write_job(tmp_path, "balances_and_spark", rows))
    first = spark.range(ACCOUNTS).selectExpr(
        "concat('account-', id) as account",
        "id * 3 - 1000 as total",
        "if(id % 4 = 0, null, concat('note ', id)) as note",
        "id / 7 as rate",
        "cast(id / 4 as decimal(12, 2)) as limit",
        "timestamp_ntz '2026-11-25 03:04:05.678901' as since",
        "cast(pmod(xxhash64(concat('account-', id)), 256) as int) as key_group",
    )
    first.repartition(3).write.parquet(str(tmp_path / "first"))

    made = penstock("savepoint", "import", job, f"add={tmp_path / 'first'}", "--to", str(tmp_path / "made"))
    assert made.returncode == 0, made.stderr
    assert "add: 5,000 keys" in made.stdout
    where = ("--dir", str(tmp_path / "state"))
    ran = penstock("run", job, *where, "--restore", str(tmp_path / "made"))
    assert ran.returncode == 0, ran.stderr
    exported = penstock("savepoint", "export", job, "latest", str(tmp_path / "last"), "--step", "add", *where)
    assert exported.returncode == 0, exported.stderr

    sums = spark.createDataFrame(rows).groupBy("account").sum("amount")
    wanted = first.join(sums, "account", "full").selectExpr(
        "account",
        "coalesce(total, 0) + coalesce(`sum(amount)`, 0) as total",
        "note",
        "coalesce(rate, 0D) as rate",
        "limit",
        "since",
    )
    found = spark.read.parquet(str(tmp_path / "last" / "add"))
    groups = found.where("key_group != pmod(xxhash64(account), 256)").count()
    assert groups == 0
    assert Counter(found.drop("key_group").collect()) == Counter(wanted.collect())
