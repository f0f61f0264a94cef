"""Lists, maps and sets of a state: how many entries they take, and what a function finds in them."""

from collections.abc import Callable
from typing import Any

import penstock as ps


@ps.record
class Reading:
    mote: str
    n: int


@ps.record
class Seen:
    mote: str
    entries: str


@ps.state
class Kept:
    few: ps.List[int] = ps.field(max=2)
    counts: ps.Map[str, int]
    seen: ps.Set[float]


def job(function: Callable[..., Any]) -> ps.Job:
    job = ps.Job()
    readings = job.source("readings", ps.parquet("x"), columns={"mote": "string", "n": "int64"})
    found = readings.key_by("mote").process("keep", function, on_error="dead-letter")
    found.sink("out", ps.discard())
    found.dead_letter.sink("bad", ps.discard())
    return job


def test_a_list_takes_as_many_items_as_its_field_allows() -> None:
    def add(r: Reading, s: Kept, out: ps.Out[Seen]) -> None:
        s.few.append(r.n)

    with ps.testing.run(job(add)) as t:
        t.push("readings", [Reading("m", n) for n in range(3)])
        t.checkpoint()
        assert list(t.state("keep")["m"].few) == [0, 1]
        (bad,) = t.rows("bad")
        assert "few has 2 entries, and no room for another one" in bad["error"]


MANY = 100  # more than are read together with their key


def test_a_loop_over_a_map_finds_what_the_function_has_written() -> None:
    def count(r: Reading, s: Kept, out: ps.Out[Seen]) -> None:
        if r.n == 0:
            for i in range(MANY):
                s.counts[f"{i:03d}"] = i
        else:
            s.counts["007"] = r.n
            out.emit(Seen(r.mote, str([s.counts[key] for key in s.counts])))

    with ps.testing.run(job(count)) as t:
        t.push("readings", [Reading("m", 0)])
        t.checkpoint()
        t.push("readings", [Reading("m", 5000)])
        t.checkpoint()
        assert [row["entries"] for row in t.rows("out")] == [str([*range(7), 5000, *range(8, MANY)])]


def test_a_set_has_one_zero_and_shows_it_the_same_before_and_behind_a_checkpoint() -> None:
    def add(r: Reading, s: Kept, out: ps.Out[Seen]) -> None:
        s.seen.add(-0.0)
        if r.n:
            s.seen.add(0.0)
        out.emit(Seen(r.mote, f"{len(s.seen)} {list(s.seen)}"))

    with ps.testing.run(job(add)) as t:
        t.push("readings", [Reading("m", 0)])
        t.checkpoint()
        t.push("readings", [Reading("m", 1)])
        t.checkpoint()
        assert [row["entries"] for row in t.rows("out")] == ["1 [0.0]", "1 [0.0]"]
