"""A job whose keys are forgotten, after a time of event time or by their function, while others go on::

    rows ─> per (word, file): process with a lifetime ───────> seen-out
    rows ─> per (word, file): distinct within a time ────────> firsts-out
    rows ─> per (word, file): process that clears its state ─> rounds-out

A key has rows of one file only, in order of time. So the result does not depend on how files interleave. Each third row
only looks at the state, which lengthens no life. A timer fires once in each life, also at the end of the input.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

import penstock as ps
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import SECOND, START, UNTIMED, InputFiles, Row, micros, must_equal

ROWS, WORDS, LOOK, ROUND = 110, 9, 3, 3
LIFE = 30 * SECOND
GREET_US = 5_000_000


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file. A word comes again after 2 to 52 seconds."""
    for number in range(ROWS):
        word = f"w{(number * number // 3) % WORDS}"
        yield {"word": word, "id": file * ROWS + number, "file": file, "at": START + 2 * number * SECOND}


SCHEMA = UNTIMED.append(pa.field("file", pa.int64())).append(pa.field("at", pa.timestamp("us")))
INPUT = InputFiles(rows_of, SCHEMA, rate=80)


@ps.record
class Sighting:
    """An input row."""

    word: str
    id: int
    file: int
    at: ps.Time


@ps.record
class Remembered:
    """How often a key was seen, as its state says. Of a life that began: the time of its timer, and minus the file."""

    id: int
    times: int


@ps.state(ttl="30s")
class Memory:
    """What is known of a key that came lately."""

    times: int = 0
    greet: ps.Timers


def see(r: Sighting, s: Memory, out: ps.Out[Remembered]) -> None:
    """Count a row, or only look."""
    if r.id % LOOK:
        s.times += 1
        if s.times == 1:
            s.greet.add(r.at + GREET_US)
    out.emit(Remembered(r.id, s.times))


def greet(t: ps.Time, key: Any, s: Memory, out: ps.Out[Remembered]) -> None:
    """Say that a life began. That life may be over, and another one begun: files interleave."""
    out.emit(Remembered(t, -key.file))


@ps.state
class Round:
    """How often a key was seen since it was cleared."""

    times: int = 0


def go_round(r: Sighting, s: Round, out: ps.Out[Remembered]) -> None:
    """Count a row; the last one of a round ends it."""
    s.times += 1
    out.emit(Remembered(r.id, s.times))
    if s.times == ROUND:
        s.clear()  # type: ignore[attr-defined]  # the decorator makes it


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = INPUT.source(made, parameters).key_by("word", "file")
    rows.process("seen", see, on_timer={"greet": greet}).sink("seen-out", ps.parquet(f"{output}/seen"))
    rows.distinct("firsts", within="30s").sink("firsts-out", ps.parquet(f"{output}/firsts"))
    rows.process("rounds", go_round).sink("rounds-out", ps.parquet(f"{output}/rounds"))
    return made


class ForgetfulJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("seen", "firsts", "rounds")
    inputs = (INPUT,)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare what each row has seen, which rows were first, and the number of each row in its round."""
        must_equal("lifetimes", Counter((row["id"], row["times"]) for row in found["seen"]), _seen())
        must_equal("distinct", Counter(row["id"] for row in found["firsts"]), _firsts())
        must_equal("rounds", Counter((row["id"], row["times"]) for row in found["rounds"]), _rounds())


def _of_keys() -> Iterable[list[Row]]:
    """Return the rows of each key, in order."""
    keys: dict[tuple[str, int], list[Row]] = {}
    for row in INPUT.all_rows():
        keys.setdefault((row["word"], row["file"]), []).append(row)
    return keys.values()


def _seen() -> Counter[Any]:
    expected: Counter[Any] = Counter()
    forgotten = 0
    for rows in _of_keys():
        times, over = 0, rows[0]["at"]
        for row in rows:
            if times and row["at"] >= over:
                times, forgotten = 0, forgotten + 1
            if row["id"] % LOOK:
                times, over = times + 1, row["at"] + LIFE
                if times == 1:
                    expected[micros(row["at"]) + GREET_US, -row["file"]] += 1
            expected[row["id"], times] += 1
    assert forgotten > WORDS, "the input has keys that are forgotten"
    return expected


def _firsts() -> Counter[Any]:
    expected: Counter[Any] = Counter()
    for rows in _of_keys():
        until = rows[0]["at"]
        for row in rows:
            if row["at"] >= until:
                expected[row["id"]] += 1
                until = row["at"] + LIFE
    return expected


def _rounds() -> Counter[Any]:
    return Counter((row["id"], number % ROUND + 1) for rows in _of_keys() for number, row in enumerate(rows))
