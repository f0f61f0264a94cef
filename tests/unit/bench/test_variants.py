from typing import Any

import pytest

from bench.variants import compare, judge

TWO = [{"name": "none"}, {"name": "lz4"}]


def run(name: str, rate: float) -> dict[str, Any]:
    return {"name": name, "results": {"rows_per_s": rate}}


def test_each_cell_is_compared_for_itself() -> None:
    runs = [
        run(f"compression symbols={symbols}/{name}", rate)
        for _ in range(3)
        for symbols, name, rate in [
            (2, "none", 1.0),
            (2, "lz4", 3.0),
            (94, "none", 4.0),
            (94, "lz4", 2.0),
        ]
    ]
    few, many = compare(runs, TWO)
    assert (few["cell"], many["cell"]) == ("compression symbols=2", "compression symbols=94")
    assert few["ratio"] == pytest.approx(3.0)
    assert many["ratio"] == pytest.approx(0.5)
    assert few["pairs"] == many["pairs"] == 3


def test_one_cell_is_not_named() -> None:
    (only,) = compare([run("cost/none", 2.0), run("cost/lz4", 1.0)], TWO)
    assert "cell" not in only
    assert only["ratio"] == pytest.approx(0.5)


def test_runs_are_paired_by_their_turn_and_one_without_a_rate_has_no_pair() -> None:
    runs = [run("c/none", rate) for rate in (1.0, 0.0, 4.0, 5.0)]
    runs += [run("c/lz4", rate) for rate in (2.0, 9.0, 8.0)]
    (found,) = compare(runs, TWO)
    assert (found["ratio"], found["pairs"]) == (pytest.approx(2.0), 2)
    (judged,) = judge(runs, TWO, "lz4")
    assert (judged["ratio"], judged["pairs"]) == (pytest.approx(2.0), 2)
    assert judge(runs[:4], TWO, "lz4") == []
    assert judge([run("c/none", 0.0), run("c/lz4", 1.0)], TWO, "lz4") == []


def test_a_variant_is_judged_by_the_better_one_of_the_others() -> None:
    rates = {"none": [10.0, 10.1, 9.9], "lz4": [5.0, 5.1, 4.9], "auto": [9.8, 9.9, 9.7]}
    runs = [run(f"c data=x/{name}", r) for n in range(3) for name, of in rates.items() for r in [of[n]]]
    (found,) = judge(runs, [{"name": name} for name in rates], "auto")
    assert (found["base"], found["other"], found["cell"]) == ("none", "auto", "c data=x")
    assert found["ratio"] == pytest.approx(0.98, abs=0.001)
    sure = {(a, b): p < 0.05 for a, b, p in found["tukey"]}
    assert sure == {("none", "lz4"): True, ("none", "auto"): False, ("lz4", "auto"): True}
