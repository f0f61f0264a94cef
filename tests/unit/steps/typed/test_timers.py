"""Timers of functions with types: each fires once, in order, and what its function writes and emits is kept."""

from typing import Any

import pytest

import penstock as ps
from penstock.base import limits
from penstock.base.errors import UserCodeError
from penstock.steps.typed import timer_calls


@ps.record
class Set:
    who: str
    a: int | None = None
    b: int | None = None
    at: ps.Time = 0


@ps.record
class Fired:
    who: str
    timer: str
    of: int
    note: str = ""


@ps.record
class Aside:
    who: str


@ps.state
class Two:
    a: ps.Timer
    b: ps.Timer
    fired: int = 0
    label: str = ""
    names: ps.Map[str, int]


def keep(r: Set, s: Two, out: ps.Out[Fired, {"aside": Aside}]) -> None:  # type: ignore[type-arg,misc] # noqa: F821
    s.a, s.b = r.a, r.b


def a(t: ps.Time, key: Any, s: Two, out: ps.Out[Fired, {"aside": Aside}]) -> None:  # type: ignore[type-arg,misc] # noqa: F821
    s.fired += 1
    s.label += "a"
    s.names[str(t)] = s.fired
    out.emit(Fired(key.who, "a", t, s.label))
    out.to("aside", Aside(key.who))
    if t == 13:
        raise ValueError("thirteen")


def b(t: ps.Time, key: Any, s: Two, out: ps.Out[Fired]) -> None:
    s.label += "b"
    out.emit(Fired(key.who, "b", t, s.label))


def job(on_timer: Any = None, *, on_error: Any = "dead-letter", function: Any = keep) -> ps.Job:
    job = ps.Job()
    columns = {"who": "string", "a": "int64", "b": "int64", "at": "timestamp[us]"}
    rows = job.source("rows", ps.parquet("x"), columns=columns, event_time="at")
    found = rows.key_by("who").process("keep", function, on_timer=on_timer or {"a": a, "b": b}, on_error=on_error)
    found.sink("out", ps.discard())
    found.output("aside").sink("aside", ps.discard())
    if on_error == "dead-letter":
        found.dead_letter.sink("bad", ps.discard())
    return job


def fired(t: Any) -> list[tuple[Any, ...]]:
    t.checkpoint()
    return [(row["who"], row["timer"], row["of"]) for row in t.rows("out")]


def test_a_timer_fires_once_when_event_time_reaches_it() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Set("ann", 10), Set("bob", 20)])
        t.watermark("rows", 9)
        assert fired(t) == []
        t.watermark("rows", 10)
        t.watermark("rows", 19)
        assert fired(t) == [("ann", "a", 10)]
        t.watermark("rows", 30)
        assert fired(t) == [("ann", "a", 10), ("bob", "a", 20)]
        assert [row["who"] for row in t.rows("aside")] == ["ann", "bob"]
        state = t.state("keep")
        assert state["ann"] == Two(a=None, b=None, fired=1, label="a", names={"10": 1})


def test_timers_fire_in_the_order_of_time_and_a_cleared_one_does_not_fire() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Set("ann", 30, 5), Set("bob", 20, 20), Set("cid", 4, 2), Set("cid", None, 25)])
        t.watermark("rows", 100)
        expected = [("ann", "b", 5), ("bob", "a", 20), ("bob", "b", 20), ("cid", "b", 25), ("ann", "a", 30)]
        assert fired(t) == expected, "of one key and time the fields of the state are in order"


def test_a_timer_of_the_past_fires_behind_the_time_that_was_reached() -> None:
    with ps.testing.run(job()) as t:
        t.watermark("rows", 50)
        t.push("rows", [Set("ann", 10, 60, at=55)])
        t.watermark("rows", 57)
        assert fired(t) == [("ann", "a", 51)]


def test_a_timer_that_a_function_sets_fires_in_its_place() -> None:
    def again(t: ps.Time, key: Any, s: Two, out: ps.Out[Fired]) -> None:
        out.emit(Fired(key.who, "a", t))
        s.fired += 1
        s.a = t if s.fired < 3 else t + 7
        if s.fired == 2:
            s.b = None

    with ps.testing.run(job({"a": again, "b": b})) as t:
        t.push("rows", [Set("ann", 10, 12), Set("bob", 10, 11), Set("cid", 11)])
        t.watermark("rows", 12)
        times = [(who, timer, of) for who, timer, of in fired(t)]
        assert sorted(times) == [(who, "a", of) for who in ("ann", "bob") for of in (10, 11, 12)] + [
            ("cid", "a", 11), ("cid", "a", 12)
        ], "a second firing clears the other timer, which is due at that time or later"  # fmt: skip
        assert [of for _, _, of in times] == sorted(of for _, _, of in times)
        t.watermark("rows", 19)
        assert sorted(fired(t)[8:]) == [("ann", "a", 19), ("bob", "a", 19), ("cid", "a", 13)]


def test_results_do_not_depend_on_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(t: ps.Time, key: Any, s: Two, out: ps.Out[Fired]) -> None:
        out.emit(Fired(key.who, "a", t))
        s.fired += 1
        if s.fired < 4:
            s.a, s.b = t + s.fired % 3, t + 2

    found = []
    for most in (limits.FIRED_TIMERS_MAX, 3, 1):
        monkeypatch.setattr(timer_calls, "FIRED_TIMERS_MAX", most)
        with ps.testing.run(job({"a": again, "b": b})) as t:
            t.push("rows", [Set(f"k{i}", 10 + i % 5, 12 + i % 4) for i in range(40)])
            t.watermark("rows", 1000)
            found.append(fired(t))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 200


def test_a_function_that_raises_leaves_nothing_and_its_timer_stays_cleared() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Set("ann", 13), Set("bob", 14)])
        t.watermark("rows", 100)
        assert fired(t) == [("bob", "a", 14)]
        assert [row["who"] for row in t.rows("aside")] == ["bob"]
        (bad,) = t.rows("bad")
        assert (bad["who"], bad["at"], bad["error_step"]) == ("ann", None, "keep")
        assert bad["error"] == "timer 'a' of 1970-01-01T00:00:00.000013: ValueError: thirteen"
        assert t.state("keep")["ann"] == Two(a=None, b=None, names={})
        assert t.result().dead_letters == {"keep": 1}


def test_without_dead_letters_the_job_fails_with_timer_and_key() -> None:
    with ps.testing.run(job(on_error="fail")) as t:
        t.push("rows", [Set("ann", 13)])
        with pytest.raises(UserCodeError) as caught:
            t.watermark("rows", 100)
    text = str(caught.value)
    assert "step 'keep'" in text
    assert "timer 'a' of 1970-01-01T00:00:00.000013, Key(who='ann')" in text
    assert 'raise ValueError("thirteen")' in text


def test_pending_timers_outlive_a_restore_with_other_workers() -> None:
    with ps.testing.run(job(), workers=2) as t:
        t.push("rows", [Set(name, 20 + i) for i, name in enumerate("abcdefgh")])
        t.watermark("rows", 23)
        assert sorted(fired(t)) == [(who, "a", 20 + i) for i, who in enumerate("abcd")]
        with t.restore(t.snapshot(), workers=3) as restored:
            restored.watermark("rows", 100)
            assert sorted(fired(restored)[4:]) == [(who, "a", 24 + i) for i, who in enumerate("efgh")]


def test_at_the_end_each_timer_fires_once_and_what_is_set_then_is_dropped() -> None:
    def again(t: ps.Time, key: Any, s: Two, out: ps.Out[Fired]) -> None:
        out.emit(Fired(key.who, "a", t))
        s.a = t + 1

    rows = [{"who": "ann", "a": 10, "b": 2**63 - 1, "at": 0}]
    result = ps.run(job({"a": again, "b": b}), inputs={"rows": rows}, collect=True)
    assert [(r["timer"], r["of"]) for r in result["out"]] == [("a", 10), ("b", 2**63 - 1)]


def test_clear_forgets_a_key_with_its_other_timers() -> None:
    def forget(t: ps.Time, key: Any, s: Two, out: ps.Out[Fired]) -> None:
        s.clear()  # type: ignore[attr-defined]

    with ps.testing.run(job({"a": forget, "b": b})) as t:
        t.push("rows", [Set("ann", 10, 10), Set("bob", None, 11)])
        t.watermark("rows", 100)
        assert fired(t) == [("bob", "b", 11)]
        assert list(t.state("keep")) == ["bob"]
