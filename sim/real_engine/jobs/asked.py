"""A job that asks a service for each row, and windows behind it, for which no row may be late::

    rows ─> ask per word ─┬─> answers-out
                          ├─> windows per word ─> windows-out; late-out gets nothing
                          └─> dead letters ─> letters-out
    rows ─> ask for three at once, in any order ─> any-out

The service is outside of the job. It answers soon, late, after two errors, not at all when it is asked for the first
time, or always with an error. Rows of a word and a file leave in their order.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import penstock as ps
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import SECOND, START, TIMED, InputFiles, Row, must_equal, must_keep_order

ROWS, WORDS = 60, 5
STEP, WINDOW = 5 * SECOND, timedelta(minutes=1)
KINDS, SOON, LATE, SILENT, BROKEN = 8, 0, 1, 2, 3
FACTOR = 7


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file, in order of time."""
    for number in range(ROWS):
        yield {"word": f"w{(number * 3 + file) % WORDS}", "id": file * ROWS + number, "at": START + number * STEP}


INPUT = InputFiles(rows_of, TIMED, rate=20)  # it lasts nearly as long as the faults


@ps.record
class Asked:
    """What the service is asked."""

    id: int


@ps.record
class AnswerOfService:
    """What the service says."""

    value: int


class AskedService:
    """How often the service was asked for each row. It outlives each process of the job: see begin_run."""

    asked: Counter[int] = Counter()  # noqa: RUF012 - a service has one


def is_unknown(identity: int) -> bool:
    """Return whether the service never answers for a row."""
    return identity % 29 == 3


async def fetch(r: Asked) -> AnswerOfService:
    """Answer, sooner or later."""
    AskedService.asked[r.id] += 1
    kind, times = r.id % KINDS, AskedService.asked[r.id]
    if is_unknown(r.id):
        raise LookupError(r.id)
    if kind == SILENT and times == 1:
        await asyncio.Event().wait()
    if kind == BROKEN and times <= 2:
        raise OSError("the service is down")
    await asyncio.sleep(0.15 if kind == LATE else 0.003 * kind)
    return AnswerOfService(r.id * FACTOR)


async def fetch_many(records: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Answer for some rows at once. The last ones are answered first."""
    await asyncio.sleep(0.05 - 0.0002 * records[0]["id"])
    return [{"value": record["id"] * FACTOR} for record in records]


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = INPUT.source(made, parameters).key_by("word")
    answers = rows.enrich(
        "ask", fetch, capacity=6, timeout="400ms", retries=ps.retries(3, "20ms"), on_error="dead-letter"
    )
    answers.sink("answers-out", ps.parquet(f"{output}/answers"))
    answers.dead_letter.sink("letters-out", ps.parquet(f"{output}/letters"))
    windows = answers.key_by("word").window("windows", "1m", n=ps.count())
    windows.sink("windows-out", ps.parquet(f"{output}/windows"))
    windows.late.sink("late-out", ps.parquet(f"{output}/late"))
    many = rows.enrich("ask-many", fetch_many, columns={"value": "int64"}, capacity=2, batch=3, order="any")
    many.sink("any-out", ps.parquet(f"{output}/any"))
    return made


class AskedJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("answers", "letters", "windows", "late", "any")
    inputs = (INPUT,)

    def begin_run(self) -> None:
        """Let the service forget."""
        AskedService.asked.clear()

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the answers, the rows without one, and the windows."""
        if found["late"]:
            raise Violation("E", f"ask: {len(found['late'])} rows that waited are late, {found['late'][0]} is one")
        rows = INPUT.all_rows()
        answered = [row for row in rows if not is_unknown(row["id"])]
        windows = Counter((row["word"], START + (row["at"] - START) // WINDOW * WINDOW) for row in answered)
        for name, seen, expected in (
            ("answers", _answers(found["answers"]), Counter((r["id"], r["id"] * FACTOR) for r in answered)),
            ("any", _answers(found["any"]), Counter((r["id"], r["id"] * FACTOR) for r in rows)),
            (
                "letters",
                Counter(r["id"] for r in found["letters"]),
                Counter(r["id"] for r in rows if r not in answered),
            ),
            ("windows", Counter({(r["word"], r["window_start"]): r["n"] for r in found["windows"]}), windows),
        ):
            must_equal(name, seen, expected)
        if len(found["windows"]) != len(windows):
            raise Violation("E", f"windows: {len(found['windows'])} rows of {len(windows)} windows")
        must_keep_order("answers", found["answers"], ROWS)


def _answers(rows: list[Row]) -> Counter[Any]:
    return Counter((row["id"], row["value"]) for row in rows)
