"""Rows never see an older side table than rows before, or wait for all of it, through rescales and kills."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.test_temperature import FILES, readings, written
from tests.integration.through_kills import run_module_through_kills

VERSIONS, MOTES = 100, 12
CODE = """\
import penstock as ps


def seen(row, state, side):
    rule = side.rules.get(row["mote"] % 100)
    return [{"mote": row["mote"], "number": row["number"], "version": None if rule is None else rule["version"]}]


def loaded(row, state, side):
    return [{"mote": row["mote"], "number": row["number"], "version": side.laws[row["mote"] % 100]["version"]}]


@ps.record
class Reading:
    mote: int
    number: int


@ps.record
class Seen:
    mote: int
    number: int
    version: int | None
    rules: int


@ps.state
class Nothing:
    rows: int = 0


def typed(r: Reading, s: Nothing, side, out: ps.Out[Seen]):
    s.rows += 1
    rule = side.rules.get(r.mote % 100)
    out.emit(Seen(r.mote, r.number, None if rule is None else rule["version"], len(side.rules)))
"""
JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: sides}
spec:
  replicas: 2
  job:
    parameters: {folder: data}
    graph:
      steps:
        - name: changes
          source:
            parquet: {path: "${folder}/rules", rate: 200}
            columns: [{name: id, type: int64}, {name: version, type: int64}]
        - name: rules
          side: {keys: [id]}
        - name: readings
          source:
            parquet: {path: "${folder}/in", rate: 200}
            columns: [{name: mote, type: int64}, {name: number, type: int64}]
        - name: seen
          keyBy: [mote]
          sideInputs: [rules]
          process:
            function: side_functions:seen
            per: record
            columns: [{name: mote, type: int64}, {name: number, type: int64}, {name: version, type: int64}]
        - name: out
          sink: {parquet: {path: "${folder}/out"}}
        - name: all-changes
          source:
            parquet: {path: "${folder}/rules", rate: 200}
            columns: [{name: id, type: int64}, {name: version, type: int64}]
        - name: laws
          side: {keys: [id], loadFirst: true}
        - name: loaded
          inputs: [readings]
          keyBy: [mote]
          sideInputs: [laws]
          process:
            function: side_functions:loaded
            per: record
            columns: [{name: mote, type: int64}, {name: number, type: int64}, {name: version, type: int64}]
        - name: out-loaded
          sink: {parquet: {path: "${folder}/loaded"}}
        - name: typed
          inputs: [readings]
          keyBy: [mote]
          sideInputs: [rules]
          process: {function: side_functions:typed}
        - name: out-typed
          sink: {parquet: {path: "${folder}/typed"}}
"""


def test_no_row_sees_an_older_table_than_the_row_before(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "rules").mkdir()
    expected = set()
    for file in range(FILES):
        rows = [(100 * file + row.mote, number) for number, row in enumerate(readings(file))]
        columns = {"mote": [mote for mote, _ in rows], "number": [number for _, number in rows]}
        pq.write_table(pa.table(columns), tmp_path / "in" / f"part-{file}.parquet")
        expected |= set(rows)
    changes = [(mote, version) for version in range(VERSIONS) for mote in range(MOTES)]
    table = {"id": [mote for mote, _ in changes], "version": [version for _, version in changes]}
    pq.write_table(pa.table(table), tmp_path / "rules" / "part-0.parquet")

    run_module_through_kills(tmp_path, "side_functions", CODE, JOB)

    for folder in ("out", "typed"):
        emitted: Any = [row[:3] for row in written(tmp_path / folder)]
        assert Counter((mote, number) for mote, number, _ in emitted) == Counter(dict.fromkeys(expected, 1))
        by_mote: dict[int, list[int]] = defaultdict(list)
        for mote, _, version in sorted(emitted, key=lambda row: row[:2]):
            by_mote[mote].append(-1 if version is None else version)
        for versions in by_mote.values():
            assert versions == sorted(versions), "a copy was lost, or a task went on without it"
        assert max(versions[-1] for versions in by_mote.values()) > VERSIONS // 2, "the table has changed on the way"
    waited: Any = written(tmp_path / "loaded")
    assert Counter(waited) == Counter({(mote, number, VERSIONS - 1): 1 for mote, number in expected})
