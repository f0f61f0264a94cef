"""The assignment of an attempt: the checkpoint's table where it fits the plan, else a new one.

A table numbers stages. It stays when every stage keeps the same state with the same number of
tasks: then no file and no split moves to another worker. State is found by the names of steps in
any case. So a new table is never wrong, only slower to load.
"""

from penstock.contract.control_messages import StageSplits
from penstock.contract.ids import SplitId, StageIndex
from penstock.contract.manifest import RootManifest
from penstock.contract.plan import SINK, Assignment, PhysicalPlan, first_assignment, stage_tasks
from penstock.protocol.state_entries import all_splits_of
from penstock.protocol.state_matching import known, sources_to_list


def table_of(root: RootManifest, plan: PhysicalPlan) -> Assignment | None:
    """Return the table of a checkpoint if it holds under the plan too, else None."""
    table, then = root.assignment, known(root, plan)
    had = [s.step for s in then.states if s.kind != SINK]
    has = [s.step for s in plan.states if s.kind != SINK]
    if len(then.steps) != len(plan.stages) or len(table.stages) != len(plan.stages):
        return None
    for stage, names, dealt in zip(plan.stages, then.steps, table.stages, strict=True):
        same = {n for n in names if n in had} == {n for n in stage.steps if n in has}
        if not same or dealt.tasks != stage_tasks(stage, table.workers):
            return None
        if bool(dealt.shares) != stage.keyed or bool(dealt.splits) != (stage.source is not None):
            return None
    return table


def stages_to_list(root: RootManifest | None, plan: PhysicalPlan) -> tuple[StageIndex, ...]:
    """Return the stages of the sources whose splits no checkpoint knows."""
    sources = sources_to_list(root, plan)
    return tuple(s.index for s in plan.stages if s.source in sources)


def deal_anew(
    root: RootManifest | None, plan: PhysicalPlan, workers: int, listed: tuple[StageSplits, ...]
) -> Assignment:
    """Return a new table for all groups and splits: the stored splits and the ``listed`` ones."""
    return first_assignment(plan, workers, _splits(root, plan, listed))


def deals_all(
    table: Assignment,
    root: RootManifest | None,
    plan: PhysicalPlan,
    listed: tuple[StageSplits, ...],
) -> bool:
    """Return whether a table of this plan has exactly the splits of ``root`` and of ``listed``."""
    for stage, names in _splits(root, plan, listed).items():
        if {n for task in table.stages[stage].splits for n in task} != set(names):
            return False
    return True


def _splits(
    root: RootManifest | None, plan: PhysicalPlan, listed: tuple[StageSplits, ...]
) -> dict[StageIndex, tuple[SplitId, ...]]:
    """Return the splits of every source stage, in the order in which they are dealt out."""
    wanted = stages_to_list(root, plan)
    names = {s.stage: tuple(x.split for x in s.splits) for s in listed if s.stage in wanted}
    for stage in plan.stages:
        if stage.source is not None and root is not None and stage.index not in wanted:
            names[stage.index] = tuple(all_splits_of(root, plan, stage.source))
    return names
