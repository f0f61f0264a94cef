"""Shares always partition the key groups, stay balanced, and move as little as they can."""

import pytest

from penstock.contract.keygroups import (
    Range,
    Share,
    first_shares,
    groups_of,
    intersect,
    rebalance,
    share_size,
    subtract,
    to_share,
)


def moved(before: tuple[Share, ...], after: tuple[Share, ...], keep: list[int | None]) -> int:
    """Count the groups that a new owner gained."""
    gained = 0
    for share, old in zip(after, keep, strict=True):
        held = before[old] if old is not None else ()
        gained += share_size(subtract(share, held))
    return gained


def test_three_workers_share_256_groups_as_published() -> None:
    assert first_shares(256, 3) == ((Range(0, 86),), (Range(86, 171),), (Range(171, 256),))


@pytest.mark.parametrize("groups", [1, 2, 7, 64, 255, 256])
def test_first_shares_partition_and_balance(groups: int) -> None:
    for owners in range(1, groups + 3):
        shares = first_shares(groups, owners)
        assert [g for s in shares for g in groups_of(s)] == list(range(groups))
        sizes = [share_size(s) for s in shares]
        assert max(sizes) - min(sizes) <= 1


def test_a_chain_of_rescales_partitions_balances_and_moves_least() -> None:
    shares = first_shares(256, 2)
    owners = 2
    for target in (3, 5, 4, 1, 7, 2, 16, 3):
        keep = [i if i < owners else None for i in range(target)]
        after = rebalance(shares, keep)
        assert sorted(g for s in after for g in groups_of(s)) == list(range(256))
        sizes = [share_size(s) for s in after]
        assert max(sizes) - min(sizes) <= 1
        stayed = sorted((share_size(shares[i]) for i in range(min(owners, target))), reverse=True)
        quota = [256 // target + (1 if i < 256 % target else 0) for i in range(target)]
        possible = sum(min(have, want) for have, want in zip(stayed, quota, strict=False))
        assert moved(shares, after, keep) == 256 - possible, f"{owners} -> {target}"
        shares, owners = after, target


def test_two_to_three_moves_a_third() -> None:
    before = first_shares(256, 2)
    after = rebalance(before, [0, 1, None])
    assert moved(before, after, [0, 1, None]) == 85


def test_shares_pack_subtract_and_intersect() -> None:
    share = to_share([5, 3, 4, 9])
    assert share == (Range(3, 6), Range(9, 10))
    assert subtract(share, (Range(4, 10),)) == (Range(3, 4),)
    assert intersect(share, (Range(4, 10),)) == (Range(4, 6), Range(9, 10))


def test_a_group_listed_twice_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="listed twice"):
        to_share([1, 1])


def test_an_empty_range_is_a_defect() -> None:
    with pytest.raises(ValueError, match="bad key-group range"):
        Range(4, 4)
