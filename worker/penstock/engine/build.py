"""From a compiled job to the parts of tasks: steps, sources, sinks, state, edges."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.limits import HELD_BYTES_MAX, SPLITS_BYTES_MAX, SPLITS_MAX
from penstock.cluster.in_flight import InFlightPage, Slot
from penstock.connectors.open_connectors import open_lookup, open_sink, open_source
from penstock.connectors.own import OwnLookup, OwnSink, OwnSource
from penstock.contract.codec import encode
from penstock.contract.control_messages import Splits, StageSplits
from penstock.contract.graph import Lookup, Sink, Source
from penstock.contract.guarantees import guarantee_of, path_of, varying_steps
from penstock.contract.ids import Attempt, StageIndex, TaskId
from penstock.contract.manifest import Origin
from penstock.contract.plan import Partitioning, PhysicalPlan
from penstock.contract.settings import ShuffleSettings
from penstock.contract.status import SinkStatus
from penstock.contract.trust import IngestPlace
from penstock.engine.group_load import GroupLoad
from penstock.engine.input_watch import WatchedInput
from penstock.engine.router import Partitioner
from penstock.engine.source_reader import ReadBatcher, SourceReader, read_bytes_max
from penstock.engine.task_runtime import OutEdge, SinkSlot, TaskParts
from penstock.engine.warm import warm
from penstock.file_system import OS_FILES
from penstock.graph.compiled import CompiledEdge, CompiledJob, CompiledStage, CompiledStep
from penstock.ports import (
    FileSystem,
    InheritingSink,
    JudgedSource,
    ListedSource,
    PreparedSource,
    PushedSource,
    SinkPublisher,
    SinkWriter,
)
from penstock.ports import Lookup as LookupPort
from penstock.ports import Sink as SinkPort
from penstock.ports import Source as SourcePort
from penstock.protocol.engine.engine_messages import MakeTasks
from penstock.protocol.task.task_core import TaskCore
from penstock.protocol.task.task_state import TaskSetup
from penstock.steps.base import BOUND_FIELD
from penstock.transport.exchange import Identity

if TYPE_CHECKING:
    from penstock.keyed_state.keyed_backend import StateBudget

_US = 1_000_000
STAGED = "staged"  # folder of output that waits for its publication, among the checkpoints
_DEALT_OUT = {Partitioning.KEY, Partitioning.CUSTOM}  # other edges never divide a batch


@dataclass(frozen=True, slots=True)
class _Input:
    """A source step of a stage: its node's parameters and the opened connector."""

    name: str
    parameters: Source
    source: SourcePort


class JobParts:
    """Makes the parts of any task of a job; sources and sinks are opened once per engine."""

    def __init__(
        self,
        job: CompiledJob,
        identity: Identity,
        scratch: Path,
        page: InFlightPage | None = None,
        *,
        files: FileSystem = OS_FILES,
        shared: Path | None = None,
    ) -> None:
        """Open the job's connectors. Tasks note on ``page`` what they pass to user functions.

        ``shared`` is the folder of the job's checkpoints, which all workers see; ``scratch`` when there is one worker.

        Raises ConfigError when a connector is missing.
        """
        self._page = page
        self.identity = identity
        self._job = job
        self._scratch = scratch
        self._inputs = {s.plan.index: _open_source(s, files) for s in job.stages}
        self._tables = _open_tables(job)
        self._sinks = _open_sinks(job, files, (shared or scratch) / STAGED)
        self._budget: StateBudget | None = None  # of all tasks, made with the first keyed one
        self._want_checkpoint: Callable[[], None] | None = None
        self.held_up: Callable[[], bool] = lambda: False  # whether committed output cannot be published

    @property
    def plan(self) -> PhysicalPlan:
        """Return the physical plan."""
        return self._job.plan

    @property
    def shuffle(self) -> ShuffleSettings:
        """Return the settings of channels."""
        return self._job.spec.shuffle

    @property
    def schemas(self) -> dict[int, pa.Schema]:
        """Return the schema of each edge's rows, hidden columns included."""
        return {e.plan.index: _edge_schema(e) for e in self._job.edges}

    @property
    def prompt_edges(self) -> frozenset[int]:
        """Return the edges whose receivers report every element that they take."""
        return self._job.prompt_edges

    @property
    def publishers(self) -> dict[str, SinkPublisher]:
        """Return what publishes the output of each sink step."""
        return {name: sink.publisher for name, sink in self._sinks.items()}

    @property
    def sinks(self) -> tuple[SinkStatus, ...]:
        """Return each sink step with its guarantee, as far as that is known: it depends on the sources."""
        inputs = [found for found in self._inputs.values() if found is not None]
        sources = {i.name: i.source.unreplayable() for i in inputs if isinstance(i.source, JudgedSource)}
        varying = varying_steps(self.plan)
        found = []
        for name, sink in self._sinks.items():
            level, why = guarantee_of(path_of(self._job.graph, name), sink.guarantee, sources, varying)
            found.append(SinkStatus(name, level, why=why))
        return tuple(found)

    def listen(self, want_checkpoint: Callable[[], None], place: IngestPlace) -> None:
        """Let pushed sources, and the first rows of a sink, ask for a checkpoint."""
        self._want_checkpoint = want_checkpoint
        for found in self._inputs.values():
            if found is not None and isinstance(found.source, PushedSource):
                found.source.listen(want_checkpoint, place)

    def claim(self, *, fresh: bool, origin: Origin | None = None) -> None:
        """Take the outputs for this job; ``origin`` is the savepoint from which it has just started.

        Raises ConfigError when they hold files of another job.
        """
        for sink in self._sinks.values():
            if origin is not None and isinstance(sink, InheritingSink):
                sink.inherit(self.identity.job_uid, origin.job_uid, origin.epoch)
            else:
                sink.claim(self.identity.job_uid, fresh)

    def sweep(self, attempt: Attempt) -> None:
        """Remove the staged files of attempts before ``attempt``, of each sink, whatever another one raises.

        Raises the last of these errors.
        """
        with ExitStack() as sweeping:
            for sink in reversed(self._sinks.values()):
                sweeping.callback(sink.sweep, attempt)

    def warm(self) -> None:
        """Load every kernel that the job's built-in steps need, and prepare the sources."""
        for found in self._inputs.values():
            if found is not None and isinstance(found.source, PreparedSource):
                found.source.prepare()
        warm(self._job, self._scratch, self.identity.ordinal)

    def close(self) -> None:
        """End the threads of sinks, whatever one of them raises. Raises the last of these errors."""
        with ExitStack() as closing:
            for sink in self._sinks.values():
                closing.callback(sink.close)

    def event_time(self, stage: StageIndex) -> tuple[float | None, int | None]:
        """Return when a silent split is idle (s) and how far rows are out of order (us)."""
        found = self._inputs[stage]
        time = found.parameters.event_time if found is not None else None
        if time is None:
            return None, None
        idle = None if time.idle_after_us is None else time.idle_after_us / _US
        return idle, time.out_of_orderness_us

    def first_splits(
        self,
        stages: Sequence[StageIndex],
        listing: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> tuple[StageSplits, ...]:
        """List the splits of some source stages at offset 0, each source within ``listing`` of its name.

        Raises ConfigError when a job has more than ``SPLITS_MAX`` splits, or when their description
        does not fit into a message to the leader.
        """
        found: tuple[StageSplits, ...] = ()
        for stage, one in self._inputs.items():
            if one is not None and stage in stages:
                with listing(one.name):
                    found = (*found, StageSplits(stage, tuple(one.source.splits())))
        check_splits(found, {stage: i.name for stage, i in self._inputs.items() if i is not None})
        return found

    def watched(self) -> tuple[WatchedInput, ...]:
        """List the sources whose inputs may have files that the job does not know."""
        return tuple(
            WatchedInput(found.name, stage, found.source)
            for stage, found in self._inputs.items()
            if found is not None and isinstance(found.source, ListedSource)
        )

    def parts(self, task: TaskId, order: MakeTasks, attempt: Attempt) -> TaskParts:
        """Make everything that one task of an order owns."""
        core = self._core(task, order)
        stage = self._job.stages[task.stage]
        edges = tuple(
            OutEdge(e.plan, e.keys, self._partitioners(e), [], self._load(e))
            for e in self._job.edges
            if e.plan.sender == stage.plan.index
        )
        fresh = order.root is None and not order.joining  # the job has no checkpoint yet
        on_first = self._want_checkpoint if fresh else None
        sinks = {n.name: self._slot(n.name, task, attempt, on_first) for n in _sink_nodes(stage)}
        state = self._state(core, stage)
        chain = self._chain(stage, state, edges, sinks)
        found = self._inputs[stage.plan.index]
        source = None
        if found is not None:
            most = read_bytes_max(_receivers(edges, core), self.shuffle.low_watermark_bytes)
            reads = ReadBatcher(found.parameters.batch_rows, most)
            source = SourceReader(found.name, found.source, reads)
            chain.read_by(source.where)
        return TaskParts(core, chain, edges, sinks, state, source, self._in_flight(stage))

    def _core(self, task: TaskId, order: MakeTasks) -> TaskCore:
        idle_after_s, disorder_us = self.event_time(task.stage)
        splits = (group.splits for group in order.splits if group.stage == task.stage)
        setup = TaskSetup(
            self.plan,
            task,
            order.assignment,
            HELD_BYTES_MAX,
            idle_after_s,
            disorder_us,
            tuple(split for group in splits for split in group),
            order.joining,
        )
        return TaskCore(setup, order.root)

    def _in_flight(self, stage: CompiledStage) -> Slot | None:
        own = [n.name for n in stage.nodes if n.function is not None or n.connector is not None]
        return None if self._page is None or not own else self._page.slot(", ".join(own))

    def _partitioners(self, edge: CompiledEdge) -> dict[str, Partitioner]:
        step = self.plan.stages[edge.plan.receiver].name
        return {scheme: Partitioner(step, function, scheme) for scheme, function in edge.functions.items()}

    def _load(self, edge: CompiledEdge) -> GroupLoad | None:
        if edge.plan.partitioning is not Partitioning.KEY:
            return None
        return GroupLoad(self.plan.stages[edge.plan.receiver].name, self.plan.max_key_groups)

    def _slot(self, name: str, task: TaskId, attempt: Attempt, on_first: Callable[[], None] | None) -> SinkSlot:
        sink = self._sinks[name]

        def make() -> SinkWriter:
            return sink.writer(task, attempt)

        return SinkSlot(make, on_first, self.held_up)

    def _state(self, core: TaskCore, stage: CompiledStage) -> Any:
        if not stage.plan.keyed:
            return None
        from penstock.keyed_state import keyed_backend  # noqa: PLC0415 - loads numba and RocksDB

        settings = self._job.spec.state
        if self._budget is None:
            self._budget = keyed_backend.StateBudget(settings.memory_bytes)
        share = core.state.assignment.share_of(core.state.task)
        task, groups = core.state.task, self.plan.max_key_groups
        first = task.worker == 0 and task.slot == 0  # it is there under every assignment
        state = keyed_backend.KeyedStateBackend(settings, share, groups, self._scratch, stores_copies=first)
        self._budget.admit(state)
        return state

    def _chain(
        self,
        stage: CompiledStage,
        state: Any,
        edges: tuple[OutEdge, ...],
        sinks: dict[str, SinkSlot],
    ) -> Any:
        from penstock.graph.assemble import assemble  # noqa: PLC0415 - loads numba

        emits: dict[tuple[str, int | str], Callable[[pa.RecordBatch], None]] = {}
        for edge in edges:
            emits["edge", edge.plan.index] = edge.rows.append
        for name, slot in sinks.items():
            emits["sink", name] = slot.write
        return assemble(stage, state, emits, self._tables)


def check_splits(found: Sequence[StageSplits], names: Mapping[StageIndex, str]) -> None:
    """Refuse more splits than fit into a message to the leader. ``names`` has the source step of each stage.

    Raises ConfigError naming the source with the most splits.
    """
    if not found:
        return
    count = sum(len(group.splits) for group in found)
    most = max(found, key=lambda group: len(group.splits))
    has = f"source {names[most.stage]!r} has {len(most.splits):,} splits (files, partitions)"
    remedy = "put the rows into fewer files, or divide the job"
    if count > SPLITS_MAX:
        raise ConfigError(f"{has}: a job may have {SPLITS_MAX:,} in all; {remedy}")
    size = len(encode(Splits(Attempt(0), tuple(found), "")))
    if size > SPLITS_BYTES_MAX:
        raise ConfigError(f"{has}, described by {size:,} bytes: {SPLITS_BYTES_MAX:,} are possible in all; {remedy}")


def _receivers(edges: Sequence[OutEdge], core: TaskCore) -> list[int]:
    """Return, for each edge, among how many tasks the rows of a batch are divided."""
    stages = core.state.assignment.stages
    return [len(stages[edge.plan.receiver].tasks) if edge.plan.partitioning in _DEALT_OUT else 1 for edge in edges]


def _open_source(stage: CompiledStage, files: FileSystem) -> _Input | None:
    for node in stage.nodes:
        if isinstance(node.parameters, Source):
            own: Any = node.connector
            with _named(node):
                source = (
                    OwnSource(node.name, own, node.parameters)
                    if own is not None
                    else open_source(node.parameters, files)
                )
            return _Input(node.name, node.parameters, source)
    return None


def _sink_nodes(stage: CompiledStage) -> tuple[CompiledStep, ...]:
    return tuple(n for n in stage.nodes if isinstance(n.parameters, Sink))


def _open_tables(job: CompiledJob) -> dict[str, LookupPort]:
    nodes = (node for stage in job.stages for node in stage.nodes)
    return {node.name: _table(node, node.parameters) for node in nodes if isinstance(node.parameters, Lookup)}


def _table(node: CompiledStep, lookup: Lookup) -> LookupPort:
    with _named(node):
        if node.connector is not None:
            return OwnLookup(node.name, node.connector)  # type: ignore[arg-type]
        return open_lookup(lookup.connector)


@contextmanager
def _named(node: CompiledStep) -> Iterator[None]:
    """Name the step whose options do not fit."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"step {node.name!r}: {error}") from error


def _open_sinks(job: CompiledJob, files: FileSystem, staging: Path) -> dict[str, SinkPort]:
    sinks: dict[str, SinkPort] = {}
    for stage in job.stages:
        for node in _sink_nodes(stage):
            assert isinstance(node.parameters, Sink)
            own: Any = node.connector
            with _named(node):
                sinks[node.name] = (
                    OwnSink(node.name, own)
                    if own is not None
                    else open_sink(node.name, node.parameters.connector, node.input_schema(), files, staging=staging)
                )
    return sinks


def _edge_schema(edge: CompiledEdge) -> pa.Schema:
    schema = edge.schema()
    return schema.append(BOUND_FIELD) if edge.timed else schema
