"""The checker of balances.

B  each request has one answer. It says how many key groups have another owner, and what a committed checkpoint counts.
   A version of a running attempt that answers none leaves them where they are, if the tasks of the stage are the same
"""

from collections import Counter

from penstock.contract.balance import Balance
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.ids import TaskId
from penstock.contract.keygroups import groups_of
from penstock.contract.manifest import RootManifest
from penstock.contract.plan import Assignment
from sim.kernel.kernel import Violation


class BalanceChecker:
    """It counts for itself, by task and not by share, what goes to the tasks of a table."""

    def __init__(self) -> None:
        self._counts: list[dict[str, Counter[int]]] = []  # of each checkpoint, by step and key group
        self._last = 0

    def committed(self, root: RootManifest) -> None:
        """Remember what a checkpoint counts."""
        counts: dict[str, Counter[int]] = {}
        for task in root.tasks:
            for load in task.load or ():
                counts.setdefault(load.step, Counter()).update(dict(zip(load.groups, load.rows, strict=True)))
        self._counts.append(counts)

    def check(self, balance: Balance | Absent, before: Assignment, table: Assignment) -> None:
        """Check a new answer. ``before`` held, and ``table`` holds now. Raises Violation."""
        if balance is ABSENT or balance.nonce <= self._last:
            raise Violation("B", f"the answer to request {self._last} to balance became {balance}")
        self._last = balance.nonce
        if before.workers == table.workers and (moved := _moved(before, table)) != balance.moved:
            raise Violation("B", f"{moved} key groups moved, but the answer is {balance}")
        keyed = [stage for stage in table.stages if stage.shares]
        for step in balance.steps:
            if step.after > step.before:
                raise Violation("B", f"the busiest task of {step.step} got {step.after} rows, not {step.before}")
            if not any(
                (step.rows, step.after) == (counts[step.step].total(), _busiest(counts[step.step], table, stage.tasks))
                for counts in self._counts
                if step.step in counts
                for stage in keyed
            ):
                raise Violation("B", f"no checkpoint counts what is said of {step}")

    def check_kept(self, before: Assignment, table: Assignment) -> None:
        """Check a new version that answers no request. Raises Violation."""
        for old, new in zip(before.stages, table.stages, strict=False):
            if old.tasks == new.tasks and old.shares != new.shares:
                raise Violation("B", f"key groups of stage {new.stage} moved, and nobody has asked for that")


def _busiest(counts: Counter[int], table: Assignment, tasks: tuple[TaskId, ...]) -> int:
    return max(sum(counts[group] for group in groups_of(table.share_of(task))) for task in tasks)


def _moved(before: Assignment, table: Assignment) -> int:
    old, new = _owners(before), _owners(table)
    return sum(new[group] != owner for group, owner in old.items())


def _owners(table: Assignment) -> dict[tuple[int, int], TaskId]:
    return {(task.stage, group): task for task in table.tasks() for group in groups_of(table.share_of(task))}
