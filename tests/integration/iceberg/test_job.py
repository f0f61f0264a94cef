"""A job from Iceberg to Iceberg on a real local cluster: exact when engines are killed, and when it is rescaled."""

from pathlib import Path

from pyiceberg.types import LongType, StringType

from tests.integration.table_jobs import check_exact_through_kills
from tests.integration.word_files import counting
from tests.support.iceberg import NAME, IcebergTable, local_catalog

INPUT = "lake.input"


def place(table: str) -> dict[str, object]:
    return {"catalog": "sqlite:///catalog.db", "table": table}


JOB = counting({"iceberg": {**place(INPUT), "follow": 0.2}}, {"output": {"iceberg": place(NAME)}})


def test_counts_are_exact_while_engines_are_killed_and_each_epoch_is_one_snapshot(tmp_path: Path) -> None:
    columns = {"word": StringType(), "times": LongType()}
    table = IcebergTable(lambda: local_catalog(tmp_path)).create(columns, {"word": "bucket[2]"})
    given = IcebergTable(lambda: local_catalog(tmp_path), INPUT).create({"word": StringType()})
    check_exact_through_kills(tmp_path, JOB, lambda rows: given.change(lambda found: found.append(rows)), table)
