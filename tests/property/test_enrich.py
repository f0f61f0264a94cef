"""Rows that wait for answers, against plain Python: any order of answers, some twice, some errors, cuts and moves.

A cut may find any call unanswered.
"""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contract.asynchronous import OnFailure, ResultOrder
from penstock.contract.graph import Call, Enrich, Per
from penstock.steps.base import BOUND_COLUMN, BOUND_FIELD
from penstock.steps.enrich.enrich_step import EnrichStep
from penstock.steps.keyed import KeyColumns
from tests.support.asking_tasks import BEFORE_ALL, GROUPS, AskingTasks

INPUT = pa.schema({"n": pa.int64(), "who": pa.string(), "tags": pa.list_(pa.int64())})
OUTPUT = pa.schema([*INPUT, ("city", pa.string()), ("size", pa.int64())])
# As a source gives them: rows that come out of a state differ from these in nullability.
TIMED = pa.schema([pa.field("n", pa.int64(), nullable=False), *list(INPUT)[1:], BOUND_FIELD])


async def fetch(row: dict[str, Any]) -> dict[str, Any]:
    if row["n"] % 7 == 3:
        raise ValueError(f"no {row['n']}")
    return {"city": f"{row['who']}-{row['n']}", "size": len(row["tags"] or ())}


async def fetch_all(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [await fetch(row) if row["n"] % 7 != 3 else {"city": 1} for row in rows]


def tasks_of(declared: Enrich, folder: Path) -> AskingTasks[EnrichStep]:
    keys = KeyColumns(INPUT, ["who"], GROUPS)
    function: Any = fetch if declared.batch == 1 else fetch_all

    def step() -> EnrichStep:
        return EnrichStep("e", keys, declared, (function, None), (INPUT, OUTPUT), timed=True)

    return AskingTasks(step, keys, folder)


def place_of(tasks: AskingTasks[EnrichStep], number: int) -> int:
    """Return the place of the call for a row."""
    asks: list[Any] = [ask for _, _, ask in tasks.calls.open]
    return next(place for place, ask in enumerate(asks) if ask.args[1]["n"] == number)


def batch(first: int, whos: list[str]) -> pa.RecordBatch:
    numbers = range(first, first + len(whos))
    tags = [None if n % 5 == 0 else list(range(n % 4)) for n in numbers]
    columns = [pa.array(numbers, pa.int64()), pa.array(whos), pa.array(tags, pa.list_(pa.int64()))]
    return pa.RecordBatch.from_arrays([*columns, pa.array(numbers, pa.int64())], schema=TIMED)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.lists(st.sampled_from("abcde"), min_size=1, max_size=8)),
        st.tuples(st.just("answer"), st.tuples(st.integers(0, 50), st.booleans())),
        st.tuples(st.just("answer"), st.tuples(st.integers(0, 50), st.booleans())),
        st.tuples(st.just("watermark"), st.integers(0, 100)),
        st.tuples(st.just("move"), st.integers(0, GROUPS - 1)),
        st.tuples(st.just("rescale"), st.integers(1, 3)),
    ),
    max_size=25,
)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(ResultOrder),
    st.sampled_from([OnFailure.DEAD_LETTER, OnFailure.NULL]),
    st.tuples(st.integers(1, 4), st.integers(1, 3)),
    ACTIONS,
)
def test_each_row_leaves_once_with_its_answer(
    order: ResultOrder, on_error: OnFailure, sizes: tuple[int, int], todo: list[Any]
) -> None:
    capacity, rows_a_call = sizes
    declared = Enrich(Call("m:f", Per.RECORD), order, capacity, batch=rows_a_call, on_error=on_error)
    with tempfile.TemporaryDirectory() as folder:
        tasks, heard = tasks_of(declared, Path(folder)), BEFORE_ALL
        given_rows: list[str] = []
        came: dict[int, int] = {}
        for action, value in todo:
            before = len(tasks.main), len(tasks.bad)
            match action:
                case "rows":
                    came |= dict.fromkeys(range(len(given_rows), len(given_rows) + len(value)), heard)
                    tasks.push(batch(len(given_rows), value))
                    given_rows += value
                case "answer":
                    if calls := tasks.calls.open:
                        tasks.answer(value[0] % len(calls), times=1 + value[1])
                case "watermark":
                    heard = max(heard, value)
                    tasks.watermark(heard)
                case "move":
                    tasks.move_group(value)
                case "rescale":
                    tasks.restore(value)
                    tasks.watermark(heard)
            for left in (*tasks.main[before[0] :], *tasks.bad[before[1] :]):
                assert all(tasks.said <= came[n] for n in left.column("n").to_pylist()), "its time was said before"
        tasks.answer_all()
        _check(tasks, given_rows, declared)
        for task in tasks.tasks:
            assert task.step.on_watermark(1000) == 1000, "no row waits"
        assert tasks.live_rows() == 0
        tasks.close()


def _check(tasks: AskingTasks[EnrichStep], whos: list[str], declared: Enrich) -> None:
    found = tasks.rows()
    failed = [n for n in range(len(whos)) if n % 7 == 3]
    letters = declared.on_error is OnFailure.DEAD_LETTER
    wanted: Counter[Any] = Counter()
    for n, who in enumerate(whos):
        size = 0 if n % 5 == 0 else n % 4
        if n not in failed:
            wanted[n, who, f"{who}-{n}", size, n] += 1
        elif not letters:
            wanted[n, who, None, None, n] += 1
    assert Counter((r["n"], r["who"], r["city"], r["size"], r[BOUND_COLUMN]) for r in found) == wanted
    bad = [row for each in tasks.bad for row in each.to_pylist()]
    assert sorted(row["n"] for row in bad) == (failed if letters else [])
    assert all(row["who"] == whos[row["n"]] and row["error_step"] == "e" for row in bad)
    if declared.order is ResultOrder.INPUT:
        for who in set(whos):
            numbers = [row["n"] for row in found if row["who"] == who]
            assert numbers == sorted(numbers), "rows of one key leave in their order"


def test_the_state_shows_the_rows_that_wait() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = tasks_of(Enrich(Call("m:f", Per.RECORD)), Path(folder))
        tasks.push(batch(0, ["a", "b", "a"]))
        shown = [
            row
            for task in tasks.tasks
            if len(live := np.asarray(task.state.live_rows("e")))
            for row in task.step.contents(live).to_pylist()
        ]
        assert sorted((row["who"], row["n"]) for row in shown) == [("a", 0), ("a", 2), ("b", 1)]
        tasks.close()


def test_a_cut_has_rows_whose_answers_wait_and_new_rows_come_behind_them() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = tasks_of(Enrich(Call("m:f", Per.RECORD), on_error=OnFailure.NULL), Path(folder))
        tasks.push(batch(0, ["a", "a", "b"]))
        tasks.watermark(50)
        assert tasks.said == BEFORE_ALL, "rows wait that came before this time was heard"
        tasks.answer(place_of(tasks, 1), times=2)
        assert not tasks.main, "the first row of the key has no answer yet"

        tasks.restore(1)
        tasks.watermark(50)
        tasks.push(batch(3, ["a"]))
        for n in (3, 1, 2, 0):
            tasks.answer(place_of(tasks, n))
        assert [n for each in tasks.main for n in each.column("n").to_pylist()] == [2, 0, 1, 3]
        tasks.watermark(60)
        assert tasks.said == 60

        tasks.restore(2)
        assert not tasks.calls.open, "no row waits"
        tasks.close()
