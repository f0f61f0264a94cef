"""Steps that emit some of their rows (distinct, latest, top) are exact through kills and rescales 2 -> 3 -> 2.

All rows of a key are in one file, so their order is known, and with it each row of output.
"""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.through_kills import run_through_kills

JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: chosen}}
spec:
  job:
    graph:
      steps:
        - name: bids
          source:
            parquet: {{path: {folder}/bids, rate: 500}}
            columns: [{{name: item, type: int64}}, {{name: at, type: timestamp}}, {{name: price, type: double}}]
            eventTime: {{column: at, outOfOrderness: 2s}}
        - {{name: first, inputs: [bids], keyBy: [item], distinct: {{within: 20s, allowedLateness: 3s}}}}
        - {{name: first-out, sink: {{parquet: {{path: {folder}/first}}}}}}
        - {{name: late-out, inputs: [first.late], sink: {{parquet: {{path: {folder}/late}}}}}}
        - {{name: newest, inputs: [bids], keyBy: [item], latest: {{by: at}}}}
        - {{name: newest-out, sink: {{parquet: {{path: {folder}/newest}}}}}}
        - {{name: best, inputs: [bids], keyBy: [item], top: {{count: 3, by: price}}}}
        - {{name: best-out, sink: {{parquet: {{path: {folder}/best}}}}}}
"""
FILES, ROWS, ITEMS = 3, 1_500, 120
START = datetime(2026, 1, 1)  # noqa: DTZ001  as Arrow gives times without a zone
WITHIN, DISORDER, LATENESS = timedelta(seconds=20), timedelta(seconds=2), timedelta(seconds=3)
Row = tuple[int, datetime, float]


def bids(file: int) -> list[Row]:
    draw = Random(file)
    rows: list[Row] = []
    for number in range(ROWS):
        seconds = max(0, int(600 * number / ROWS) - draw.choice((0, 0, 1, 2, 50)))
        at = START + timedelta(seconds=seconds, microseconds=number)
        price = float(draw.randrange(10**12))
        rows.append((file + FILES * draw.randrange(ITEMS), at, price))
    return rows


def first_and_late(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are no duplicates, and the late ones."""
    until: dict[int, datetime] = {}
    first: list[Row] = []
    late: list[Row] = []
    largest = START - timedelta(days=1)
    for row in rows:
        if row[1] + LATENESS < largest - DISORDER:
            late.append(row)
        elif row[1] >= until.get(row[0], row[1]):
            until[row[0]] = row[1] + WITHIN
            first.append(row)
        largest = max(largest, row[1])
    return first, late


def changes(rows: list[Row], place: int, most: int, *, leaving: bool) -> Counter[Any]:
    """Return the changes of the best rows of each item. No two rows of an item have the same value at ``place``."""
    best: dict[int, list[Row]] = defaultdict(list)
    found: Counter[Any] = Counter()
    for row in rows:
        of_item = best[row[0]]
        of_item.append(row)
        of_item.sort(key=lambda r: r[place], reverse=True)
        left = of_item[most:]
        del of_item[most:]
        if row not in left:
            found["upsert", *row] += 1
            found.update(("delete", *r) for r in left if leaving)
    return found


def written(folder: Path) -> Counter[Any]:
    return Counter(tuple(row.values()) for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist())


def test_distinct_latest_and_top_are_exact_through_kills_and_rescales(tmp_path: Path) -> None:
    (tmp_path / "bids").mkdir()
    schema = pa.schema([("item", pa.int64()), ("at", pa.timestamp("us")), ("price", pa.float64())])
    first: list[Row] = []
    late: list[Row] = []
    newest: Counter[Any] = Counter()
    best: Counter[Any] = Counter()
    for file in range(FILES):
        rows = bids(file)
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)]
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), tmp_path / "bids" / f"part-{file}.parquet")
        firsts, lates = first_and_late(rows)
        first, late = first + firsts, late + lates
        newest += changes(rows, 1, 1, leaving=False)
        best += changes(rows, 2, 3, leaving=True)
    assert min(len(late), FILES * ROWS - len(first) - len(late)) > 100, "the input has what the test is about"
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(folder=tmp_path))
    run_through_kills(job, tmp_path)
    assert written(tmp_path / "first") == Counter(first)
    assert written(tmp_path / "late") == Counter(late)
    assert written(tmp_path / "newest") == newest
    assert written(tmp_path / "best") == best
