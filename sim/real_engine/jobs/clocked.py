"""A job that follows the clock of its workers. Each row counts once, whenever that is::

rows ─> windows by the clock per word ─> ticks-out
rows ─> per word: process ─> flushed-out       a timer of the clock, which the first row sets, gives what has come
rows ─> windows of seven rows per word ─> counted-out
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import UNTIMED, InputFiles, Row, must_equal

ROWS, WORDS = 90, 6
FULL = 7


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file."""
    for number in range(ROWS):
        yield {"word": f"w{(number * 5 + file) % WORDS}", "id": file * ROWS + number}


INPUT = InputFiles(rows_of, UNTIMED, rate=30)  # it lasts nearly as long as the faults


@ps.record
class ClockedRow:
    """An input row."""

    word: str
    id: int


@ps.record
class Flushed:
    """What has come since the row that set the timer. ``ticks`` is how many timers of the word have fired before."""

    word: str
    n: int
    ids: int
    ticks: int


@ps.state
class Waiting:
    """What has come of a word."""

    flush: ps.ClockTimer
    n: int = 0
    ids: int = 0
    ticks: int = 0


def add(r: ClockedRow, s: Waiting, out: ps.Out[Flushed], ctx: Any) -> None:
    """Count a row. The first one sets the timer."""
    s.n += 1
    s.ids += r.id
    if s.flush is None:
        s.flush = ctx.time + ps.milliseconds(200 + 50 * (r.id % 5))


def flush(t: ps.Time, key: Any, s: Waiting, out: ps.Out[Flushed]) -> None:
    """Give what has come."""
    out.emit(Flushed(key.word, s.n, s.ids, s.ticks))
    s.n = s.ids = 0
    s.ticks += 1


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = INPUT.source(made, parameters).key_by("word")
    ticks = rows.window("ticks", "300ms", time="clock", n=ps.count(), ids=ps.sum("id"))
    ticks.sink("ticks-out", ps.parquet(f"{output}/ticks"))
    flushed = rows.process("flush", add, on_timer={"flush": flush})
    flushed.sink("flushed-out", ps.parquet(f"{output}/flushed"))
    counted = rows.window("counted", ps.count_window(FULL), n=ps.count(), ids=ps.sum("id"))
    counted.sink("counted-out", ps.parquet(f"{output}/counted"))
    return made


class ClockedJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("ticks", "flushed", "counted")
    inputs = (INPUT,)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Add up what each output has of a word, and look at the order of timers and at the sizes of windows."""
        expected = _sums({**row, "n": 1, "ids": row["id"]} for row in INPUT.all_rows())
        for name in self.outputs:
            must_equal(name, _sums(found[name]), expected)
            if any(row["n"] < 1 for row in found[name]):
                raise Violation("E", f"{name}: a row has nothing in it")
        fired: Counter[str] = Counter()
        for row in found["flushed"]:
            if row["ticks"] != fired[row["word"]]:
                raise Violation("O", f"flushed: {row['word']}: timer {row['ticks']} comes as {fired[row['word']]}")
            fired[row["word"]] += 1
        open_windows = Counter(row["word"] for row in found["counted"] if row["n"] != FULL)
        if any(row["n"] > FULL for row in found["counted"]) or any(n > 1 for n in open_windows.values()):
            raise Violation("E", f"counted: windows are not of {FULL} rows: {open_windows}")


def _sums(rows: Iterable[Row]) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for row in rows:
        sums[row["word"], "rows"] += row["n"]
        sums[row["word"], "ids"] += row["ids"]
    return sums
