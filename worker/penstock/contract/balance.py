"""Balance: key groups are dealt out again by how many rows go to them.

A request to balance has a number. The table of a version (:class:`penstock.contract.plan.Assignment`) says which
request it answers, and so does the object of the job once the version is committed. The functions here are pure: every
leader makes the same table.
"""

from collections.abc import Iterable, Sequence

from penstock.contract.codec import Message
from penstock.contract.keygroups import Share, groups_of, to_share

GAIN_PARTS = 20  # groups move only if the busiest task gets lighter by this part of an equal share


class StepBalance(Message, tag="StepBalance"):
    """How the key groups of a step were dealt out: ``moved`` of them have another owner.

    Of the ``rows`` between two checkpoints, ``before`` went to the busiest task. With the new owners it is ``after``.
    """

    step: str
    moved: int
    rows: int
    before: int
    after: int

    def __str__(self) -> str:
        """Spell it for people, in percent of the rows."""
        now = f"its busiest task has {_percent(self.after, self.rows)} of the rows"
        if not self.moved:
            return f"{self.step}: no key group moved, {now}"
        groups = "1 key group" if self.moved == 1 else f"{self.moved} key groups"
        return f"{self.step}: {groups} moved, {now} instead of {_percent(self.before, self.rows)}"


_NOTHING_TO_MOVE = "no key group moved: each step has one task, or the last checkpoint counted no rows with keys"


class Balance(Message, tag="Balance"):
    """What came of the request ``nonce``, for each step whose rows were counted."""

    nonce: int
    steps: tuple[StepBalance, ...] = ()

    @property
    def moved(self) -> int:
        """Return how many key groups have another owner."""
        return sum(step.moved for step in self.steps)

    def __str__(self) -> str:
        """Spell it for people."""
        return "; ".join(map(str, self.steps)) or _NOTHING_TO_MOVE


def _percent(part: int, rows: int) -> str:
    return f"{100 * part / rows:.0f} %"


def by_load(shares: Sequence[Share], rows: Sequence[int]) -> tuple[Share, ...]:
    """Return shares that are more even by ``rows[group]``; the same ones if that does not gain enough.

    Each owner keeps its groups, heaviest first, up to an equal share of all rows. What is left goes, heaviest first, to
    the owner with least rows. One group that is heavier than an equal share stays where it is, and so do groups without
    rows.
    """
    equal = -(-sum(rows) // len(shares))
    held: list[list[int]] = []
    free: list[int] = []
    for share in shares:
        kept, load = [], 0
        for group in _heaviest(groups_of(share), rows):
            if load == 0 or rows[group] == 0 or load + rows[group] <= equal:
                kept.append(group)
                load += rows[group]
            else:
                free.append(group)
        held.append(kept)
    loads = [sum(rows[group] for group in kept) for kept in held]
    for group in _heaviest(free, rows):
        least = loads.index(min(loads))
        held[least].append(group)
        loads[least] += rows[group]
    gained = max(loads_of(shares, rows)) - max(loads)
    return tuple(map(to_share, held)) if gained * GAIN_PARTS >= max(equal, 1) else tuple(shares)


def loads_of(shares: Iterable[Share], rows: Sequence[int]) -> list[int]:
    """Return how many rows go to each share."""
    return [sum(rows[group] for group in groups_of(share)) for share in shares]


def balance_of_step(step: str, old: Sequence[Share], new: Sequence[Share], rows: Sequence[int]) -> StepBalance:
    """Say what the shares ``new`` change for the same owners."""
    kept = sum(len(set(groups_of(a)) & set(groups_of(b))) for a, b in zip(old, new, strict=True))
    return StepBalance(step, len(rows) - kept, sum(rows), max(loads_of(old, rows)), max(loads_of(new, rows)))


def _heaviest(groups: Iterable[int], rows: Sequence[int]) -> list[int]:
    return sorted(groups, key=lambda group: (-rows[group], group))
