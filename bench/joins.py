"""Joins of one task: rows in and pairs out a second, and the longest pause, by the number of keys.

    python -m bench.joins [window/KEYS | interval/KEYS | table/KEYS ...] [--out FOLDER]

One thread runs the step and its table, without sources, channels and sinks. Rows of both sides come in turn, a
microsecond apart, with keys at random. A window, or the interval from -SPAN / 2 to SPAN / 2, is SPAN = 200,000 us long,
so with 10,000 keys a row has about ten partners, and with 1 M keys about one in ten rows has one. With ``table`` each
right row is a version of its key, and a left row has one partner or none. A watermark
follows every batch. A pause is one call of the step: a batch of rows, or one slice of pairs. Changes are
committed every half a million rows, as by checkpoints. Copying and writing of state is not in the figures; see
``micro/state.py``. CPU is that of the thread, which says more on a shared machine. The number of pairs is checked.
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
from penstock.contract.graph import LEFT, RIGHT
from penstock.keyed_state.tiered import TieredTable
from penstock.steps.base import BOUND_COLUMN, NO_BOUND, StateSchema
from penstock.steps.joins.event_join import EventJoinStep
from penstock.steps.joins.events import Interval
from penstock.steps.joins.pairs import PairBatches
from penstock.steps.joins.partners import IntervalPartners, VersionPartners
from penstock.steps.joins.sides import join_side, timed_side
from penstock.steps.joins.window_join import JoinWindows, WindowJoinStep
from penstock.steps.keyed import KeyColumns

TITLE = "joins of one task, by the number of keys"
GROUPS = 256
BATCH_ROWS = 8192
ROWS = 2_000_000
END = np.iinfo(np.int64).max
COMMIT_ROWS = 500_000
SPAN_US = 200_000
MEMORY_BYTES = 1 << 34
TIME = pa.timestamp("us")
INPUTS = [pa.schema([("key", pa.int64()), (f"ts{n}", TIME), (f"value{n}", pa.int64())]) for n in range(2)]
OUTPUT = pa.schema([*INPUTS[0], *list(INPUTS[1])[1:]])
KINDS = ("window", "interval", "table")
SWEEP = tuple(f"{kind}/{n}" for kind in KINDS for n in (10_000, 100_000, 1_000_000))
FIGURES = ("rows_per_s", "pairs_per_s", "cpu_ns_per_row", "pause_batch_ms", "pause_slice_ms", "state_mib")


class Task:
    """A join step over a table, and the number of pairs that it has emitted."""

    def __init__(self, kind: str) -> None:
        """Open the step."""
        made = join_side if kind == "window" else timed_side
        keys = [KeyColumns(schema, ["key"], GROUPS) for schema in INPUTS]
        left, right = (made(n, keys[n], INPUTS[n], f"ts{n}", alone=False) for n in range(2))
        sides = left, right
        pairs = PairBatches(sides, OUTPUT)
        self.step: WindowJoinStep | EventJoinStep
        if kind == "window":
            self.step = WindowJoinStep("j", JoinWindows(SPAN_US, 0, 0), sides, pairs)
        elif kind == "interval":
            partners = IntervalPartners(Interval(-SPAN_US // 2, SPAN_US // 2, 0), sides)
            self.step = EventJoinStep("j", partners, sides, pairs)
        else:
            self.step = EventJoinStep("j", VersionPartners(0, sides), sides, pairs)
        self.step.open(self._open)
        self.step.bind({"main": self._count, "late": self._count, "late-right": self._count})
        self.takes = [self.step.side(LEFT), self.step.side(RIGHT)]
        self.pairs = 0

    def _open(self, schema: StateSchema) -> TieredTable:
        self.table = TieredTable(schema, MEMORY_BYTES, Path)
        return self.table

    def _count(self, batch: pa.RecordBatch) -> None:
        self.pairs += batch.num_rows

    def commit(self) -> None:
        """Commit all changes."""
        generation, _ = self.table.cut()
        while not self.table.copy_on():
            pass
        self.table.settle(generation)


def main(arguments: list[str] | None = None) -> int:
    """Measure every cell named on the command line, or the sweep; exit 0 when all were exact."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.joins")
    parser.add_argument("cell", nargs="*", default=SWEEP, metavar="KIND/KEYS")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    cells = [tuple(cell.split("/")) for cell in options.cell]
    if unknown := sorted({kind for kind, _ in cells} - set(KINDS)):
        parser.error(f"{unknown[0]} is no kind of join: {', '.join(KINDS)}")
    made_on = machine.describe()
    runs = [measure(kind, int(keys)) for kind, keys in cells]
    stem, record = records.of_scenario("joins", TITLE, "bench.joins", made_on, runs)
    print(f"   kept in {records.write(stem, record, options.out)}")
    return 0 if all(run["exact"] for run in runs) else 1


def measure(kind: str, keys: int) -> Record:
    """Join all rows, and compare the number of pairs with that of a search in sorted rows."""
    drawn = np.random.default_rng(1).integers(0, keys, ROWS)
    measure_rows(kind, drawn[: 8 * BATCH_ROWS])  # builds kernels, and touches code
    figures, pairs = measure_rows(kind, drawn)
    wanted = expected(kind, drawn)
    wrong = [] if pairs == wanted else [f"{pairs} pairs, not {wanted}"]
    name = f"joins kind={kind},keys={keys}"
    shown = ", ".join(f"{table.title(k)} {table.number(figures[k])}" for k in FIGURES)
    print(f"   {name}: {shown}{''.join(wrong)}", flush=True)
    return {
        "name": name, "exact": not wrong, "wrong": wrong, "results": figures,
        "scenario": {"kind": kind, "keys": keys, "rows": len(drawn), "span_us": SPAN_US}, "hdr": None,
    }  # fmt: skip


def measure_rows(kind: str, drawn: npt.NDArray[np.int64]) -> tuple[dict[str, float], int]:
    """Run a join over rows with these keys. Returns the figures and the number of pairs."""
    task, worked, cpu, state = Task(kind), 0.0, 0.0, 0
    pauses = {"batch": 0.0, "slice": 0.0}
    for side, batch, now in batches(drawn):
        at_cpu, begun = time.thread_time(), time.perf_counter()
        task.takes[side](batch)
        moments, reached = [time.perf_counter()], None
        while reached != now:
            reached = task.step.on_watermark(now)
            moments.append(time.perf_counter())
        cpu, worked = cpu + time.thread_time() - at_cpu, worked + moments[-1] - begun
        pauses["batch"] = max(pauses["batch"], moments[0] - begun)
        pauses["slice"] = max(pauses["slice"], float(np.diff(moments).max()))
        if now % COMMIT_ROWS < BATCH_ROWS:
            state = max(state, task.table.size_bytes)
            task.commit()
    while task.step.on_watermark(END) < END:
        pass
    task.table.close()
    figures = {
        "rows_per_s": round(len(drawn) / worked, 1),
        "pairs_per_s": round(task.pairs / worked, 1),
        "cpu_ns_per_row": round(cpu / len(drawn) * 1e9, 1),
        **{f"pause_{what}_ms": round(s * 1e3, 2) for what, s in pauses.items()},
        "state_mib": state >> 20,
    }
    return figures, task.pairs


def batches(drawn: npt.NDArray[np.int64]) -> Iterator[tuple[int, pa.RecordBatch, int]]:
    """Yield batches of one side and the other in turn, and the event time that both have reached."""
    for number, first in enumerate(range(0, len(drawn), BATCH_ROWS)):
        side, keys = number % 2, drawn[first : first + BATCH_ROWS]
        times = np.arange(first, first + len(keys))
        columns = [pa.array(keys), pa.array(times).cast(TIME), pa.array(times), pa.array(np.full(len(keys), NO_BOUND))]
        names = [*INPUTS[side].names, BOUND_COLUMN]
        yield side, pa.RecordBatch.from_arrays(columns, names), first


def expected(kind: str, drawn: npt.NDArray[np.int64]) -> int:
    """Count the pairs: sort the rows of each side by key and time, and search the partners of each left row."""
    times = np.arange(len(drawn))
    sides = times // BATCH_ROWS % 2
    room = 1 << 40  # more than all times
    placed = [np.sort(drawn[sides == n] * room + times[sides == n]) for n in range(2)]
    key, at = placed[0] // room, placed[0] % room
    low, high = at - SPAN_US // 2, at + SPAN_US // 2
    if kind == "window":
        low = at - at % SPAN_US
        high = low + SPAN_US - 1
    if kind == "table":
        low, high = np.zeros(len(at), np.int64), at
    first = np.searchsorted(placed[1], key * room + np.maximum(low, 0), side="left")
    last = np.searchsorted(placed[1], key * room + high, side="right")
    return int(np.count_nonzero(last > first) if kind == "table" else (last - first).sum())


if __name__ == "__main__":
    sys.exit(main())
