"""The example with sliding windows: they and their late rows are exact through rescales 2 -> 3 -> 2 and a kill."""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.test_temperature import DISORDER, FILES, LATENESS, START, Reading, readings, written
from tests.integration.through_kills import run_windows_through_kills
from tests.support.long_tests import long_only

SIZE, SLIDE = timedelta(minutes=10), timedelta(minutes=1)


def first_end(row: Reading) -> datetime:
    """Return the end of the first window that a row is in."""
    return row.ts - (row.ts - START) % SLIDE + SLIDE


def sorted_out(rows: list[Reading]) -> tuple[list[Reading], list[Reading]]:
    """Separate the rows of one file that are on time from the late ones, by the rows before each."""
    on_time: list[Reading] = []
    late: list[Reading] = []
    largest: datetime | None = None
    for row in rows:
        is_late = largest is not None and first_end(row) + LATENESS <= largest - DISORDER
        (late if is_late else on_time).append(row)
        largest = row.ts if largest is None else max(largest, row.ts)
    return on_time, late


@long_only
def test_windows_and_late_rows_are_those_of_a_naive_model(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    windows: dict[tuple[int, datetime], list[float]] = defaultdict(list)
    late: list[Reading] = []
    schema = pa.schema({"mote": pa.int64(), "ts": pa.timestamp("us"), "temperature": pa.float64()})
    for file in range(FILES):
        rows = readings(file)
        table = pa.Table.from_pylist([row._asdict() for row in rows], schema)
        pq.write_table(table, tmp_path / "in" / f"part-{file}.parquet")
        on_time, others = sorted_out(rows)
        late += others
        for row in on_time:
            for number in range(SIZE // SLIDE):
                windows[row.mote, first_end(row) + number * SLIDE].append(row.temperature)
    assert len(late) > 100, "the input has what the test is about"

    run_windows_through_kills("sliding", tmp_path)

    expected = Counter((mote, end - SIZE, end, len(v), sum(v), max(v)) for (mote, end), v in windows.items())
    assert Counter(written(tmp_path / "out")) == expected
    assert Counter(written(tmp_path / "late")) == Counter(late)
