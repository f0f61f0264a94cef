"""A job with one shuffle and one state::

    rows ─> count per word ─> tally-out

Its runs have few effects, so there can be one run for each of them.
"""

from collections.abc import Iterable, Mapping

import penstock as ps
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import UNTIMED, InputFiles, Row, must_count_each

ROWS, WORDS = 40, 5


def rows_of(file: int) -> Iterable[Row]:
    """Return the rows of a file."""
    for number in range(ROWS):
        yield {"word": f"w{(number * 3 + file) % WORDS}", "id": file * ROWS + number}


INPUT = InputFiles(rows_of, UNTIMED, rate=150, files=2)


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made = ps.Job()
    counted = INPUT.source(made, parameters).key_by("word").aggregate("tally", n=ps.count(), ids=ps.sum("id"))
    counted.sink("tally-out", ps.parquet(f"{parameters['output']}/tally"))
    return made


class TallyJob(CheckedJob):
    """The job's input and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("tally",)
    inputs = (INPUT,)

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Check that each row was counted once, and in order."""
        must_count_each("tally", found["tally"], INPUT.all_rows(), ROWS)
