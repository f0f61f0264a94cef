"""Timers of functions with types against a model that looks at all of them for each time, through restores.

The functions of timers set and clear timers of their key, also for the time that is firing and before it, and some
raise. Slices are tiny, so most firings are cut.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.steps.typed import timer_calls

NAMES = ("a", "b", "c")


@ps.record
class Set:
    who: str
    field: int
    time: int | None
    at: ps.Time = 0


@ps.record
class Fired:
    who: str
    field: int
    of: int


@ps.state
class Kept:
    a: ps.Timer
    b: ps.Timer
    n: int = 0
    c: ps.Timer


def keep(r: Set, s: Kept, out: ps.Out[Fired]) -> None:
    setattr(s, NAMES[r.field], r.time)


def act(s: Any, field: int, t: int, emit: Callable[[int, int], None]) -> None:
    """Do what the function of a timer does, on a state or on its model."""
    s.n += 1
    emit(field, t)
    if s.n > 60:  # else it might go on for ever
        return
    if t % 3 == 0:
        setattr(s, NAMES[field], t + t % 5 - 1)
    if t % 4 == 1:
        setattr(s, NAMES[(field + 1) % 3], t + 2)
    if t % 7 == 0:
        setattr(s, NAMES[(field + 2) % 3], None)
    if t % 11 == 5:
        raise ValueError(t)


def handler(field: int) -> Any:
    def fire(t: ps.Time, key: Any, s: Kept, out: ps.Out[Fired]) -> None:
        act(s, field, t, lambda place, time: out.emit(Fired(key.who, place, time)))

    return fire


def job() -> ps.Job:
    job = ps.Job()
    columns = {"who": "string", "field": "int64", "time": "int64", "at": "timestamp[us]"}
    rows = job.source("rows", ps.parquet("x"), columns=columns, event_time="at").key_by("who")
    found = rows.process(
        "keep", keep, on_timer={name: handler(i) for i, name in enumerate(NAMES)}, on_error="dead-letter"
    )
    found.sink("out", ps.discard())
    found.dead_letter.sink("bad", ps.discard())
    return job


class Model:
    """The timers of all keys, and what they have emitted."""

    def __init__(self) -> None:
        self.states: dict[str, Kept] = {}
        self.reached = -(2**62)
        self.emitted: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.failed: dict[str, int] = defaultdict(int)

    def set(self, rows: list[Set]) -> None:
        for row in rows:
            state = self.states.setdefault(row.who, Kept(a=None, b=None, c=None))
            setattr(state, NAMES[row.field], row.time)
        for who in {row.who for row in rows}:
            self._put_behind(self.states[who], self.reached)

    def _put_behind(self, state: Kept, reached: int, but: dict[str, int | None] | None = None) -> None:
        """Move timers of the past; ``but`` has the values of those that nobody has set."""
        for name in NAMES:
            time: Any = getattr(state, name)
            if time is not None and time <= reached and (but is None or but[name] != time):
                setattr(state, name, reached + 1)

    def watermark(self, time: int) -> None:
        for who, state in self.states.items():
            for _ in iter(lambda w=who, s=state: self._fire_first(w, s, time), False):  # type: ignore[misc]
                pass
        self.reached = max(self.reached, time)

    def _fire_first(self, who: str, state: Kept, bound: int) -> bool:
        due = [(time, i) for i, name in enumerate(NAMES) if (time := getattr(state, name)) is not None]
        if not due or min(due)[0] > bound:
            return False
        time, field = min(due)
        setattr(state, NAMES[field], None)
        before, emitted = dict(vars(state)), list(self.emitted[who])
        try:
            act(state, field, time, lambda place, of: self.emitted[who].append((place, of)))
        except ValueError:
            vars(state).update(before)
            self.emitted[who] = emitted
            self.failed[who] += 1
        self._put_behind(state, time, before)
        return True


@pytest.fixture(params=[1, 3])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_calls, "FIRED_TIMERS_MAX", request.param)


ROW = st.builds(Set, st.sampled_from("pqrstu"), st.integers(0, 2), st.none() | st.integers(-5, 120))
TURN = st.tuples(st.lists(ROW, max_size=12), st.integers(0, 40), st.sampled_from([0, 0, 1, 2, 3]))


@settings(max_examples=12)
@given(turns=st.lists(TURN, min_size=1, max_size=6))
@pytest.mark.usefixtures("slices")
def test_timers_fire_as_the_model_does(turns: list[Any]) -> None:
    model, time = Model(), 0
    t = ps.testing.run(job(), workers=2)
    try:
        for rows, step, workers in turns:
            t.push("rows", rows)
            model.set(rows)
            time += step
            t.watermark("rows", time)
            model.watermark(time)
            if workers:
                t = t.restore(t.snapshot(), workers=workers)
        t.checkpoint()
        emitted: dict[str, list[tuple[int, int]]] = defaultdict(list)
        failed: dict[str, int] = defaultdict(int)
        for row in t.rows("out"):
            emitted[row["who"]].append((row["field"], row["of"]))
        for row in t.rows("bad"):
            failed[row["who"]] += 1
        assert emitted == {who: rows for who, rows in model.emitted.items() if rows}
        assert failed == model.failed
        assert t.state("keep") == model.states
    finally:
        t.close()
