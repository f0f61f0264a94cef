"""The example with event time: windows and late rows are exact through kills and rescales 2 -> 3 -> 2."""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.through_kills import run_windows_through_kills

FILES = 4
ROWS = 1_200
START = datetime(2026, 1, 1)  # noqa: DTZ001  as Arrow gives times without a zone
MINUTE, DISORDER, LATENESS = timedelta(minutes=1), timedelta(seconds=30), timedelta(seconds=10)


class Reading(NamedTuple):
    """A row; temperatures are quarters, so that sums do not depend on their order."""

    mote: int
    ts: datetime
    temperature: float


def readings(file: int) -> list[Reading]:
    """Make the rows of a file: a second apart, most out of order, some far too late."""
    draw = Random(file)
    made = []
    for number in range(ROWS):
        late_s = draw.choice((0, 0, 0, 5, 25, 40, 200))
        ts = START + timedelta(seconds=max(0, number - late_s), microseconds=file)
        made.append(Reading(draw.randrange(12), ts, draw.randrange(-80, 160) / 4))
    return made


def window_of(row: Reading) -> datetime:
    return row.ts - (row.ts - START) % MINUTE


def sorted_out(rows: list[Reading]) -> tuple[list[Reading], list[Reading]]:
    """Separate the rows of one file that are on time from the late ones, by the rows before each."""
    on_time: list[Reading] = []
    late: list[Reading] = []
    largest: datetime | None = None
    for row in rows:
        bound = None if largest is None else largest - DISORDER
        is_late = bound is not None and window_of(row) + MINUTE + LATENESS <= bound
        (late if is_late else on_time).append(row)
        largest = row.ts if largest is None else max(largest, row.ts)
    return on_time, late


def written(folder: Path) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for file in sorted(folder.glob("*.parquet")):
        rows += [tuple(row.values()) for row in pq.read_table(file).to_pylist()]
    return rows


def input_files(folder: Path) -> tuple[list[Reading], list[Reading]]:
    """Write the files of readings. Returns the rows that are on time, and the late ones."""
    folder.mkdir()
    on_time: list[Reading] = []
    late: list[Reading] = []
    schema = pa.schema({"mote": pa.int64(), "ts": pa.timestamp("us"), "temperature": pa.float64()})
    for file in range(FILES):
        rows = readings(file)
        table = pa.Table.from_pylist([row._asdict() for row in rows], schema)
        pq.write_table(table, folder / f"part-{file}.parquet")
        sound, others = sorted_out(rows)
        on_time += sound
        late += others
    assert len(late) > 100, "the input has what the test is about"
    return on_time, late


def minutes(on_time: list[Reading]) -> Counter[tuple[object, ...]]:
    """Return what the windows of rows emit: key, start, end, then count, sum, least, greatest and mean."""
    windows: dict[tuple[int, datetime], list[float]] = defaultdict(list)
    for row in on_time:
        windows[row.mote, window_of(row)].append(row.temperature)
    return Counter(
        (mote, start, start + MINUTE, len(v), sum(v), min(v), max(v), sum(v) / len(v))
        for (mote, start), v in windows.items()
    )


def test_windows_and_late_rows_are_those_of_a_naive_model(tmp_path: Path) -> None:
    on_time, late = input_files(tmp_path / "in")
    run_windows_through_kills("temperature", tmp_path)
    assert Counter(written(tmp_path / "out")) == minutes(on_time)
    assert Counter(written(tmp_path / "late")) == Counter(late)
