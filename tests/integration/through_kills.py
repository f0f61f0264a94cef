"""Runs a job on real engines to its end, through kills, checkpoints and rescales 2 -> 3 -> 2."""

from pathlib import Path

from penstock.graph import keep_job_file, read_job_file
from tests.integration.engine_rig import Rig
from tests.integration.local_job import REPOSITORY


def run_through_kills(job: Path, folder: Path) -> None:
    """Run ``job``, whose storage is in ``folder``. Each engine is killed once, and has checkpoints before and after."""
    (folder / "storage").mkdir()
    with Rig(job, folder) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        rig.lose(1)
        rig.checkpoint()
        rig.spawn(2)
        rig.rescale(3)
        rig.checkpoint()
        rig.lose(2)
        rig.rescale(2)
        rig.lose(0)
        rig.finish()


def run_example_through_kills(name: str, folder: Path) -> None:
    """Run an example with 200 rows a second from the folder ``in``. It writes to the folders ``out`` and ``late``."""
    folders = {"input": "in", "output": "out", "late": "late"}
    settings = [f"job.parameters.{parameter}={folder / each}" for parameter, each in folders.items()]
    job = read_job_file(REPOSITORY / "examples" / f"{name}.yaml", [*settings, "job.parameters.rate=200"])
    keep_job_file(job, folder / "job.json")
    run_through_kills(folder / "job.json", folder)
