"""State of a worker beyond its memory: on its disk, and exact through a kill and a rescale."""

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.engine_rig import Rig
from tests.integration.test_engine_trouble import job_file

KEYS = 24_000
PASSES = 3
BYTES = 2_000  # of state for each key: 48 MB of all, for two budgets of 16 MiB
SCRIPT = """
import penstock as ps

def job(parameters):
    job = ps.Job()
    rows = job.source("rows", ps.parquet("{input}", rate=6000), columns={{"id": "int64"}})
    kept = rows.key_by("id").process(
        "kept",
        keep,
        state={{"text": "string", "seen": "int64"}},
        columns={{"id": "int64", "seen": "int64", "sound": "bool"}},
        per="record",
    )
    kept.sink("output", ps.parquet("{output}"))
    return job

def text_of(id, seen):
    return f"{{id}} seen {{seen}}".ljust({size}, "x") if seen else None

def keep(row, state):
    before, seen = state["text"], state["seen"] + 1
    state["text"], state["seen"] = text_of(row["id"], seen), seen
    return [{{"id": row["id"], "seen": seen, "sound": before == text_of(row["id"], seen - 1)}}]
"""


def test_state_beyond_the_memory_budget_is_exact(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "storage").mkdir()
    for number in range(PASSES):
        table = pa.table({"id": pa.array(range(KEYS), pa.int64())})
        pq.write_table(table, tmp_path / "in" / f"pass-{number}.parquet")
    script = SCRIPT.format(input=tmp_path / "in", output=tmp_path / "out", size=BYTES)
    job = job_file(tmp_path, script)
    job.write_text(job.read_text() + "  state: {memory: 16Mi}\n")
    with Rig(job, tmp_path) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        rig.lose(1)
        rig.checkpoint()
        rig.spawn(2)
        rig.rescale(3)
        rig.all(lambda s: s.exhausted, "end of the input")
        assert list(tmp_path.glob("scratch-*/**/CURRENT")), "some of it is on disk"
        rig.finish()

    seen: dict[int, int] = defaultdict(int)
    for file in sorted((tmp_path / "out").glob("*.parquet")):
        for row in pq.read_table(file).to_pylist():
            seen[row["id"]] += 1
            assert (row["seen"], row["sound"]) == (seen[row["id"]], True), row
    assert seen == dict.fromkeys(range(KEYS), PASSES)
