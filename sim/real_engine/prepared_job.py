"""A job that is ready to run in this process: its input is written, and it is compiled."""

from dataclasses import dataclass
from pathlib import Path

from penstock.base.values import replace
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.graph import load_job
from penstock.graph.compiled import CompiledJob
from sim.real_engine.jobs.checked_job import CheckedJob, job_file
from sim.real_engine.jobs.job_table import JOBS

OUTPUT = Path("/output")  # on the virtual disk


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A job and its folder on the real disk, which has the input and the scratch files of one run at a time."""

    checked: CheckedJob
    compiled: CompiledJob
    folder: Path


def prepared(name: str, under: Path) -> PreparedJob:
    """Prepare a job of the table in a folder below ``under``."""
    job, folder = JOBS[name], under / name
    (folder / "input").mkdir(parents=True)
    job.write_input(folder / "input")
    file = folder / "job.yaml"
    file.write_text(job_file(job, {"input": folder / "input", "output": OUTPUT}))
    compiled = load_job(file, ConnectorInspector())
    if job.on_disk:
        spec = compiled.spec
        compiled = replace(compiled, spec=replace(spec, state=replace(spec.state, memory_bytes=1)))
    return PreparedJob(job, compiled, folder)
