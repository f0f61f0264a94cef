"""Steps with types in both modes: machine code and Python make the same rows, dead letters and state."""

import re
from pathlib import Path
from typing import Any, Literal

import pytest

import penstock as ps
from penstock.base.errors import ConfigError, UserCodeError
from penstock.cli.function_lines import function_lines
from penstock.graph import load_job, read_job_file

Mode = Literal["auto", "never", "require"]


@ps.record
class Order:
    who: str
    n: int
    x: float | None = None


@ps.record
class Priced:
    who: str
    n: int
    price: float


@ps.record
class Part:
    who: str
    number: int


@ps.record
class Rare:
    n: int


@ps.record
class Total:
    who: str
    total: int


@ps.state
class Seen:
    total: int = 0


def seen(total: int) -> Any:
    return Seen(total=total)


def price(r: Order) -> Priced:
    if r.x is None:
        return Priced(r.who, r.n, 1.0 / r.n)
    return Priced(r.who, r.n, r.x)


def cheap(r: Priced) -> bool:
    if r.n == 13:
        raise ValueError("thirteen")
    return r.price < 2.0


def parts(r: Priced, out: ps.Out[Part]) -> None:
    for i in range(r.n % 4):
        out.emit(Part(r.who, i + 100 // (r.n - 7)))


def total(r: Part, s: Seen, out: ps.Out[Total, {"rare": Rare}]) -> None:  # type: ignore[misc,type-arg] # noqa: F821
    s.total += r.number
    if r.number > 40:
        out.to("rare", Rare(r.number))
    out.emit(Total(r.who, s.total))
    if s.total % 11 == 3:
        raise ValueError("eleven")


def job(mode: Mode) -> ps.Job:
    job = ps.Job()
    columns = {"who": "string", "n": "int64", "x": "float64"}
    orders = job.source("orders", ps.parquet("x"), columns=columns)
    priced = orders.map("price", price, compiled=mode, on_error="dead-letter")
    kept = priced.filter("cheap", cheap, compiled=mode, on_error="dead-letter")
    split = kept.flat_map("parts", parts, compiled=mode, on_error="dead-letter")
    totals = split.key_by("who").process("total", total, compiled=mode, on_error="dead-letter")
    totals.sink("totals", ps.discard())
    totals.output("rare").sink("rare", ps.discard())
    for name, step in (("price", priced), ("cheap", kept), ("parts", split), ("total", totals)):
        step.dead_letter.sink(f"bad-{name}", ps.discard())
    return job


def orders() -> list[Order]:
    return [Order("abc"[n % 3], n % 17, None if n % 5 == 0 else n / 50) for n in range(300)]


SINKS = ("totals", "rare", "bad-price", "bad-cheap", "bad-parts", "bad-total")


def results(mode: Mode, size: int) -> Any:
    with ps.testing.run(job(mode)) as t:
        given = orders()
        for at in range(0, len(given), size):
            t.push("orders", given[at : at + size])
        t.checkpoint()
        return {sink: t.rows(sink) for sink in SINKS}, t.state("total")


def test_both_modes_make_the_same_rows_in_the_same_order() -> None:
    compiled, python = results("require", 300), results("never", 300)
    assert compiled == python
    assert all(compiled[0][sink] for sink in SINKS), "each output has rows, so each was compared"


def test_results_do_not_depend_on_how_rows_fall_into_batches() -> None:
    one, other = results("require", 300), results("require", 7)
    assert {sink: sorted(map(str, rows)) for sink, rows in one[0].items()} == {
        sink: sorted(map(str, rows)) for sink, rows in other[0].items()
    }
    assert one[1] == other[1]


def test_a_state_is_the_same_table_in_both_modes() -> None:
    with ps.testing.run(job("require")) as t:
        t.push("orders", orders()[:150])
        snapshot = t.snapshot()
    ended = []
    for mode in ("require", "never"):
        with ps.testing.run(job(mode)) as fresh:
            t = fresh.restore(snapshot, workers=2)
            t.push("orders", orders()[150:])
            t.checkpoint()
            ended.append((sorted(map(str, t.rows("totals"))), t.state("total")))
            t.close()
    assert ended[0] == ended[1]


def test_a_key_of_which_only_failed_records_are_known_is_not_kept() -> None:
    def fails(r: Part, s: Seen, out: ps.Out[Total]) -> None:
        s.total += r.number
        if r.number < 0:
            raise ValueError("negative")

    for mode in ("require", "never"):
        job = ps.Job()
        source = job.source("parts", ps.parquet("x"), columns={"who": "string", "number": "int64"})
        step = source.key_by("who").process("sum", fails, compiled=mode, on_error="dead-letter")
        step.sink("out", ps.discard())
        step.dead_letter.sink("bad", ps.discard())
        with ps.testing.run(job) as t:
            rows = [("a", -1), ("b", -1), ("b", 0), ("c", 0), ("c", -1), ("d", 1), ("d", -1)]
            t.push("parts", [Part(who, number) for who, number in rows])
            assert t.state("sum") == {"b": seen(0), "d": seen(1)}, mode


def test_a_record_that_fails_the_job_is_named_with_its_line() -> None:
    job = ps.Job()
    source = job.source("orders", ps.parquet("x"), columns={"who": "string", "n": "int64", "x": "float64"})
    source.map("price", price, compiled="require").sink("out", ps.discard())
    with ps.testing.run(job) as t, pytest.raises(UserCodeError) as caught:
        t.push("orders", [Order("ann", 1), Order("bob", 0)])
    text = str(caught.value)
    assert "ZeroDivisionError" in text
    assert "1.0 / r.n" in text
    assert "'who': 'bob'" in text


def matched(r: Order) -> bool:
    return re.match("a", r.who) is not None


def test_a_function_that_must_be_compiled_and_cannot_is_refused_by_file_and_line() -> None:
    job = ps.Job()
    source = job.source("orders", ps.parquet("x"), columns={"who": "string", "n": "int64", "x": "float64"})
    with pytest.raises(ConfigError) as caught:
        source.filter("matched", matched, compiled="require")
    line = matched.__code__.co_firstlineno + 1
    assert f"test_compiled_steps.py:{line}: re.match" in str(caught.value)
    assert "with compiled=auto Python runs the function" in str(caught.value)


JOB = """
import re
import penstock as ps

@ps.record
class Row:
    n: int

def even(r: Row) -> bool:
    return r.n % 2 == 0

def named(r: Row) -> bool:
    return re.match("1", str(r.n)) is not None

made = ps.Job()
rows = made.source("rows", ps.parquet("in"), columns={"n": "int64"})
rows.filter("even", even).filter("named", named).filter("again", even, compiled="never").sink("out", ps.parquet("out"))
"""


def test_validate_says_which_functions_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    said = "\n".join(function_lines(load_job(read_job_file(tmp_path / "job.py"), None))) + "\n"
    assert "step 'even': compiled\n" in said
    assert "step 'named': run by Python: " in said
    assert "step 'again': run by Python: compiled=never\n" in said


def returns(r: Order, out: ps.Out[Rare]) -> None:
    return r.n  # type: ignore[return-value]


def returns_early(r: Order, out: ps.Out[Rare]) -> None:
    out.emit(Rare(r.n))
    return None if r.n < 5 else r.n  # type: ignore[return-value]


def test_a_function_that_emits_must_return_nothing() -> None:
    job = ps.Job()
    source = job.source("orders", ps.parquet("x"), columns={"who": "string", "n": "int64", "x": "float64"})
    with pytest.raises(ConfigError, match="returning int from a function that emits is not known"):
        source.flat_map("returns", returns, compiled="require")
    step = source.flat_map("early", returns_early, compiled="require", on_error="dead-letter")
    step.sink("out", ps.discard())
    step.dead_letter.sink("bad", ps.discard())
    with ps.testing.run(job) as t:
        t.push("orders", [Order("ann", n) for n in (4, 5, 3)])
        t.checkpoint()
        assert t.rows("out") == [{"n": 4}, {"n": 3}]
        assert [row["error"] for row in t.rows("bad")] == [
            "TypeError: the function returned int; emit records by out.emit(...)"
        ]


@ps.record
class Whole:
    n: int


def cubed(r: Whole, out: ps.Out[Whole]) -> None:
    """Divide by zero for 0, and overflow in machine code for 10 million: Python runs that record."""
    out.emit(Whole(r.n * r.n * r.n // (r.n * r.n)))


def no_two(r: Whole) -> Whole:
    if r.n == 2:
        raise ValueError("two")
    return Whole(r.n)


def test_rows_of_records_that_python_runs_are_in_their_place() -> None:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"n": "int64"})
    cubes = rows.flat_map("cubed", cubed, compiled="require", on_error="dead-letter")
    kept = cubes.map("no two", no_two, compiled="never", on_error="dead-letter")
    kept.sink("out", ps.discard())
    for name, step in (("zero", cubes), ("two", kept)):
        step.dead_letter.sink(name, ps.discard())
    with ps.testing.run(job) as t:
        t.push("rows", [{"n": n} for n in (3, 0, 10_000_000, 2, 5)])
        t.checkpoint()
        assert [row["n"] for row in t.rows("out")] == [3, 10_000_000, 5]
        assert [row["error_offset"] for row in t.rows("zero")] == [1]
        assert [row["error_offset"] for row in t.rows("two")] == [3]
