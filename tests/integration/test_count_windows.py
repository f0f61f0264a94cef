"""Windows of ten rows are exact through rescales and kills. Rows of a key are in one file, so they have one order."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.test_temperature import FILES, readings, written
from tests.integration.through_kills import run_step_through_kills

TENS = """\
keyBy: [mote]
countWindow:
  rows: 10
  compute:
    - {name: count, function: count}
    - {name: sum, function: sum, column: temperature}
    - {name: last, function: last, column: temperature}
"""


def test_windows_of_rows_are_those_of_a_naive_model(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    by_mote: dict[int, list[float]] = defaultdict(list)
    for file in range(FILES):
        rows = [row._replace(mote=100 * file + row.mote) for row in readings(file)]
        table = pa.Table.from_pylist([row._asdict() for row in rows])
        pq.write_table(table, tmp_path / "in" / f"part-{file}.parquet")
        for row in rows:
            by_mote[row.mote].append(row.temperature)
    expected: Counter[Any] = Counter()
    for mote, values in by_mote.items():
        for at in range(0, len(values), 10):
            some = values[at : at + 10]
            expected[mote, len(some), sum(some), some[-1]] += 1
    assert {count for _, count, *_ in expected} > {10}, "the end of the input closes windows that are not full"

    run_step_through_kills(tmp_path, TENS, late=False)
    assert Counter(written(tmp_path / "out")) == expected
