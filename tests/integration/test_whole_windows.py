"""Functions that see all rows of sliding windows and of sessions are exact through rescales 2 -> 3 -> 2 and kills."""

from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.integration.test_sessions import on_time_and_late
from tests.integration.test_temperature import (
    DISORDER,
    FILES,
    LATENESS,
    START,
    Reading,
    input_files,
    readings,
    written,
)
from tests.integration.through_kills import run_module_through_kills

SIZE, SLIDE, GAP = timedelta(minutes=2), timedelta(minutes=1), timedelta(seconds=5)
CODE = '''\
import numpy as np
import pyarrow as pa


def middle(key, window, rows, out):
    values = np.sort(np.asarray(rows["temperature"]))
    assert window.start <= rows["ts"][0].value <= rows["ts"][-1].value < window.end
    out.emit({"rows": len(values), "median": float(values[len(values) // 2])})


def pauses(key, window, rows, out):
    """Emit each reading with the time since the one before."""
    times = np.asarray(rows["ts"].cast("int64"))
    since = np.diff(times, prepend=times[:1])
    out.emit(pa.record_batch([rows["ts"], rows["temperature"], pa.array(since)], ["ts", "temperature", "since"]))
'''
JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: whole}
spec:
  replicas: 2
  job:
    parameters: {folder: data}
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
        - name: medians
          keyBy: [mote]
          window:
            size: 2m
            slide: 1m
            allowedLateness: 10s
            whole:
              function: whole_functions:middle
              columns: [{name: rows, type: int64}, {name: median, type: double}]
        - name: out
          sink: {parquet: {path: "${folder}/medians"}}
        - name: pauses
          inputs: [readings]
          keyBy: [mote]
          session:
            gap: 5s
            allowedLateness: 10s
            whole:
              function: whole_functions:pauses
              columns:
                - {name: ts, type: "timestamp[us]"}
                - {name: temperature, type: double}
                - {name: since, type: int64}
        - name: out-pauses
          sink: {parquet: {path: "${folder}/pauses"}}
"""


def on_time_of_windows(rows: list[Reading]) -> list[Reading]:
    """Return the rows of one file that are on time for their first window."""
    found: list[Reading] = []
    largest = None
    for row in rows:
        end = row.ts - (row.ts - START) % SLIDE + SLIDE
        if largest is None or end + LATENESS > largest - DISORDER:
            found.append(row)
        largest = row.ts if largest is None else max(largest, row.ts)
    return found


def medians(rows: list[Reading]) -> Counter[Any]:
    windows: dict[Any, list[float]] = defaultdict(list)
    for row in rows:
        first = row.ts - (row.ts - START) % SLIDE + SLIDE
        for end in (first, first + SLIDE):
            windows[row.mote, end].append(row.temperature)
    return Counter(
        (mote, end - SIZE, end, len(values), sorted(values)[len(values) // 2])
        for (mote, end), values in windows.items()
    )


def pauses(rows: list[Reading]) -> Counter[Any]:
    """Return what sessions emit, without the values of since: of equal times it is not known which row is first."""
    by_mote: dict[int, list[Reading]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.ts):
        by_mote[row.mote].append(row)
    found: Counter[Any] = Counter()
    for mote, of_mote in by_mote.items():
        cuts = [i for i, row in enumerate(of_mote) if i == 0 or row.ts - of_mote[i - 1].ts >= GAP]
        for begin, end in zip(cuts, [*cuts[1:], len(of_mote)], strict=True):
            some = of_mote[begin:end]
            found.update((mote, some[0].ts, some[-1].ts + GAP, row.ts, row.temperature) for row in some)
    return found


def test_functions_see_the_rows_of_a_naive_model(tmp_path: Path) -> None:
    input_files(tmp_path / "in")
    files = [readings(file) for file in range(FILES)]
    run_module_through_kills(tmp_path, "whole_functions", CODE, JOB)

    in_time = [row for file in files for row in on_time_of_windows(file)]
    assert len(in_time) < sum(map(len, files)), "some are late"
    assert Counter(written(tmp_path / "medians")) == medians(in_time)
    rows: Any = written(tmp_path / "pauses")
    assert Counter(row[:5] for row in rows) == pauses([row for file in files for row in on_time_and_late(file)[0]])
    sums: Counter[Any] = Counter()
    for mote, start, end, *_, since in rows:
        sums[mote, start, end] += since
    assert all(end - start - GAP == timedelta(microseconds=sums[mote, start, end]) for mote, start, end in sums)
