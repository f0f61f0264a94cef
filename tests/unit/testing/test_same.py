"""Compiled and interpreted runs of one job are compared."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.graph import Process
from penstock.inprocess.prepare import prepare


@ps.record
class Txn:
    who: str
    amount: int
    weight: float | None


@ps.record
class Sum:
    who: str
    total: int
    mean: float


factor = 1


@ps.state
class Seen:
    total: int = 0
    last: ps.Ring[float, 2]  # type: ignore[valid-type]


def add(r: Txn, s: Seen, out: ps.Out[Sum]) -> None:
    s.total += r.amount
    if r.weight is not None:
        s.last.append(r.weight)
    if len(s.last) > 0:
        out.emit(Sum(r.who, s.total, s.last[0] / r.amount))


def unknown_to_machines(r: Txn, s: Seen, out: ps.Out[Sum]) -> None:
    out.emit(Sum(r.who, sorted([r.amount])[0], 0.0))


def job_of(function: Any, **given: Any) -> ps.Job:
    job = ps.Job()
    source = job.source("txns", ps.parquet("no"), columns={"who": "string", "amount": "int64", "weight": "double"})
    added = source.key_by("who").process("add", function, **given)
    added.sink("out", ps.parquet("no"))
    if "on_error" in given:
        added.dead_letter.sink("bad", ps.parquet("no"))
    return job


ROWS = [Txn("ann", 2, 1.5), Txn("bob", 4, None), {"who": "ann", "amount": 5, "weight": -0.0}]
DRAWN = ps.testing.rows(Txn, who=st.sampled_from(["ann", "bob"]))


@pytest.mark.parametrize("rows", [ROWS, {"txns": ROWS}, DRAWN, {"txns": DRAWN}])
def test_a_compiled_function_does_what_python_does(rows: Any) -> None:
    ps.testing.same(job_of(add, on_error="dead-letter"), rows, workers=2)


def test_a_job_that_fails_has_to_fail_alike() -> None:
    ps.testing.same(job_of(add), [Txn("ann", 0, 1.0)])


def scaled(r: Txn, s: Seen, out: ps.Out[Sum]) -> None:
    out.emit(Sum(r.who, r.amount * factor, 0.0))


def test_a_difference_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    ps.testing.same(job_of(scaled), ROWS)
    monkeypatch.setitem(scaled.__globals__, "factor", 3)  # machine code keeps what it was when it was made
    with pytest.raises(AssertionError, match=r"compiled: .*'total': 2.*\ninterpreted: .*'total': 6"):
        ps.testing.same(job_of(scaled), ROWS)


def test_a_job_without_a_compiled_function_has_nothing_to_compare() -> None:
    with pytest.raises(ConfigError, match=r"nothing to compare: add: .*test_same\.py:\d+: "):
        ps.testing.same(job_of(unknown_to_machines), ROWS)
    with pytest.raises(ConfigError, match="nothing to compare: add: compiled=never"):
        ps.testing.same(job_of(add, compiled="never"), ROWS)
    plain = ps.Job()
    plain.source("a", ps.parquet("no"), columns={"n": "int64"}).sink("out", ps.parquet("no"))
    with pytest.raises(ConfigError, match="nothing to compare: none has types"):
        ps.testing.same(plain, [])


def test_a_job_with_two_sources_says_which() -> None:
    job = job_of(add)
    job.source("others", ps.parquet("no"), columns={"n": "int64"}).sink("rest", ps.parquet("no"))
    with pytest.raises(ConfigError, match=r"same: the job has the sources txns, others: give rows=\{name: rows\}"):
        ps.testing.same(job, ROWS)
    ps.testing.same(job, {"txns": ROWS, "others": [{"n": 1}]})


def test_the_choice_of_the_job_is_not_changed() -> None:
    job = job_of(add, compiled="require")
    ps.testing.same(job, ROWS)
    steps = [node.parameters for stage in prepare(job, None, {"txns": ROWS}, True).job.stages for node in stage.nodes]
    assert [str(step.call.compiled) for step in steps if isinstance(step, Process)] == ["require"]


@ps.record
class Wide:
    small: ps.uint8
    half: ps.float32
    flag: bool
    raw: bytes
    kind: ps.Enum["a", "b"]  # noqa: F821
    at: ps.Time


@ps.record
class Nested:
    inner: Txn


def test_each_kind_of_a_scalar_field_is_drawn() -> None:
    seen: list[Wide] = []

    @given(ps.testing.rows(Wide, max_rows=2))
    def look(drawn: list[Wide]) -> None:
        seen.extend(drawn)

    look()
    assert {w.kind for w in seen} == {"a", "b"}
    assert {w.flag for w in seen} == {False, True}
    assert all(0 <= w.small < 256 and w.at >= 0 for w in seen)


@pytest.mark.parametrize(
    ("record", "fields", "message"),
    [
        (int, {}, "rows: .*int.* is no ps.record"),
        (Txn, {"whom": st.text()}, "rows: .*whom.*did you mean 'who'"),
        (Nested, {}, r"rows: give a strategy for inner: rows\(Nested, inner=...\)"),
    ],
)
def test_rows_that_cannot_be_drawn_are_refused(record: Any, fields: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ps.testing.rows(record, **fields)
