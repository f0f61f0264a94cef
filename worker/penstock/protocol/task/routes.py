"""The routes of an edge: which channel receives what, under the assignment that holds and the next.

The tables are small and pure. The engine turns them into arrays; the simulation looks them up. The
table of a key edge has one entry per key group. The table of a custom edge lists the receivers of
each version. The table of any other edge lists the receivers of both versions: each entry says which
of them is there before and after.
"""

from dataclasses import dataclass

from penstock.contract.ids import ChannelId, TaskId
from penstock.contract.keygroups import groups_of
from penstock.contract.plan import Assignment, EdgePlan, Partitioning, PhysicalPlan

Receivers = tuple[ChannelId | None, ...]


@dataclass(frozen=True, slots=True)
class Routes:
    """One edge of one sender: ``old[i]`` and ``new[i]`` receive the rows of entry i.

    Outside a rescale both are the same object. None: that version has no such receiver.
    """

    edge: EdgePlan
    old: Receivers
    new: Receivers


def routes(plan: PhysicalPlan, edge: EdgePlan, sender: TaskId, old: Assignment, new: Assignment | None) -> Routes:
    """Build the routes of ``sender`` over ``edge``; ``new`` is None outside a rescale."""
    before = _receivers(plan, edge, sender, old)
    if new is None:
        return Routes(edge, before, before)
    after = _receivers(plan, edge, sender, new)
    if sender not in new.tasks():
        after = ()  # a task that leaves holds all rows, because the rescale may be aborted
    if edge.partitioning in {Partitioning.KEY, Partitioning.CUSTOM}:
        return Routes(edge, before, after or (None,) * len(before))
    everyone = list(dict.fromkeys(before + after))
    return Routes(
        edge,
        tuple(c if c in before else None for c in everyone),
        tuple(c if c in after else None for c in everyone),
    )


def _receivers(plan: PhysicalPlan, edge: EdgePlan, sender: TaskId, assignment: Assignment) -> Receivers:
    stage = assignment.stages[edge.receiver]
    channels = [ChannelId(edge.index, sender, task) for task in stage.tasks]
    match edge.partitioning:
        case Partitioning.KEY:
            table: list[ChannelId | None] = [None] * plan.max_key_groups
            for channel, share in zip(channels, stage.shares, strict=True):
                for group in groups_of(share):
                    table[group] = channel
            assert None not in table, f"edge {edge.index}: a key group without an owner"
            return tuple(table)
        case Partitioning.FORWARD:
            mine = TaskId(edge.receiver, sender.worker, sender.slot)
            return tuple(c for c in channels if c.receiver == mine)
        case _:
            return tuple(channels)
