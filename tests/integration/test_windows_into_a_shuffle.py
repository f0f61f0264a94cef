"""Windows whose results cross a shuffle: no result that was fired before a barrier is lost.

Keys are sparse: most windows get one row and never another, so after a restore they fire only
because they were restored.
"""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.engine_rig import Rig

JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: shuffled}}
spec:
  job:
    graph:
      steps:
        - name: visits
          source:
            parquet: {{path: {input}, rate: 400}}
            columns: [{{name: visitor, type: int64}}, {{name: ts, type: "timestamp[us]"}}]
            eventTime: {{column: ts, outOfOrderness: 2s}}
        - name: minutes
          keyBy: [visitor]
          window: {{size: 30s, compute: [{{name: visits, function: count}}]}}
        - name: totals
          keyBy: [window_end]
          aggregate: {{compute: [{{name: visitors, function: count}}]}}
        - name: output
          sink: {{parquet: {{path: {output}}}}}
"""
FILES, ROWS = 2, 2_400
START = datetime(2026, 1, 1)  # noqa: DTZ001  as Arrow gives times without a zone
SIZE = timedelta(seconds=30)


def test_every_fired_row_is_behind_the_shuffle_or_in_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    windows: set[tuple[int, datetime]] = set()
    for file in range(FILES):
        times = [START + timedelta(seconds=n // 4) for n in range(ROWS)]
        visitors = [file * ROWS + n - n % 2 for n in range(ROWS)]
        windows |= {(v, t - (t - START) % SIZE + SIZE) for v, t in zip(visitors, times, strict=True)}
        table = pa.table({"visitor": visitors, "ts": pa.array(times, pa.timestamp("us"))})
        pq.write_table(table, tmp_path / "in" / f"part-{file}.parquet")
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(input=tmp_path / "in", output=tmp_path / "out"))
    (tmp_path / "storage").mkdir()
    with Rig(job, tmp_path) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        rig.lose(1)
        rig.checkpoint()
        rig.lose(0)
        rig.finish()
    seen: Counter[datetime] = Counter()
    for path in sorted((tmp_path / "out").glob("*.parquet")):
        for row in pq.read_table(path).to_pylist():
            seen[row["window_end"]] += 1
            assert row["visitors"] == seen[row["window_end"]], path.name
    assert seen == Counter(end for _, end in windows)
