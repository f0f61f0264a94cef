"""The search for bad rows with few calls, and how many rows are tried in one call."""

from math import log2

import pytest

from penstock.steps.fault_search import CallCost, Search


def look(rows: int, bad: set[int], most: int) -> tuple[list[int], list[range]]:
    """Search for bad rows. Returns them and the ranges that were tried."""
    search, found, tried = Search(rows), [], []
    while not search.over:
        one = range(search.at, search.at + search.next(most))
        tried.append(one)
        if bad.intersection(one):
            search.failed(len(one))
            found += [one[0]] if len(one) == 1 else []
        else:
            search.passed(len(one))
    return found, tried


@pytest.mark.parametrize("bad", [0, 1, 4095, 4096, 5000, 8191])
def test_finding_one_bad_row_costs_a_logarithmic_number_of_calls(bad: int) -> None:
    found, tried = look(8192, {bad}, 8192)
    assert found == [bad]
    assert len(tried) <= log2(8192) + 3


def test_rows_after_a_bad_row_are_tried_when_it_is_known() -> None:
    found, tried = look(1000, {300}, 1000)
    assert found == [300]
    behind = [r for r in tried if r[0] > 300]
    assert behind == [range(301, 1000)]
    assert tried.index(behind[0]) == len(tried) - 1


def test_rows_that_passed_are_never_tried_again() -> None:
    bad = {3, 4, 77, 500, 999}
    found, tried = look(1000, bad, 1000)
    assert found == sorted(bad)
    passed = [row for r in tried if not bad.intersection(r) for row in r]
    assert len(passed) == len(set(passed)) == 1000 - len(bad)


def test_rows_that_fail_only_in_one_call_are_reported_as_passed_separately() -> None:
    search = Search(8)
    search.failed(search.next(8))
    assert [search.passed(search.next(8)) for _ in range(4)] == [False, False, False, True]
    assert search.over


def test_the_rarer_bad_rows_are_the_more_rows_are_tried_at_once() -> None:
    pace = CallCost()
    assert pace.most(8192) == 8192, "nothing was at fault yet"
    pace.refused(8192, guessed=False)
    rare = pace.most(8192)
    assert 300 < rare < 2000
    for _ in range(60):
        pace.refused(8192, guessed=False)
    assert pace.most(8192) == 1, "all are at fault: each alone"
    pace.passed(10_000_000)
    assert pace.most(8192) == 8192, "none has been for long"


def test_more_rows_are_tried_at_once_if_calls_are_expensive_or_rows_are_guessed() -> None:
    paces = CallCost(), CallCost(), CallCost()
    for pace, row_s in zip(paces, (4e-7, 2e-8, 2e-8), strict=True):
        pace.refused(8192, guessed=pace is paces[2])
        for _ in range(20):
            pace.took(1, 4e-5)
            pace.took(1000, 4e-5 + 1000 * row_s)
    loop, kernel, guessed = (pace.most(8192) for pace in paces)
    assert 600 < loop < 900
    assert 3000 < kernel < guessed <= 8192


def test_absurd_measured_times_keep_the_choice_within_bounds() -> None:
    for one_s, many_s in ((0.0, 100.0), (100.0, 0.0), (0.0, 0.0)):
        pace = CallCost()
        pace.refused(8192, guessed=True)
        for _ in range(20):
            pace.took(1, one_s)
            pace.took(1000, many_s)
        assert 300 < pace.most(8192) < 8192
