"""Many times of a key against a model that looks at all of them, through slices, restores and other workers."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.steps.typed import entry_tables, timer_calls


@ps.record
class Set:
    who: str
    add: int
    discard: int
    at: ps.Time = 0


@ps.record
class Fired:
    who: str
    of: int


@ps.state
class Kept:
    times: ps.Timers


def keep(r: Set, s: Kept, out: ps.Out[Fired]) -> None:
    s.times.discard(r.discard)
    s.times.add(r.add)


def act(times: Any, t: int) -> None:
    """Do what the function does, on times or on their model."""
    if t % 3 == 0:
        times.add(t + 4)
    if t % 4 == 1:
        times.discard(t + 1)
        times.discard(t + 7)
    if t % 7 == 5:
        raise ValueError(t)


def fire(t: ps.Time, key: Any, s: Kept, out: ps.Out[Fired]) -> None:
    out.emit(Fired(key.who, t))
    act(s.times, t)


def job() -> ps.Job:
    job = ps.Job()
    columns = {"who": "string", "add": "int64", "discard": "int64", "at": "timestamp[us]"}
    rows = job.source("rows", ps.parquet("x"), columns=columns, event_time="at").key_by("who")
    found = rows.process("keep", keep, on_timer={"times": fire}, on_error="dead-letter")
    found.sink("out", ps.discard())
    found.dead_letter.sink("bad", ps.discard())
    return job


class Model:
    """The times of all keys. Time is past for none of them: records set times in the future only."""

    def __init__(self) -> None:
        self.times: dict[str, set[int]] = defaultdict(set)
        self.fired: dict[str, list[int]] = defaultdict(list)

    def watermark(self, time: int) -> None:
        for who, times in self.times.items():
            while times and min(times) <= time:
                first = min(times)
                times.remove(first)
                before = set(times)
                try:
                    act(times, first)
                    self.fired[who].append(first)
                except ValueError:
                    self.times[who].clear()
                    self.times[who].update(before)


@pytest.fixture(params=[1, 3])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_calls, "FIRED_TIMERS_MAX", request.param)
    monkeypatch.setattr(entry_tables, "FEW", request.param)


ROW = st.tuples(st.sampled_from("pqr"), st.integers(1, 90), st.integers(1, 90))
TURN = st.tuples(st.lists(ROW, max_size=12), st.integers(0, 40), st.sampled_from([0, 0, 1, 2, 3]))


@settings(max_examples=12)
@given(turns=st.lists(TURN, min_size=1, max_size=6))
@pytest.mark.usefixtures("slices")
def test_each_time_fires_once_and_in_order(turns: list[Any]) -> None:
    model, time = Model(), 0
    t = ps.testing.run(job(), workers=2)
    try:
        for rows, step, workers in turns:
            t.push("rows", [Set(who, time + add, time + discard) for who, add, discard in rows])
            for who, add, discard in rows:
                model.times[who].discard(time + discard)
                model.times[who].add(time + add)
            time += step
            t.watermark("rows", time)
            model.watermark(time)
            if workers:
                t = t.restore(t.snapshot(), workers=workers)
        t.checkpoint()
        fired: dict[str, list[int]] = defaultdict(list)
        for row in t.rows("out"):
            fired[row["who"]].append(row["of"])
        assert fired == {who: times for who, times in model.fired.items() if times}
        assert {who: set(kept.times) for who, kept in t.state("keep").items()} == model.times
    finally:
        t.close()
