"""Functions that raise for some rows: results do not depend on how rows fall into batches."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.base.errors import UserCodeError
from penstock.contract.graph import Call, OnError, Per
from penstock.keyed_state.hot import HotTable
from penstock.steps.keyed import KeyColumns
from penstock.steps.process import ProcessStep
from penstock.steps.state_values import BatchState
from penstock.steps.stateless import FilterStep, FlatMapStep, MapStep

ROWS = pa.schema([("k", pa.string()), ("n", pa.int64())])
GIVEN = pa.schema([("k", pa.string()), ("n", pa.int64()), ("seen", pa.int64())])
STATE = pa.schema([("seen", pa.int64())])

outcomes = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["fine", "fine", "fine", "raise", "misfit"])),
    min_size=1,
    max_size=60,
)
cuts = st.lists(st.integers(1, 20), min_size=1, max_size=8)
slices = st.one_of(st.none(), st.integers(1, 9))


def batches(rows: list[tuple[str, str]], lengths: list[int]) -> list[pa.RecordBatch]:
    whole = pa.record_batch({"k": [k for k, _ in rows], "n": range(len(rows))}, schema=ROWS)
    found, at, turn = [], 0, 0
    while at < len(rows):
        found.append(whole.slice(at, lengths[turn % len(lengths)]))
        at, turn = at + lengths[turn % len(lengths)], turn + 1
    return found


def run(step: Any, cut: list[pa.RecordBatch]) -> tuple[list[dict[str, Any]], list[int]]:
    main: list[dict[str, Any]] = []
    dead: list[int] = []
    step.bind({
        "main": lambda b: main.extend(b.to_pylist()),
        "dead-letter": lambda b: dead.extend(b.column("n").to_pylist()),
    })  # fmt: skip
    for batch in cut:
        step.on_batch(batch)
    return main, dead


def call(per: Per, rows: int | None) -> Call:
    return Call("f", per, rows, (), OnError.DEAD_LETTER)


@given(
    outcomes,
    cuts,
    slices,
    st.sampled_from(list(Per)),
    st.sampled_from([MapStep, FlatMapStep, FilterStep]),
)
def test_every_row_is_given_once_or_refused_once(
    rows: list[tuple[str, str]], lengths: list[int], size: int | None, per: Per, kind: Any
) -> None:
    bad = {n for n, (_, outcome) in enumerate(rows) if outcome != "fine"}

    def function(given: Any) -> Any:
        found = [given["n"]] if per is Per.RECORD else given.column("n").to_pylist()
        if bad.intersection(found):
            raise ValueError("bad")
        if kind is FilterStep:
            return True if per is Per.RECORD else [True] * len(found)
        return [given] if kind is FlatMapStep and per is Per.RECORD else given

    step = kind("s", call(per, size), function, *([] if kind is FilterStep else [ROWS]))
    main, dead = run(step, batches(rows, lengths))
    assert dead == sorted(bad)
    assert [r["n"] for r in main] == [n for n in range(len(rows)) if n not in bad]


@given(outcomes, cuts, slices, st.sampled_from(list(Per)))
def test_state_is_as_if_the_rows_at_fault_had_never_come(
    rows: list[tuple[str, str]], lengths: list[int], size: int | None, per: Per
) -> None:
    def by_record(record: dict[str, Any], state: dict[str, Any]) -> Any:
        state["seen"] += 1
        outcome = rows[record["n"]][1]
        n = "misfit" if outcome == "misfit" else record["n"]
        yield {"k": record["k"], "n": n, "seen": state["seen"]}
        if outcome == "raise":
            raise ValueError("bad")

    def by_batch(batch: pa.RecordBatch, state: BatchState) -> pa.RecordBatch:
        seen, places = state["seen"], []
        for key in state.index:
            seen[key] += 1
            places.append(int(seen[key]))
        state["seen"] = seen
        told = batch.column("n").to_pylist()
        if any(rows[n][1] == "raise" for n in told):
            raise ValueError("bad")
        numbers = [-1 if rows[n][1] == "misfit" else n for n in told]
        columns = {"k": batch.column("k"), "n": numbers, "seen": places}
        return pa.record_batch(columns if -1 not in numbers else {"k": batch.column("k")})

    function = by_record if per is Per.RECORD else by_batch
    step = ProcessStep("s", KeyColumns(ROWS, ["k"], 16), call(per, size), function, (STATE, GIVEN))
    step.open(HotTable)
    main, dead = run(step, batches(rows, lengths))
    seen = dict.fromkeys("abc", 0)
    expected = []
    for n, (key, outcome) in enumerate(rows):
        if outcome == "fine":
            seen[key] += 1
            expected.append({"k": key, "n": n, "seen": seen[key]})
    assert main == expected
    assert dead == [n for n, (_, outcome) in enumerate(rows) if outcome != "fine"]


VALUED = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.string())])
PASSED = pa.schema([*VALUED, ("seen", pa.int64())])
valued = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["n/a", "x", "y", None]), st.booleans()),
    min_size=1,
    max_size=80,
)


@given(valued, cuts, slices, st.booleans(), st.booleans())
def test_repeated_bad_values_change_no_result(
    rows: list[tuple[str, str | None, bool]],
    lengths: list[int],
    size: int | None,
    stateful: bool,
    always: bool,
) -> None:
    """Rows with "n/a" or a null are at fault. Another column says whether all of them are."""
    bad = {n for n, (_, v, odd) in enumerate(rows) if v in {"n/a", None} and (odd or always)}

    def check(batch: pa.RecordBatch) -> None:
        for n in batch.column("n").to_pylist():
            if n in bad:
                raise TypeError("NoneType") if rows[n][1] is None else ValueError(f"{rows[n][1]!r}")

    def mapped(batch: pa.RecordBatch) -> pa.RecordBatch:
        check(batch)
        return batch

    def counted(batch: pa.RecordBatch, state: BatchState) -> pa.RecordBatch:
        seen, places = state["seen"], []
        for key in state.index:
            seen[key] += 1
            places.append(int(seen[key]))
        state["seen"] = seen
        check(batch)
        return batch.append_column("seen", pa.array(places, pa.int64()))

    step: Any = MapStep("s", call(Per.BATCH, size), mapped, VALUED)
    if stateful:
        keys = KeyColumns(VALUED, ["k"], 16)
        step = ProcessStep("s", keys, call(Per.BATCH, size), counted, (STATE, PASSED))
        step.open(HotTable)
    names = {"k": [k for k, _, _ in rows], "n": range(len(rows)), "v": [v for _, v, _ in rows]}
    whole, cut, at, turn = pa.record_batch(names, schema=VALUED), [], 0, 0
    while at < len(rows):
        cut.append(whole.slice(at, lengths[turn % len(lengths)]))
        at, turn = at + lengths[turn % len(lengths)], turn + 1
    main, dead = run(step, cut)
    assert dead == sorted(bad)
    assert [row["n"] for row in main] == [n for n in range(len(rows)) if n not in bad]
    seen = dict.fromkeys("ab", 0)
    for row in main if stateful else ():
        seen[row["k"]] += 1
        assert row["seen"] == seen[row["k"]]


refusals = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["fine", "fine", "raise", "refuse"])),
    min_size=1,
    max_size=60,
)


def refusing(kind: Any, outcome: dict[int, str]) -> Any:
    """Return a batch function that raises for some rows and refuses others by itself."""

    def function(batch: pa.RecordBatch, state: BatchState | None = None) -> Any:
        told = batch.column("n").to_pylist()
        if any(outcome[n] == "raise" for n in told):
            raise ValueError("raised")
        bad = [outcome[n] == "refuse" for n in told]
        good = [not b for b in bad]
        reasons = pa.array([f"refused {n}" if b else None for n, b in zip(told, bad, strict=True)])
        if kind is FilterStep:
            return ps.Refusing([True] * len(told), pa.array(bad), reasons)
        if kind is MapStep:  # its result for a refused row is ignored
            values = [n if g else -1 for n, g in zip(told, good, strict=True)]
            return ps.Refusing(batch.set_column(1, "n", pa.array(values)), pa.array(bad), reasons)
        rows = batch.filter(pa.array(good))
        if state is None:
            return ps.Refusing(rows, np.array(bad), reasons)
        seen, places = state["seen"], []
        for key, is_good in zip(state.index, good, strict=True):
            seen[key] += is_good
            places += [int(seen[key])] if is_good else []
        state["seen"] = seen
        rows = rows.append_column("seen", pa.array(places, pa.int64()))
        return ps.Refusing(rows, np.array(bad), reasons)

    return function


@given(
    refusals,
    cuts,
    slices,
    st.sampled_from([MapStep, FlatMapStep, FilterStep, ProcessStep]),
    st.booleans(),
)
def test_refused_rows_do_not_depend_on_how_rows_fall_into_batches(
    rows: list[tuple[str, str]], lengths: list[int], size: int | None, kind: Any, fails: bool
) -> None:
    """Some rows are refused and some raise; ``fails``: the first of them ends the job."""
    outcome = dict(enumerate(outcome for _, outcome in rows))
    asked = Call("f", Per.BATCH, size, (), OnError.FAIL if fails else OnError.DEAD_LETTER)
    function = refusing(kind, outcome)
    if kind is ProcessStep:
        step: Any = kind("s", KeyColumns(ROWS, ["k"], 16), asked, function, (STATE, GIVEN))
        step.open(HotTable)
    else:
        step = kind("s", asked, function, *([] if kind is FilterStep else [ROWS]))
    bad = [n for n, what in outcome.items() if what != "fine"]
    if fails and bad:
        with pytest.raises(UserCodeError) as raised:
            run(step, batches(rows, lengths))
        assert f"'n': {bad[0]}" in str(raised.value)
        assert ("raised" if outcome[bad[0]] == "raise" else f"refused {bad[0]}") in str(raised.value)
        return
    seen, expected = dict.fromkeys("ab", 0), []
    for n, (key, _) in enumerate(rows):
        if n not in bad:
            seen[key] += 1
            more = {"seen": seen[key]} if kind is ProcessStep else {}
            expected.append({"k": key, "n": n, **more})
    assert run(step, batches(rows, lengths)) == (expected, bad)
