"""Nested pipelines and farms are exact, and keep the order per key, through rescales and a killed engine."""

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration import patterns_job
from tests.integration.engine_rig import Rig

ROWS, FILES, ENTITIES = 1_500, 4, 7
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: patterns}}
spec:
  job:
    entrypoint: patterns_job:job
    parameters: {{input: {folder}/in, output: {folder}/out, rate: "300"}}
"""
Row = dict[str, Any]


def make_input(folder: Path) -> list[Row]:
    """Write the files. All rows of an entity are in one file, so their order is known."""
    folder.mkdir()
    made: list[Row] = []
    for file in range(FILES):
        rows = [{"entity": f"{file}-{n % ENTITIES}", "n": n} for n in range(ROWS)]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"part-{file}.parquet", row_group_size=500)
        made += rows
    return made


def answer(rows: list[Row]) -> dict[str, list[tuple[int, int]]]:
    """Return what comes out for each entity, in order, by a loop over all rows."""
    expected: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in rows:
        if row["n"] % 3:
            expected[row["entity"]] += [(6 * row["n"], nth) for nth in (0, 1)]
    return expected


def test_nested_patterns_are_exact_and_keep_the_order_of_each_key(tmp_path: Path) -> None:
    made = make_input(tmp_path / "in")
    shutil.copy(Path(patterns_job.__file__), tmp_path / "patterns_job.py")
    (tmp_path / "storage").mkdir()
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    with Rig(tmp_path / "job.yaml", tmp_path) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        rig.spawn(2)
        rig.rescale(3)
        rig.lose(1)
        rig.rescale(2)
        rig.finish()
    found = defaultdict(list)
    for file in sorted((tmp_path / "out").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            found[row["entity"]].append((row["n"], row["nth"]))
    assert found == answer(made)
