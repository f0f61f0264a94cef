"""A job that counts, with three flows. Each has a shape that one kind of fault needs::

    rows ─> count per word ─> counts           state that only grows; its files are merged
    rows ─> windows per word ─> count per window ─> totals
                                               rows that a watermark makes, in front of an edge; state
                                               that is deleted; keys that come once
    queue ─> queue-out                         a source that forgets what was committed

Each output row has the running number of its key. So rows that are lost, repeated or out of order
per key show at once. It also has the sum of the numbers of its rows, which says what row was counted.
In a database, the counts are a table with one row of each word.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.base.errors import StateError
from penstock.base.threads import monotonic
from penstock.contract.graph import Connector
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.ports import Read
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob, OutputPlace
from sim.real_engine.jobs.input_rows import START, TIMED, InputFiles, Row, must_count_each, must_equal

STEP, WINDOW = timedelta(seconds=4), timedelta(minutes=5)
QUEUES = 2
QUEUE_PAUSE_S = 0.01
QUEUE_READ_ROWS = 4
TABLES = {
    "counts": ({"word": "text", "n": "bigint", "ids": "bigint"}, ("word",)),
    "totals": (
        {"window_start": "timestamp without time zone", "words": "bigint", "rows": "bigint", "ids": "bigint"},
        (),
    ),
    "queue": ({"id": "bigint"}, ()),
}
TOPICS = {"counts": 3, "totals": 1, "queue": 1}


@dataclass(frozen=True, slots=True)
class Size:
    """``rows`` of each of ``files``, read at ``rate`` rows a second in all; ``queued`` rows in each queue."""

    files: int
    rows: int
    rate: int
    queued: int

    def input(self) -> InputFiles:
        """Return the files. In the last part of each, one word is all that comes: other keys end."""
        return InputFiles(self._rows, TIMED, self.rate, files=self.files)

    def _rows(self, file: int) -> Iterable[Row]:
        for number in range(self.rows):
            word = f"w{(number * 7 + file) % 23}" if number < self.rows * 6 // 10 else "tail"
            yield {"word": word, "id": file * self.rows + number, "at": START + number * STEP}


# --- The queue


class Queue:
    """A source outside of the job. It forgets rows when it is told that they are committed."""

    bounded = True
    schema = pa.schema([("id", pa.int64())])
    forgotten: dict[str, int] = {}  # noqa: RUF012 - a queue outlives each process of the job: see begin_run

    def __init__(self, queued: int) -> None:
        self._queued = queued

    def splits(self) -> list[SplitState]:
        """List the queues."""
        return [SplitState(SplitId(f"q{number}"), "{}", 0) for number in range(QUEUES)]

    def open(self, state: SplitState) -> "QueueReader":
        """Read on from a position. Raises StateError when its rows are forgotten."""
        return QueueReader(state, self._queued)


class QueueReader:
    """Reads one queue, a few rows at a time."""

    def __init__(self, state: SplitState, queued: int) -> None:
        if state.offset < Queue.forgotten.get(state.split, 0):
            raise StateError(f"queue {state.split}: rows from {state.offset} on are forgotten")
        self._state = state
        self._queued = queued
        self._offset = state.offset
        self._due = monotonic()

    def read(self, max_rows: int) -> Read | None:
        """Return the next rows; None when none are due."""
        left = self._queued - self._offset
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
        return SplitState(self._state.split, self._state.spec, self._offset, self._offset >= self._queued, None)

    def committed(self, _epoch: Epoch, state: SplitState) -> None:
        """Forget the rows before a position that is committed."""
        Queue.forgotten[state.split] = max(Queue.forgotten.get(state.split, 0), state.offset)

    def close(self) -> None:
        """Do nothing."""


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made = ps.Job()
    size = Size(**{field.name: parameters.integer(field.name) for field in fields(Size)})
    rows = size.input().source(made, parameters)
    counted = rows.key_by("word").aggregate("counts", n=ps.count(), ids=ps.sum("id"))
    counted.sink("counts-out", _sink(parameters, "counts"))
    windows = rows.key_by("word").window("minutes", "5m", n=ps.count(), ids=ps.sum("id"))
    by_window = windows.key_by("window_start")
    totals = by_window.aggregate("totals", words=ps.count(), rows=ps.sum("n"), ids=ps.sum("ids"))
    totals.sink("totals-out", _sink(parameters, "totals"))
    made.source("queue", Queue(size.queued)).sink("queue-out", _sink(parameters, "queue"))
    return made


def _sink(parameters: ps.Parameters, name: str) -> Connector:
    match OutputPlace(parameters["place"]):
        case OutputPlace.FOLDER:
            return ps.parquet(f"{parameters['output']}/{name}")
        case OutputPlace.BUCKET:
            return ps.s3(f"s3://simulated/{name}")
        case OutputPlace.TABLE:
            _, keys = TABLES[name]
            return ps.postgres(name, uri="postgresql://simulated@database/penstock", key_columns=list(keys) or None)
        case OutputPlace.TOPIC:
            return ps.kafka(name, bootstrap_servers="simulated:9092", key_column="word" if name == "counts" else None)


class CountingJob(CheckedJob):
    """The job with an input of some size, and its oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("counts", "totals", "queue")
    tables = TABLES
    topics = TOPICS

    def __init__(self, size: Size, place: OutputPlace = OutputPlace.FOLDER) -> None:
        self.place = place
        self.parameters = {**asdict(size), "place": place.value}
        self.inputs = (size.input(),)
        self._queued, self._rows, self._rows_of_file = size.queued, size.input().all_rows(), size.rows

    def begin_run(self) -> None:
        """Fill the queue anew."""
        Queue.forgotten.clear()

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the three outputs."""
        if self.place is OutputPlace.TABLE:
            newest = Counter({row["word"]: row["n"] for row in found["counts"]})
            must_equal("counts", newest, Counter(row["word"] for row in self._rows))
            sums = Counter({row["word"]: row["ids"] for row in found["counts"]})
            must_equal("counts: sums of numbers", sums, _added_up((row["word"], row["id"]) for row in self._rows))
        else:
            must_count_each("counts", found["counts"], self._rows, self._rows_of_file)
        self._check_totals(found["totals"])
        queued = Counter(dict.fromkeys(range(self._queued), QUEUES))
        must_equal("queue", Counter(row["id"] for row in found["queue"]), queued)

    def _check_totals(self, rows: list[Row]) -> None:
        words = Counter(at for _, at in {(row["word"], _window(row)) for row in self._rows})
        seen, total, ids = Counter[datetime](), Counter[datetime](), Counter[datetime]()
        for found in rows:
            at = _time(found["window_start"])
            seen[at] += 1
            total[at], ids[at] = found["rows"], found["ids"]
            if found["words"] != seen[at]:
                raise Violation("E", f"totals: {at} has {found['words']} words, not {seen[at]}")
        must_equal("totals: windows", seen, words)
        must_equal("totals: rows in windows", total, Counter(map(_window, self._rows)))
        must_equal("totals: sums of numbers", ids, _added_up((_window(row), row["id"]) for row in self._rows))


def _added_up(pairs: Iterable[tuple[Any, int]]) -> Counter[Any]:
    sums = Counter[Any]()
    for key, number in pairs:
        sums[key] += number
    return sums


def _window(row: Row) -> datetime:
    start: datetime = START + (row["at"] - START) // WINDOW * WINDOW
    return start


def _time(value: datetime | str) -> datetime:
    """Return a time of a row; JSON has it as a text."""
    return datetime.fromisoformat(value).replace(tzinfo=None) if isinstance(value, str) else value
