"""The example equipment on a few readings: edges, delays, alarms and trends that are computed by hand."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import penstock as ps
from penstock.graph.entrypoint import resolve

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
BITS = ("bm05", "bm06", "bm07", "bm08", "bm09", "bm10")
DAY = 86_400_000_000_000


@pytest.fixture
def equipment(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "equipment", raising=False)
    resolve("equipment:job", "here")
    return sys.modules["equipment"]


def ran(equipment: ModuleType, readings: list[tuple[int, str]], dead_letters: str = "") -> Any:
    """Run the job over readings, each of a time and six bits from bm05 to bm10."""
    rows = [{"ts": ts, **{bit: c == "1" for bit, c in zip(BITS, bits, strict=True)}} for ts, bits in readings]
    params = {"input": "in", "output": "out", "machines": "false", "dead_letters": dead_letters, "rate": "0"}
    return ps.run(equipment.job, params, inputs={"readings": rows}, collect=True)


def test_the_first_reading_is_no_change_and_a_newer_change_of_the_sensor_counts(equipment: ModuleType) -> None:
    result = ran(equipment, [(1, "100100"), (2, "000100"), (5, "100100"), (9, "100000"), (10, "110010")])
    found = [(row["sensor"], row["ts"], row["delay"]) for row in result["delays_out"]]
    assert sorted(found) == [("bm05", 9, 4), ("bm06", 10, 0)]


def test_alarms_and_trends_look_back_24_hours(equipment: ModuleType) -> None:
    changes = [(0, 100), (1000, 101), (2000, 104), (DAY - 2, 102)]
    bits = ["000000", "100000", "100100", "000100"]
    readings = [(-1, bits[0])]
    for n, (at, delay) in enumerate(changes):
        readings += [(at, bits[1 if n % 2 == 0 else 3]), (at + delay, bits[2 if n % 2 == 0 else 0])]
    result = ran(equipment, readings)
    # The first delay, at 100, is exactly 24 hours old at the fourth one, and no longer counts.
    assert [(r["delay"], r["oldest_delay"]) for r in result["alarms"]] == [(104, 100)]
    trends = result["trends"]
    assert [(r["count"], r["oldest_ts"]) for r in trends] == [(2, 100), (3, 100), (3, 1101)]
    assert trends[0]["slope"] == 1 / 1001
    assert trends[0]["intercept"] == 100
    t, d = [0, 1003, DAY + 100 - 1101], [101, 104, 102]
    slope = (3 * sum(x * y for x, y in zip(t, d, strict=True)) - sum(t) * sum(d)) / (
        3 * sum(x * x for x in t) - sum(t) ** 2
    )
    assert trends[2]["slope"] == slope


def test_a_time_that_goes_back_fails_the_job_or_is_a_dead_letter(equipment: ModuleType) -> None:
    readings = [(5, "000000"), (4, "111111"), (6, "000000")]
    with pytest.raises(ps.UserCodeError, match="time goes back from 5 to 4"):
        ran(equipment, readings)
    result = ran(equipment, readings, dead_letters="dead")
    assert result["delays_out"] == []
    assert [(r["ts"], r["error_step"]) for r in result["letters"]] == [(4, "edges")]


def test_a_valve_that_changes_alone_is_passed_over_or_a_dead_letter(equipment: ModuleType) -> None:
    readings = [(1, "000000"), (2, "000100"), (3, "000000")]
    assert ran(equipment, readings)["delays_out"] == []
    letters = ran(equipment, readings, dead_letters="dead")["letters"]
    assert [(r["ts"], r["error_step"]) for r in letters] == [(2, "delays"), (3, "delays")]
