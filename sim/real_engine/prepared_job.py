"""A job that is ready to run in this process: its input is written, and it is compiled."""

from collections.abc import Mapping
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
    """A job and its folder on the real disk, which has the input and the scratch files of one run at a time.

    ``changes`` are its other revisions.
    """

    checked: CheckedJob
    compiled: CompiledJob
    folder: Path
    changes: Mapping[str, CompiledJob]


def prepared(name: str, under: Path) -> PreparedJob:
    """Prepare a job of the table in a folder below ``under``."""
    job, folder = JOBS[name], under / name
    (folder / "input").mkdir(parents=True)
    for files in job.inputs:
        files.write(folder / "input")
    places = {"input": folder / "input", "output": OUTPUT}
    changes = {revision: _compiled(job, folder, places, change) for revision, change in job.changes.items()}
    return PreparedJob(job, _compiled(job, folder, places), folder, changes)


def _compiled(
    job: CheckedJob, folder: Path, places: Mapping[str, Path], change: Mapping[str, str] | None = None
) -> CompiledJob:
    file = folder / "job.yaml"
    file.write_text(job_file(job, places, change))
    compiled = load_job(file, ConnectorInspector())
    if not job.on_disk:
        return compiled
    spec = compiled.spec
    return replace(compiled, spec=replace(spec, state=replace(spec.state, memory_bytes=1)))
