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
from typing import Any

import pyarrow as pa

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import SECOND, START, InputFiles, Row, must_equal

FILES, WORDS = 2, 7
SPAN, LOWER, UPPER = 480 * SECOND, -10 * SECOND, 20 * SECOND
WINDOW = timedelta(minutes=1)


def side_files(name: str, rows: int, rate: int, identity: str, time: str) -> InputFiles:
    """Return the files of a side, in order of time. Both sides have equal times here and there."""

    def rows_of(file: int) -> Iterable[Row]:
        for number in range(rows):
            word, at = f"w{(number * 5 + file) % WORDS}", START + SPAN * number // rows
            yield {"word": word, identity: file * rows + number, time: at}

    schema = pa.schema({"word": pa.string(), identity: pa.int64(), time: pa.timestamp("us")})
    return InputFiles(rows_of, schema, rate, files=FILES, name=name)


ORDERS = side_files("orders", 120, 70, "id", "at")
PAYMENTS = side_files("payments", 60, 35, "payment", "paid")


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    orders, payments = (side.source(made, parameters) for side in (ORDERS, PAYMENTS))
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
    inputs = (ORDERS, PAYMENTS)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the pairs, then the windows that they are in."""
        if found["late"]:
            raise Violation("E", f"join: {len(found['late'])} results are late, {found['late'][0]} is one")
        expected = _expected()
        names = "word", "id", "at", "payment", "paid", "joined"
        must_equal("join", Counter(tuple(row[name] for name in names) for row in found["pairs"]), expected)
        windows: Counter[Any] = Counter()
        for row, times in expected.items():
            windows[row[0], START + (row[-1] - START) // WINDOW * WINDOW] += times
        counted = Counter({(r["word"], r["window_start"]): r["n"] for r in found["windows"]})
        must_equal("join, windows", counted, windows)
        if len(found["windows"]) != len(windows):
            raise Violation("E", f"join, windows: {len(found['windows'])} rows of {len(windows)} windows")


def _expected() -> Counter[Any]:
    """Compare all rows of a word with each other."""
    orders, payments = ORDERS.all_rows(), PAYMENTS.all_rows()
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
