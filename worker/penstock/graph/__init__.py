"""Turns what a user wrote into what an engine runs: Python API, job files, checks, plan, drawings.

    Python function ─┐
    job.graph        ┼─> GraphDraft (steps, functions, places) ─> checks ─> plan ─> CompiledJob
    job.script       ┘

This package does not import Arrow when it is imported. Functions that need Arrow import it when
they run, because ``penstock --help`` and the supervisor use this package and must start fast.
"""

from penstock.graph.compiled import (
    ENTRY,
    CompiledEdge,
    CompiledJob,
    CompiledStage,
    CompiledStep,
    Link,
)
from penstock.graph.job_file import JobFile, keep_job_file, read_job_file
from penstock.graph.load import Inspector, load_job

__all__ = [
    "ENTRY",
    "CompiledEdge",
    "CompiledJob",
    "CompiledStage",
    "CompiledStep",
    "Inspector",
    "JobFile",
    "Link",
    "keep_job_file",
    "load_job",
    "read_job_file",
]
