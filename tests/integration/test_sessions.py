"""The example with session windows: they and their late rows are exact through rescales 2 -> 3 -> 2 and a kill."""

from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.test_temperature import DISORDER, FILES, LATENESS, Reading, readings, written
from tests.integration.through_kills import run_windows_through_kills

GAP = timedelta(seconds=5)


def on_time_and_late(rows: list[Reading]) -> tuple[list[Reading], list[Reading]]:
    """Separate the rows of one file that are on time from the late ones, by the rows before each."""
    largest = None
    sorted_out: tuple[list[Reading], list[Reading]] = ([], [])
    for row in rows:
        sorted_out[largest is not None and row.ts + LATENESS < largest - DISORDER].append(row)
        largest = row.ts if largest is None else max(largest, row.ts)
    return sorted_out


def sessions(rows: list[Reading]) -> Counter[Any]:
    """Return the sessions of rows, each as the example emits it."""
    by_mote: dict[int, list[Reading]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.ts):
        by_mote[row.mote].append(row)
    found: Counter[Any] = Counter()
    for mote, of_mote in by_mote.items():
        cuts = [i for i, row in enumerate(of_mote) if i == 0 or row.ts - of_mote[i - 1].ts >= GAP]
        for begin, end in zip(cuts, [*cuts[1:], len(of_mote)], strict=True):
            some = of_mote[begin:end]
            values = [row.temperature for row in some]
            found[mote, some[0].ts, some[-1].ts + GAP, len(some), sum(values), max(values)] += 1
    return found


def test_sessions_and_late_rows_are_those_of_a_naive_model(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    on_time: list[Reading] = []
    late: list[Reading] = []
    schema = pa.schema({"mote": pa.int64(), "ts": pa.timestamp("us"), "temperature": pa.float64()})
    for file in range(FILES):
        rows = readings(file)
        table = pa.Table.from_pylist([row._asdict() for row in rows], schema)
        pq.write_table(table, tmp_path / "in" / f"part-{file}.parquet")
        some, others = on_time_and_late(rows)
        on_time += some
        late += others
    expected = sessions(on_time)
    assert len(late) > 100
    assert expected.total() > 100, "the input has what the test is about"

    run_windows_through_kills("sessions", tmp_path)
    assert Counter(written(tmp_path / "out")) == expected
    assert Counter(written(tmp_path / "late")) == Counter(late)
