"""A node that sheds rows in front of a slow step: each row is sent or shed, once, through kills and rescales."""

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.through_kills import run_module_through_kills

ROWS, FILES, ENTITIES = 900, 3, 5
CODE = """
import threading

import penstock as ps

COLUMNS = {"entity": "string", "n": "int64", "nth": "int64"}


class Valve(ps.SeqNode):
    columns = COLUMNS

    def consume(self, x):
        self.send_next_if({**x, "nth": 0}, queue=20)
        self.send_next_if({**x, "nth": 1}, queue=1)


class Slow(ps.SeqNode):
    columns = COLUMNS

    def on_start(self):
        self.never = threading.Event()

    def consume(self, x):
        self.never.wait(0.002)
        self.send_next(x)


def job(params):
    job, folder = ps.Job(), params["folder"]
    rows = job.source("rows", ps.parquet(f"{folder}/in", rate=300), columns={"entity": "string", "n": "int64"})
    sent = ps.Pipeline(Valve()).on(rows)
    ps.Farm(Slow(), 4, on="entity").on(sent).sink("out", ps.parquet(f"{folder}/out"))
    sent.output("shed").sink("left", ps.parquet(f"{folder}/shed"))
    return job
"""
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: shedding}
spec: {job: {entrypoint: "shedding_job:job"}}
"""
Key = tuple[str, int, int]


def rows_of(folder: Path) -> list[Key]:
    tables = [pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]
    return [(row["entity"], row["n"], row["nth"]) for table in tables for row in table.to_pylist()]


def test_each_row_is_sent_or_shed_once_and_those_sent_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for file in range(FILES):
        rows = [{"entity": f"{file}-{n % ENTITIES}", "n": n} for n in range(ROWS)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in" / f"part-{file}.parquet")
    run_module_through_kills(tmp_path, "shedding_job", CODE, JOB)
    sent, shed = rows_of(tmp_path / "out"), rows_of(tmp_path / "shed")
    made = [(f"{file}-{n % ENTITIES}", n, nth) for file in range(FILES) for n in range(ROWS) for nth in (0, 1)]
    assert sorted(sent + shed) == sorted(made)
    assert sent
    assert {key for key in made if key[2] == 1} <= set(shed), "the row before it is outstanding, or was shed, too"
    by_entity: dict[str, list[int]] = defaultdict(list)
    for entity, n, _ in sent:
        by_entity[entity].append(n)
    assert all(found == sorted(found) for found in by_entity.values())
