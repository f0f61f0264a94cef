"""Objects of a state are made from plain values, as functions of ``ps.migrate`` give them. mypy checks this file."""

import penstock as ps


@ps.state
class Kept:
    total: int = 0
    days: ps.List[int]
    by_day: ps.Map[int, float]
    names: ps.Set[str]
    times: ps.Timers


def test_fields_take_lists_and_dicts() -> None:
    made = Kept(days=[1, 2], by_day={1: 0.5}, names=["ann"], times=[7])
    assert vars(made) == {"total": 0, "days": [1, 2], "by_day": {1: 0.5}, "names": ["ann"], "times": [7]}


def test_a_field_takes_that_of_another_object() -> None:
    made = Kept(days=[1, 2], by_day={}, names={"ann"}, times=[])
    again = Kept(days=made.days, by_day=dict(enumerate([0.5, *made.by_day])), names=made.names, times=made.times)
    assert list(again.days) == [1, 2]


def test_values_of_another_type_are_errors_of_the_checker() -> None:
    Kept(
        days=["no number"],  # type: ignore[list-item]
        by_day=[1],  # type: ignore[arg-type]
        names=7,  # type: ignore[arg-type]
        times={},  # type: ignore[arg-type]
    )
