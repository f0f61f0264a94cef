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
from typing import Any

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import SECOND, START, TIMED, InputFiles, Row, must_equal

ROWS, WORDS = 90, 4
STEP, BEHIND = 3 * SECOND, 100 * SECOND
SIZE, LATENESS = timedelta(minutes=1), 20 * SECOND
TRIGGERS: dict[str, Any] = {
    "event": (ps.early("15s"), ps.on_late()),
    "clock": ps.early("200ms", time="clock"),
}


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file. Some are late, and some are too late."""
    for number in range(ROWS):
        behind = BEHIND if number % 17 == 16 else (number % 4) * 5 * SECOND
        at = START + number * STEP - behind + file * SECOND
        yield {"word": f"w{(number + file) % WORDS}", "id": file * ROWS + number, "at": max(at, START)}


INPUT = InputFiles(rows_of, TIMED, rate=30, disorder_s=10)  # it lasts nearly as long as the faults


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = INPUT.source(made, parameters).key_by("word")
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
    inputs = (INPUT,)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare late rows and last panes, and look at the panes before them."""
        expected = Counter(row["id"] for row in INPUT.late_rows(lambda at: _end(at) + LATENESS))
        assert len(expected) > INPUT.files, "the input has late rows"
        must_equal("late", Counter(row["id"] for row in found["late"]), expected)
        windows: defaultdict[tuple[str, datetime], list[int]] = defaultdict(list)
        for row in INPUT.all_rows():
            if row["id"] not in expected:
                windows[row["word"], _end(row["at"])].append(row["id"])
        last = Counter({(*window, len(ids), sum(ids)): 1 for window, ids in windows.items()})
        for name in TRIGGERS:
            _check_panes(name, found[name], last)


def _check_panes(name: str, rows: list[Row], expected: Counter[Any]) -> None:
    panes: defaultdict[tuple[str, datetime], list[Row]] = defaultdict(list)
    for row in rows:
        panes[row["word"], row["window_end"]].append(row)
    must_equal(name, Counter((*window, each[-1]["n"], each[-1]["ids"]) for window, each in panes.items()), expected)
    for window, each in panes.items():
        if [row["pane"] for row in each] != list(range(len(each))):
            raise Violation("O", f"{name}: {window} has the panes {[row['pane'] for row in each]}")
        if [row["final"] for row in each] != [False] * (len(each) - 1) + [True]:
            raise Violation("E", f"{name}: {window}: another pane than the last one is final")
        sizes = [row["n"] for row in each[:-1]]
        if any(one >= other for one, other in pairwise(sizes)):
            raise Violation("E", f"{name}: {window}: a pane has nothing new: {sizes}")


def _end(at: datetime) -> datetime:
    return START + (at - START) // SIZE * SIZE + SIZE
