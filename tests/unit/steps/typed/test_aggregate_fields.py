"""Aggregates of a state give what the step ``aggregate`` gives, row for row, and are undone, stored and shown."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps

INTS = st.sampled_from([0, 1, -1, 7, 2**62, -(2**62), 2**53 + 1]) | st.integers(-1000, 1000)
FLOATS = st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1e308, 0.1, -2.5])
ROWS = st.lists(
    st.builds(
        lambda key, i, u, f, b: {"key": key, "i": i, "u": u, "f": f, "b": b, "at": abs(i) % 1000},
        st.sampled_from("ab"), INTS, st.sampled_from([0, 5, 2**64 - 1, 2**63]), FLOATS, st.booleans(),
    ),
    max_size=15,
)  # fmt: skip
COLUMNS = {"key": "string", "i": "int64", "u": "uint64", "f": "double", "b": "bool", "at": "timestamp[us]"}


@ps.record
class Row:
    key: str
    i: int
    u: ps.uint64
    f: float
    b: bool
    at: ps.Time


@ps.record
class Found:
    key: str
    n: int
    i_mean: float | None
    i_min: int | None
    i_last: int | None
    u_mean: float | None
    u_max: ps.uint64 | None
    f_sum: float | None
    f_mean: float | None
    f_min: float | None
    f_max: float | None
    b_max: bool | None
    at_max: ps.Time | None


@ps.state
class Kept:
    n: ps.Aggregate[ps.count]  # type: ignore[valid-type]
    i_mean: ps.Aggregate[ps.mean, int]  # type: ignore[type-arg,valid-type]
    i_min: ps.Aggregate[ps.min, int]  # type: ignore[type-arg,valid-type]
    i_last: ps.Aggregate[ps.last, int]  # type: ignore[type-arg,valid-type]
    u_mean: ps.Aggregate[ps.mean, ps.uint64]  # type: ignore[type-arg,valid-type]
    u_max: ps.Aggregate[ps.max, ps.uint64]  # type: ignore[type-arg,valid-type]
    f_sum: ps.Aggregate[ps.sum]  # type: ignore[valid-type]
    f_mean: ps.Aggregate[ps.mean]  # type: ignore[valid-type]
    f_min: ps.Aggregate[ps.min]  # type: ignore[valid-type]
    f_max: ps.Aggregate[ps.max]  # type: ignore[valid-type]
    b_max: ps.Aggregate[ps.max, bool]  # type: ignore[type-arg,valid-type]
    at_max: ps.Aggregate[ps.max, ps.Time]  # type: ignore[type-arg,valid-type]


NAMES = ("n", "i_mean", "i_min", "i_last", "u_mean", "u_max", "f_sum", "f_mean", "f_min", "f_max", "b_max",
         "at_max")  # fmt: skip


def keep(r: Row, s: Kept, out: ps.Out[Found]) -> None:
    for name in NAMES:
        getattr(s, name).add(r.key if name == "n" else getattr(r, name.split("_")[0]))
    out.emit(Found(r.key, *[getattr(s, name).value for name in NAMES]))


@given(ROWS)
@settings(max_examples=40, deadline=None)
def test_values_are_those_of_the_step_after_every_row(rows: list[dict[str, Any]]) -> None:
    def of(column: str) -> dict[str, Any]:
        made = {"i": ("mean", "min", "last"), "u": ("mean", "max"), "f": ("sum", "mean", "min", "max"), "b": ("max",), "at": ("max",)}  # noqa: E501  # fmt: skip
        return {f"{column}_{name}": getattr(ps, name)(column) for name in made[column]}

    job = ps.Job()
    keyed = job.source("rows", ps.parquet("x"), columns=COLUMNS).key_by("key")
    keyed.process("keep", keep).sink("ours", ps.discard())
    computed = {k: v for column in ("i", "u", "f", "b", "at") for k, v in of(column).items()}
    keyed.aggregate("step", n=ps.count(), **computed).sink("theirs", ps.discard())
    result = ps.run(job, inputs={"rows": rows}, collect=True)
    ours, theirs = result["ours"], result["theirs"]
    assert [repr([r[name] for name in ("key", *NAMES)]) for r in ours] == [
        repr([r[name] for name in ("key", *NAMES)]) for r in theirs
    ]
    assert len(list(ours)) == len(rows)


@ps.record
class Amount:
    who: str
    amount: int


@ps.record
class Mean:
    who: str
    mean: float | None


@ps.state
class Account:
    total: ps.Aggregate[ps.sum, int]  # type: ignore[type-arg,valid-type]
    mean: ps.Aggregate[ps.mean, int]  # type: ignore[type-arg,valid-type]


def pay(r: Amount, s: Account, out: ps.Out[Mean]) -> None:
    s.mean.add(r.amount)
    s.total.add(r.amount)
    if r.amount == 0:
        s.clear()  # type: ignore[attr-defined]
    out.emit(Mean(r.who, s.mean.value))


def accounts() -> ps.Job:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"who": "string", "amount": "int64"}).key_by("who")
    found = rows.process("pay", pay, on_error="dead-letter")
    found.sink("out", ps.discard())
    found.dead_letter.sink("bad", ps.discard())
    return job


def test_a_sum_that_leaves_64_bits_is_an_error_of_its_record_which_changes_nothing() -> None:
    with ps.testing.run(accounts()) as t:
        t.push(
            "rows", [Amount("ann", 2**62), Amount("ann", 2**62), Amount("ann", 2), Amount("bob", 1), Amount("bob", 0)]
        )
        t.checkpoint()
        assert [row["mean"] for row in t.rows("out")] == [2.0**62, 2.0**61, 1.0, None]
        (bad,) = t.rows("bad")
        assert f"Account.total: {2**62} + {2**62}: the sum leaves 64 bits" in bad["error"]
        assert t.state("pay") == {"ann": Account(total=2**62 + 2, mean=2.0**61)}  # type: ignore[arg-type]


def test_what_was_added_is_in_a_checkpoint_also_beyond_64_bits() -> None:
    @ps.state
    class Wide:
        mean: ps.Aggregate[ps.mean, int]  # type: ignore[type-arg,valid-type]

    def add(r: Amount, s: Wide, out: ps.Out[Mean]) -> None:
        s.mean.add(r.amount)
        out.emit(Mean(r.who, s.mean.value))

    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"who": "string", "amount": "int64"}).key_by("who")
    rows.process("add", add).sink("out", ps.discard())
    with ps.testing.run(job, workers=2) as t:
        t.push("rows", [Amount(who, amount) for who in "abcd" for amount in (2**63 - 1, 2**63 - 1, 2**63 - 1)])
        with t.restore(t.snapshot(), workers=3) as later:
            later.push("rows", [Amount(who, -(2**63)) for who in "abcd"])
            assert {who: kept.mean for who, kept in later.state("add").items()} == dict.fromkeys("abcd", 2.0**62)


@pytest.mark.parametrize("value", ["x", 1.5, None, 2**70])
def test_a_value_of_another_type_is_refused(value: Any) -> None:
    def wrong(r: Amount, s: Account, out: ps.Out[Mean]) -> None:
        s.total.add(value)

    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"who": "string", "amount": "int64"}).key_by("who")
    found = rows.process("wrong", wrong, on_error="dead-letter")
    found.sink("out", ps.discard())
    found.dead_letter.sink("bad", ps.discard())
    with ps.testing.run(job) as t:
        t.push("rows", [Amount("ann", 1)])
        t.checkpoint()
        (bad,) = t.rows("bad")
        assert "a value of Account.total" in bad["error"]
