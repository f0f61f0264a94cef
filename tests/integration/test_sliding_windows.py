"""Sliding windows and their late rows are exact through a rescale 2 -> 3 and a killed engine."""

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.graph import keep_job_file, read_job_file
from tests.integration.engine_rig import Rig
from tests.integration.test_temperature import DISORDER, FILES, LATENESS, START, Reading, readings, written

SIZE, SLIDE = timedelta(minutes=10), timedelta(minutes=1)
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: sliding}
spec:
  replicas: 2
  checkpoint: {interval: 2s}
  job:
    parameters: {folder: .}
    graph:
      steps:
        - name: readings
          source:
            parquet: {path: "${folder}/in", rate: 200}
            columns:
              - {name: mote, type: int64}
              - {name: ts, type: "timestamp[us]"}
              - {name: temperature, type: double}
            eventTime: {column: ts, outOfOrderness: 30s}
        - name: recent
          keyBy: [mote]
          window:
            size: 10m
            slide: 1m
            allowedLateness: 10s
            compute:
              - {name: count, function: count}
              - {name: sum, function: sum, column: temperature}
              - {name: max, function: max, column: temperature}
        - name: output
          sink: {parquet: {path: "${folder}/out"}}
        - name: late
          inputs: [recent.late]
          sink: {parquet: {path: "${folder}/late"}}
"""


def first_end(row: Reading) -> datetime:
    """Return the end of the first window that a row is in."""
    return row.ts - (row.ts - START) % SLIDE + SLIDE


def sorted_out(rows: list[Reading]) -> tuple[list[Reading], list[Reading]]:
    """Separate the rows of one file that are on time from the late ones, by the rows before each."""
    on_time: list[Reading] = []
    late: list[Reading] = []
    largest: datetime | None = None
    for row in rows:
        is_late = largest is not None and first_end(row) + LATENESS <= largest - DISORDER
        (late if is_late else on_time).append(row)
        largest = row.ts if largest is None else max(largest, row.ts)
    return on_time, late


def test_windows_and_late_rows_are_those_of_a_naive_model(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    windows: dict[tuple[int, datetime], list[float]] = defaultdict(list)
    late: list[Reading] = []
    schema = pa.schema({"mote": pa.int64(), "ts": pa.timestamp("us"), "temperature": pa.float64()})
    for file in range(FILES):
        rows = readings(file)
        table = pa.Table.from_pylist([row._asdict() for row in rows], schema)
        pq.write_table(table, tmp_path / "in" / f"part-{file}.parquet")
        on_time, others = sorted_out(rows)
        late += others
        for row in on_time:
            for number in range(SIZE // SLIDE):
                windows[row.mote, first_end(row) + number * SLIDE].append(row.temperature)
    assert len(late) > 100, "the input has what the test is about"

    (tmp_path / "job.yaml").write_text(JOB)
    job = read_job_file(tmp_path / "job.yaml", [f"job.parameters.folder={tmp_path}"])
    keep_job_file(job, tmp_path / "job.json")
    (tmp_path / "storage").mkdir()
    with Rig(tmp_path / "job.json", tmp_path) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        rig.spawn(2)
        rig.rescale(3)
        rig.lose(2)
        rig.finish()

    expected = Counter((mote, end - SIZE, end, len(v), sum(v), max(v)) for (mote, end), v in windows.items())
    assert Counter(written(tmp_path / "out")) == expected
    assert Counter(written(tmp_path / "late")) == Counter(late)
