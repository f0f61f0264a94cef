"""The example linear_road on a few cars: a toll, an accident and answers that are computed by hand."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.graph.entrypoint import resolve

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("Type", "Time", "VID", "Spd", "XWay", "Lane", "Dir", "Seg", "Pos", "QID", "Day")


@pytest.fixture
def linear_road(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "linear_road", raising=False)
    resolve("linear_road:job", "here")
    return sys.modules["linear_road"]


def row(kind: int, time: int, vid: int, segment: int = -1, speed: int = 30, **other: int) -> dict[str, int]:
    plain = {"XWay": 0, "Lane": 1, "Dir": 0, "QID": -1, "Day": -1, "Pos": segment * 5280 + vid}
    return (
        dict.fromkeys(NAMES, 0) | plain | {"Type": kind, "Time": time, "VID": vid, "Seg": segment, "Spd": speed} | other
    )


def ran(linear_road: ModuleType, rows: list[dict[str, int]], **params: str) -> Any:
    parameters = {
        "input": "in",
        "output": "out",
        "history": "",
        "dead_letters": "",
        "disorder": "0s",
        "rate": "0",
    } | params
    return ps.run(linear_road.job, parameters, inputs={"rows": rows}, collect=True)


def crowd(cars: int = 60) -> list[dict[str, int]]:
    """So many slow cars in segment 7 during the first minute."""
    return [row(0, 10, vid, 7) for vid in range(100, 100 + cars)]


def test_a_toll_depends_on_the_minute_before_and_counts_in_later_answers(linear_road: ModuleType) -> None:
    questions = [row(2, 69, 1, QID=1), row(2, 70, 1, QID=2), row(3, 70, 1, QID=3, Day=0), row(3, 71, 1, QID=4, Day=1)]
    rows = [*crowd(), row(0, 40, 1, 6), questions[0], row(0, 70, 1, 7), *questions[1:], row(0, 130, 2, 7)]
    result = ran(linear_road, rows)
    tolls = {(r["VID"], r["Time"], r["Seg"]): (r["lav"], r["cars"], r["toll"]) for r in result["tolls_out"]}
    assert tolls[1, 70, 7] == (30.0, 60, 2 * 10**2)
    assert tolls[1, 40, 6] == (0.0, 0, 0)
    assert tolls[2, 130, 7] == (30.0, 1, 0), "the mean looks back five minutes, the number of cars one"
    assert sorted((r["QID"], r["balance"]) for r in result["balances"]) == [(1, 0), (2, 200)]
    assert sorted((r["QID"], r["expenditure"]) for r in result["expenditures"]) == [(3, 200), (4, 0)]


@pytest.mark.parametrize(("segment", "toll"), [(7, 0), (11, 0), (12, 200), (6, 200)])
def test_an_accident_ahead_frees_of_toll(linear_road: ModuleType, segment: int, toll: int) -> None:
    wreck = [row(0, 30 * n + vid, vid, segment, 0, Pos=segment * 5280) for n in range(5) for vid in (3, 4)]
    slow = [row(0, 70 + n % 50, 200 + n, 7) for n in range(60)]
    rows = sorted([*wreck, *slow, row(0, 125, 1, 7)], key=lambda r: r["Time"])
    result = ran(linear_road, rows)
    accidents = [(r["Seg"], r["Time"], r["Cleared"]) for r in result["accidents_out"]]
    assert accidents == [(segment, 94, 153)], "from the second car's fourth report until the first one's next is due"
    found = {r["VID"]: r for r in result["tolls_out"] if r["Seg"] == 7}[1]
    assert found["toll"] == toll


def test_a_car_on_the_exit_lane_hears_nothing(linear_road: ModuleType) -> None:
    rows = [row(0, 0, 1, 7), row(0, 30, 1, 8, Lane=4), row(0, 60, 1, 8, Lane=4)]
    assert [r["Seg"] for r in ran(linear_road, rows)["tolls_out"]] == [7]


def test_a_car_in_two_segments_at_once_fails_the_job_or_is_a_dead_letter(linear_road: ModuleType) -> None:
    rows = [row(0, 0, 1, 7), row(0, 30, 1, 8), row(0, 30, 1, 9), row(0, 60, 1, 10)]
    with pytest.raises(ps.UserCodeError, match="car 1 is in segments 8 and 9 at once"):
        ran(linear_road, rows)
    result = ran(linear_road, rows, dead_letters="dead")
    assert [r["Seg"] for r in result["tolls_out"]] == [7, 8, 10]
    assert len(result["letters"]) == 1


def test_a_car_that_goes_back_in_time_fails_the_job_or_is_a_dead_letter(linear_road: ModuleType) -> None:
    rows = [row(0, 30, 1, 7), row(0, 29, 1, 8), row(0, 60, 1, 8)]
    with pytest.raises(ps.UserCodeError, match="car 1 goes back in time, by 1 s"):
        ran(linear_road, rows)
    result = ran(linear_road, rows, dead_letters="dead")
    assert [(r["Time"], r["Seg"]) for r in result["tolls_out"]] == [(30, 7), (60, 8)]
    assert [r["error"] for r in result["letters"]] == ["ValueError: car 1 goes back in time, by 1 s"]


def test_rows_behind_later_rows_of_their_file_are_dead_letters(linear_road: ModuleType) -> None:
    rows = [row(0, 0, 1, 7), row(0, 200, 2, 7), row(0, 30, 1, 8)]
    letters = ran(linear_road, rows, dead_letters="dead")["letters"]
    assert sorted(r["error"].split(":")[0] for r in letters) == [
        "its minute is over",
        "later rows came before in its file",
    ]


def test_rows_may_come_car_by_car_if_the_job_knows_it(linear_road: ModuleType) -> None:
    rows = [*crowd(), row(0, 40, 1, 6), row(0, 70, 1, 7), row(2, 71, 1, QID=1), row(0, 70, 2, 7)]
    expected = ran(linear_road, sorted(rows, key=lambda r: r["Time"]))
    found = ran(linear_road, sorted(rows, key=lambda r: r["VID"]), disorder="10m")
    assert found["balances"] == expected["balances"]
    assert found["balances"][0]["balance"] == 200
    assert sorted(map(str, found["tolls_out"])) == sorted(map(str, expected["tolls_out"]))


def test_days_before_today_are_read_from_a_history(linear_road: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ps.ConfigError, match=r"history .*nowhere"):
        ran(linear_road, [row(0, 0, 1, 7)], history=str(tmp_path / "nowhere"))
    pq.write_table(pa.table({"VID": [1], "XWay": [0], "Day": [5], "Toll": [90]}), tmp_path / "history.parquet")
    rows = [row(3, 0, 1, QID=1, Day=5), row(3, 0, 1, QID=2, Day=6)]
    result = ran(linear_road, rows, history=str(tmp_path / "history.parquet"))
    assert sorted((r["QID"], r["expenditure"]) for r in result["expenditures"]) == [(1, 90), (2, 0)]
