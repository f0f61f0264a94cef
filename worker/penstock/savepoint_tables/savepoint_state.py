"""The keyed state of one step in this process, with all its key groups or some of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.contract.keygroups import Share
from penstock.graph.assemble import assemble
from penstock.graph.compiled import CompiledJob, CompiledStage, CompiledStep
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.steps.base import Emit, Step
from penstock.steps.keyed import KeyColumns
from penstock.steps.load_first import InnerStep, LoadFirstStep


@dataclass(frozen=True, slots=True)
class OpenedState:
    """The keyed state of a step while it is open. ``backend`` has the tables of its whole stage."""

    step: Step | InnerStep
    node: CompiledStep
    keys: KeyColumns
    backend: KeyedStateBackend


def keyed_steps(job: CompiledJob) -> tuple[str, ...]:
    """List the steps that keep something for each key, in the order of the job."""
    return tuple(s.step for s in job.plan.states if s.keys)


def stage_of(job: CompiledJob, step: str) -> CompiledStage:
    """Return the stage of a step with keyed state. Raises ConfigError, with similar names, if there is none."""
    if step not in keyed_steps(job):
        raise ConfigError(unknown("step with keyed state", step, keyed_steps(job)))
    return next(stage for stage in job.stages if step in stage.plan.steps)


@contextmanager
def opened(job: CompiledJob, step: str, share: Share, scratch: Path) -> Iterator[OpenedState]:
    """Open the empty state of a step for key groups ``share``. Files on local disk are below ``scratch``."""
    stage = stage_of(job, step)
    groups = job.plan.max_key_groups
    backend = KeyedStateBackend(job.spec.state, share, groups, scratch)
    try:
        chain = assemble(stage, backend, _Nowhere())
        found: Step | InnerStep = next(each for each in chain.steps if each.name == step)
        found = found.inner if isinstance(found, LoadFirstStep) else found
        node = stage.node(step)
        yield OpenedState(found, node, KeyColumns(node.input_schema(), node.keys, groups), backend)
    finally:
        backend.close()


class _Nowhere(dict[tuple[str, int | str], Emit]):
    """Edges and sinks of a stage that gets no rows."""

    def __missing__(self, place: tuple[str, int | str]) -> Emit:
        return _refuse


def _refuse(batch: pa.RecordBatch) -> None:
    raise AssertionError("a stage that is opened for its state gets no rows")
