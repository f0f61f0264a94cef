"""A job that joins rows with a table as it is now, which is loaded first, and windows behind it::

    versions ─┬──> table ─┐
    rows ─────│──> join ──┴─┬─> joined-out         the table is loaded to its end
              │             └─> windows per word ─> windows-out; late-out gets nothing
              └──> table ─┐
    rows ────────> join ──┴─> until-out            the table is loaded up to a time

Rows come before the table is loaded, and wait. So those of the first join find the last version, whatever the schedule.
Those of the second one find that of the time or a later one, and none before what rows of their word have found.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta

import pyarrow as pa

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import SECOND, START, TIMED, InputFiles, Row, must_equal, must_keep_order

ROWS, WORDS = 90, 7
VERSIONS, KNOWN, TABLE_FILES = 20, 6, 2  # the table lacks the last word
STEP, VERSION_STEP, WINDOW = 5 * SECOND, 10 * SECOND, timedelta(minutes=1)
UNTIL = 8  # the table is loaded up to the time of this version: all before are there


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file, in order of time."""
    for number in range(ROWS):
        yield {"word": f"w{(number * 3 + file) % WORDS}", "id": file * ROWS + number, "at": START + number * STEP}


def versions_of(file: int) -> Iterable[Row]:
    """Return the rows of a file of the table. All those of a word are in one file."""
    for version in range(VERSIONS):
        for word in range(file, KNOWN, TABLE_FILES):
            yield {"name": f"w{word}", "version": version, "since": START + version * VERSION_STEP}


INPUT = InputFiles(rows_of, TIMED, rate=30)
TABLE = InputFiles(
    versions_of,
    pa.schema([("name", pa.string()), ("version", pa.int64()), ("since", pa.timestamp("us"))]),
    rate=30,  # rows wait for two thirds of the time in which they come
    files=TABLE_FILES,
    name="versions",
)


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows, table = INPUT.source(made, parameters), TABLE.source(made, parameters)
    joined = rows.join_table("joined", table, on={"word": "name"}, as_of="now", how="left")
    joined.sink("joined-out", ps.parquet(f"{output}/joined"))
    windows = joined.key_by("word").window("windows", "1m", n=ps.count())
    windows.sink("windows-out", ps.parquet(f"{output}/windows"))
    windows.late.sink("late-out", ps.parquet(f"{output}/late"))
    loaded = (START + UNTIL * VERSION_STEP).isoformat()
    until = rows.join_table("until", table, on={"word": "name"}, as_of="now", load_until=loaded)
    until.sink("until-out", ps.parquet(f"{output}/until"))
    return made


class TabledJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("joined", "windows", "late", "until")
    inputs = (INPUT, TABLE)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the rows of both joins with their versions, and the windows."""
        if found["late"]:
            raise Violation("E", f"joined: {len(found['late'])} rows that waited are late, {found['late'][0]} is one")
        rows, known = INPUT.all_rows(), {f"w{word}" for word in range(KNOWN)}
        last = Counter((row["id"], VERSIONS - 1 if row["word"] in known else None) for row in rows)
        must_equal("joined", Counter((row["id"], row["version"]) for row in found["joined"]), last)
        for name in ("joined", "until"):
            must_keep_order(name, found[name], ROWS)
        windows = Counter((row["word"], START + (row["at"] - START) // WINDOW * WINDOW) for row in rows)
        counted = Counter({(row["word"], row["window_start"]): row["n"] for row in found["windows"]})
        must_equal("windows", counted, windows)
        if len(found["windows"]) != len(windows):
            raise Violation("E", f"windows: {len(found['windows'])} rows of {len(windows)} windows")
        expected = Counter(row["id"] for row in rows if row["word"] in known)
        must_equal("until", Counter(row["id"] for row in found["until"]), expected)
        least = dict.fromkeys(known, UNTIL - 1)
        for row in found["until"]:
            if row["version"] < least[row["word"]]:
                raise Violation("O", f"until: {row} has an older version than {least[row['word']]}")
            least[row["word"]] = row["version"]
