"""A graph under construction: steps, the live functions they name, and where each was written."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.contract.graph import LogicalGraph, Step

CALL = "call"  # role of a step's own function
CONNECTOR = "connector"  # role of a user's own source or sink object
_HERE = str(Path(__file__).parent.parent)


@dataclass(slots=True)
class GraphDraft:
    """What the Python API and ``job.graph`` both produce, before any check.

    ``functions`` holds live callables and connector objects by (step, role); ``places`` says for
    each step in which file and line it was written.
    """

    steps: list[Step] = field(default_factory=list)
    functions: dict[tuple[str, str], object] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def graph(self, job: str) -> LogicalGraph:
        """Return the steps as the logical graph of ``job``."""
        return LogicalGraph(job, tuple(self.steps))

    def place(self, step: str) -> str:
        """Return where a step was written, for the beginning of a message."""
        return self.places.get(step, "the graph")


def partition_role(index: int) -> str:
    """Name the role of the custom partition function of a step's input."""
    return f"partition {index}"


def caller_place() -> str:
    """Return ``file:line`` of the nearest caller outside of Penstock."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def short_path(file: str) -> str:
    """Spell a path relative to the working directory where it is inside of it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def label(function: Callable[..., object]) -> str:
    """Name a function as ``module:qualified.name``; a label only when it is nested in another."""
    module = getattr(function, "__module__", None) or "?"
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{module}:{name}"


Functions = Mapping[tuple[str, str], object]
