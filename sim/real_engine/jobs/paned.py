"""A job of windows that emit more than once, by event time and by the clock, each with late rows::

    rows ─> windows per word, a pane each 15 s and after late rows ─> event-out
    rows ─> windows per word, a pane 200 ms after a row ─> clock-out
    late rows of the first ones ─> late-out

What a pane has depends on when rows came. Last panes do not, and panes have numbers without a gap.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob, Row
from sim.real_engine.jobs.timed_rows import SECOND, START, difference, late_rows, write_files

FILES, ROWS, WORDS = 3, 90, 4
RATE, BATCH_ROWS = 30, 8  # of a file: the input lasts nearly as long as the faults
STEP, DISORDER, BEHIND = 3 * SECOND, 10 * SECOND, 100 * SECOND
SIZE, LATENESS = timedelta(minutes=1), 20 * SECOND
SCHEMA = pa.schema([("word", pa.string()), ("id", pa.int64()), ("at", pa.timestamp("us"))])
COLUMNS = {"word": "string", "id": "int64", "at": "timestamp[us]"}
TRIGGERS: dict[str, Any] = {
    "event": (ps.early("15s"), ps.on_late()),
    "clock": ps.early("200ms", time="clock"),
}


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = made.source(
        "rows",
        ps.parquet(parameters["input"], rate=RATE),
        columns=COLUMNS,
        event_time="at",
        out_of_orderness="10s",
        batch_rows=BATCH_ROWS,
    ).key_by("word")
    for name, trigger in TRIGGERS.items():
        windows = rows.window(name, "1m", allowed_lateness="20s", trigger=trigger, n=ps.count(), ids=ps.sum("id"))
        windows.sink(f"{name}-out", ps.parquet(f"{output}/{name}"))
        if name == "event":
            windows.late.sink("late-out", ps.parquet(f"{output}/late"))
    return made


class PanedJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("event", "clock", "late")

    def write_input(self, folder: Path) -> None:
        """Write the files."""
        write_files(folder, [_rows(file) for file in range(FILES)], SCHEMA)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare late rows and last panes, and look at the panes before them."""
        late = [
            row for file in range(FILES) for row in late_rows(_rows(file), DISORDER, lambda at: _end(at) + LATENESS)
        ]
        assert len(late) > FILES, "the input has late rows"
        ids = Counter(row["id"] for row in found["late"])
        if ids != (expected := Counter(row["id"] for row in late)):
            raise Violation("E", f"late: {difference(ids, expected)}")
        rows = [row for file in range(FILES) for row in _rows(file) if row["id"] not in expected]
        windows: defaultdict[tuple[str, datetime], list[int]] = defaultdict(list)
        for row in rows:
            windows[row["word"], _end(row["at"])].append(row["id"])
        last = Counter({(*window, len(ids), sum(ids)): 1 for window, ids in windows.items()})
        for name in TRIGGERS:
            _check_panes(name, found[name], last)


def _check_panes(name: str, rows: list[Row], expected: Counter[Any]) -> None:
    panes: defaultdict[tuple[str, datetime], list[Row]] = defaultdict(list)
    for row in rows:
        panes[row["word"], row["window_end"]].append(row)
    last = Counter((*window, each[-1]["n"], each[-1]["ids"]) for window, each in panes.items())
    if last != expected:
        raise Violation("E", f"{name}: {difference(last, expected)}")
    for window, each in panes.items():
        if [row["pane"] for row in each] != list(range(len(each))):
            raise Violation("O", f"{name}: {window} has the panes {[row['pane'] for row in each]}")
        if [row["final"] for row in each] != [False] * (len(each) - 1) + [True]:
            raise Violation("E", f"{name}: {window}: another pane than the last one is final")
        sizes = [row["n"] for row in each[:-1]]
        if any(one >= other for one, other in pairwise(sizes)):
            raise Violation("E", f"{name}: {window}: a pane has nothing new: {sizes}")


def _rows(file: int) -> Iterable[Row]:
    """Return the rows of a file. Some are late, and some are too late."""
    for number in range(ROWS):
        behind = BEHIND if number % 17 == 16 else (number % 4) * 5 * SECOND
        at = START + number * STEP - behind + file * SECOND
        yield {"word": f"w{(number + file) % WORDS}", "id": file * ROWS + number, "at": max(at, START)}


def _end(at: datetime) -> datetime:
    return START + (at - START) // SIZE * SIZE + SIZE
