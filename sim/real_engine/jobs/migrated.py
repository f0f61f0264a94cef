"""A job that changes while it runs: a function converts the state of each word, once::

    rows ─> per word: process ─> sums-out

The earlier class keeps a sum and the last ids in a list, the later one keeps them in a map, with how often the word was
converted. Each row has the number of its word and the sum up to it, so a state that is lost, taken from an older
checkpoint or converted twice shows.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import UNTIMED, InputFiles, Row, must_equal, must_keep_order

ROWS, WORDS = 90, 17
LAST = 5


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file."""
    for number in range(ROWS):
        yield {"word": f"w{(number * 7 + file) % WORDS}", "id": file * ROWS + number}


INPUT = InputFiles(rows_of, UNTIMED, rate=25)  # it lasts nearly as long as the faults


@ps.record
class SummedRow:
    """An input row."""

    word: str
    id: int


@ps.record
class Sum:
    """A row with what its word had up to it. ``last`` is the sum of the last ids."""

    word: str
    id: int
    n: int
    total: int
    last: int
    converted: int


@ps.state
class FirstRevision:
    """What the first revision of the job keeps."""

    n: int = 0
    total: int = 0
    ids: ps.List[int]


@ps.state
class SecondRevision:
    """What the second one keeps."""

    number: int = 0
    total: float = 0.0
    ids: ps.Map[int, int]
    converted: int = 0


def add_before(r: SummedRow, s: FirstRevision, out: ps.Out[Sum]) -> None:
    """Count a row."""
    s.n += 1
    s.total += r.id
    s.ids.append(r.id)
    if len(s.ids) > LAST:
        s.ids.popleft()
    out.emit(Sum(r.word, r.id, s.n, s.total, sum(s.ids), 0))


def add_after(r: SummedRow, s: SecondRevision, out: ps.Out[Sum]) -> None:
    """Count a row."""
    s.number += 1
    s.total += r.id
    s.ids[s.number] = r.id
    s.ids.pop(s.number - LAST)
    out.emit(Sum(r.word, r.id, s.number, int(s.total), sum(s.ids[n] for n in s.ids), s.converted))


def convert(old: FirstRevision) -> SecondRevision:
    """Convert what is kept of a word."""
    first = old.n - len(old.ids) + 1
    return SecondRevision(number=old.n, total=float(old.total), ids=dict(enumerate(old.ids, first)), converted=1)


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job: the second revision, if the parameter says so."""
    made, output = ps.Job(), parameters["output"]
    rows = INPUT.source(made, parameters).key_by("word")
    if parameters.get("revision", "1") == "1":
        sums = rows.process("sums", add_before, compiled="never")
    else:
        sums = rows.process("sums", add_after, compiled="never")
        ps.migrate(sums, convert)
    sums.sink("sums-out", ps.parquet(f"{output}/sums"))
    return made


class MigratedJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("sums",)
    inputs = (INPUT,)
    changes: Mapping[str, Mapping[str, str]] = {"second": {"revision": "2"}}

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Add up the rows of each word in the order of the output."""
        must_equal("sums", Counter(row["id"] for row in found["sums"]), Counter(r["id"] for r in INPUT.all_rows()))
        must_keep_order("sums", found["sums"], ROWS)
        seen: dict[str, list[int]] = {}
        converted: dict[str, int] = {}
        for row in found["sums"]:
            of_word = seen.setdefault(row["word"], [])
            of_word.append(row["id"])
            right = len(of_word), sum(of_word), sum(of_word[-LAST:])
            if (row["n"], row["total"], row["last"]) != right:
                raise Violation("E", f"sums: {row} must have n, total and last {right}")
            if not converted.get(row["word"], 0) <= row["converted"] <= 1:
                raise Violation("E", f"sums: {row} is converted {row['converted']} times")
            converted[row["word"]] = row["converted"]
