"""A join with a table as it is now loads the table first, and is exact through rescales 2 -> 3 -> 2 and kills."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.test_temperature import input_files, minutes, written
from tests.integration.through_kills import run_through_kills

MOTES = 12
JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: placed}}
spec:
  replicas: 2
  job:
    graph:
      steps:
        - name: places  # six seconds long: most readings come before it is read
          source:
            parquet: {{path: {folder}/places, rate: 2}}
            columns: [{{name: id, type: int64}}, {{name: place, type: string}}]
        - name: readings
          source:
            parquet: {{path: {folder}/in, rate: 200}}
            columns:
              - {{name: mote, type: int64}}
              - {{name: ts, type: "timestamp[us]"}}
              - {{name: temperature, type: double}}
            eventTime: {{column: ts, outOfOrderness: 30s}}
        - name: placed
          keyBy: [mote]
          join: {{right: [places], rightKeyBy: [id], asOf: now}}
        - name: output
          sink: {{parquet: {{path: {folder}/out}}}}
        - name: minutes
          inputs: [placed]
          keyBy: [mote]
          window:
            size: 1m
            allowedLateness: 10s
            compute:
              - {{name: count, function: count}}
              - {{name: sum, function: sum, column: temperature}}
              - {{name: min, function: min, column: temperature}}
              - {{name: max, function: max, column: temperature}}
              - {{name: mean, function: mean, column: temperature}}
        - name: out-minutes
          sink: {{parquet: {{path: {folder}/minutes}}}}
        - name: late
          inputs: [minutes.late]
          sink: {{parquet: {{path: {folder}/late}}}}
"""


def test_each_row_finds_the_table_that_was_loaded_first(tmp_path: Path) -> None:
    on_time, late = input_files(tmp_path / "in")
    (tmp_path / "places").mkdir()
    places = {"id": list(range(MOTES)), "place": [f"p{mote}" for mote in range(MOTES)]}
    pq.write_table(pa.table(places), tmp_path / "places" / "part-0.parquet")
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    run_through_kills(tmp_path / "job.yaml", tmp_path)

    every = Counter((*row, f"p{row.mote}") for row in (*on_time, *late))
    assert Counter(written(tmp_path / "out")) == every, "each row once, none before the table was there"
    assert Counter(written(tmp_path / "minutes")) == minutes(on_time), "a row that has waited is not late"
    assert Counter(written(tmp_path / "late")) == Counter((*row, f"p{row.mote}") for row in late)
