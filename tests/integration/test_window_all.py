"""Windows of all rows are exact through rescales 2 -> 3 -> 2 and kills."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from penstock.graph import keep_job_file, read_job_file
from tests.integration.test_temperature import MINUTE, input_files, window_of, written
from tests.integration.through_kills import run_through_kills

JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: whole}}
spec:
  replicas: 2
  job:
    graph:
      steps:
        - name: readings
          source:
            parquet: {{path: {folder}/in, rate: 200}}
            columns:
              - {{name: mote, type: int64}}
              - {{name: ts, type: "timestamp[us]"}}
              - {{name: temperature, type: double}}
            eventTime: {{column: ts, outOfOrderness: 30s}}
        - name: minutes
          windowAll:
            size: 1m
            allowedLateness: 10s
            compute:
              - {{name: count, function: count}}
              - {{name: sum, function: sum, column: temperature}}
              - {{name: least, function: min, column: temperature}}
              - {{name: mean, function: mean, column: temperature}}
        - name: output
          sink: {{parquet: {{path: {folder}/out}}}}
        - name: late
          inputs: [minutes.late]
          sink: {{parquet: {{path: {folder}/late}}}}
"""


def test_windows_of_all_rows_are_those_of_a_naive_model(tmp_path: Path) -> None:
    on_time, late = input_files(tmp_path / "in")
    windows: dict[Any, list[float]] = defaultdict(list)
    for row in on_time:
        windows[window_of(row)].append(row.temperature)
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    keep_job_file(read_job_file(tmp_path / "job.yaml"), tmp_path / "job.json")
    run_through_kills(tmp_path / "job.json", tmp_path)

    assert Counter(written(tmp_path / "out")) == Counter(
        (start, start + MINUTE, len(v), sum(v), min(v), sum(v) / len(v)) for start, v in windows.items()
    )
    assert Counter(written(tmp_path / "late")) == Counter(late)
