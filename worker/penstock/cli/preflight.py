"""What ``run`` checks before any process starts, without Arrow: the graph, and that inputs exist.

User code is looked at in a process of its own, so that what it imports stays out of this one.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError
from penstock.contract.graph import Source
from penstock.graph.load import compile_draft, draft_of

if TYPE_CHECKING:
    from penstock.contract.declared import DeclaredGraph
    from penstock.graph import JobFile


def check_before_start(job: "JobFile", file: Path, settings: Sequence[str]) -> None:
    """Raise ConfigError when the job cannot run: unknown columns, no such input folder."""
    graph = job.job.spec.job.graph
    if graph is None or _needs_a_look(graph):
        _validate_elsewhere(file, settings)
        return
    compiled = compile_draft(job, draft_of(job), None)
    for step in compiled.graph.steps:
        if isinstance(step.parameters, Source):
            check_path(step.parameters, f"{compiled.places[step.name]}: step {step.name!r}")


def check_path(source: Source, place: str) -> None:
    """Raise ConfigError when a file source's path is not there."""
    path = source.connector.options.get("path")
    if source.connector.kind == "parquet" and isinstance(path, str) and not Path(path).exists():
        raise ConfigError(f"{place}: {path} is not there (looked from {Path.cwd()})")


def _needs_a_look(graph: "DeclaredGraph") -> bool:
    """Say whether columns hang on user code, or on inputs that declare none."""
    return any(
        hasattr(s.parameters, "call")
        or s.partition_function is not None
        or (isinstance(s.parameters, Source) and not s.parameters.columns)
        for s in graph.steps
    )


def _validate_elsewhere(file: Path, settings: Sequence[str]) -> None:
    sets = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "penstock.cli", "validate", str(file), "--quiet", *sets]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        lines = [line.removeprefix("error: ") for line in done.stderr.strip().splitlines()]
        raise ConfigError("\n".join(lines) or f"validation ended with code {done.returncode}")
