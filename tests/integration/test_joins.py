"""Two sources, a join and windows behind it: no pair is lost and none comes twice, through kills and rescales.

Orders are read faster than payments, so at each barrier one side is ahead of the other.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.through_kills import run_through_kills

JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: joined}}
spec:
  job:
    graph:
      steps:
        - name: orders
          source:
            parquet: {{path: {folder}/orders, rate: 500}}
            columns: [{{name: id, type: int64}}, {{name: at, type: timestamp}}, {{name: item, type: string}}]
            eventTime: {{column: at, outOfOrderness: 2s}}
        - name: payments
          source:
            parquet: {{path: {folder}/payments, rate: 300}}
            columns: [{{name: order, type: int64}}, {{name: paid, type: timestamp}}, {{name: cents, type: int32}}]
            eventTime: {{column: paid, outOfOrderness: 2s}}
        - name: both
          inputs: [orders]
          keyBy: [id]
          join: {{right: [payments], rightKeyBy: [order], {times}, allowedLateness: 3s}}
        - name: counts
          inputs: [both]
          keyBy: [id]
          window:
            size: 20s
            compute: [{{name: rows, function: count}}, {{name: cents, function: sum, column: cents}}]
        - name: counted
          sink: {{parquet: {{path: {folder}/counted}}}}
        - name: late-result
          inputs: [counts.late]
          sink: {{parquet: {{path: {folder}/late-result}}}}
        - name: output
          inputs: [both]
          sink: {{parquet: {{path: {folder}/out}}}}
        - name: late
          inputs: [both.late]
          sink: {{parquet: {{path: {folder}/late}}}}
        - name: late-right
          inputs: [both.late-right]
          sink: {{parquet: {{path: {folder}/late-right}}}}
"""
FILES, ORDERS, PAYMENTS, KEYS = 2, 2_000, 1_200, 400
START = datetime(2026, 1, 1)  # noqa: DTZ001  as Arrow gives times without a zone
SIZE, DISORDER, LATENESS = timedelta(seconds=30), timedelta(seconds=2), timedelta(seconds=3)
COUNTED = timedelta(seconds=20)
LOWER, UPPER = timedelta(seconds=-10), timedelta(seconds=20)
Row = tuple[int | None, datetime, Any]
Joined = Counter[tuple[Any, ...]]


def made(
    name: str, folder: Path, values: tuple[str, ...], rows: int, last_moment: Callable[[datetime], datetime]
) -> tuple[list[Row], list[Row]]:
    """Write the files of a side; return its rows that are on time and those that are late."""
    (folder / name).mkdir()
    kept: list[Row] = []
    late: list[Row] = []
    for file in range(FILES):
        draw = Random(f"{name} {file}")
        of_file: list[Row] = []
        for number in range(rows):
            seconds = 600 * number / rows - draw.choice((0, 0, 1, 2, 50))
            key = None if draw.random() < 0.02 else draw.randrange(KEYS)
            of_file.append((key, START + timedelta(seconds=max(0, int(seconds))), draw.randrange(10_000)))
        largest = START - timedelta(days=1)
        for row in of_file:
            (late if last_moment(row[1]) + LATENESS < largest - DISORDER else kept).append(row)
            largest = max(largest, row[1])
        key_name, time, value = values
        times = pa.array([r[1] for r in of_file], pa.timestamp("us"))
        third = [f"item {r[2]}" for r in of_file] if value == "item" else pa.array([r[2] for r in of_file], pa.int32())
        table = pa.table({key_name: pa.array([r[0] for r in of_file], pa.int64()), time: times, value: third})
        pq.write_table(table, folder / name / f"part-{file}.parquet")
    return kept, late


def end_of(time: datetime) -> datetime:
    return time - (time - START) % SIZE + SIZE


def last_of_window(time: datetime) -> datetime:
    return end_of(time) - timedelta(microseconds=1)


def interval_join(orders: list[Row], payments: list[Row]) -> Joined:
    """Compare all rows of a key with each other."""
    found: Joined = Counter()
    of_key: dict[Any, list[tuple[int, Row]]] = {}
    for number, row in enumerate(payments):
        of_key.setdefault(row[0], []).append((number, row))
    matched: set[int] = set()
    for key, at, item in orders:
        near = [] if key is None else [(n, p) for n, p in of_key.get(key, []) if LOWER <= p[1] - at <= UPPER]
        matched |= {number for number, _ in near}
        found.update((key, at, f"item {item}", p[1], p[2], max(at, p[1])) for _, p in near)
        if not near:
            found[key, at, f"item {item}", None, None, at] += 1
    found.update((p[0], None, None, p[1], p[2], p[1]) for number, p in enumerate(payments) if number not in matched)
    return found


def full_join(orders: list[Row], payments: list[Row]) -> Joined:
    """Compare all rows of a window with each other."""
    windows: dict[tuple[Any, datetime], tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate((orders, payments)):
        for row in rows:
            windows.setdefault((row[0], end_of(row[1])), ([], []))[side].append(row)
    found: Joined = Counter()
    for (key, end), (left, right) in windows.items():
        last = end - timedelta(microseconds=1)
        if key is not None and left and right:
            found.update((key, o[1], f"item {o[2]}", p[1], p[2], last) for o in left for p in right)
        else:
            found.update((key, o[1], f"item {o[2]}", None, None, last) for o in left)
            found.update((key, None, None, p[1], p[2], last) for p in right)
    return found


def table_join(orders: list[Row], payments: list[Row]) -> Joined:
    """Look for the newest payment of each order; of equal times that with the greater bytes."""
    of_key: dict[Any, list[tuple[datetime, bytes, int]]] = {}
    for key, paid, cents in payments:
        of_key.setdefault(key, []).append((paid, cents.to_bytes(8, "little"), cents))
    found: Joined = Counter()
    for key, at, item in orders:
        before = [] if key is None else [p for p in of_key.get(key, []) if p[0] <= at]
        newest = max(before, default=None)
        of_newest = (None, None) if newest is None else (newest[0], newest[2])
        found[key, at, f"item {item}", *of_newest, at] += 1
    return found


def counts(rows: Joined) -> Joined:
    """Count the rows of each key and window of the step behind the join."""
    found: dict[tuple[Any, datetime], tuple[int, list[int]]] = {}
    for (key, _, _, _, cents, joined), times in rows.items():
        start = joined - (joined - START) % COUNTED
        n, summed = found.get((key, start), (0, []))
        found[key, start] = n + times, summed + [cents] * (times if cents is not None else 0)
    return Counter((key, start, start + COUNTED, n, sum(s) if s else None) for (key, start), (n, s) in found.items())


def written(folder: Path) -> Joined:
    return Counter(tuple(row.values()) for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist())


FULL = "how: full, eventTime: joined"
KINDS = [
    (f"within: 30s, {FULL}", full_join, last_of_window),
    (f"lower: -10s, upper: 20s, {FULL}", interval_join, lambda time: time),
    ("asOf: event, how: left", table_join, lambda time: time),
]


@pytest.mark.parametrize(("times", "join", "last_moment"), KINDS, ids=["window", "interval", "table"])
def test_a_join_is_exact_through_kills_and_rescales(
    tmp_path: Path,
    times: str,
    join: Callable[[list[Row], list[Row]], Joined],
    last_moment: Callable[[datetime], datetime],
) -> None:
    orders, late = made("orders", tmp_path, ("id", "at", "item"), ORDERS, last_moment)
    payments, late_right = made("payments", tmp_path, ("order", "paid", "cents"), PAYMENTS, last_moment)
    expected = join(orders, payments)
    pairs = sum(n for row, n in expected.items() if None not in row[1:])
    assert min(pairs, expected.total() - pairs, len(late), len(late_right)) > 100, "the input has all kinds of rows"
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(folder=tmp_path, times=times))
    run_through_kills(job, tmp_path)
    shown = expected if FULL in times else Counter({row[:5]: n for row, n in expected.items()})
    assert written(tmp_path / "out") == shown
    assert written(tmp_path / "counted") == counts(expected)
    assert not written(tmp_path / "late-result")
    assert written(tmp_path / "late") == Counter((k, t, f"item {v}") for k, t, v in late)
    assert written(tmp_path / "late-right") == Counter(late_right)
