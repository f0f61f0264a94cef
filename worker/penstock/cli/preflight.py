"""What ``run`` checks before any process starts, without Arrow: the graph, and that inputs exist.

User code is looked at in a process of its own, so that what it imports stays out of this one.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError
from penstock.contract.graph import Sink, Source
from penstock.graph.load import compile_draft, draft_of

if TYPE_CHECKING:
    from penstock.contract.declared import DeclaredGraph
    from penstock.graph import JobFile
    from penstock.graph.compiled import CompiledJob


def check_before_start(job: "JobFile", file: Path, settings: Sequence[str]) -> None:
    """Raise ConfigError when the job cannot run: unknown columns, no such input folder."""
    graph = job.job.spec.job.graph
    if graph is None or _needs_a_look(graph):
        _validate_elsewhere(file, settings)
        return
    compiled = compile_draft(job, draft_of(job), None)
    check_paths(compiled)


def check_paths(job: "CompiledJob") -> None:
    """Raise ConfigError when an input is not there, or an output can be no folder."""
    for step in job.graph.steps:
        if not isinstance(step.parameters, Source | Sink):
            continue
        connector = step.parameters.connector
        path = connector.options.get("path")
        if connector.kind != "parquet" or not isinstance(path, str):
            continue
        reads = isinstance(step.parameters, Source)
        problem = input_problem(Path(path)) if reads else output_problem(Path(path))
        if problem is not None:
            raise ConfigError(f"{job.places[step.name]}: step {step.name!r}: {path} {problem}")


def input_problem(path: Path) -> str | None:
    """Say what is wrong with a Parquet input."""
    if not path.exists():
        return f"is not there (looked from {Path.cwd()})"
    if path.is_dir() and next(path.glob("*.parquet"), None) is None:
        return "has no *.parquet file"
    return None


def output_problem(path: Path) -> str | None:
    """Say why a folder cannot be written to; it need not be there yet."""
    nearest = path.absolute()
    while not nearest.exists():
        nearest = nearest.parent
    if not nearest.is_dir():
        return f"can be no folder: {nearest} is a file"
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"cannot be written to: {nearest} is read-only for you"
    return None


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
