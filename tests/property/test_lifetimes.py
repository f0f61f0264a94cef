"""Timers of the clock and lifetimes of keys against a model that looks at all of them, through restores.

A record sets a timer of the clock or of event time, also to a time that was reached, writes, only looks, or fails.
Records may be so late that their key is over at once. The functions of timers set the timers of the other kind of time.
The model knows nothing of queues and sweeps: a key is over if its time is not after that of the record, nor after the
time reached.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.base.values import replace
from penstock.steps.typed import timer_calls

TTL_US = 20
TICK, IDLE, ADD, LOOK, STOP, FAIL, WIPE = range(7)


@ps.record
class Row:
    who: str
    what: int
    delay: int
    at: ps.Time


@ps.record
class Seen:
    who: str
    of: str
    n: int


def state(**lives: str) -> Any:
    class Kept:
        n: int = 0
        tick: ps.ClockTimer
        idle: ps.Timer

    return ps.state(Kept) if not lives else ps.state(**lives)(Kept)


STATES = {"none": state(), "event": state(ttl="20us"), "clock": state(ttl="20us", time="clock")}


def take(r: Any, s: Any, now: int) -> bool:
    """Do what the function of records does behind its output, on a state or on its model. Return whether it wrote."""
    if r.what == TICK:
        s.tick = now + r.delay - 5
    elif r.what == IDLE:
        s.idle = r.at + r.delay - 5
    elif r.what == WIPE:
        s.clear()
        if r.delay % 2:
            s.n += 1
    elif r.what != LOOK:
        s.n += 1
    if r.what == STOP:
        s.tick = None
    if r.what == FAIL:
        raise ValueError(r.delay)
    return bool(r.what != LOOK) and not (r.what == WIPE and r.delay % 2 == 0)


def tick(t: int, s: Any, _: int) -> bool:
    """Do what the function of the timer of the clock does. Return whether it wrote."""
    if t % 2:
        s.n += 10
    if t % 3 == 0:
        s.tick = t + t % 4 - 1
    if t % 5 == 1:
        s.idle = t
    return bool(t % 2) or t % 3 == 0 or t % 5 == 1


def idle(t: int, s: Any, now: int) -> bool:
    """Do what the function of the timer of event time does. Return whether it wrote."""
    if t % 2:
        s.n += 100
    if t % 3 == 0:
        s.tick = now + 3
    if t % 7 == 1:
        raise ValueError(t)
    return bool(t % 2) or t % 3 == 0


def job(kept: Any) -> ps.Job:
    def on_row(r: Row, s: kept, out: ps.Out[Seen], ctx: Any) -> None:
        out.emit(Seen(r.who, "row", s.n))
        take(r, s, ctx.time)

    def on_tick(t: ps.Time, key: Any, s: kept, out: ps.Out[Seen], ctx: Any) -> None:
        out.emit(Seen(key.who, f"tick {t}", s.n))
        tick(t, s, ctx.time)

    def on_idle(t: ps.Time, key: Any, s: kept, out: ps.Out[Seen], ctx: Any) -> None:
        out.emit(Seen(key.who, f"idle {t}", s.n))
        idle(t, s, ctx.time)

    job = ps.Job()
    columns = {"who": "string", "what": "int64", "delay": "int64", "at": "timestamp[us]"}
    # Event time goes on only when it is told.
    rows = job.source("rows", ps.parquet("x"), columns=columns, event_time="at", out_of_orderness="1h")
    found = rows.key_by("who").process(
        "keep", on_row, on_timer={"tick": on_tick, "idle": on_idle}, on_error="dead-letter"
    )
    found.sink("out", ps.discard())
    found.dead_letter.sink("bad", ps.discard())
    return job


@dataclass
class KeyModel:
    """A key. ``over`` is the time at which it is forgotten."""

    n: int = 0
    tick: int | None = None
    idle: int | None = None
    over: int | None = None

    def forget(self) -> None:
        self.n, self.over = 0, None

    def clear(self) -> None:
        self.n, self.tick, self.idle, self.over = 0, None, None, None


class Model:
    """All keys, and what was emitted of each."""

    def __init__(self, ttl: str) -> None:
        self.ttl, self.now, self.reached = ttl, 0, -(2**62)
        self.keys: dict[str, KeyModel] = defaultdict(KeyModel)
        self.seen: dict[str, list[tuple[str, int]]] = defaultdict(list)

    def push(self, rows: list[Row]) -> None:
        for row in rows:
            key = self.keys[row.who]
            before, seen = replace(key), list(self.seen[row.who])
            time = row.at if self.ttl == "event" else self.now
            if key.over is not None and key.over <= self._latest(time):
                key.forget()
            try:
                self.seen[row.who].append(("row", key.n))
                self._renew(key, time, wrote=take(row, key, self.now))
            except ValueError:
                self.keys[row.who], self.seen[row.who] = before, seen
        self._settle()

    def _latest(self, time: int) -> int:
        return max(time, self.reached) if self.ttl == "event" else time

    def _renew(self, key: KeyModel, time: int, *, wrote: bool) -> None:
        nothing = key.over is None and key.n == 0 and not wrote  # a look begins no life
        if self.ttl == "none" or nothing or not (wrote or key.over is None):
            return
        if key.over is None or time + TTL_US > key.over:
            key.over = time + TTL_US
        if self.ttl == "event" and key.over <= self.reached:
            key.forget()

    def advance(self, step: int) -> None:
        self.now += step
        self._settle()

    def watermark(self, time: int) -> None:
        for who in list(self.keys):
            while self._fire(who, time, clock=False):
                pass
        self.reached = max(self.reached, time)
        self._settle()

    def _settle(self) -> None:
        """Put event timers of the past behind the time reached, and fire what is due by the clock."""
        for who in list(self.keys):
            while True:
                key = self.keys[who]
                if key.idle is not None and key.idle <= self.reached:
                    key.idle = self.reached + 1
                if not self._fire(who, self.now, clock=True):
                    break

    def _fire(self, who: str, bound: int, *, clock: bool) -> bool:
        """Fire the first timer of a key that is due; say whether there was one."""
        key = self.keys[who]
        over = key.over if self.ttl == ("clock" if clock else "event") else None
        due = [(t, i) for i, t in enumerate((key.tick if clock else key.idle, over)) if t is not None and t <= bound]
        if not due:
            return False
        time, which = min(due)
        if which == 1:
            key.forget()
            return True
        name, act = ("tick", tick) if clock else ("idle", idle)  # each fires by its own kind of time
        setattr(key, name, None)
        before, seen = replace(key), list(self.seen[who])
        self.seen[who].append((f"{name} {time}", key.n))
        try:
            self._renew_by_timer(key, time, wrote=act(time, key, self.now), clock=clock)
        except ValueError:
            self.keys[who], self.seen[who] = before, seen
            return True
        again = getattr(key, name)
        if again is not None and again <= time:
            setattr(key, name, time + 1)
        return True

    def _renew_by_timer(self, key: KeyModel, time: int, *, wrote: bool, clock: bool) -> None:
        if self.ttl == "clock":
            time = self.now
        elif clock:
            if self.reached == -(2**62):
                return
            time = self.reached
        self._renew(key, time, wrote=wrote)

    def states(self) -> dict[str, tuple[Any, ...]]:
        found = {who: (key.n, key.tick, key.idle) for who, key in self.keys.items()}
        return {who: kept for who, kept in found.items() if kept != (0, None, None)}


@pytest.fixture(params=[1, 3])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_calls, "FIRED_TIMERS_MAX", request.param)


ROW = st.builds(Row, st.sampled_from("pqrs"), st.integers(0, 6), st.integers(0, 25), st.integers(-40, 25))
TURN = st.tuples(st.lists(ROW, max_size=8), st.integers(0, 15), st.integers(0, 15), st.sampled_from([0, 0, 0, 1, 2, 3]))


@settings(max_examples=12)
@example(turns=[([Row("p", ADD, 0, -40), Row("p", ADD, 0, -40)], 5, 0, 0), ([Row("p", ADD, 0, -40)], 0, 0, 0)])
@example(
    turns=[
        ([], 0, 3, 0),
        *(([Row("p", what, 0, 0)], 0, 0, 0) for what in (TICK, FAIL)),
        ([Row("p", ADD, 0, -5)], 15, 0, 0),
    ]
)
@example(turns=[([], 0, 0, 1), ([Row("p", TICK, 0, -20)], 0, 0, 0), ([Row("p", TICK, 0, 20)], 0, 0, 0)])
@example(turns=[([Row("p", STOP, 17, 17)], 23, 0, 0), ([Row("p", LOOK, 0, 17), Row("p", STOP, 9, -20)], 0, 0, 0)])
@example(
    turns=[([Row("p", STOP, 0, 17)], 23, 0, 0), ([Row("p", LOOK, 0, 17)], 0, 0, 0), ([Row("p", ADD, 0, -20)], 0, 0, 0)]
)
@example(turns=[([Row("p", ADD, 0, 17)], 23, 0, 0), ([Row("p", WIPE, 0, 9), Row("p", ADD, 0, -20)], 0, 0, 0)])
@example(turns=[([], 23, 0, 0), ([Row("p", WIPE, 1, 17), Row("p", ADD, 0, -20)], 0, 0, 0)])
@given(turns=st.lists(TURN, min_size=1, max_size=7))
@pytest.mark.parametrize("ttl", list(STATES))
@pytest.mark.usefixtures("slices")
def test_keys_live_and_timers_of_the_clock_fire_as_in_the_model(ttl: str, turns: list[Any]) -> None:
    model, time = Model(ttl), 0
    t = ps.testing.run(job(STATES[ttl]), workers=2)
    try:
        for rows, event_step, clock_step, workers in turns:
            placed = [replace(row, at=time + row.at) for row in rows]
            t.push("rows", placed)
            model.push(placed)
            time += event_step
            t.watermark("rows", time)
            model.watermark(time)
            t.advance(clock_step / 1e6)
            model.advance(clock_step)
            if workers:
                t = t.restore(t.snapshot(), workers=workers)
                t.advance(model.now / 1e6)  # the clock of a test begins anew
        t.checkpoint()
        seen: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for row in t.rows("out"):
            seen[row["who"]].append((row["of"], row["n"]))
        assert seen == {who: rows for who, rows in model.seen.items() if rows}
        kept = {who: (s.n, s.tick, s.idle) for who, s in t.state("keep").items()}
        assert {who: values for who, values in kept.items() if values != (0, None, None)} == model.states()
    finally:
        t.close()
