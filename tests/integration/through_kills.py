"""Runs a job on real engines to its end, through kills, checkpoints and rescales 2 -> 3 -> 2."""

from pathlib import Path
from textwrap import indent

from penstock.graph import keep_job_file, read_job_file
from tests.integration.engine_rig import Rig
from tests.integration.local_job import REPOSITORY

READINGS = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: windows}
spec:
  replicas: 2
  job:
    parameters: {folder: .}
    graph:
      steps:
        - name: readings
          source:
            parquet: {path: "${folder}/in", rate: 200}
            columns: [{name: mote, type: int64}, {name: ts, type: "timestamp[us]"}, {name: temperature, type: double}]
            eventTime: {column: ts, outOfOrderness: 30s}
"""
OUTPUT = """\
        - {name: output, inputs: [windows], sink: {parquet: {path: "${folder}/out"}}}
"""
LATE = """\
        - {name: late, inputs: [windows.late], sink: {parquet: {path: "${folder}/late"}}}
"""


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


def run_step_through_kills(folder: Path, step: str, *, late: bool = True) -> None:
    """Run a job that reads readings from the folder ``in``, has the step ``windows`` and writes to the folder ``out``.

    ``step`` is the text of the step without its name, ``late`` whether it has late rows, which go to the folder
    ``late``.
    """
    lines = [f"        - name: windows\n{indent(step, ' ' * 10)}", OUTPUT, LATE if late else ""]
    (folder / "job.yaml").write_text(READINGS + "".join(lines))
    run_through_kills(folder / "job.yaml", folder, folder=folder)


def run_example_through_kills(name: str, folder: Path, /, **parameters: object) -> None:
    """Run an example."""
    run_through_kills(REPOSITORY / "examples" / f"{name}.yaml", folder, **parameters)


def run_windows_through_kills(name: str, folder: Path) -> None:
    """Run an example with 200 rows a second from the folder ``in``. It writes to the folders ``out`` and ``late``."""
    folders = {parameter: folder / each for parameter, each in (("input", "in"), ("output", "out"), ("late", "late"))}
    run_example_through_kills(name, folder, rate=200, **folders)
