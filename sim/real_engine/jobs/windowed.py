"""A job of windows that are more than one state row: sessions, and sliding windows, each with late rows::

    rows ─> sessions per word ─> sessions-out
    rows ─> sliding windows per word ─> sliding-out
    late rows of both ─> late-out

A word comes in bursts of several files, so sessions are merged. A row's own file says whether it is late.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import penstock as ps
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import SECOND, START, TIMED, InputFiles, Row, must_equal

ROWS, WORDS = 90, 5
STEP, BEHIND = 3 * SECOND, 40 * SECOND
GAP, SIZE, SLIDE = 15 * SECOND, 60 * SECOND, 20 * SECOND
INSTANT = timedelta(microseconds=1)


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file. Words come in bursts of six rows. Some rows are too late."""
    for number in range(ROWS):
        behind = BEHIND if number % 17 == 16 else (number % 3) * 4 * SECOND
        at = START + number * STEP - behind + file * SECOND
        word = f"w{(number // 6 + file) % WORDS}"
        yield {"word": word, "id": file * ROWS + number, "at": max(at, START)}


INPUT = InputFiles(rows_of, TIMED, rate=80, disorder_s=10)


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = INPUT.source(made, parameters).key_by("word")
    sessions = rows.window("sessions", ps.session("15s"), n=ps.count(), ids=ps.sum("id"))
    sessions.sink("sessions-out", ps.parquet(f"{output}/sessions"))
    sliding = rows.window("sliding", ps.sliding("60s", "20s"), n=ps.count(), ids=ps.sum("id"))
    sliding.sink("sliding-out", ps.parquet(f"{output}/sliding"))
    sessions.late.union(sliding.late).sink("late-out", ps.parquet(f"{output}/late"))
    return made


class WindowedJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("sessions", "sliding", "late")
    inputs = (INPUT,)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the three outputs."""
        of_sessions, of_sliding = INPUT.late_rows(lambda at: at + INSTANT), INPUT.late_rows(_first_end)
        late = Counter(row["id"] for row in (*of_sessions, *of_sliding))
        assert len(of_sessions) > INPUT.files < len(of_sliding), "the input has late rows"
        must_equal("late", Counter(row["id"] for row in found["late"]), late)
        must_equal("sessions", _windows(found["sessions"]), _sessions(_without(of_sessions)))
        must_equal("sliding", _windows(found["sliding"]), _sliding(_without(of_sliding)))


def _first_end(at: datetime) -> datetime:
    """Return the end of the first window of a time."""
    return START + (at - START) // SLIDE * SLIDE + SLIDE


def _without(late: list[Row]) -> list[Row]:
    gone = {row["id"] for row in late}
    return [row for row in INPUT.all_rows() if row["id"] not in gone]


def _sessions(rows: list[Row]) -> Counter[Any]:
    expected: Counter[Any] = Counter()
    for word in {row["word"] for row in rows}:
        of_word = sorted((row for row in rows if row["word"] == word), key=lambda row: row["at"])
        times = [row["at"] for row in of_word]
        cuts = [i for i in range(len(times)) if i == 0 or times[i] - times[i - 1] >= GAP]
        for begin, end in zip(cuts, [*cuts[1:], len(times)], strict=True):
            ids = sum(row["id"] for row in of_word[begin:end])
            expected[word, times[begin], times[end - 1] + GAP, end - begin, ids] += 1
    return expected


def _sliding(rows: list[Row]) -> Counter[Any]:
    windows: dict[tuple[str, datetime], list[int]] = {}
    for row in rows:
        for number in range(SIZE // SLIDE):
            windows.setdefault((row["word"], _first_end(row["at"]) + number * SLIDE), []).append(row["id"])
    return Counter({(word, end - SIZE, end, len(ids), sum(ids)): 1 for (word, end), ids in windows.items()})


def _windows(rows: list[Row]) -> Counter[Any]:
    names = "word", "window_start", "window_end", "n", "ids"
    return Counter(tuple(row[name] for name in names) for row in rows)
