"""A job whose function reads a side table, of which each task has a copy::

    changes ─> rules, in one task ══╗ to all tasks
    rows ─> per word: process ──────╨─> seen-out

Each change raises the version of one rule, in turns. So the versions of a copy tell how many changes it has, or that it
lacks one. Which of them a row sees depends on the schedule. No row sees an older table than the row of its word before.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import UNTIMED, InputFiles, Row, must_count, must_equal, must_keep_order

ROWS, WORDS = 90, 17
CHANGES, RULES = 60, 24


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file."""
    for number in range(ROWS):
        yield {"word": f"w{(number * 7 + file) % WORDS}", "id": file * ROWS + number}


def changes_of(_: int) -> Iterable[Row]:
    """Return the changes in their order."""
    for number in range(CHANGES):
        yield {"rule": number % RULES, "version": number // RULES}


INPUT = InputFiles(rows_of, UNTIMED, rate=25)  # it lasts nearly as long as the faults
TABLE = InputFiles(
    changes_of, pa.schema([("rule", pa.int64()), ("version", pa.int64())]), rate=20, files=1, name="changes"
)


@ps.record
class ReadRow:
    """An input row."""

    word: str
    id: int


@ps.record
class SeenRow:
    """A row with the running number of its word. ``table`` has the version of each rule that was there."""

    word: str
    id: int
    n: int
    table: str


@ps.state
class RowsOfWord:
    """What is kept of a word."""

    n: int = 0


def table_text(versions: Mapping[int, int]) -> str:
    """Write down a table."""
    return " ".join(f"{rule}:{version}" for rule, version in sorted(versions.items()))


def look(r: ReadRow, s: RowsOfWord, side: Any, out: ps.Out[SeenRow]) -> None:
    """Write down what is there."""
    s.n += 1
    out.emit(SeenRow(r.word, r.id, s.n, table_text({rule: side.rules[rule]["version"] for rule in side.rules})))


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rules = TABLE.source(made, parameters).side("rules", on="rule")
    rows = INPUT.source(made, parameters).key_by("word")
    rows.process("look", look, side={"rules": rules}).sink("seen-out", ps.parquet(f"{output}/seen"))
    return made


class SidedJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("seen",)
    inputs = (INPUT, TABLE)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Check that each row was there once, and saw all changes up to some one, no earlier one than rows before."""
        must_count("seen", found["seen"], INPUT.all_rows())
        must_equal("seen", Counter(row["id"] for row in found["seen"]), Counter(row["id"] for row in INPUT.all_rows()))
        must_keep_order("seen", found["seen"], ROWS)
        changes_by_table = {table: count for count, table in enumerate(_tables())}
        seen: dict[str, int] = {}
        for row in found["seen"]:
            changes = changes_by_table.get(row["table"])
            if changes is None:
                raise Violation("E", f"seen: {row} lacks a change that it has a later one of")
            if changes < seen.get(row["word"], 0):
                raise Violation("O", f"seen: {row} has {changes} changes, and a row before {seen[row['word']]}")
            seen[row["word"]] = changes


def _tables() -> Iterable[str]:
    """Return the table before the first change, and behind each of them."""
    versions: dict[int, int] = {}
    yield table_text(versions)
    for change in changes_of(0):
        versions[change["rule"]] = change["version"]
        yield table_text(versions)
