"""The physical plan as the keepers know it: stages, edges, and no user code.

A stage is a chain of steps without a shuffle inside; its parallel instances are tasks.
"""

from enum import StrEnum

from penstock.contract.codec import Message
from penstock.contract.columns import Columns
from penstock.contract.ids import StageIndex

SOURCE, SINK = "source", "sink"  # kinds of steps that checkpoints know besides the keyed ones


class Partitioning(StrEnum):
    """How the rows of an edge find their receiver."""

    KEY = "key"
    FORWARD = "forward"
    BROADCAST = "broadcast"
    ROUND_ROBIN = "round-robin"
    CUSTOM = "custom"


class StagePlan(Message, tag="StagePlan"):
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


class EdgePlan(Message, tag="EdgePlan"):
    """Rows from stage ``sender`` to stage ``receiver``; ``index`` is the place in the plan."""

    index: int
    sender: StageIndex
    receiver: StageIndex
    partitioning: Partitioning


class StateColumn(Message, tag="StateColumn"):
    """A value per key: its name and type as the job shows them, and what is kept of which column.

    ``of`` is like ``sum(x: int64)``; empty where the value is the user's own.
    """

    name: str
    type: str
    of: str = ""


class StepState(Message, tag="StepState"):
    """What a checkpoint holds of one step, as far as it must be the same when it is read again.

    A source or sink has a ``connector``; a keyed step has ``keys`` and ``columns`` in their order;
    a window has ``times``: its size and its offset (us).
    """

    step: str
    kind: str
    connector: str = ""
    keys: Columns = ()
    columns: tuple[StateColumn, ...] = ()
    times: tuple[int, ...] = ()


class PhysicalPlan(Message, tag="PhysicalPlan"):
    """Stages in topological order.

    ``fingerprint`` is that of the whole graph: engines of two plans never share an attempt.
    ``states`` says what checkpoints hold, step by step. ``state_fingerprint`` is what a manifest
    of format 1 says instead.
    """

    job: str
    max_key_groups: int
    stages: tuple[StagePlan, ...]
    edges: tuple[EdgePlan, ...]
    fingerprint: str
    states: tuple[StepState, ...] = ()
    state_fingerprint: str = ""

    @property
    def steps(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the steps of each stage."""
        return tuple(stage.steps for stage in self.stages)

    def inputs_of(self, stage: StageIndex) -> tuple[EdgePlan, ...]:
        """List the edges into a stage, in plan order."""
        return tuple(e for e in self.edges if e.receiver == stage)

    def outputs_of(self, stage: StageIndex) -> tuple[EdgePlan, ...]:
        """List the edges out of a stage, in plan order."""
        return tuple(e for e in self.edges if e.sender == stage)
