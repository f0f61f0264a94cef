"""The job of the runs, its input, and what its output has to be.

Three flows, each with a shape that one kind of fault needs::

    rows ─> count per word ─> counts           state that only grows; its files are merged
    rows ─> windows per word ─> count per window ─> totals
                                               rows that a watermark makes, in front of an edge; state
                                               that is deleted; keys that come once
    queue ─> queue-out                         a source that forgets what was committed

Each output row has the running number of its key. So rows that are lost, repeated or out of order
per key show at once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.base.errors import StateError
from penstock.base.threads import monotonic
from penstock.contract.ids import Epoch
from penstock.contract.manifest import SplitState
from penstock.ports import Read
from sim.kernel.kernel import Violation

FILES, ROWS = 3, 160
BATCH_ROWS = 8
START = datetime(2026, 1, 1)  # noqa: DTZ001 - the column has no time zone
STEP, WINDOW = timedelta(seconds=4), timedelta(minutes=5)
SCHEMA = pa.schema([("word", pa.string()), ("id", pa.int64()), ("at", pa.timestamp("us"))])
COLUMNS = {"word": "string", "id": "int64", "at": "timestamp[us]"}
RATE = 150  # rows a second, of all files
OUTPUTS = ("counts", "totals", "queue")
QUEUES, QUEUED = 2, 150
QUEUE_PAUSE_S = 0.01
QUEUE_READ_ROWS = 4

JOB_FILE = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: simulated}}
spec:
  job:
    entrypoint: sim.real_engine.checked_job:job
    parameters: {{input: {input}, output: {output}}}
"""


def row(file: int, number: int) -> dict[str, Any]:
    """Return one input row. In the last part of a file, one word is all that comes: other keys end."""
    word = f"w{(number * 7 + file) % 23}" if number < ROWS * 6 // 10 else "tail"
    return {"word": word, "id": file * ROWS + number, "at": START + number * STEP}


def all_rows() -> Iterable[dict[str, Any]]:
    """Return the rows of all files."""
    return (row(file, number) for file in range(FILES) for number in range(ROWS))


def write_input(folder: Path) -> None:
    """Write the files of the source ``rows``."""
    for file in range(FILES):
        table = pa.Table.from_pylist([row(file, number) for number in range(ROWS)], SCHEMA)
        pq.write_table(table, folder / f"part-{file}.parquet", row_group_size=64)


# --- The queue


class Queue:
    """A source outside of the job. It forgets rows when it is told that they are committed."""

    bounded = True
    schema = pa.schema([("id", pa.int64())])
    forgotten: dict[str, int] = {}  # noqa: RUF012 - a queue outlives each process of the job: see begin_run

    def splits(self) -> list[SplitState]:
        """List the queues."""
        return [SplitState(ps_split(number), "{}", 0) for number in range(QUEUES)]

    def open(self, state: SplitState) -> "QueueReader":
        """Read on from a position. Raises StateError when its rows are forgotten."""
        return QueueReader(state)


def ps_split(number: int) -> Any:
    """Return the name of a queue."""
    return f"q{number}"


def begin_run() -> None:
    """Fill the queue anew."""
    Queue.forgotten.clear()


class QueueReader:
    """Reads one queue, a few rows at a time."""

    def __init__(self, state: SplitState) -> None:
        if state.offset < Queue.forgotten.get(state.split, 0):
            raise StateError(f"queue {state.split}: rows from {state.offset} on are forgotten")
        self._state = state
        self._offset = state.offset
        self._due = monotonic()

    def read(self, max_rows: int) -> Read | None:
        """Return the next rows; None when none are due."""
        left = QUEUED - self._offset
        if left <= 0 or monotonic() < self._due:
            return None
        self._due = monotonic() + QUEUE_PAUSE_S
        count = min(left, max_rows, QUEUE_READ_ROWS)
        ids = pa.array(range(self._offset, self._offset + count), pa.int64())
        read = Read(pa.record_batch({"id": ids}), self._offset)
        self._offset += count
        return read

    def state(self) -> SplitState:
        """Return the position behind the rows that were read."""
        return SplitState(self._state.split, self._state.spec, self._offset, self._offset >= QUEUED, None)

    def committed(self, _epoch: Epoch, state: SplitState) -> None:
        """Forget the rows before a position that is committed."""
        Queue.forgotten[state.split] = max(Queue.forgotten.get(state.split, 0), state.offset)

    def close(self) -> None:
        """Do nothing."""


def job(parameters: Mapping[str, str]) -> ps.Job:
    """Build the job."""
    made = ps.Job()
    source, output = ps.parquet(parameters["input"], rate=RATE), parameters["output"]
    rows = made.source("rows", source, columns=COLUMNS, event_time="at", batch_rows=BATCH_ROWS)
    counted = rows.key_by("word").aggregate("counts", n=ps.count())
    counted.sink("counts-out", ps.parquet(f"{output}/counts"))
    windows = rows.key_by("word").window("minutes", "5m", n=ps.count())
    totals = windows.key_by("window_start").aggregate("totals", words=ps.count(), rows=ps.sum("n"))
    totals.sink("totals-out", ps.parquet(f"{output}/totals"))
    made.source("queue", Queue()).sink("queue-out", ps.parquet(f"{output}/queue"))
    return made


# --- What has to come out


def check_output(found: Mapping[str, list[dict[str, Any]]]) -> None:
    """Compare the rows of each output, in the order of the files' names. Raises Violation."""
    _check_counts(found["counts"])
    _check_totals(found["totals"])
    ids = Counter(r["id"] for r in found["queue"])
    if ids != Counter(dict.fromkeys(range(QUEUED), QUEUES)):
        raise Violation("E", f"queue: {sum(ids.values())} rows, not {QUEUES * QUEUED}")


def _check_counts(rows: list[dict[str, Any]]) -> None:
    seen: Counter[str] = Counter()
    for found in rows:
        seen[found["word"]] += 1
        if found["n"] != seen[found["word"]]:
            raise Violation("E", f"counts: {found['word']} is {found['n']}, not {seen[found['word']]}")
    if seen != (expected := Counter(r["word"] for r in all_rows())):
        raise Violation("E", f"counts: {seen.total()} rows, not {expected.total()}")


def _check_totals(rows: list[dict[str, Any]]) -> None:
    windows = Counter((r["word"], START + (r["at"] - START) // WINDOW * WINDOW) for r in all_rows())
    words, sums = Counter(at for _, at in windows), Counter[datetime]()
    for (_, at), count in windows.items():
        sums[at] += count
    seen, total = Counter[datetime](), Counter[datetime]()
    for found in rows:
        at = found["window_start"]
        seen[at] += 1
        total[at] = found["rows"]
        if found["words"] != seen[at]:
            raise Violation("E", f"totals: {at} has {found['words']} words, not {seen[at]}")
    if seen != words:
        raise Violation("E", f"totals: {seen.total()} windows, not {words.total()}")
    if total != sums:
        raise Violation("E", f"totals: {total.total()} rows in windows, not {sums.total()}")
