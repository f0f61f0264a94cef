"""Which files of user code the record of a run has."""

from pathlib import Path

import pytest

from penstock.cli.record import record_of
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.graph import load_job, read_job_file

JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: recorded}
spec:
  job: {entrypoint: "recorded_job:job"}
"""
CODE = """
import penstock as ps
import recorded_elsewhere
import recorded_link
from recorded_package import part

def job(params: ps.Parameters) -> ps.Job:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("in"), columns={"n": "int64"})
    rows.map("same", part.same, columns={"n": "int64"}).sink("out", ps.parquet("out"))
    return job
"""
SAME = """
def same(row):
    return row
"""


def test_it_has_the_modules_of_the_jobs_folder_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is a link belongs to the folder of its file."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "recorded_package").mkdir(parents=True)
    elsewhere.mkdir()
    (home / "job.yaml").write_text(JOB)
    (home / "recorded_job.py").write_text(CODE)
    (home / "recorded_package" / "part.py").write_text(SAME)
    (elsewhere / "recorded_elsewhere.py").write_text("")
    (elsewhere / "target.py").write_text("")
    (home / "recorded_link.py").symlink_to(elsewhere / "target.py")
    monkeypatch.syspath_prepend(str(elsewhere))
    file = read_job_file(home / "job.yaml", [])
    code = [digest.name for digest in record_of(load_job(file, ConnectorInspector()), file).code]
    files = [name for name in code if name.startswith(str(tmp_path))]
    assert files == [str(home / "recorded_job.py"), str(home / "recorded_package" / "part.py")]
