from typing import Any

import pytest

from bench.variants import compare

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
