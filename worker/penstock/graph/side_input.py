"""Side inputs in the Python API: ``rules.side("rules", on="id")`` and ``process(..., side={"rules": rules})``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError
from penstock.contract.graph import LEFT, MAIN, ONLY, RIGHT, Input
from penstock.contract.plan import Partitioning

if TYPE_CHECKING:
    from penstock.graph.builder import Job


@dataclass(frozen=True, slots=True)
class SideInput:
    """A table that each task of a step has a copy of. ``step`` is the step that its rows pass through."""

    job: "Job"
    step: str


def side_edges(about: str, job: "Job", given: Mapping[str, SideInput] | None) -> tuple[Input, ...]:
    """Return the inputs that bring side tables, by the names that a function reads. Raises ConfigError."""
    for name, table in (given or {}).items():
        if not isinstance(name, str) or not name.isidentifier() or name in (LEFT, RIGHT):
            raise ConfigError(f'{about}: side: {name!r} is no name for a side input: write side={{"rules": table}}')
        if not isinstance(table, SideInput) or table.job is not job:
            raise ConfigError(f'{about}: side: {name!r} is no side table of this job: write .side("rules", on="id")')
    return tuple(side_edge(name, table.step) for name, table in (given or {}).items())


def side_edge(name: str, step: str) -> Input:
    """Return the input that brings a side table to all tasks."""
    return Input(step, MAIN, Partitioning.BROADCAST, side=name)


def is_side(entry: Input) -> bool:
    """Return whether an input brings a side table: its rows go to all tasks."""
    return entry.side not in (ONLY, LEFT, RIGHT)
