"""Steps whose functions have types: what they emit, and that a record that fails leaves nothing."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import UserCodeError

EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)


@ps.record
class Order:
    who: str
    n: int
    kind: ps.Enum["NEW", "OLD"] = "NEW"  # noqa: F821
    at: ps.Time = 0


@ps.record
class Sum:
    who: str
    total: int
    at: ps.Time = 0


@ps.record
class Odd:
    n: int


@ps.record
class Item:
    n: int
    name: str = ""


@ps.state
class Kept:
    total: int = 100
    label: str = "new"
    pair: tuple[int, str | None] = (3, None)
    best: Item = Item(0)
    kind: ps.Enum["NEW", "OLD"] = "OLD"  # noqa: F821
    last: ps.Ring[ps.int8, 3]  # type: ignore[valid-type]
    items: ps.List[Item]
    counts: ps.Map[str, int]
    seen: ps.Set[int]
    idle: ps.Timer


def keep(r: Order, s: Kept, out: ps.Out[Sum, {"odd": Odd}]) -> None:  # type: ignore[type-arg,misc] # noqa: F821
    """Write every field, emit to both outputs, and fail for -1."""
    s.total += r.n
    s.label += "x"
    s.pair = (r.n, r.who)
    s.best = Item(r.n, r.who)
    s.kind = r.kind
    s.last.append(r.n)
    s.items.append(Item(r.n))
    s.counts[r.who] = s.counts.get(r.who, 0) + 1
    s.seen.add(r.n)
    s.idle = r.at + ps.seconds(1)
    if r.n % 2:
        out.to("odd", Odd(r.n))
    out.emit(Sum(r.who, s.total, r.at))
    if r.n == -1:
        raise ValueError("minus one")


def ignore(t: ps.Time, key: Any, s: Kept, out: ps.Out[Sum]) -> None: ...


def job(function: Any = keep, *, on_error: Any = "dead-letter", odd: bool = True) -> ps.Job:
    job = ps.Job()
    columns = {"who": "string", "n": "int64", "kind": "string", "at": "timestamp[us]"}
    orders = job.source("orders", ps.parquet("x"), columns=columns, event_time="at")
    sums = orders.key_by("who").process("keep", function, on_error=on_error, on_timer={"idle": ignore})
    sums.sink("sums", ps.discard())
    if odd:
        sums.output("odd").sink("odd", ps.discard())
    if on_error == "dead-letter":
        sums.dead_letter.sink("bad", ps.discard())
    return job


def test_a_failed_record_leaves_nothing_in_any_kind_of_field() -> None:
    with ps.testing.run(job()) as t:
        t.push("orders", [Order("ann", n) for n in (1, -1, 2, -1)] + [Order("bob", -1)])
        t.checkpoint()
        assert t.rows("sums") == [{"who": "ann", "total": n, "at": EPOCH} for n in (101, 103)]
        assert t.rows("odd") == [{"n": 1}]
        assert [row["error"] for row in t.rows("bad")] == ["ValueError: minus one"] * 3
        expected: dict[str, Any] = {
            "total": 103,
            "label": "newxx",
            "pair": (2, "ann"),
            "best": Item(2, "ann"),
            "kind": "NEW",
            "last": [1, 2],
            "items": [Item(1), Item(2)],
            "counts": {"ann": 2},
            "seen": [1, 2],
            "idle": 1_000_000,
        }
        assert t.state("keep") == {"ann": Kept(**expected)}, "of bob nothing is kept, not even the key"


def test_results_do_not_depend_on_how_rows_fall_into_batches() -> None:
    orders = [Order(who, n % 7 - 1, "OLD" if n % 2 else "NEW", n) for n in range(40) for who in ("ann", "bob")]
    found = []
    for size in (1, 3, 80):
        with ps.testing.run(job(), workers=2) as t:
            for at in range(0, len(orders), size):
                t.push("orders", orders[at : at + size])
            t.checkpoint()
            rows = [sorted(map(str, t.rows(sink))) for sink in ("sums", "odd")]
            bad = sorted((row["who"], row["n"], row["at"]) for row in t.rows("bad"))
            found.append((rows, bad, sorted(t.state("keep").items())))
    assert found[0] == found[1] == found[2]


def test_a_state_outlives_a_restore_with_other_workers() -> None:
    with ps.testing.run(job(), workers=2) as t:
        t.push("orders", [Order(who, 1) for who in "abcdefgh"])
        before = t.state("keep")
        with t.restore(t.snapshot(), workers=3) as restored:
            assert restored.state("keep") == before
            restored.push("orders", [Order("a", 2)])
            assert restored.state("keep")["a"].last == [1, 2]


@pytest.mark.parametrize("compiled", ["require", "never"])
def test_rows_keep_the_place_and_the_event_time_of_their_record(compiled: Any) -> None:
    def build() -> ps.Job:
        job = ps.Job()
        columns = {"who": "string", "n": "int64", "kind": "string", "at": "timestamp[us]"}
        orders = job.source("orders", ps.parquet("x"), columns=columns, event_time="at")
        sums = orders.flat_map("spread", spread, compiled=compiled)
        counts = sums.key_by("who").window("counts", "1s", n=ps.count())
        counts.sink("out", ps.discard())
        counts.late.sink("late", ps.discard())
        return job

    def spread(r: Order, out: ps.Out[Sum]) -> None:
        for _ in range(r.n):
            out.emit(Sum(r.who, r.n, r.at))

    with ps.testing.run(build()) as t:
        t.push("orders", [Order("ann", 2, at=0), Order("ann", 0, at=3_000_000), Order("bob", 1, at=500_000)])
        t.watermark("orders", 10_000_000)
        t.checkpoint()
        assert [(row["who"], row["n"]) for row in t.rows("out")] == [("ann", 2)]
        assert [row["who"] for row in t.rows("late")] == ["bob"], "the order of 3 s was before it, and emitted nothing"


def test_the_error_names_the_line_the_record_and_the_field() -> None:
    def wrong(r: Order, s: Kept, out: ps.Out[Sum]) -> None:
        out.emit(Sum(r.who, "x"))  # type: ignore[arg-type]

    with ps.testing.run(job(wrong, on_error="fail", odd=False)) as t, pytest.raises(UserCodeError) as caught:
        t.push("orders", [Order("ann", 1)])
    text = str(caught.value)
    assert "step 'keep'" in text
    assert "Sum.total cannot hold 'x' as int64: it is no number but str" in text
    assert "'who': 'ann'" in text
    assert 'out.emit(Sum(r.who, "x"))' in text


def generator(r: Order, s: Kept, out: ps.Out[Sum]) -> Iterator[Sum]:
    yield Sum(r.who, r.n)


generator.__annotations__.pop("return")


def none(r: Order, s: Kept, out: ps.Out[Sum]) -> None:
    out.emit(None)  # type: ignore[arg-type]


def other(r: Order, s: Kept, out: ps.Out[Sum]) -> None:
    out.emit(Odd(1))  # type: ignore[arg-type]


def no_output(r: Order, s: Kept, out: ps.Out[Sum]) -> None:
    out.to("od", Odd(1))


def attribute(r: Order, s: Kept, out: ps.Out[Sum]) -> None:
    s.totl = 1  # type: ignore[attr-defined]


def unset(r: Order, s: Kept, out: ps.Out[Sum]) -> None:
    out.main = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (generator, "TypeError: the function returned generator; emit records by out.emit"),
        (none, "TypeError: None is no record of Sum"),
        (other, "TypeError: Odd is no record of Sum"),
        (no_output, "ValueError: unknown output 'od'"),
        (attribute, "AttributeError: .*totl"),
        (unset, "AttributeError: .*main"),
    ],
)
def test_what_a_function_must_not_do_is_an_error_of_its_record(function: Any, text: str) -> None:
    with ps.testing.run(job(function, odd=False)) as t:
        t.push("orders", [Order("ann", 1)])
        t.checkpoint()
        (bad,) = t.rows("bad")
        assert bad["who"] == "ann"
        assert re.search(text, bad["error"])
        assert t.state("keep") == {}


def test_a_map_and_a_filter_take_records_and_refuse_bad_ones() -> None:
    def half(r: Order) -> Sum:
        return Sum(r.who, r.n // (r.n % 5))

    def big(r: Sum) -> bool:
        return r.total > 1

    built = ps.Job()
    columns = {"who": "string", "n": "int64", "kind": "string", "at": "timestamp[us]"}
    halves = built.source("orders", ps.parquet("x"), columns=columns).map("half", half, on_error="dead-letter")
    kept = halves.filter("big", big, on_error="dead-letter")
    kept.sink("out", ps.discard())
    kept.dead_letter.sink("odd", ps.discard())
    halves.dead_letter.sink("bad", ps.discard())
    with ps.testing.run(built) as t:
        rows = ("a", 4, "NEW"), ("a", 5, "NEW"), ("a", 7, "SOME"), (None, 8, "NEW"), ("a", 14, "OLD"), ("a", 6, "NEW")
        orders = [{"who": who, "n": n, "kind": kind, "at": 0} for who, n, kind in rows]
        t.push("orders", orders)
        t.checkpoint()
        assert [row["total"] for row in t.rows("out")] == [3, 6]
        assert [row["error"] for row in t.rows("bad")] == [
            "ZeroDivisionError: integer division or modulo by zero",
            "UnfitError: Order.kind: 'SOME' is none of the texts of the Enum",
            "UnfitError: Order.who: the value is null, and string allows no None",
        ]
        assert t.rows("odd") == []


def test_a_filter_must_return_a_bool() -> None:
    def one(r: Order) -> bool:
        return r.n  # type: ignore[return-value]

    built = ps.Job()
    columns = {"who": "string", "n": "int64", "kind": "string", "at": "timestamp[us]"}
    kept = built.source("orders", ps.parquet("x"), columns=columns).filter("one", one, on_error="dead-letter")
    kept.sink("out", ps.discard())
    kept.dead_letter.sink("bad", ps.discard())
    with ps.testing.run(built) as t:
        t.push("orders", [Order("ann", 1)])
        t.checkpoint()
        assert [row["error"] for row in t.rows("bad")] == [
            "TypeError: the function returned int; it must return a bool"
        ]
