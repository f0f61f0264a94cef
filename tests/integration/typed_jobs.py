"""Runs a job of functions with types in real processes, through kills and rescales 2 -> 3 -> 2."""

from pathlib import Path

from penstock.graph import keep_job_file, read_job_file
from tests.integration.engine_rig import Rig


def run_through_kills(folder: Path, module: str, code: str, job: str) -> None:
    """Run ``job``, which has the parameter ``folder``, to its end. ``code`` is the text of the user's module."""
    (folder / f"{module}.py").write_text(code)
    (folder / "job.yaml").write_text(job)
    read = read_job_file(folder / "job.yaml", [f"job.parameters.folder={folder}"])
    keep_job_file(read, folder / "job.json")
    (folder / "storage").mkdir()
    with Rig(folder / "job.json", folder) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        rig.lose(1)
        rig.spawn(2)
        rig.rescale(3)
        rig.checkpoint()
        rig.lose(2)
        rig.rescale(2)
        rig.checkpoint()
        rig.finish()
