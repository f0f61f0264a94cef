"""Do two things differ? Ratios of paired measurements, with an interval and a verdict.

The two runs of a pair follow each other, so the ratio does not depend on the speed of the machine at
that time. Ratios are used as logarithms: twice as fast and half as fast are equally far from 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median, stdev

from scipy.stats import tukey_hsd

PAIRS_MIN = 3
# Student's t, two-sided 95 %, for 1, 2, 3 ... degrees of freedom.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
)  # fmt: skip
_T95_MANY = 2.086  # for more pairs; the interval is then slightly too wide, never too narrow


@dataclass(frozen=True, slots=True)
class Ratio:
    """The geometric mean of ``pairs`` ratios, its 95 % interval, and the extremes."""

    mean: float
    low: float
    high: float
    least: float
    most: float
    pairs: int

    @property
    def differs(self) -> bool:
        """Return whether 1 is outside the interval. For two equal programs this happens one time in twenty."""
        return not self.low <= 1.0 <= self.high

    def verdict(self) -> str:
        """Return the verdict as text."""
        if self.pairs < PAIRS_MIN:
            return f"{self.pairs} pairs are too few to say"
        percent = f"{100 * (self.mean - 1):+.1f} %"
        if self.differs:
            return f"differs beyond noise: {percent}"
        smallest = 100 * (math.sqrt(self.high / self.low) - 1)
        return f"no difference beyond noise ({percent}; below {smallest:.1f} % none would be seen)"

    def __str__(self) -> str:
        """Return the mean and its interval as text."""
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def paired(base: Sequence[float], other: Sequence[float]) -> Ratio:
    """Return how many times ``other`` is ``base``; item i of both was measured together.

    Raises ValueError for sequences that are empty, of unequal length, or not above zero.
    """
    if not base or len(base) != len(other) or min(*base, *other) <= 0:
        raise ValueError("pairs of figures above zero are needed")
    logs = [math.log(b / a) for a, b in zip(base, other, strict=True)]
    middle = fmean(logs)
    half = _half_width(logs)
    return Ratio(
        math.exp(middle),
        math.exp(middle - half),
        math.exp(middle + half),
        math.exp(min(logs)),
        math.exp(max(logs)),
        len(logs),
    )


def _half_width(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.inf
    freedom = len(values) - 1
    t = _T95[freedom - 1] if freedom <= len(_T95) else _T95_MANY
    return t * stdev(values) / math.sqrt(len(values))


def tukey(groups: Mapping[str, Sequence[float]]) -> list[tuple[str, str, float]]:
    """Return for every two groups the p-value of Tukey's honestly significant difference.

    It uses logarithms, as all ratios here, and corrects for the number of pairs of groups. Empty if
    a group has fewer than two values.
    """
    if min(map(len, groups.values()), default=0) < 2:
        return []
    found = tukey_hsd(*([math.log(value) for value in values] for values in groups.values()))
    pairs = combinations(enumerate(groups), 2)
    return [(a, b, round(float(found.pvalue[i, j]), 6)) for (i, a), (j, b) in pairs]


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile by nearest rank: ``percent`` of all values are not larger."""
    if not values:
        raise ValueError("no values")
    rank = max(1, math.ceil(percent / 100 * len(values)))
    return sorted(values)[rank - 1]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the smallest value, the median and the largest value."""
    return min(values), median(values), max(values)
