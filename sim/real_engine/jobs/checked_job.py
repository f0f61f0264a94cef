"""What the runs need to know of a job."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path

from penstock_spark.push import Push
from sim.real_engine.jobs.input_rows import InputFiles, Row


class OutputPlace(Enum):
    """Where the output of a job goes."""

    FOLDER = "folder"
    BUCKET = "bucket"
    TABLE = "table"
    TOPIC = "topic"


JOB_FILE = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: simulated}}
spec:
  job:
    entrypoint: {entrypoint}
    parameters: {parameters}
"""


class CheckedJob(ABC):
    """A job, its input, and its oracle. The sink of an output ``x`` is the step ``x-out``. In ``place`` it is ``x``.

    ``entrypoint`` builds it. It has ``parameters``, to which ``input`` and ``output`` are added. ``inputs`` are the
    files that it or its senders read. With ``on_disk`` its state has next to no memory, so all but a few rows of each
    table are in RocksDB. ``changes`` are other revisions of the job: the parameters of each that differ, by its name.
    ``tables`` are those of a database that it writes to or looks rows up in: columns with their types, and the columns
    of the unique index. The rows ``filled`` are in them from the beginning, by table.
    ``topics`` are those of its outputs, with their partitions. ``raises`` are errors that end an attempt of it.
    """

    entrypoint: str
    outputs: Sequence[str]
    inputs: Sequence[InputFiles] = ()
    parameters: Mapping[str, int | str] = {}
    place = OutputPlace.FOLDER
    topics: Mapping[str, int] = {}
    tables: Mapping[str, tuple[dict[str, str], tuple[str, ...]]] = {}
    filled: Mapping[str, Sequence[Row]] = {}
    raises: Sequence[str] = ()
    on_disk = False
    changes: Mapping[str, Mapping[str, str]] = {}

    @abstractmethod
    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare the rows of each output, in the order of the files' names. Raises Violation."""

    def begin_run(self) -> None:  # noqa: B027 - most jobs have nothing to do
        """Bring what is outside of the job and of the disk to its first state."""

    def ended_at(self, offsets: Mapping[str, int]) -> None:  # noqa: B027 - most jobs have an end
        """Learn how many rows of each split the last checkpoint has, before the output is checked."""

    def senders(self, folder: Path) -> Sequence[Push]:
        """Return what each sender pushes. ``folder`` is that of the input."""
        return ()


def job_file(job: CheckedJob, places: Mapping[str, Path], change: Mapping[str, str] | None = None) -> str:
    """Return the text of the job's file. ``places`` are the folders of its input and output."""
    values = {**places, **job.parameters, **(change or {})}
    parameters = ", ".join(f'{name}: "{value}"' for name, value in values.items())
    return JOB_FILE.format(entrypoint=job.entrypoint, parameters=f"{{{parameters}}}")
