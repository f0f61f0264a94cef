"""Timers of one task: how fast they are set and fire, the longest pause and the memory, by the number that is pending.

    python -m bench.timers [PENDING ...] [--out FOLDER]

One thread runs a process step and its table, without sources, channels and sinks. Each key has one timer, at a time of
its own, drawn at random. A compiled function sets it. Then event time goes from the first to the last in 64
watermarks, and Python calls a function for each timer, which emits a record. A pause is one call of the step: a batch
of rows that set timers, or one slice of firing. All times are those of the thread's CPU, which say more on a shared
machine. As in an engine, the garbage collector leaves out what was loaded before the first row: a full collection over
all modules takes 80 ms, and came in one slice of forty. Changes are committed behind each watermark, as by checkpoints;
copying and writing of state is not in the figures. What fires, and its order, is checked.
"""

import argparse
import gc
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench import machine, records, table
from bench.records import Record
from penstock.contract.graph import MAIN, Call, Per
from penstock.keyed_state.tiered import TieredTable
from penstock.model.declared.function_types import CallShape, function_types
from penstock.steps.base import StateSchema
from penstock.steps.keyed import KeyColumns
from penstock.steps.typed.process_input import InputFunction
from penstock.steps.typed.process_step import TypedProcessStep

TITLE = "timers of one task, by the number that is pending"
GROUPS = 256
BATCH_ROWS = 8192
WATERMARKS = 64
MEMORY_BYTES = 1 << 35
INPUT = pa.schema([("key", pa.int64()), ("at", pa.timestamp("us"))])
SWEEP = (100_000, 1_000_000, 10_000_000)
FIGURES = ("sets_per_cpu_s", "firings_per_cpu_s", "cpu_batch_ms", "cpu_slice_ms", "state_mib", "peak_mib")


@ps.record
class Row:
    """A row that sets the timer of its key."""

    key: int
    at: ps.Time


@ps.state
class Kept:
    """One timer."""

    idle: ps.Timer


def set_timer(r: Row, s: Kept, out: ps.Out[Row]) -> None:
    """Set the timer of the key."""
    s.idle = r.at


def fire(t: ps.Time, key: Any, s: Kept, out: ps.Out[Row]) -> None:
    """Emit what has fired."""
    out.emit(Row(key.key, t))


class Task:
    """A process step over a table, and the times that it has emitted."""

    def __init__(self) -> None:
        """Open the step."""
        types = function_types(set_timer, CallShape.PROCESS, {})
        assert types is not None, "its hints are records"
        keys = KeyColumns(INPUT, ["key"], GROUPS)
        own = InputFunction(keys, Call("timers:set_timer", Per.RECORD), set_timer, types, INPUT)
        self.step = TypedProcessStep("timers", [own], types, {MAIN: INPUT}, handlers={"idle": fire})
        self.step.open(self._open)
        self.step.bind({MAIN: self._note})
        self.fired: list[Any] = []

    def _open(self, schema: StateSchema) -> TieredTable:
        self.table = TieredTable(schema, MEMORY_BYTES, Path)
        return self.table

    def _note(self, batch: pa.RecordBatch) -> None:
        self.fired.append(batch.column("at").cast(pa.int64()).to_numpy())

    def commit(self) -> None:
        """Commit all changes."""
        generation, _ = self.table.cut()
        while not self.table.copy_on():
            pass
        self.table.settle(generation)


def main(arguments: list[str] | None = None) -> int:
    """Measure every number named on the command line, or the sweep; exit 0 when all were exact."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.timers")
    parser.add_argument("pending", nargs="*", type=int, default=SWEEP, metavar="PENDING")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    made_on = machine.describe()
    measure_timers(8 * BATCH_ROWS)  # builds kernels, and touches code
    gc.collect()
    gc.freeze()
    runs = [measure(pending) for pending in options.pending]
    stem, record = records.of_scenario("timers", TITLE, "bench.timers", made_on, runs)
    print(f"   kept in {records.write(stem, record, options.out)}")
    return 0 if all(run["exact"] for run in runs) else 1


def measure(pending: int) -> Record:
    """Set and fire so many timers, and check what has fired."""
    figures, wrong = measure_timers(pending)
    name = f"timers pending={pending}"
    shown = ", ".join(f"{table.title(k)} {table.number(figures[k])}" for k in FIGURES)
    print(f"   {name}: {shown} {', '.join(wrong)}", flush=True)
    return {
        "name": name, "exact": not wrong, "wrong": wrong, "results": figures,
        "scenario": {"pending": pending, "watermarks": WATERMARKS}, "hdr": None,
    }  # fmt: skip


def measure_timers(pending: int) -> tuple[dict[str, float], list[str]]:
    """Return the figures, and what is wrong with the timers that have fired."""
    task = Task()
    times = np.random.default_rng(1).permutation(pending) + 1
    set_s, batch_s = 0.0, 0.0
    for at in range(0, pending, BATCH_ROWS):
        some = times[at : at + BATCH_ROWS]
        columns = [pa.array(np.arange(at, at + len(some))), pa.array(some).cast(pa.timestamp("us"))]
        batch = pa.RecordBatch.from_arrays(columns, schema=INPUT)
        begun = time.thread_time()
        task.step.on_batch(batch)
        spent = time.thread_time() - begun
        set_s, batch_s = set_s + spent, max(batch_s, spent)
    state_mib = task.table.size_bytes / 2**20
    fire_s, slice_s = 0.0, 0.0
    for number in range(1, WATERMARKS + 1):
        bound, reached = pending * number // WATERMARKS, -1
        while reached < bound:
            begun = time.thread_time()
            reached = task.step.on_watermark(bound)
            spent = time.thread_time() - begun
            fire_s, slice_s = fire_s + spent, max(slice_s, spent)
        task.commit()
    figures = {
        "sets_per_cpu_s": pending / set_s,
        "firings_per_cpu_s": pending / fire_s,
        "cpu_batch_ms": 1e3 * batch_s,
        "cpu_slice_ms": 1e3 * slice_s,
        "state_mib": state_mib,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    fired = np.concatenate(task.fired)
    in_order = len(fired) == pending and bool(np.all(fired == np.arange(1, pending + 1)))
    return figures, [] if in_order else [f"{len(fired)} timers have fired, or not in order"]


if __name__ == "__main__":
    sys.exit(main())
