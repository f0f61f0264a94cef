"""Runs a job on real engines to its end, through kills, checkpoints and rescales 2 -> 3 -> 2."""

from pathlib import Path

from penstock.graph import keep_job_file, read_job_file
from tests.integration.engine_rig import Rig
from tests.integration.local_job import REPOSITORY


def run_through_kills(job: Path, folder: Path, /, **parameters: object) -> None:
    """Run the job file ``job`` with these parameters; its storage is in ``folder``.

    Each engine is killed once, and has checkpoints before and after.
    """
    settings = [f"job.parameters.{name}={value}" for name, value in parameters.items()]
    keep_job_file(read_job_file(job, settings), folder / "job.json")
    (folder / "storage").mkdir()
    with Rig(folder / "job.json", folder) as rig:
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


def run_module_through_kills(folder: Path, module: str, code: str, job: str) -> None:
    """Run a job with the parameter ``folder``. ``job`` is the text of its file, ``code`` that of the user's module."""
    (folder / f"{module}.py").write_text(code)
    (folder / "job.yaml").write_text(job)
    run_through_kills(folder / "job.yaml", folder, folder=folder)


def run_example_through_kills(name: str, folder: Path, /, **parameters: object) -> None:
    """Run an example."""
    run_through_kills(REPOSITORY / "examples" / f"{name}.yaml", folder, **parameters)


def run_windows_through_kills(name: str, folder: Path) -> None:
    """Run an example with 200 rows a second from the folder ``in``. It writes to the folders ``out`` and ``late``."""
    folders = {parameter: folder / each for parameter, each in (("input", "in"), ("output", "out"), ("late", "late"))}
    run_example_through_kills(name, folder, rate=200, **folders)
