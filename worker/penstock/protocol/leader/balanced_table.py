"""The table whose key groups are dealt out by load: a function of another table and of a root manifest."""

from penstock.base.limits import BALANCED_STEPS_MAX
from penstock.base.values import replace
from penstock.contract.balance import Balance, StepBalance, balance_of_step, by_load
from penstock.contract.manifest import RootManifest
from penstock.contract.plan import Assignment, PhysicalPlan


def balanced(plan: PhysicalPlan, table: Assignment, root: RootManifest | None, nonce: int) -> Assignment:
    """Return ``table`` with the key groups of each keyed stage dealt out by the rows that ``root`` counts."""
    stages, said = list(table.stages), list[StepBalance]()
    for stage in plan.stages:
        shares, rows = stages[stage.index].shares, _rows(root, stage.name, plan.max_key_groups)
        if shares and any(rows):
            new = by_load(shares, rows)
            stages[stage.index] = replace(stages[stage.index], shares=new)
            said.append(balance_of_step(stage.name, shares, new, rows))
    said.sort(key=lambda step: -step.moved)
    return replace(table, stages=tuple(stages), balance=Balance(nonce, tuple(said[:BALANCED_STEPS_MAX])))


def _rows(root: RootManifest | None, step: str, groups: int) -> list[int]:
    """Return how many rows went to each key group of a step, from all tasks."""
    rows = [0] * groups
    if root is None or root.max_key_groups != groups:
        return rows
    for task in root.tasks:
        for load in task.load or ():
            if load.step == step:
                for group, count in zip(load.groups, load.rows, strict=True):
                    rows[group] += count
    return rows
