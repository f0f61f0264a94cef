"""Input rows with event times: files of Parquet, and which of their rows come too late."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sim.real_engine.jobs.checked_job import Row

START = datetime(2026, 1, 1)  # noqa: DTZ001 - the columns have no time zone
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


def write_files(folder: Path, files: Sequence[Iterable[Row]], schema: pa.Schema) -> None:
    """Write the rows of each file."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(files):
        table = pa.Table.from_pylist([dict(row) for row in rows], schema)
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=64)


def late_rows(rows: Iterable[Row], disorder: timedelta, ends: Callable[[datetime], datetime]) -> list[Row]:
    """Return the rows of one file that are late: what they belong to ``ends`` at or before their own bound."""
    late: list[Row] = []
    largest: datetime | None = None
    for row in rows:
        if largest is not None and ends(row["at"]) <= largest - disorder:
            late.append(row)
        largest = row["at"] if largest is None else max(largest, row["at"])
    return late


def micros(time: datetime) -> int:
    """Return a time as a function with types gets it."""
    return (time - EPOCH) // timedelta(microseconds=1)


def difference(found: Counter[Any], expected: Counter[Any]) -> str:
    """Name a row of those that are missing, and of those that are too many."""
    missing, more = expected - found, found - expected
    some = next(iter(missing or more), None)
    return f"{missing.total()} rows are missing, {more.total()} are too many: {some}"
