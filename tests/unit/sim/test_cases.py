"""What the two simulators run."""

from argparse import ArgumentTypeError

import pytest

from sim.kernel.cases import EVERY_RUN, parse_share


def test_shares_are_all_runs_each_once() -> None:
    runs = range(23)
    shares = [runs[parse_share(f"{first}/5")] for first in range(5)]
    assert sorted(run for share in shares for run in share) == list(runs)
    assert list(shares[3]) == [3, 8, 13, 18]
    assert runs[EVERY_RUN] == runs


@pytest.mark.parametrize("text", ["5/5", "-1/5", "1", "1/", "/5", "0/0", "a/b"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"{text} is not K/N, with K from 0 to N - 1"):
        parse_share(text)
