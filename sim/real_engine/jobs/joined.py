"""A job of two inputs: an interval join, and windows behind it, which need all results in time::

    orders ───┐
              ├─> join per word ─┬─> pairs-out
    payments ─┘                  └─> windows per word ─> windows-out; late-out gets nothing

Orders are read faster than payments. So at most barriers one side is ahead, and waits in the state. Each row without a
partner comes alone, when the other side has passed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob, Row
from sim.real_engine.jobs.timed_rows import SECOND, START, difference, write_files

FILES, WORDS = 2, 7
BATCH_ROWS = 8
ORDERS, PAYMENTS = 120, 60  # rows of a file
ORDERS_RATE, PAYMENTS_RATE = 70, 35
SPAN, LOWER, UPPER = 480 * SECOND, -10 * SECOND, 20 * SECOND
WINDOW = timedelta(minutes=1)
TIME = pa.timestamp("us")


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, folder, output = ps.Job(), parameters["input"], parameters["output"]
    orders, payments = (
        made.source(
            name,
            ps.parquet(f"{folder}/{name}", rate=rate),
            columns={"word": "string", identity: "int64", time: "timestamp[us]"},
            event_time=time,
            batch_rows=BATCH_ROWS,
        )
        for name, rate, identity, time in (
            ("orders", ORDERS_RATE, "id", "at"),
            ("payments", PAYMENTS_RATE, "payment", "paid"),
        )
    )
    pairs = orders.join_interval(
        "pairs", payments, on="word", lower="-10s", upper="20s", how="full", event_time="joined"
    )
    pairs.sink("pairs-out", ps.parquet(f"{output}/pairs"))
    windows = pairs.key_by("word").window("windows", "1m", n=ps.count())
    windows.sink("windows-out", ps.parquet(f"{output}/windows"))
    windows.late.sink("late-out", ps.parquet(f"{output}/late"))
    return made


class JoinedJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("pairs", "windows", "late")

    def write_input(self, folder: Path) -> None:
        """Write the files of both sides."""
        for name, rows, schema in (
            ("orders", ORDERS, {"word": pa.string(), "id": pa.int64(), "at": TIME}),
            ("payments", PAYMENTS, {"word": pa.string(), "payment": pa.int64(), "paid": TIME}),
        ):
            files = [_rows(file, rows, tuple(schema)) for file in range(FILES)]
            write_files(folder / name, files, pa.schema(schema))

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the pairs, then the windows that they are in."""
        if found["late"]:
            raise Violation("E", f"join: {len(found['late'])} results are late, {found['late'][0]} is one")
        expected = _expected()
        names = "word", "id", "at", "payment", "paid", "joined"
        pairs = Counter(tuple(row[name] for name in names) for row in found["pairs"])
        if pairs != expected:
            raise Violation("E", f"join: {difference(pairs, expected)}")
        windows: Counter[Any] = Counter()
        for row, times in expected.items():
            windows[row[0], START + (row[-1] - START) // WINDOW * WINDOW] += times
        counted = Counter({(r["word"], r["window_start"]): r["n"] for r in found["windows"]})
        if counted != windows or len(found["windows"]) != len(windows):
            raise Violation("E", f"join, windows: {difference(counted, windows)}")


def _rows(file: int, rows: int, names: tuple[str, ...]) -> Iterable[Row]:
    """Return the rows of a file of a side, in order of time. Both sides have equal times here and there."""
    for number in range(rows):
        word = f"w{(number * 5 + file) % WORDS}"
        at = START + SPAN * number // rows
        yield dict(zip(names, (word, file * rows + number, at), strict=True))


def _expected() -> Counter[Any]:
    """Compare all rows of a word with each other."""
    orders = [row for file in range(FILES) for row in _rows(file, ORDERS, ("word", "id", "at"))]
    payments = [row for file in range(FILES) for row in _rows(file, PAYMENTS, ("word", "payment", "paid"))]
    expected: Counter[Any] = Counter()
    paid: set[int] = set()
    for order in orders:
        word, at = order["word"], order["at"]
        near = [p for p in payments if p["word"] == word and LOWER <= p["paid"] - at <= UPPER]
        for each in near:
            paid.add(each["payment"])
            expected[word, order["id"], at, each["payment"], each["paid"], max(at, each["paid"])] += 1
        if not near:
            expected[word, order["id"], at, None, None, at] += 1
    for each in payments:
        if each["payment"] not in paid:
            expected[each["word"], None, None, each["payment"], each["paid"], each["paid"]] += 1
    assert sum(None in row for row in expected) > FILES, "the input has rows without a partner"
    return expected
