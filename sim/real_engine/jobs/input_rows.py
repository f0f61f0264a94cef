"""The input of jobs: files of Parquet, the source that reads them, and helpers of their oracles."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from sim.kernel.kernel import Violation

Row = Mapping[str, Any]

START = datetime(2026, 1, 1)  # noqa: DTZ001 - the columns have no time zone
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
UNTIMED = pa.schema([("word", pa.string()), ("id", pa.int64())])
TIMED = UNTIMED.append(pa.field("at", pa.timestamp("us")))
BATCH_ROWS = 8  # a file is many batches


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Files that a source reads. ``rows`` returns those of the file of a number, which have the columns ``schema``.

    Each file is read at ``rate`` rows a second. A column of time is the event time; rows may be ``disorder_s`` behind.
    """

    rows: Callable[[int], Iterable[Row]]
    schema: pa.Schema
    rate: int
    disorder_s: int = 0
    files: int = 3
    name: str = "rows"

    def source(self, made: ps.Job, parameters: ps.Parameters) -> ps.Stream:
        """Let a job read them."""
        times = [field.name for field in self.schema if pa.types.is_timestamp(field.type)]
        return made.source(
            self.name,
            ps.parquet(f"{parameters['input']}/{self.name}", rate=self.rate),
            columns={field.name: str(field.type) for field in self.schema},
            event_time=times[0] if times else None,
            out_of_orderness=f"{self.disorder_s}s",
            batch_rows=BATCH_ROWS,
        )

    def write(self, folder: Path) -> None:
        """Write the rows of each file."""
        (folder / self.name).mkdir()
        for number in range(self.files):
            table = pa.Table.from_pylist([dict(row) for row in self.rows(number)], self.schema)
            pq.write_table(table, folder / self.name / f"part-{number}.parquet", row_group_size=64)

    def all_rows(self) -> list[Row]:
        """Return the rows of all files."""
        return [row for file in range(self.files) for row in self.rows(file)]

    def late_rows(self, ends: Callable[[datetime], datetime]) -> list[Row]:
        """Return the rows that are late: what they belong to ``ends`` at or before the bound of their file."""
        late: list[Row] = []
        for file in range(self.files):
            bound: datetime | None = None
            for row in self.rows(file):
                if bound is not None and ends(row["at"]) <= bound:
                    late.append(row)
                behind = row["at"] - self.disorder_s * SECOND
                bound = behind if bound is None else max(bound, behind)
        return late


def micros(time: datetime) -> int:
    """Return a time as a function with types gets it."""
    return (time - EPOCH) // timedelta(microseconds=1)


def must_equal(name: str, found: Counter[Any], expected: Counter[Any]) -> None:
    """Raise Violation with a row of those that are missing, or of those that are too many."""
    if found == expected:
        return
    missing, more = expected - found, found - expected
    some = next(iter(missing or more), None)
    raise Violation("E", f"{name}: {missing.total()} rows are missing, {more.total()} are too many: {some}")


def must_count(name: str, found: Iterable[Row], expected: Iterable[Row]) -> None:
    """Check running counts ``n``: each word begins at 1, has no gap, and comes as often as in the rows ``expected``."""
    seen: Counter[str] = Counter()
    for row in found:
        seen[row["word"]] += 1
        if row["n"] != seen[row["word"]]:
            raise Violation("E", f"{name}: {row['word']} is {row['n']}, not {seen[row['word']]}")
    must_equal(name, seen, Counter(row["word"] for row in expected))


def must_count_each(name: str, found: Sequence[Row], expected: Sequence[Row], rows_of_file: int) -> None:
    """Check running counts ``n`` and sums ``ids``: each row is counted once, those of a word and a file in order.

    The difference of two sums of a word is the ``id`` of the row that was counted.
    """
    must_count(name, found, expected)
    before, counted = Counter[str](), list[Row]()
    for row in found:
        counted.append({"word": row["word"], "id": row["ids"] - before[row["word"]]})
        before[row["word"]] = row["ids"]
    rows = Counter((row["word"], row["id"]) for row in expected)
    must_equal(f"{name}: rows", Counter((row["word"], row["id"]) for row in counted), rows)
    must_keep_order(name, counted, rows_of_file)


def must_keep_order(name: str, found: Iterable[Row], rows_of_file: int) -> None:
    """Check that the rows of a word and a file come in their order."""
    last: dict[tuple[str, int], int] = {}
    for row in found:
        line = row["word"], row["id"] // rows_of_file
        if row["id"] <= last.get(line, -1):
            raise Violation("O", f"{name}: {row['word']}: row {row['id']} comes behind row {last[line]}")
        last[line] = row["id"]
