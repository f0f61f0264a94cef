"""Steps without state: order, hidden bounds, errors with their place, dead letters."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.base.errors import UserCodeError
from penstock.contract.graph import Call, OnError, Per
from penstock.steps.base import BOUND_COLUMN
from penstock.steps.stateless import FilterStep, FlatMapStep, MapStep, SplitStep

NUMBERS = pa.schema([("n", pa.int64())])
BATCH = pa.record_batch({"n": [1, 2, 3, 4], BOUND_COLUMN: [10, 40, 20, 30]})


def call(per: Per = Per.BATCH, on_error: OnError = OnError.FAIL, rows: int | None = None) -> Call:
    return Call("f", per, rows, (), on_error)


def run(step: Any, batch: pa.RecordBatch = BATCH) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"main": [], "dead-letter": []}

    def into(name: str) -> Callable[[pa.RecordBatch], None]:
        return lambda batch: found[name].extend(batch.to_pylist())

    step.bind({name: into(name) for name in found})
    step.on_batch(batch)
    return found


def test_words_have_the_bound_of_their_line() -> None:
    step = SplitStep("words", "line", pa.schema([("word", pa.string())]))
    batch = pa.record_batch({"line": ["a b", None, "c"], BOUND_COLUMN: [1, 2, 3]})
    assert run(step, batch)["main"] == [
        {"word": "a", BOUND_COLUMN: 1},
        {"word": "b", BOUND_COLUMN: 1},
        {"word": "c", BOUND_COLUMN: 3},
    ]


@pytest.mark.parametrize("per", list(Per))
def test_a_map_keeps_order_and_bounds(per: Per) -> None:
    def doubled(given: Any) -> Any:
        if per is Per.RECORD:
            return {"n": given["n"] * 2}
        assert BOUND_COLUMN not in given.schema.names, "user code never sees hidden columns"
        return pa.record_batch({"n": pc.multiply(given.column("n"), 2)})

    rows = run(MapStep("double", call(per, rows=3), doubled, NUMBERS))["main"]
    assert [r["n"] for r in rows] == [2, 4, 6, 8]
    assert [r[BOUND_COLUMN] for r in rows] == [10, 40, 20, 30]


def test_a_flat_map_per_record_keeps_the_bound_of_each_parent() -> None:
    step = FlatMapStep("twice", call(Per.RECORD), lambda r: [r] * (r["n"] % 3), NUMBERS)
    rows = run(step)["main"]
    assert [(r["n"], r[BOUND_COLUMN]) for r in rows] == [(1, 10), (2, 40), (2, 40), (4, 30)]


def test_a_flat_map_per_batch_has_the_smallest_bound() -> None:
    step = FlatMapStep("tail", call(), lambda b: b.slice(1), NUMBERS)
    assert [r[BOUND_COLUMN] for r in run(step)["main"]] == [10, 10, 10]


@pytest.mark.parametrize("per", list(Per))
def test_a_filter_does_not_change_rows(per: Per) -> None:
    def even(given: Any) -> Any:
        if per is Per.RECORD:
            return given["n"] % 2 == 0
        return pc.equal(pc.bit_wise_and(given.column("n"), 1), 0)

    rows = run(FilterStep("even", call(per), even))["main"]
    assert rows == [{"n": 2, BOUND_COLUMN: 40}, {"n": 4, BOUND_COLUMN: 30}]


def test_a_filter_takes_a_masked_value_for_null_which_is_not_true() -> None:
    step = FilterStep("some", call(), lambda _: np.ma.array([True] * 4, mask=[True, False, True, True]))
    assert [row["n"] for row in run(step)["main"]] == [2]


def fails_at_three(batch: pa.RecordBatch) -> pa.RecordBatch:
    if 3 in batch.column("n").to_pylist():
        raise ValueError("three is bad")
    return batch


def test_an_error_names_the_step_and_shows_the_row() -> None:
    step = MapStep("check", call(), fails_at_three, NUMBERS)
    with pytest.raises(UserCodeError) as raised:
        run(step)
    assert str(raised.value).startswith(
        "step 'check': ValueError: three is bad\nrecord: {'n': 3}\nTraceback of your code"
    )


def test_a_dead_letter_is_one_row_and_the_rest_goes_on_in_order() -> None:
    step = MapStep("check", call(on_error=OnError.DEAD_LETTER), fails_at_three, NUMBERS)
    found = run(step)
    assert [r["n"] for r in found["main"]] == [1, 2, 4]
    (letter,) = found["dead-letter"]
    assert (letter["n"], letter["error_step"], letter[BOUND_COLUMN]) == (3, "check", 20)
    assert letter["error"] == "ValueError: three is bad"
    assert step.counters() == {"dead_letters": 1}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda b: b.slice(1), "3 rows for 4|0 rows for 1"),
        (lambda b: 5, "must return a pyarrow.RecordBatch"),
        (lambda b: b.rename_columns(["m"]), "returned the columns"),
    ],
)
def test_the_result_of_a_map_is_checked(function: Any, message: str) -> None:
    with pytest.raises(UserCodeError, match=message):
        run(MapStep("odd", call(), function, NUMBERS))


def test_a_record_with_other_fields_is_refused() -> None:
    with pytest.raises(UserCodeError, match="are declared"):
        run(MapStep("odd", call(Per.RECORD), lambda r: {"m": 1}, NUMBERS))


@pytest.mark.parametrize(("given", "said"), [(None, "None"), ([1], "list")])
def test_a_result_that_is_not_a_record_is_an_error(given: Any, said: str) -> None:
    with pytest.raises(UserCodeError, match=f"the function returned {said}; it must return a dict"):
        run(MapStep("odd", call(Per.RECORD), lambda r: given, NUMBERS))


def test_a_table_and_an_exact_cast_are_accepted() -> None:
    step = MapStep("cast", call(), lambda b: pa.table({"n": b.column("n").cast("int32")}), NUMBERS)
    assert [r["n"] for r in run(step)["main"]] == [1, 2, 3, 4]
