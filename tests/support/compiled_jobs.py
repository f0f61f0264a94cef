"""Jobs that tests compile."""

from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import CompiledJob, JobFile, load_job
from penstock.graph.load import compile_draft


class DeclaredInputs:
    """Inputs of a job that declares all their columns."""

    def source_schema(self, connector: object, columns: object) -> pa.Schema:
        raise AssertionError("all columns are declared")


def compiled(job: ps.Job) -> CompiledJob:
    """Compile a job of Python."""
    return compile_draft(JobFile(StreamJob("j", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, DeclaredInputs())


def loaded(folder: Path, text: str) -> CompiledJob:
    """Write and compile a job file."""
    (folder / "job.yaml").write_text(text)
    return load_job(folder / "job.yaml", DeclaredInputs())


def refusal(folder: Path, text: str, old: str, new: str, said: str) -> str:
    """Check that a file with another text is refused with its line; return the message."""
    assert old in text
    with pytest.raises(ConfigError, match=rf"job.yaml:\d+.*({said})") as told:
        loaded(folder, text.replace(old, new))
    return str(told.value)
