"""Warming runs built-in steps on a made-up row; the user's functions never see it."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.connectors.open_connectors import ConnectorInspector
from penstock.engine.warm import warm
from penstock.graph import load_job

JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: placed}
spec:
  job:
    graph:
      steps:
        - name: words
          source: {generator: {rows: 10}}
        - name: same
          map: {function: "tests.integration.test_warming:same"}
          partition: custom
          partitionFunction: tests.integration.test_warming:place
        - name: counts
          keyBy: [word]
          aggregate: {compute: [{name: count, function: count}]}
        - name: end
          sink: {discard: {}}
"""
seen: list[pa.RecordBatch] = []


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Remember the rows, if there are any: a graph is checked with an empty batch."""
    seen.extend([batch] if batch.num_rows else [])
    return batch


def place(batch: pa.RecordBatch, _: int) -> Any:
    """Remember the rows."""
    return [0] * same(batch).num_rows


def test_functions_of_the_user_do_not_see_the_row_that_warms(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    job = load_job(tmp_path / "job.yaml", ConnectorInspector())
    assert [s.steps for s in job.plan.stages] == [("words",), ("same",), ("counts", "end")]
    warm(job, tmp_path / "scratch", 0)
    assert not seen
