import math

import pytest

from bench.stats import paired, percentile, tukey
from bench.variants import compare


def test_a_constant_ratio_has_an_interval_of_no_width() -> None:
    base = [1.0, 5.0, 0.3, 2.0, 9.0]
    ratio = paired(base, [2 * x for x in base])
    assert ratio.mean == pytest.approx(2.0)
    assert (ratio.low, ratio.high) == pytest.approx((2.0, 2.0))
    assert ratio.differs
    assert ratio.verdict() == "differs beyond noise: +100.0 %"


def test_the_interval_is_students_over_the_logarithms() -> None:
    logs = [0.0, 0.1, 0.2, 0.3, 0.4]
    ratio = paired([1.0] * 5, [math.exp(x) for x in logs])
    half = 2.776 * math.sqrt(0.025) / math.sqrt(5)
    assert math.log(ratio.mean) == pytest.approx(0.2)
    assert math.log(ratio.low) == pytest.approx(0.2 - half)
    assert math.log(ratio.high) == pytest.approx(0.2 + half)
    assert (ratio.least, ratio.most) == pytest.approx((1.0, math.exp(0.4)))


def test_noise_is_no_difference_and_the_smallest_visible_one_is_reported() -> None:
    ratio = paired([1.0, 1.0, 1.0, 1.0], [1.1, 0.9, 1.05, 0.96])
    assert not ratio.differs
    assert "no difference beyond noise" in ratio.verdict()
    assert "% none would be seen" in ratio.verdict()


def test_exchanging_the_two_things_inverts_the_ratio() -> None:
    a, b = [3.0, 2.9, 3.3], [2.0, 2.2, 2.1]
    there, back = paired(a, b), paired(b, a)
    assert there.mean * back.mean == pytest.approx(1.0)
    assert there.low * back.high == pytest.approx(1.0)


@pytest.mark.parametrize("pairs", [1, 2])
def test_too_few_pairs_give_no_verdict(pairs: int) -> None:
    assert paired([1.0] * pairs, [5.0] * pairs).verdict() == f"{pairs} pairs are too few to say"


@pytest.mark.parametrize("bad", [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0])])
def test_values_that_make_no_pairs_are_refused(bad: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="pairs"):
        paired(*bad)


def test_percentiles_are_values_that_occurred() -> None:
    values = [float(n) for n in range(20, 0, -1)]
    assert percentile(values, 95) == 19.0
    assert percentile(values, 50) == 10.0
    assert percentile(values, 100) == 20.0
    assert percentile([7.0], 95) == 7.0


def test_variants_are_compared_run_by_run_with_the_first() -> None:
    rates = [("s/on", 90.0), ("s/off", 100.0), ("s/off", 50.0), ("s/on", 45.0)]
    runs = [{"name": n, "results": {"rows_per_s": r}} for n, r in [*rates, *rates]]
    (found,) = compare(runs, [{"name": "off"}, {"name": "on"}])
    assert (found["base"], found["other"], found["pairs"]) == ("off", "on", 4)
    assert found["ratio"] == pytest.approx(0.9)
    assert found["base_spread"] == (50.0, 75.0, 100.0)


def test_tukeys_test_corrects_for_the_number_of_pairs() -> None:
    a, b = [math.exp(x) for x in (0.0, 0.1, 0.2)], [math.exp(x) for x in (0.22, 0.32, 0.42)]
    ((_, _, alone),) = tukey({"a": a, "b": b})
    among = {(x, y): p for x, y, p in tukey({"a": a, "b": b, "c": a, "d": a})}
    assert alone == pytest.approx(0.0543, abs=0.001)  # of Student's t, too: two groups
    assert among["a", "b"] > alone
    assert among["a", "c"] == pytest.approx(1.0)
    assert tukey({"a": [1.0], "b": [2.0]}) == []
