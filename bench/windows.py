"""Windows of one task: rate and longest pause of tumbling ones by how many are open, of sliding and of session ones.

    python -m bench.windows [OPEN/ENDS | sliding/SLICES | session/GAP ...] [--out FOLDER]

One thread runs the step and its table, without sources, channels and sinks. There are 1 M keys, and every row has
another key than the row before. So every row opens a window and one other window fires, which is the most that firing
can cost. OPEN windows are open at a time, and they end at ENDS different times. With ``sliding/10`` a window has ten
slices, and each key has a row in every slice: every row lets a window of ten slices fire. Its tumbling twin is
``1000000/1``. With ``session/GAP`` the rows of a key are 1 M us apart: with a shorter gap every row is a session, and
with a longer one every row is handed on to the next row of its key. A watermark follows every batch. A pause is one
call of the step: a batch of rows, or one slice of fired windows. ``pause_watermark_ms`` is the time of all slices of
a watermark. Deletions are committed every half a million rows, as by checkpoints. Copying and writing of state is not
in the figures; see ``micro/state.py``. CPU is that of the thread, which says more on a shared machine.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench import machine, records, table
from bench.records import Record
from penstock.contract.graph import Compute, Function
from penstock.keyed_state.tiered import TieredTable
from penstock.steps.base import BOUND_COLUMN, NO_BOUND, StateSchema
from penstock.steps.keyed import KeyColumns
from penstock.steps.windows.by_shape import AnyWindowStep, window
from penstock.steps.windows.late_rows import WindowShape
from penstock.steps.windows.sessions import SessionShape

TITLE = "windows of one task, 1 M keys: tumbling against how many are open, sliding, sessions"
GROUPS = 256
KEYS = 1_000_000
BATCH_ROWS = 8192
MEASURED_ROWS = 4_000_000
COMMIT_ROWS = 500_000
MEMORY_BYTES = 1 << 34
TIME = pa.timestamp("us")
INPUT = pa.schema([("key", pa.int64()), ("ts", TIME)])
OUTPUT = pa.schema([("key", pa.int64()), ("window_start", TIME), ("window_end", TIME), ("count", pa.int64())])
SWEEP = ("10_000/10", "100_000/10", "1_000_000/10", "10_000_000/10", "10_000_000/10_000", "sliding/10",
         "session/1_000_000", "session/1_500_000")  # fmt: skip
FIGURES = (
    "rows_per_s",
    "cpu_ns_per_row",
    "pause_batch_ms",
    "pause_slice_ms",
    "pause_watermark_ms",
    "state_mib",
)


class Task:
    """A window step over a table, and how many windows it has fired."""

    def __init__(self, shape: WindowShape | SessionShape) -> None:
        """Open the step."""
        keys = KeyColumns(INPUT, ["key"], GROUPS)
        compute = (Compute("count", Function.COUNT),)
        self.step: AnyWindowStep = window("w", shape, keys, compute, (INPUT, OUTPUT))
        self.step.open(self._open)
        self.step.bind({"main": self._count, "late": self._count})
        self.fired = 0

    def _open(self, schema: StateSchema) -> TieredTable:
        self.table = TieredTable(schema, MEMORY_BYTES, Path)
        return self.table

    def _count(self, batch: pa.RecordBatch) -> None:
        self.fired += batch.num_rows

    def commit(self) -> None:
        """Commit all deletions."""
        generation, _ = self.table.cut()
        while not self.table.copy_on():
            pass
        self.table.settle(generation)


class Clocks:
    """The measured times of the calls of the step."""

    def __init__(self) -> None:
        self.rows = 0
        self._worked = self._cpu = 0.0
        self._pauses = {"batch": 0.0, "slice": 0.0, "watermark": 0.0}

    def turn(self, task: Task, batch: pa.RecordBatch, time_us: int, *, counts: bool) -> None:
        """Give the step a batch and a watermark."""
        cpu, begun = time.thread_time(), time.perf_counter()
        task.step.on_batch(batch)
        moments = [time.perf_counter()]
        reached = None
        while reached != time_us:
            reached = task.step.on_watermark(time_us)
            moments.append(time.perf_counter())
        cpu = time.thread_time() - cpu
        if counts:
            self.rows += batch.num_rows
            self._worked += moments[-1] - begun
            self._cpu += cpu
            self._note("batch", moments[0] - begun)
            self._note("slice", float(np.diff(moments).max()))
            self._note("watermark", moments[-1] - moments[0])

    def _note(self, what: str, seconds: float) -> None:
        self._pauses[what] = max(self._pauses[what], seconds)

    def figures(self) -> dict[str, float]:
        """Return rate, CPU and the longest pauses."""
        return {
            "rows_per_s": round(self.rows / self._worked, 1),
            "cpu_ns_per_row": round(self._cpu / self.rows * 1e9, 1),
            **{f"pause_{what}_ms": round(s * 1e3, 2) for what, s in self._pauses.items()},
        }


def main(arguments: list[str] | None = None) -> int:
    """Measure every cell named on the command line, or the sweep; exit 0 when all were exact."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.windows")
    parser.add_argument("cell", nargs="*", default=SWEEP, metavar="OPEN/ENDS")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    made_on = machine.describe()
    runs = [_measured(cell) for cell in options.cell]
    stem, record = records.of_scenario("windows", TITLE, "bench.windows", made_on, runs)
    print(f"   kept in {records.write(stem, record, options.out)}")
    return 0 if all(run["exact"] for run in runs) else 1


def _measured(cell: str) -> Record:
    shape, number = cell.split("/")
    if shape == "session":
        return measure_sessions(int(number))
    return measure(KEYS, 1, int(number)) if shape == "sliding" else measure(int(shape), int(number))


def measure_sessions(gap: int) -> Record:
    """Fill the state, then measure: each row ends a session, or part of one, of another key."""
    task, clocks = Task(SessionShape(gap, 0, "ts")), Clocks()
    now = filled(task, clocks, 0, gap + KEYS, 2 * KEYS)
    wanted = now - gap + 1 if gap <= KEYS else 0
    return told(task, clocks, wanted, f"session gap={gap}", {"gap_us": gap, "keys": KEYS})


def measure(open_windows: int, ends: int, slices: int = 1) -> Record:
    """Fill the state, then measure until windows of several ends have fired."""
    size = open_windows // ends
    task, clocks, behind = Task(WindowShape(size * slices, 0, 0, "ts", size)), Clocks(), open_windows - size
    now = filled(task, clocks, behind, open_windows + slices * size, 2 * size)
    scenario = {"open": open_windows, "ends": ends, "slices": slices, "keys": KEYS}
    return told(
        task, clocks, (now - behind) // size * size, f"open={open_windows},ends={ends},slices={slices}", scenario
    )


def filled(task: Task, clocks: Clocks, behind: int, fill: int, least: int) -> int:
    """Give the step rows: first ``fill`` of them, then those that count. Return the time that was reached."""
    for batch, now in batches(np.random.default_rng(1).permutation(KEYS)):
        clocks.turn(task, batch, now - behind, counts=now > fill + BATCH_ROWS)
        if now % COMMIT_ROWS < BATCH_ROWS:
            task.commit()
        if clocks.rows >= max(MEASURED_ROWS, least):
            break
    return now


def told(task: Task, clocks: Clocks, wanted: int, shape: str, scenario: dict[str, int]) -> Record:
    """Print what was measured, and return it. ``wanted`` is how many windows should have fired."""
    wrong = [] if task.fired == wanted else [f"{task.fired} windows fired, not {wanted}"]
    found = {**clocks.figures(), "state_mib": task.table.size_bytes >> 20}
    task.table.close()
    name = f"windows {shape}"
    shown = ", ".join(f"{table.title(k)} {table.number(found[k])}" for k in FIGURES)
    print(f"   {name}: {shown}{''.join(wrong)}", flush=True)
    return {
        "name": name, "exact": not wrong, "wrong": wrong, "results": found, "scenario": scenario,
        "hdr": None,
    }  # fmt: skip


def batches(order: npt.NDArray[np.int64]) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batches of rows with different keys, a microsecond apart, and the event time after each."""
    bounds = pa.array(np.full(BATCH_ROWS, NO_BOUND, np.int64))
    numbers, now = np.arange(BATCH_ROWS), 0
    while True:
        keys = pa.array(order[(now + numbers) % KEYS])
        times = pa.array(now + numbers).cast(TIME)
        now += BATCH_ROWS
        columns = [keys, times, bounds]
        yield pa.RecordBatch.from_arrays(columns, ["key", "ts", BOUND_COLUMN]), now


if __name__ == "__main__":
    sys.exit(main())
