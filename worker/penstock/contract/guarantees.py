"""What a sink promises, and why: the lowest level on its path. Pure.

    exactly-once     > effectively-once      > at-least-once           > none
    each row once      repeats of a key        repeats after a rollback  nothing is kept
                       overwrite each other

A path is no better than its source: one that cannot give the same rows again makes every sink behind it at-least-once.
Steps whose results may be others after a rollback (``varies``) leave an exactly-once sink as it is: nothing is visible
there before it is committed. Behind them, rows that an at-least-once sink repeats may be others.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum

from penstock.contract.codec import ABSENT
from penstock.contract.graph import LogicalGraph
from penstock.contract.plan import PhysicalPlan


class Guarantee(StrEnum):
    """How often a committed row is there, best first."""

    EXACTLY_ONCE = "exactly-once"
    EFFECTIVELY_ONCE = "effectively-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


_ORDER = tuple(Guarantee)


def lowest(levels: Collection[str]) -> str:
    """Return the lowest level. A word that is no level is one of a user's own sink, and counts as at-least-once."""
    return max(levels, key=_rank)


def _rank(level: str) -> int:
    known = level in tuple(Guarantee)
    return _ORDER.index(Guarantee(level) if known else Guarantee.AT_LEAST_ONCE)


def path_of(graph: LogicalGraph, sink: str) -> tuple[str, ...]:
    """Return the steps whose rows reach a sink, in the order of the graph."""
    wanted = {sink}
    for step in reversed(graph.steps):
        if step.name in wanted:
            wanted.update(entry.step for entry in step.inputs)
    return tuple(step.name for step in graph.steps if step.name in wanted and step.name != sink)


def varying_steps(plan: PhysicalPlan) -> tuple[str, ...]:
    """Name the steps whose results may be others after a rollback."""
    return tuple(name for stage in plan.stages if stage.varying is not ABSENT for name in stage.varying)


def guarantee_of(
    path: Collection[str], own: str, sources: Mapping[str, str], varying: Collection[str]
) -> tuple[str, str]:
    """Return the level of a sink with the level ``own``, and why it is below exactly-once; empty when it is not.

    ``sources`` says of each source that cannot give the same rows again why it cannot.
    """
    unsure = {name: sources[name] for name in path if sources.get(name)}
    level = lowest([own, *([Guarantee.AT_LEAST_ONCE] if unsure else [])])
    why = [f"the sink itself is {own}"] if _rank(own) else []
    why += [f"source {name!r}: {reason}" for name, reason in unsure.items()]
    others = ", ".join(name for name in path if name in varying)
    if others and _rank(level):
        why.append(f"after a rollback it may get other rows of {others}")
    return level, "; ".join(why)
