"""Key groups and their shares: balanced at first, and moved as little as possible later.

A share is a sorted tuple of half-open, non-adjacent ranges. The functions here are pure and
deterministic: every worker computes the same table from the same input.
"""

from collections.abc import Iterable, Sequence

from penstock.contract.codec import Message


class Range(Message, tag="Range", order=True):
    """Half-open range of key groups: ``start <= group < stop``."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        """Refuse an empty or negative range; shares never contain one."""
        if not 0 <= self.start < self.stop:  # an error of the reader where one was read
            raise ValueError(f"bad key-group range [{self.start},{self.stop})")

    def __len__(self) -> int:
        """Count the groups of the range."""
        return self.stop - self.start

    def __str__(self) -> str:
        """Spell the range as ``[start,stop)``."""
        return f"[{self.start},{self.stop})"


Share = tuple[Range, ...]


def share_size(share: Share) -> int:
    """Count the groups of a share."""
    return sum(len(r) for r in share)


def groups_of(share: Share) -> list[int]:
    """List the groups of a share in rising order."""
    return [group for r in share for group in range(r.start, r.stop)]


def to_share(groups: Iterable[int]) -> Share:
    """Pack groups (any order, no repeats) into sorted, non-adjacent ranges."""
    ranges: list[Range] = []
    for group in sorted(groups):
        if ranges and ranges[-1].stop == group:
            ranges[-1] = Range(ranges[-1].start, group + 1)
        else:
            assert not ranges or ranges[-1].stop < group, f"group {group} is listed twice"
            ranges.append(Range(group, group + 1))
    return tuple(ranges)


def subtract(share: Share, other: Share) -> Share:
    """Return the groups of ``share`` that ``other`` does not have."""
    gone = set(groups_of(other))
    return to_share(g for g in groups_of(share) if g not in gone)


def intersect(share: Share, other: Share) -> Share:
    """Return the groups that both shares have."""
    kept = set(groups_of(other))
    return to_share(g for g in groups_of(share) if g in kept)


def first_shares(groups: int, owners: int) -> tuple[Share, ...]:
    """Split ``groups`` into contiguous shares, the larger ones first.

    256 groups on 3 owners are [0,86) [86,171) [171,256). With more owners than groups the last
    shares are empty.
    """
    assert groups >= 1
    assert owners >= 1
    size, larger = divmod(groups, owners)
    shares: list[Share] = []
    start = 0
    for owner in range(owners):
        stop = start + size + (1 if owner < larger else 0)
        shares.append((Range(start, stop),) if stop > start else ())
        start = stop
    return tuple(shares)


def rebalance(shares: Sequence[Share], keep: Sequence[int | None]) -> tuple[Share, ...]:
    """Share all groups of ``shares`` among ``len(keep)`` owners, moving as few as possible.

    ``keep[i]`` is the index in ``shares`` of the share that new owner i held before, or None for
    a joiner. Sizes differ by at most one. A survivor gives up groups only when it has more than
    its quota, from its highest; what is free goes, lowest first, to owners in order.
    """
    held = [groups_of(shares[old]) if old is not None else [] for old in keep]
    kept_by_someone = {old for old in keep if old is not None}
    free = [g for i, s in enumerate(shares) if i not in kept_by_someone for g in groups_of(s)]
    quotas = _quotas([len(h) for h in held], sum(share_size(s) for s in shares))
    for owner, quota in enumerate(quotas):
        free += held[owner][quota:]
        held[owner] = held[owner][:quota]
    free.sort()
    taken = 0
    for owner, quota in enumerate(quotas):
        missing = quota - len(held[owner])
        held[owner] += free[taken : taken + missing]
        taken += missing
    assert taken == len(free), "every free group has an owner"
    return tuple(to_share(h) for h in held)


def _quotas(sizes: Sequence[int], total: int) -> list[int]:
    """Give the larger quotas to the owners that hold most. Each of them saves one move."""
    size, larger = divmod(total, len(sizes))
    by_size = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    quotas = [size] * len(sizes)
    for owner in by_size[:larger]:
        quotas[owner] += 1
    return quotas
