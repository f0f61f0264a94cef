"""States with a ttl: a key is forgotten when nothing was written for so long, by event time or by the clock."""

from typing import Any

import pytest

import penstock as ps


@ps.record
class Row:
    who: str
    n: int
    at: ps.Time = 0


@ps.record
class First:
    who: str
    n: int


@ps.state(ttl="10us")
class Seen:
    last: int = -1
    label: str = "new"
    names: ps.Set[int]


@ps.state(ttl="10s", time="clock")
class SeenByClock:
    last: int = -1


@ps.state(ttl="10us")
class WithTimer:
    n: int = 0
    later: ps.Timer


def distinct(r: Row, s: Seen, out: ps.Out[First]) -> None:
    """Emit a number of a key that it has not seen; a number below 0 only looks, and 99 fails."""
    if r.n >= 0 and r.n not in s.names:
        s.names.add(r.n)
        s.last, s.label = r.n, s.label + "x"
        out.emit(First(r.who, r.n))
    if r.n == 99:
        raise ValueError(r.n)


def by_clock(r: Row, s: SeenByClock, out: ps.Out[First]) -> None:
    if s.last != r.n:
        s.last = r.n
        out.emit(First(r.who, r.n))


def count(r: Row, s: WithTimer, out: ps.Out[First]) -> None:
    s.n += 1
    if s.later is None:
        s.later = r.at + 25


def later(t: ps.Time, key: Any, s: WithTimer, out: ps.Out[First]) -> None:
    out.emit(First(key.who, s.n))
    s.n += 10


def job(function: Any = distinct, on_timer: Any = None, time: str | None = "at") -> ps.Job:
    job = ps.Job()
    columns = {"who": "string", "n": "int64", "at": "timestamp[us]"}
    late = "0s" if time is None else "5us"
    rows = job.source("rows", ps.parquet("x"), columns=columns, event_time=time, out_of_orderness=late).key_by("who")
    found = rows.process("keep", function, on_timer=on_timer, on_error="dead-letter")
    found.sink("out", ps.discard())
    found.dead_letter.sink("bad", ps.discard())
    return job


def firsts(t: Any) -> list[tuple[str, int]]:
    t.checkpoint()
    return [(row["who"], row["n"]) for row in t.rows("out")]


def test_a_key_that_expired_is_absent_for_the_next_record_whether_it_was_swept_or_not() -> None:
    for sweep in (False, True):
        with ps.testing.run(job()) as t:
            t.push("rows", [Row("ann", 1, 100), Row("ann", 1, 109)])
            if sweep:
                t.watermark("rows", 112)
                assert t.state("keep") == {}, "nothing of the key is kept"
            t.push("rows", [Row("ann", 1, 112), Row("ann", 1, 121)])
            assert firsts(t) == [("ann", 1), ("ann", 1)]
            assert t.state("keep")["ann"].label == "newx"


def test_each_write_renews_and_a_look_does_not() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Row("ann", 1, 100), Row("ann", 2, 108), Row("ann", -1, 115), Row("ann", 1, 117)])
        assert firsts(t) == [("ann", 1), ("ann", 2)], "the write of 108 let it live up to 118"
        t.push("rows", [Row("ann", 1, 118)])
        assert firsts(t)[2:] == [("ann", 1)]


def test_a_record_that_fails_does_not_renew_and_a_key_that_is_only_looked_at_goes_too() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Row("ann", 1, 100), Row("ann", 99, 108), Row("bob", -1, 100)])
        t.watermark("rows", 111)
        assert t.state("keep") == {}
        assert [row["n"] for row in t.rows("bad")] in ([], [99])


def test_a_record_that_fails_takes_nothing_from_a_key_that_is_over() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Row("ann", 1, 100), Row("ann", 99, 112), Row("ann", 1, 108)])
        assert firsts(t) == [("ann", 1)], "up to 110 the key knows what it has seen"
        t.watermark("rows", 113)
        assert t.state("keep") == {}


def test_the_time_of_a_key_never_falls() -> None:
    with ps.testing.run(job()) as t:
        t.push("rows", [Row("ann", 1, 108), Row("ann", 2, 104), Row("ann", 1, 117)])
        assert firsts(t) == [("ann", 1), ("ann", 2)]


def test_lifetimes_outlive_a_restore_with_other_workers() -> None:
    with ps.testing.run(job(), workers=2) as t:
        t.push("rows", [Row(who, 1, 100 + i) for i, who in enumerate("abcdef")])
        with t.restore(t.snapshot(), workers=3) as restored:
            restored.watermark("rows", 112)
            assert sorted(restored.state("keep")) == ["d", "e", "f"]


def test_a_ttl_by_the_clock_needs_no_row_and_no_event_time() -> None:
    with ps.testing.run(job(by_clock, time=None)) as t:
        t.advance(100)
        t.push("rows", [Row("ann", 1)])
        t.advance(9)
        t.push("rows", [Row("ann", 1)])
        assert firsts(t) == [("ann", 1)]
        t.advance(1)
        assert t.state("keep") == {}
        t.push("rows", [Row("ann", 1)])
        assert firsts(t) == [("ann", 1)] * 2


def test_timers_do_not_expire_and_their_functions_see_a_new_state() -> None:
    with ps.testing.run(job(count, {"later": later})) as t:
        t.push("rows", [Row("ann", 1, 100), Row("ann", 1, 101)])
        t.watermark("rows", 115)
        assert t.state("keep")["ann"] == WithTimer(n=0, later=125)
        t.watermark("rows", 126)
        assert firsts(t) == [("ann", 0)]
        assert t.state("keep")["ann"] == WithTimer(n=10, later=None)
        t.watermark("rows", 135)
        assert t.state("keep") == {}


def test_at_the_end_of_the_input_keys_stay() -> None:
    with ps.testing.run(job(), inputs={"rows": [{"who": "ann", "n": 1, "at": 5}]}) as t:
        t.run()
        assert list(t.state("keep")) == ["ann"]


def test_a_key_whose_timer_fires_at_the_end_is_not_over_before_it() -> None:
    with ps.testing.run(job(count, {"later": later}), inputs={"rows": [{"who": "ann", "n": 1, "at": 5}]}) as t:
        t.run()
        assert firsts(t) == [("ann", 1)], "the timer of 30 is behind the end of the key's life, but no time has passed"
        assert t.state("keep")["ann"] == WithTimer(n=11, later=None)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ps.ConfigError, match=r"the ttl of Seen \(.*\) goes by event time, and the rows have none"):
        ps.testing.run(job(time=None))
    rows = ps.Job().source("rows", ps.parquet("x"), columns={"who": "string"}, event_time=None).key_by("who")
    with pytest.raises(ps.ConfigError, match="Seen, which has a ttl, is not known to compiled functions"):
        rows.process("keep", distinct, compiled="require")


def test_a_write_of_an_entry_alone_renews_a_key() -> None:
    @ps.state(ttl="10us")
    class Amounts:
        of: ps.Map[str, int]

    def keep(r: Row, s: Amounts, out: ps.Out[First]) -> None:
        out.emit(First(r.who, s.of.get("last", -1)))
        s.of["last"] = r.n

    job = ps.Job()
    columns = {"who": "string", "n": "int64", "at": "timestamp[us]"}
    rows = job.source("rows", ps.parquet("x"), columns=columns, event_time="at").key_by("who")
    rows.process("keep", keep).sink("out", ps.discard())
    with ps.testing.run(job) as t:
        t.push("rows", [Row("ann", at, at=at) for at in (0, 8, 16, 24, 40)])
        t.checkpoint()
        assert [row["n"] for row in t.rows("out")] == [-1, 0, 8, 16, -1]
