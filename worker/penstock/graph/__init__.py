"""From what a user wrote to what an engine runs: API, files, checks, plan, pictures.

    Python function ─┐
    job.graph        ┼─> Draft (steps, functions, places) ─> checks ─> plan ─> CompiledJob
    job.script       ┘

Imports of Arrow happen where rows are at hand, never at import: ``penstock --help`` and the
supervisor rest on this package.
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
