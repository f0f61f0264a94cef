"""Windows of ten rows are exact through rescales and kills. Rows of a key are in one file, so they have one order."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.test_temperature import FILES, readings, written
from tests.integration.through_kills import run_through_kills

JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: tens}}
spec:
  replicas: 2
  job:
    graph:
      steps:
        - name: readings
          source:
            parquet: {{path: {folder}/in, rate: 200}}
            columns: [{{name: mote, type: int64}}, {{name: temperature, type: double}}]
        - name: tens
          keyBy: [mote]
          countWindow:
            rows: 10
            compute:
              - {{name: count, function: count}}
              - {{name: sum, function: sum, column: temperature}}
              - {{name: last, function: last, column: temperature}}
        - name: output
          sink: {{parquet: {{path: {folder}/out}}}}
"""


def test_windows_of_rows_are_those_of_a_naive_model(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    by_mote: dict[int, list[float]] = defaultdict(list)
    for file in range(FILES):
        rows = [(100 * file + row.mote, row.temperature) for row in readings(file)]
        columns = {"mote": [mote for mote, _ in rows], "temperature": [value for _, value in rows]}
        pq.write_table(pa.table(columns), tmp_path / "in" / f"part-{file}.parquet")
        for mote, value in rows:
            by_mote[mote].append(value)
    expected: Counter[Any] = Counter()
    for mote, values in by_mote.items():
        for at in range(0, len(values), 10):
            some = values[at : at + 10]
            expected[mote, len(some), sum(some), some[-1]] += 1
    assert {count for _, count, *_ in expected} > {10}, "the end of the input closes windows that are not full"

    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    run_through_kills(tmp_path / "job.yaml", tmp_path)
    assert Counter(written(tmp_path / "out")) == expected
