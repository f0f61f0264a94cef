"""The errors that an engine reports if the user's code or job is wrong."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.engine_rig import DEADLINE_S, Rig

SCRIPT = """
import penstock as ps

def job(parameters):
    job = ps.Job()
    lines = job.source("lines", ps.parquet({input!r}), columns={{"line": "string"}})
    lines.map("check", check, columns={{"line": "string"}}).sink("output", ps.parquet({output!r}))
    return job

def check(batch):
    if "bad" in batch.column("line").to_pylist():
        raise ValueError("a bad line")
    return batch
"""


def job_file(folder: Path, script: str) -> Path:
    lines = "".join(f"      {line}\n" for line in script.splitlines())
    file = folder / "job.yaml"
    file.write_text(
        "apiVersion: penstock.dev/v1alpha1\nkind: StreamJob\nmetadata: {name: checked}\n"
        f"spec:\n  job:\n    script: |\n{lines}"
    )
    return file


def test_an_error_of_user_code_names_step_source_partition_and_offset(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    pq.write_table(pa.table({"line": ["good", "bad"]}), source / "part-0.parquet")
    (tmp_path / "storage").mkdir()
    script = SCRIPT.format(input=str(source), output=str(tmp_path / "out"))
    with Rig(job_file(tmp_path, script), tmp_path) as rig:
        rig.spawn(0)
        engine = rig.engines[0]
        rig.begin_only()
        with rig.news:
            assert rig.news.wait_for(lambda: engine.broken, DEADLINE_S)
        (broken,) = engine.broken
        assert broken.fatal
        for part in ("step 'check'", "source 'lines'", "part-0.parquet", "ValueError: a bad line"):
            assert part in broken.reason
        rig.over = rig.attempt


def test_a_job_that_does_not_load_ends_the_engine_with_its_message(tmp_path: Path) -> None:
    with Rig(job_file(tmp_path, "def job(parameters):\n    raise KeyError('x')"), tmp_path) as rig:
        engine = rig.start(0)
        assert engine.process.wait(DEADLINE_S) == 3
        assert "building the job failed" in engine.words()
