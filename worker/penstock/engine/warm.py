"""Runs each stage of built-in steps once on a made-up row, so that its kernels are loaded.

A kernel is compiled, or read from the cache, at its first call, which takes 5 ms to 1 s. This module
does so before the engine reports to the keeper, so that a reset, a first checkpoint or a rescale does
not wait for it. Stages with user functions or lookups, and edges with a user's partitioner, are left out: user
code must see the user's rows only.
"""

import gc
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.base.threads import Event
from penstock.contract.graph import MAIN, Lookup, Source
from penstock.contract.ids import BlobName, Epoch, Ordinal, TaskId
from penstock.contract.keygroups import Range
from penstock.contract.plan import first_assignment, routes
from penstock.engine.router import EdgeRouter
from penstock.graph.compiled import CompiledEdge, CompiledJob, CompiledStage
from penstock.steps.base import BOUND_FIELD
from penstock.storage.blobs import DirectoryBlobStore

if TYPE_CHECKING:
    from penstock.model.kernels.jit import Kernel

_KERNELS = "penstock.model.kernels."
_NO_EDGE = -1
_WORKERS = 2  # with a single receiver no row would be hashed


def warm(job: CompiledJob, folder: Path, first: int) -> None:
    """Load the kernels of every stage without user code; files are written to ``folder``.

    Begin with stage number ``first`` (modulo the number of stages). Workers that start together with
    an empty cache then begin with different stages, and find the kernels of the others compiled.
    """
    begin = first % len(job.stages)
    for stage in (*job.stages[begin:], *job.stages[:begin]):
        if all(node.function is None and not isinstance(node.parameters, Lookup) for node in stage.nodes):
            _stage(job, stage, folder / f"warm-{stage.plan.index}")


def warm_rest(done: Event) -> None:
    """Load the other kernels of the loaded modules, which a rescale or a restore needs.

    It runs while the first rows are processed. A cached kernel takes about 5 ms. A kernel that
    another process is compiling is loaded last, when it is in the cache. Sets ``done`` at the end.
    """
    for kernel in [k for k in kernels_in_use() if not k.try_compile()]:
        kernel.compile()
    gc.freeze()  # the loaded kernels live as long as the process
    done.set()


def kernels_in_use() -> "list[Kernel]":
    """List the kernels of the modules that are loaded."""
    from penstock.model.kernels.jit import Kernel  # noqa: PLC0415 - loads numba

    modules = [m for name, m in sorted(sys.modules.items()) if name.startswith(_KERNELS)]
    return [k for m in modules for k in vars(m).values() if isinstance(k, Kernel)]


def _stage(job: CompiledJob, stage: CompiledStage, folder: Path) -> None:
    from penstock.graph.assemble import assemble  # noqa: PLC0415 - loads numba
    from penstock.keyed_state.keyed_backend import KeyedStateBackend  # noqa: PLC0415 - loads numba

    groups = job.plan.max_key_groups
    everything = (Range(0, groups),)
    settings = job.spec.state
    state = KeyedStateBackend(settings, everything, groups) if stage.plan.keyed else None
    edges = [e for e in job.edges if e.plan.sender == stage.plan.index]
    rows: dict[int, list[pa.RecordBatch]] = {e.plan.index: [] for e in edges}
    emits: dict[tuple[str, int | str], Any] = {("edge", i): r.append for i, r in rows.items()}
    emits.update({("sink", name): _ignore for name in stage.plan.sinks})
    chain = assemble(stage, state, emits)
    for index, row in _entries(stage):
        chain.entry(index)(row)
    chain.on_watermark(0)
    for edge in (e for e in edges if not e.functions):
        for batch in rows[edge.plan.index]:
            _router(job, edge).pieces(batch)
    if state is not None:
        count = itertools.count()
        blobs = DirectoryBlobStore(folder)
        files = state.flip(Epoch(1)).write(lambda end: BlobName(f"{next(count)}{end}"), blobs)
        again = KeyedStateBackend(settings, everything, groups)
        assemble(stage, again, emits)
        again.load(files, blobs)
        again.close()
        state.close()


def _router(job: CompiledJob, edge: CompiledEdge) -> EdgeRouter:
    table = first_assignment(job.plan, _WORKERS, {})
    sender = TaskId(edge.plan.sender, Ordinal(0), 0)
    return EdgeRouter(routes(job.plan, edge.plan, sender, table, None), edge.keys)


def _entries(stage: CompiledStage) -> list[tuple[int, pa.RecordBatch]]:
    """Make one row for each side of the stage's input, and name an edge that could bring it."""
    first = stage.nodes[0]
    if isinstance(first.parameters, Source):
        return [(_NO_EDGE, _row(first.output_schema(MAIN), first.time))]
    if first.sides:
        return [(side.edges[0], _row(side.schema(), side.time)) for side in first.sides]
    return [(_NO_EDGE, _row(first.input_schema(), first.time))]


def _row(schema: pa.Schema, time: str | None) -> pa.RecordBatch:
    """Make one row of a schema: a text is one word; unknown types are null."""
    if time is not None:
        schema = schema.append(BOUND_FIELD)
    return pa.record_batch([_value(field.type) for field in schema], schema=schema)


def _value(kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array(["a"], kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.array([0], kind)
    if pa.types.is_timestamp(kind):
        return pa.array([0], pa.int64()).cast(kind)
    return pa.nulls(1, kind)


def _ignore(_: pa.RecordBatch) -> None:
    """Drop rows: there is no sink."""
