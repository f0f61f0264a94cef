"""Windows by the clock count each row once through rescales 2 -> 3 -> 2 and kills, and no window twice."""

from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.integration.test_temperature import FILES, input_files, readings, written
from tests.integration.through_kills import run_through_kills

JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: clock}}
spec:
  replicas: 2
  job:
    graph:
      steps:
        - name: readings
          source:
            parquet: {{path: {folder}/in, rate: 200}}
            columns: [{{name: mote, type: int64}}, {{name: temperature, type: double}}]
        - name: halves
          keyBy: [mote]
          window:
            size: 500ms
            time: clock
            compute:
              - {{name: count, function: count}}
              - {{name: sum, function: sum, column: temperature}}
        - name: output
          sink: {{parquet: {{path: {folder}/out}}}}
"""


def test_each_row_is_in_one_window(tmp_path: Path) -> None:
    input_files(tmp_path / "in")
    expected: dict[int, Any] = defaultdict(lambda: (0, 0.0))
    for row in (row for file in range(FILES) for row in readings(file)):
        count, total = expected[row.mote]
        expected[row.mote] = count + 1, total + row.temperature

    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    run_through_kills(tmp_path / "job.yaml", tmp_path)

    found: dict[int, Any] = defaultdict(lambda: (0, 0.0))
    rows: Any = written(tmp_path / "out")
    for mote, start, end, count, total in rows:
        assert end - start == timedelta(milliseconds=500)
        found[mote] = found[mote][0] + count, found[mote][1] + total
    assert found == expected
    windows = Counter((mote, start) for mote, start, *_ in rows)
    assert set(windows.values()) == {1}
    assert len({start for _, start in windows}) > 5, "windows have ended on the way"
