"""A job that follows the clock of its workers. Each row counts once, whenever that is::

rows ─> windows by the clock per word ─> ticks-out
rows ─> per word: process ─> flushed-out       a timer of the clock, which the first row sets, gives what has come
rows ─> windows of seven rows per word ─> counted-out
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob, Row
from sim.real_engine.jobs.timed_rows import difference, write_files

FILES, ROWS, WORDS = 3, 90, 6
RATE, BATCH_ROWS = 30, 8  # of a file: the input lasts nearly as long as the faults
FULL = 7
SCHEMA = pa.schema([("word", pa.string()), ("id", pa.int64())])
COLUMNS = {"word": "string", "id": "int64"}


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
    source = ps.parquet(parameters["input"], rate=RATE)
    rows = made.source("rows", source, columns=COLUMNS, batch_rows=BATCH_ROWS).key_by("word")
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

    def write_input(self, folder: Path) -> None:
        """Write the files."""
        write_files(folder, [_rows(file) for file in range(FILES)], SCHEMA)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Add up what each output has of a word, and look at the order of timers and at the sizes of windows."""
        rows = [row for file in range(FILES) for row in _rows(file)]
        expected = _sums({**row, "n": 1, "ids": row["id"]} for row in rows)
        for name in self.outputs:
            if (seen := _sums(found[name])) != expected:
                raise Violation("E", f"{name}: {difference(seen, expected)}")
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


def _rows(file: int) -> Iterable[Row]:
    for number in range(ROWS):
        yield {"word": f"w{(number * 5 + file) % WORDS}", "id": file * ROWS + number}


def _sums(rows: Iterable[Row]) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for row in rows:
        sums[row["word"], "rows"] += row["n"]
        sums[row["word"], "ids"] += row["ids"]
    return sums
