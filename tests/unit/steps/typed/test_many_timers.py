"""Many times of one key: each that was added fires once, in order, and those that were discarded do not."""

from typing import Any

import pytest

import penstock as ps
from penstock.base import limits
from penstock.steps.typed import entry_tables, timer_calls


@ps.record
class Set:
    who: str
    add: int | None = None
    discard: int | None = None
    at: ps.Time = 0


@ps.record
class Fired:
    who: str
    of: int
    left: int


@ps.state
class Kept:
    times: ps.Timers
    idle: ps.Timer
    fired: int = 0


def keep(r: Set, s: Kept, out: ps.Out[Fired]) -> None:
    if r.add is not None:
        s.times.add(r.add)
    if r.discard is not None:
        s.times.discard(r.discard)
    if r.add == 666:
        raise ValueError("no")


def fire(t: ps.Time, key: Any, s: Kept, out: ps.Out[Fired]) -> None:
    s.fired += 1
    out.emit(Fired(key.who, t, len(s.times)))
    if t == 13:
        raise ValueError("thirteen")


def idle(t: ps.Time, key: Any, s: Kept, out: ps.Out[Fired]) -> None:
    s.times.add(t + 5)


def job(times: Any = fire, *, function: Any = keep) -> ps.Job:
    job = ps.Job()
    columns = {"who": "string", "add": "int64", "discard": "int64", "at": "timestamp[us]"}
    rows = job.source("rows", ps.parquet("x"), columns=columns, event_time="at").key_by("who")
    found = rows.process("keep", function, on_timer={"times": times, "idle": idle}, on_error="dead-letter")
    found.sink("out", ps.discard())
    found.dead_letter.sink("bad", ps.discard())
    return job


def fired(t: Any) -> list[tuple[Any, ...]]:
    t.checkpoint()
    return [(row["who"], row["of"], row["left"]) for row in t.rows("out")]


def test_each_time_fires_once_and_in_order() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Set("ann", 30), Set("ann", 10), Set("bob", 20), Set("ann", 10), Set("ann", 40)])
        t.watermark("rows", 9)
        assert fired(t) == []
        t.watermark("rows", 35)
        assert fired(t) == [("ann", 10, 2), ("bob", 20, 0), ("ann", 30, 1)]
        assert t.state("keep")["ann"].times == [40]
        t.watermark("rows", 100)
        assert fired(t)[3:] == [("ann", 40, 0)]


def test_a_time_that_was_discarded_does_not_fire_and_the_others_do() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Set("ann", 10), Set("ann", 20), Set("ann", 30), Set("ann", discard=10)])
        t.push("rows", [Set("bob", 10), Set("bob", discard=10)])
        t.watermark("rows", 15)
        t.push("rows", [Set("ann", discard=20)])
        t.watermark("rows", 40)
        assert fired(t) == [("ann", 30, 0)]


def test_times_of_the_past_fire_behind_the_time_that_was_reached() -> None:
    with ps.testing.run(job()) as t:
        t.watermark("rows", 50)
        t.push("rows", [Set("ann", 10, at=55), Set("ann", 20, at=55), Set("ann", 60, at=55)])
        t.watermark("rows", 70)
        assert fired(t) == [("ann", 51, 2), ("ann", 52, 1), ("ann", 60, 0)]


def test_a_record_or_a_function_that_raises_adds_nothing_and_its_time_stays_removed() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Set("ann", 13), Set("ann", 666), Set("ann", 14)])
        t.watermark("rows", 1000)
        assert fired(t) == [("ann", 14, 0)]
        assert [row["error"].split(": ")[-1] for row in t.rows("bad")] == ["no", "thirteen"]
        assert t.state("keep")["ann"].fired == 1


def again(t: ps.Time, key: Any, s: Kept, out: ps.Out[Fired]) -> None:
    out.emit(Fired(key.who, t, len(s.times)))
    s.times.add(t + 4)
    s.times.add(t)


def test_functions_may_add_times_which_fire_in_their_place() -> None:
    with ps.testing.run(job(again)) as t:
        t.push("rows", [Set("ann", 10), Set("ann", 12), Set("ann", 90)])
        t.watermark("rows", 14)
        assert [of for _, of, _ in fired(t)] == [10, 11, 12, 13, 14]


def test_at_the_end_what_was_set_fires_once_and_what_is_added_then_is_dropped() -> None:
    rows = [{"who": who, "add": time, "at": 0} for who, time in (("ann", 10), ("ann", 12), ("bob", 2**62))]
    result = ps.run(job(again), inputs={"rows": rows}, collect=True)
    assert [(r["who"], r["of"]) for r in result["out"]] == [("ann", 10), ("ann", 12), ("bob", 2**62)]


def test_results_do_not_depend_on_slices_nor_on_how_many_entries_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def some(t: ps.Time, key: Any, s: Kept, out: ps.Out[Fired]) -> None:
        out.emit(Fired(key.who, t, len(s.times)))
        if t % 3 == 0:
            s.times.add(t + 20)
        if t % 5 == 0:
            s.times.discard(t + 1)

    found = []
    for most, few in ((limits.FIRED_TIMERS_MAX, 64), (limits.FIRED_TIMERS_MAX, 2), (3, 1), (1, 4)):
        monkeypatch.setattr(timer_calls, "FIRED_TIMERS_MAX", most)
        monkeypatch.setattr(entry_tables, "FEW", few)
        with ps.testing.run(job(some)) as t:
            t.push("rows", [Set(f"k{i % 3}", 10 + 7 * i % 90) for i in range(120)])
            t.watermark("rows", 60)
            t.push("rows", [Set(f"k{i % 3}", 55 + i) for i in range(20)])
            t.watermark("rows", 1000)
            found.append(fired(t))
    assert found[0] == found[1] == found[2] == found[3]
    assert len(found[0]) > 100


def test_times_are_in_checkpoints_and_follow_their_key() -> None:
    with ps.testing.run(job(), workers=2) as t:
        t.push("rows", [Set(f"k{i % 4}", 20 + i) for i in range(100)])
        t.watermark("rows", 30)
        with t.restore(t.snapshot(), workers=3) as later:
            later.watermark("rows", 1000)
            later.checkpoint()
            assert sorted(row["of"] for row in later.rows("out")) == list(range(20, 120))


def test_without_a_function_times_are_a_set() -> None:
    job_ = ps.Job()
    columns = {"who": "string", "add": "int64", "discard": "int64", "at": "timestamp[us]"}
    rows = job_.source("rows", ps.parquet("x"), columns=columns).key_by("who")
    rows.process("keep", keep, on_timer={"idle": idle}).sink("out", ps.discard())
