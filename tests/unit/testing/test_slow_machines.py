"""What a test of a job sees does not depend on how fast the machine is."""

from itertools import count

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine import task_effects

ROWS, COLUMNS = 3_000, {"n": "int64"}


def sizes() -> list[int]:
    """Return how many rows a function gets at a time."""
    found: list[int] = []

    def note(rows: pa.RecordBatch) -> pa.RecordBatch:
        found.append(rows.num_rows)
        return rows

    job = ps.Job()
    rows = job.source("rows", ps.parquet("nowhere"), columns=COLUMNS).key_by("n")
    rows.map("note", note, columns=COLUMNS).sink("out", ps.discard())
    with ps.testing.run(job, workers=2) as run:
        run.push("rows", [pa.record_batch({"n": range(ROWS)})])
        run.checkpoint()
        assert len(run.rows("out")) == ROWS
    return found


def test_rows_are_divided_as_on_a_quick_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = sizes()
    seconds = count()
    monkeypatch.setattr(task_effects, "monotonic", lambda: float(next(seconds)))  # each look takes a second
    assert sizes() == quick
    assert max(quick) > 200
