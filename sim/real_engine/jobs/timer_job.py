"""A job of functions with types. Timers of each word and bucket of time make its rows, and a window behind it needs
all of them in time::

    rows ─> per (word, bucket): process ─> fired ─┬─> fired-out
                                                  └─> windows per (kind, word) ─> windows-out; late-out gets nothing

    ring    set by each row to a time that has been reached; fires once for one or several rows
    close   moves back with each row of the bucket           then ``tidy``, which its function sets to its own time
    odd     set and cleared in turns
    never   moves with ``close``, whose function clears it
    soon    moves forward with each row; ends the key

No timer fires before the end of its bucket, apart from ``ring``. So the result does not depend on the order in which
files are read. At the end of the input a timer that a function sets is dropped: so ``tidy`` may be missing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import SECOND, START, TIMED, InputFiles, Row, micros, must_equal

ROWS, WORDS = 90, 4
SECOND_US, BUCKET_US = 1_000_000, 60_000_000
STEP = 4 * SECOND
EXACT = ("close", "soon", "never")


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file. Each second one is a little behind its neighbours."""
    for number in range(ROWS):
        at = START + number * STEP - (number % 2) * 5 * SECOND
        yield {"word": f"w{(number * 3 + file) % WORDS}", "id": file * ROWS + number, "at": max(at, START)}


INPUT = InputFiles(rows_of, TIMED, rate=80, disorder_s=6)
assert not INPUT.late_rows(lambda at: at + SECOND)


@ps.record
class Visit:
    """An input row."""

    word: str
    id: int
    at: ps.Time


@ps.record
class Placed:
    """A row and its bucket of time."""

    word: str
    bucket: int
    id: int
    at: ps.Time


@ps.record
class FiredTimer:
    """What the function of a timer has found."""

    kind: str
    word: str
    bucket: int
    at: ps.Time
    rows: int
    total: int


@ps.state
class Bucket:
    """What is known of a word and bucket."""

    ring: ps.Timer
    close: ps.Timer
    tidy: ps.Timer
    never: ps.Timer
    odd: ps.Timer
    soon: ps.Timer
    rows: int = 0
    total: int = 0
    was_odd: bool = False
    ids: ps.Set[int]


def placed(r: Visit) -> Placed:
    """Find the bucket of a row."""
    return Placed(r.word, r.at // BUCKET_US, r.id, r.at)


def add(r: Placed, s: Bucket, out: ps.Out[FiredTimer]) -> None:
    """Count a row, and set the timers."""
    end = (r.bucket + 1) * BUCKET_US
    s.ring = (r.bucket - 5) * BUCKET_US
    s.rows += 1
    s.total += r.id
    s.ids.add(r.id)
    s.close = s.never = end + s.rows * SECOND_US
    s.soon = end + 2 * BUCKET_US - s.rows * SECOND_US
    s.odd = end if s.rows % 2 else None


def ring(t: ps.Time, key: Any, s: Bucket, out: ps.Out[FiredTimer]) -> None:
    """Say that the key is there."""
    out.emit(FiredTimer("ring", key.word, key.bucket, t, 0, 0))


def close(t: ps.Time, key: Any, s: Bucket, out: ps.Out[FiredTimer]) -> None:
    """Say what the bucket has."""
    out.emit(FiredTimer("close", key.word, key.bucket, t, s.rows, s.total))
    s.tidy, s.never = t, None


def tidy(t: ps.Time, key: Any, s: Bucket, out: ps.Out[FiredTimer]) -> None:
    """Say that the bucket was closed."""
    out.emit(FiredTimer("tidy", key.word, key.bucket, t, s.rows, s.total))


def never(t: ps.Time, key: Any, s: Bucket, out: ps.Out[FiredTimer]) -> None:
    """Say that it was called."""
    out.emit(FiredTimer("never", key.word, key.bucket, t, 0, 0))


def odd(t: ps.Time, key: Any, s: Bucket, out: ps.Out[FiredTimer]) -> None:
    """Note it for ``soon``."""
    s.was_odd = True


def soon(t: ps.Time, key: Any, s: Bucket, out: ps.Out[FiredTimer]) -> None:
    """Say how many ids there were, and whether they were an odd number; forget the key."""
    out.emit(FiredTimer("soon", key.word, key.bucket, t, len(s.ids), int(s.was_odd)))
    s.clear()  # type: ignore[attr-defined]  # the decorator makes it


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = INPUT.source(made, parameters)
    handlers = {"ring": ring, "close": close, "tidy": tidy, "never": never, "odd": odd, "soon": soon}
    keyed = rows.map("placed", placed, compiled="never").key_by("word", "bucket")
    fired = keyed.process("buckets", add, on_timer=handlers, compiled="never")
    fired.sink("fired-out", ps.parquet(f"{output}/fired"))
    windows = fired.key_by("kind", "word").window("windows", "1m", n=ps.count())
    windows.sink("windows-out", ps.parquet(f"{output}/windows"))
    windows.late.sink("late-out", ps.parquet(f"{output}/late"))
    return made


class TimerJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("fired", "windows", "late")
    inputs = (INPUT,)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the rows of timers, then the windows that they are in."""
        if found["late"]:
            raise Violation("E", f"timers: {len(found['late'])} rows of timers are late, {found['late'][0]} is one")
        expected = _expected()
        fired = Counter(_fired(row) for row in found["fired"])
        must_equal("timers", Counter({row: n for row, n in fired.items() if row[0] in EXACT}), expected)
        keys = {row[1:3] for row in expected}
        rang = {row[1:3] for row in fired if row[0] == "ring"}
        must_equal("timers: ring", Counter(rang), Counter(keys))
        closed = Counter((*row[1:3], row[3] + 1, *row[4:]) for row in expected if row[0] == "close")
        tidied = Counter(row[1:] for row in fired.elements() if row[0] == "tidy")
        must_equal("timers: tidy", tidied - closed, Counter())
        counted: Counter[Any] = Counter()
        for row in found["windows"]:
            counted[row["kind"], row["word"], micros(row["window_start"])] += row["n"]
        windows = Counter((row[0], row[1], row[3] // BUCKET_US * BUCKET_US) for row in fired.elements())
        must_equal("windows", counted, windows)
        if len(found["windows"]) != len(windows):
            raise Violation("E", f"windows: {len(found['windows'])} rows of {len(windows)} windows")


def _expected() -> Counter[Any]:
    buckets: dict[tuple[str, int], list[int]] = {}
    for row in INPUT.all_rows():
        buckets.setdefault((row["word"], micros(row["at"]) // BUCKET_US), []).append(row["id"])
    expected: Counter[Any] = Counter()
    for (word, bucket), ids in buckets.items():
        end, rows = (bucket + 1) * BUCKET_US, len(ids)
        expected["close", word, bucket, end + rows * SECOND_US, rows, sum(ids)] += 1
        expected["soon", word, bucket, end + 2 * BUCKET_US - rows * SECOND_US, rows, rows % 2] += 1
    return expected


def _fired(row: Row) -> tuple[Any, ...]:
    return row["kind"], row["word"], row["bucket"], micros(row["at"]), row["rows"], row["total"]
