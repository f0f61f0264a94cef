"""The physical plan as the keepers know it: stages, edges, and no user code.

A stage is a chain of steps without a shuffle inside; its parallel instances are tasks.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.contract.ids import StageIndex


class Partitioning(StrEnum):
    """How the rows of an edge find their receiver."""

    KEY = "key"
    FORWARD = "forward"
    BROADCAST = "broadcast"
    ROUND_ROBIN = "round-robin"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One chain of steps. ``parallelism`` None means one task per worker.

    ``source`` and ``sinks`` name steps of the chain; ``keyed`` says that the stage owns key
    groups, ``bounded`` that its source ends.
    """

    index: StageIndex
    name: str
    steps: tuple[str, ...]
    parallelism: int | None = None
    source: str | None = None
    bounded: bool = False
    keyed: bool = False
    sinks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgePlan:
    """Rows from stage ``sender`` to stage ``receiver``; ``index`` is the place in the plan."""

    index: int
    sender: StageIndex
    receiver: StageIndex
    partitioning: Partitioning


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """Stages in topological order. ``fingerprint`` changes when stored state would not fit."""

    job: str
    max_key_groups: int
    stages: tuple[StagePlan, ...]
    edges: tuple[EdgePlan, ...]
    fingerprint: str

    def inputs_of(self, stage: StageIndex) -> tuple[EdgePlan, ...]:
        """List the edges into a stage, in plan order."""
        return tuple(e for e in self.edges if e.receiver == stage)

    def outputs_of(self, stage: StageIndex) -> tuple[EdgePlan, ...]:
        """List the edges out of a stage, in plan order."""
        return tuple(e for e in self.edges if e.sender == stage)
