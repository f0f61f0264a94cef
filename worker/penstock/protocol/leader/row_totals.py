"""The number of rows that a checkpoint stands for: rows read by each source, rows written by each sink.

The offset of a split is the number of its rows that were read. A sink's rows are in its handles.
A committed manifest lists the handles that are new with it, and their rows are added to the count
of the manifest before.
"""

from collections.abc import Sequence

from penstock.contract.manifest import RootManifest, StepRows, TaskManifest
from penstock.contract.plan import PhysicalPlan


def total_rows(before: RootManifest | None, plan: PhysicalPlan, tasks: Sequence[TaskManifest]) -> tuple[StepRows, ...]:
    """Count the rows of every source, then of every sink, in the order of the plan.

    ``before`` is the checkpoint before this one, and ``tasks`` are the manifests of this one. A
    handle that ``before`` lists is not counted again.
    """
    sources = {s.index: s.source for s in plan.stages if s.source is not None}
    read = dict.fromkeys(sources.values(), 0)
    written = {sink: 0 for stage in plan.stages for sink in stage.sinks}
    counted = set()
    if before is not None:
        written.update((r.step, r.rows) for r in before.rows if r.step in written)
        counted = {handle for task in before.tasks for handle in task.handles}
    for task in tasks:
        if task.task.stage in sources:
            read[sources[task.task.stage]] += sum(split.offset for split in task.splits)
        for handle in task.handles:
            if handle not in counted and handle.sink in written:
                written[handle.sink] += handle.rows
    return tuple(StepRows(step, rows) for step, rows in (*read.items(), *written.items()))
