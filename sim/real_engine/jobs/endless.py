"""A job whose source has no end, so only a stop ends it::

rows ─> ids-out                     every row up to the last checkpoint once
rows ─> count per word ─> counts    every row of a word in order
rows ─> windows per word ─> windows  whole windows only: those that are open at the stop stay in the state
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock.base.threads import monotonic
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.ports import Read
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import START, TIMED, Row, must_count, must_equal

SPLITS, WORDS = 3, 7
PAUSE_S, READ_ROWS = 0.05, 4
STEP, WINDOW = timedelta(seconds=4), timedelta(minutes=1)


class Endless:
    """A source of rows that are computed from their number."""

    bounded = False
    schema = TIMED

    def splits(self) -> list[SplitState]:
        """List the splits."""
        return [SplitState(SplitId(f"split-{number}"), "{}", 0) for number in range(SPLITS)]

    def open(self, state: SplitState) -> "EndlessReader":
        """Read on from a position."""
        return EndlessReader(state)


class EndlessReader:
    """Reads one split, a few rows at a time."""

    def __init__(self, state: SplitState) -> None:
        self._state = state
        self._offset = state.offset
        self._due = monotonic()

    def read(self, max_rows: int) -> Read | None:
        """Return the next rows; None when none are due."""
        if monotonic() < self._due:
            return None
        self._due = monotonic() + PAUSE_S
        first, self._offset = self._offset, self._offset + min(max_rows, READ_ROWS)
        rows = [_row(self._state.split, number) for number in range(first, self._offset)]
        return Read(pa.RecordBatch.from_pylist(rows, TIMED), first)

    def state(self) -> SplitState:
        """Return the position behind the rows that were read."""
        return SplitState(self._state.split, self._state.spec, self._offset)

    def committed(self, _epoch: Epoch, _state: SplitState) -> None:
        """Do nothing: rows can be computed again."""

    def close(self) -> None:
        """Do nothing."""


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = made.source("rows", Endless(), event_time="at")
    rows.sink("ids-out", ps.parquet(f"{output}/ids"))
    counts = rows.key_by("word").aggregate("counts", n=ps.count())
    counts.sink("counts-out", ps.parquet(f"{output}/counts"))
    windows = rows.key_by("word").window("windows", "1m", n=ps.count(), ids=ps.sum("id"))
    windows.sink("windows-out", ps.parquet(f"{output}/windows"))
    return made


class EndlessJob(CheckedJob):
    """The oracle: the last checkpoint says which rows were read."""

    entrypoint = f"{__name__}:job"
    outputs = ("ids", "counts", "windows")

    def __init__(self) -> None:
        self._offsets: Mapping[str, int] = {}

    def ended_at(self, offsets: Mapping[str, int]) -> None:
        """Keep how far the splits were read."""
        self._offsets = offsets

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the three outputs."""
        rows = list(self._read_rows())
        if not rows:
            raise Violation("L", "the job was stopped before it had read a row")
        must_equal("ids", Counter(row["id"] for row in found["ids"]), Counter(row["id"] for row in rows))
        must_count("counts", found["counts"], rows)
        self._check_windows(found["windows"])

    def _check_windows(self, found: list[Row]) -> None:
        """Each window that has come has come once, with all its rows. Those of the last minutes may be open."""
        windows = Counter((row["word"], row["window_start"], row["n"], row["ids"]) for row in found)
        longest = max(self._offsets.values(), default=0)
        rows = [_row(f"split-{split}", number) for split in range(SPLITS) for number in range(2 * longest)]
        counted, ids = Counter[Any](), Counter[Any]()
        for row in rows:
            window = row["word"], START + (row["at"] - START) // WINDOW * WINDOW
            counted[window] += 1
            ids[window] += row["id"]
        whole = Counter((*window, n, ids[window]) for window, n in counted.items())
        must_equal("windows", windows - whole, Counter())
        over = START + (min(self._offsets.values()) - 2 * READ_ROWS) * STEP - 2 * WINDOW
        due = Counter({window: 1 for window in whole if window[1] + WINDOW <= over})
        must_equal("windows", windows & due, due)

    def _read_rows(self) -> Iterable[Row]:
        return (_row(split, number) for split, rows in self._offsets.items() for number in range(rows))


def _row(split: str, number: int) -> dict[str, Any]:
    ordinal = int(split.removeprefix("split-"))
    word = f"w{(number * 3 + ordinal) % WORDS}"
    return {"word": word, "id": number * SPLITS + ordinal, "at": START + number * STEP}
