"""What the runs need to know of a job."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

Row = Mapping[str, Any]

JOB_FILE = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: simulated}}
spec:
  job:
    entrypoint: {entrypoint}
    parameters: {parameters}
"""


class CheckedJob(Protocol):
    """A job, its input, and its oracle. The sink of an output ``x`` is the step ``x-out``, and its folder ``x``."""

    @property
    def entrypoint(self) -> str:
        """Return the function that builds the job."""
        ...

    @property
    def outputs(self) -> Sequence[str]:
        """Return the names of the outputs."""
        ...

    @property
    def parameters(self) -> Mapping[str, int]:
        """Return the job's own parameters. ``input`` and ``output`` are added to them."""
        ...

    def write_input(self, folder: Path) -> None:
        """Write the files that the job reads. Called once in a process."""
        ...

    def begin_run(self) -> None:
        """Bring what is outside of the job, and outlives its processes, to its first state."""
        ...

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the rows of each output, in the order of the files' names. Raises Violation."""
        ...


def job_file(job: CheckedJob, places: Mapping[str, Path]) -> str:
    """Return the text of the job's file. ``places`` are the folders of its input and output."""
    parameters = ", ".join(f"{name}: {value}" for name, value in {**places, **job.parameters}.items())
    return JOB_FILE.format(entrypoint=job.entrypoint, parameters=f"{{{parameters}}}")
