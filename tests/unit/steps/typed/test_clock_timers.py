"""Timers of processing time: they fire by the clock while no row comes, once, and also after a restore."""

from typing import Any

import pytest

import penstock as ps


@ps.record
class Set:
    who: str
    after: int | None = None
    at: ps.Time = 0


@ps.record
class Fired:
    who: str
    timer: str
    of: int
    now: int = 0
    watermark: int | None = None


@ps.state
class Two:
    tick: ps.ClockTimer
    idle: ps.Timer
    n: int = 0


def keep(r: Set, s: Two, out: ps.Out[Fired], ctx) -> None:  # type: ignore[no-untyped-def]
    s.tick = None if r.after is None else ctx.time + ps.seconds(r.after)


def tick(t: ps.Time, key: Any, s: Two, out: ps.Out[Fired], ctx) -> None:  # type: ignore[no-untyped-def]
    s.n += 1
    out.emit(Fired(key.who, "tick", t, ctx.time, ctx.watermark))
    if key.who == "again" and s.n < 3:
        s.tick = t + ps.seconds(10)
    if key.who == "event":
        s.idle = 5
    if key.who == "fails":
        raise ValueError("no")


def idle(t: ps.Time, key: Any, s: Two, out: ps.Out[Fired]) -> None:
    out.emit(Fired(key.who, "idle", t))


def job(function: Any = keep) -> ps.Job:
    job = ps.Job()
    columns = {"who": "string", "after": "int64", "at": "timestamp[us]"}
    rows = job.source("rows", ps.parquet("x"), columns=columns, event_time="at", idle_after="1s").key_by("who")
    found = rows.process("keep", function, on_timer={"tick": tick, "idle": idle}, on_error="dead-letter")
    found.sink("out", ps.discard())
    found.dead_letter.sink("bad", ps.discard())
    return job


def fired(t: Any) -> list[tuple[Any, ...]]:
    t.checkpoint()
    return [(row["who"], row["timer"], row["of"]) for row in t.rows("out")]


def test_a_clock_timer_fires_while_no_row_comes() -> None:
    with ps.testing.run(job(), workers=2) as t:
        t.advance(100)
        t.push("rows", [Set("ann", 5), Set("bob", 30), Set("cid", 5), Set("cid")])
        t.advance(4)
        assert fired(t) == []
        t.advance(1)
        assert fired(t) == [("ann", "tick", 105_000_000)]
        t.advance("1h")
        assert fired(t)[1:] == [("bob", "tick", 130_000_000)]
        assert t.state("keep")["ann"].tick is None


def test_an_overdue_timer_fires_after_a_restore_and_no_timer_fires_again() -> None:
    with ps.testing.run(job(), workers=2) as t:
        t.push("rows", [Set(name, 5 + i) for i, name in enumerate("abcd")])
        t.advance(6)
        assert sorted(fired(t)) == [("a", "tick", 5_000_000), ("b", "tick", 6_000_000)]
        with t.restore(t.snapshot(), workers=3) as restored:
            restored.advance(60)
            assert sorted(fired(restored)[2:]) == [("c", "tick", 7_000_000), ("d", "tick", 8_000_000)]


def test_what_a_function_sets_fires_too_in_both_kinds_of_time() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Set("again", 1), Set("event", 1)])
        t.watermark("rows", 10)
        t.advance(60)
        assert sorted(fired(t)) == [("again", "tick", s * 1_000_000) for s in (1, 11, 21)] + [
            ("event", "tick", 1_000_000)
        ]
        t.push("rows", [Set("x", at=20)])
        t.watermark("rows", 30)
        assert fired(t)[4:] == [("event", "idle", 11)], "the time of 5 was reached before it was set"


def test_a_function_that_raises_makes_a_dead_letter() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Set("fails", 1)])
        t.advance(2)
        assert fired(t) == []
        assert [(row["who"], row["error"]) for row in t.rows("bad")] == [
            ("fails", "timer 'tick' of 1970-01-01T00:00:01.000000: ValueError: no")
        ]


def test_ctx_says_what_time_it_is() -> None:
    with ps.testing.run(job()) as t:
        t.watermark("rows", 7)
        t.push("rows", [Set("ann", 5)])
        t.advance(9)
        t.checkpoint()
        (row,) = t.rows("out")
        assert (row["now"], row["watermark"]) == (9_000_000, 7)


def test_at_the_end_of_the_input_clock_timers_fire_once() -> None:
    rows = [{"who": "again", "after": 86_400, "at": 1}, {"who": "ann", "after": 86_400, "at": 2}]
    result = ps.run(job(), inputs={"rows": rows}, collect=True)
    assert sorted(row["who"] for row in result["out"]) == ["again", "ann"]


def test_a_clock_timer_needs_no_event_time() -> None:
    @ps.state
    class Only:
        tick: ps.ClockTimer

    def only(r: Set, s: Only, out: ps.Out[Fired], ctx) -> None:  # type: ignore[no-untyped-def]
        s.tick = ctx.time + ps.seconds(1)

    def fire(t: ps.Time, key: Any, s: Only, out: ps.Out[Fired]) -> None:
        out.emit(Fired(key.who, "tick", t))

    job = ps.Job()
    columns = {"who": "string", "after": "int64", "at": "timestamp[us]"}
    rows = job.source("rows", ps.parquet("x"), columns=columns).key_by("who")
    rows.process("keep", only, on_timer={"tick": fire}).sink("out", ps.discard())
    with ps.testing.run(job) as t:
        t.push("rows", [Set("ann")])
        t.advance(2)
        assert fired_of(t) == ["ann"]


def fired_of(t: Any) -> list[str]:
    t.checkpoint()
    return [row["who"] for row in t.rows("out")]


def test_a_function_with_ctx_is_run_by_python() -> None:
    rows = ps.Job().source("rows", ps.parquet("x"), columns={"who": "string"}).key_by("who")
    with pytest.raises(ps.ConfigError, match="the argument ctx is not known to compiled functions"):
        rows.process("keep", keep, on_timer={"tick": tick, "idle": idle}, compiled="require")
