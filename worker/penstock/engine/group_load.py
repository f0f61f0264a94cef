"""Counts how many rows a task sends to each key group of a step: the load by which key groups are dealt out again."""

import numpy as np

from penstock.base.limits import LOAD_GROUPS_MAX
from penstock.contract.manifest import GroupRows
from penstock.model.arrays import Int64s


class GroupLoad:
    """``rows`` has one number for each key group of ``step``. The router adds to it."""

    def __init__(self, step: str, groups: int) -> None:
        """Begin with no rows."""
        self.rows: Int64s = np.zeros(groups, np.int64)
        self._step = step

    def take(self) -> tuple[GroupRows, ...]:
        """Return the rows since the last call, of the heaviest ``LOAD_GROUPS_MAX`` groups. Empty without rows."""
        order = np.argsort(-self.rows, kind="stable")[:LOAD_GROUPS_MAX]
        groups = np.sort(order[self.rows[order] > 0])
        found = GroupRows(self._step, tuple(groups.tolist()), tuple(self.rows[groups].tolist()))
        self.rows[:] = 0
        return (found,) if found.groups else ()
