"""Rows that a batch function refuses itself: one call, and the same dead letters as for exceptions."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps
from penstock.base.errors import UserCodeError, Where
from penstock.base.limits import SLICED_ROWS_MAX, USER_MESSAGE_CHARS_MAX
from penstock.contract.columns import Column
from penstock.contract.graph import Call, OnError, Per
from penstock.graph.inspect_arrow import empty_call_columns
from penstock.steps.base import BOUND_COLUMN
from penstock.steps.chain import Chain, WiredStep
from penstock.steps.dead_letters import DeadLetters, Refused
from penstock.steps.stateless import FilterStep, FlatMapStep, MapStep

ROWS = pa.schema([("n", pa.int64())])
BATCH = pa.record_batch({"n": range(100)}, schema=ROWS)
LETTERS = Call("f", on_error=OnError.DEAD_LETTER)
FAIL = Call("f")


def outputs(step: Any, batch: pa.RecordBatch = BATCH) -> tuple[list[int], list[dict[str, Any]]]:
    main: list[pa.RecordBatch] = []
    dead: list[pa.RecordBatch] = []
    step.bind({"main": main.append, "dead-letter": dead.append})
    step.on_batch(batch)
    return [n for b in main for n in b.column("n").to_pylist()], [r for b in dead for r in b.to_pylist()]


class Sevens:
    """A map that refuses multiples of a number, and counts its calls."""

    def __init__(self, each: int = 7) -> None:
        self.each = each
        self.calls = 0

    def __call__(self, batch: pa.RecordBatch) -> ps.Refusing:
        self.calls += 1
        numbers = np.asarray(batch.column("n"))
        return ps.Refusing(batch, numbers % self.each == 0, f"a multiple of {self.each}")


@pytest.mark.parametrize("each", [2, 7, 50, 1000])
def test_refused_rows_are_dead_letters_after_one_call(each: int) -> None:
    function = Sevens(each)
    main, dead = outputs(MapStep("sevens", LETTERS, function, ROWS))
    assert main == [n for n in range(100) if n % each]
    assert [letter["n"] for letter in dead] == list(range(0, 100, each))
    assert {letter["error"] for letter in dead} == {f"RefusedError: a multiple of {each}"}
    assert function.calls == 1
    assert len(range(0, 100, 2)) > SLICED_ROWS_MAX > len(range(0, 100, 50))


def test_the_first_refused_row_fails_a_job_without_dead_letters() -> None:
    step = MapStep("sevens", FAIL, Sevens(), ROWS)
    chain = Chain([WiredStep(step, {}, {"main": (lambda _: None,)})], entry=[0], outside=[])
    chain.read_by(lambda: ("numbers", "part-0", 1000))
    with pytest.raises(UserCodeError, match="a multiple of 7") as raised:
        chain.on_batch(BATCH.slice(1))
    where = raised.value.where
    assert (where.step, where.partition, where.offset) == ("sevens", "part-0", 1006)
    assert where.record == "{'n': 7}"
    assert "Traceback" not in str(raised.value)


def test_each_row_may_have_its_own_reason_of_bounded_length() -> None:
    def check(batch: pa.RecordBatch) -> ps.Refusing:
        bad = pa.array([True, None, True, False, True])
        return ps.Refusing(batch, bad, pa.array(["one", "two", None, None, "x" * 1000]))

    main, dead = outputs(MapStep("check", LETTERS, check, ROWS), BATCH.slice(0, 5))
    assert main == [1, 3], "null refuses nothing"
    one, none, long = (letter["error"] for letter in dead)
    assert (one, none) == ("RefusedError: one", "RefusedError")
    assert len(long) <= USER_MESSAGE_CHARS_MAX + len("...")


@pytest.mark.parametrize(
    "refused",
    [
        pa.chunked_array([[True, None], [], [False, True]]),
        np.ma.array([True, True, False, True], mask=[False, True, False, False]),
    ],
    ids=["chunked", "masked"],
)
def test_refused_may_have_several_chunks_or_be_masked(refused: Any) -> None:
    def check(batch: pa.RecordBatch) -> ps.Refusing:
        return ps.Refusing(batch, refused, "no")

    main, dead = outputs(MapStep("check", LETTERS, check, ROWS), BATCH.slice(0, 4))
    assert main == [1, 2]
    assert [letter["error"] for letter in dead] == ["RefusedError: no"] * 2


def test_filters_and_flat_maps_refuse_rows_and_keep_hidden_columns() -> None:
    batch = BATCH.append_column(BOUND_COLUMN, pa.array(range(100), pa.int64()))

    def even(rows: pa.RecordBatch) -> ps.Refusing:
        numbers = np.asarray(rows.column("n"))
        return ps.Refusing(numbers % 2 == 0, numbers % 7 == 0, "seven")

    def twice(rows: pa.RecordBatch) -> ps.Refusing:
        bad = pa.array(np.asarray(rows.column("n")) % 7 == 0)
        good = rows.filter(pc.invert(bad))
        return ps.Refusing(pa.concat_batches([good, good]), bad, "seven")

    good = [n for n in range(100) if n % 7]
    main, dead = outputs(FilterStep("even", LETTERS, even), batch)
    assert main == [n for n in good if n % 2 == 0]
    assert all(letter[BOUND_COLUMN] == letter["n"] for letter in dead)
    main, dead = outputs(FlatMapStep("twice", LETTERS, twice, ROWS), batch)
    assert main == good * 2
    assert [letter["n"] for letter in dead] == list(range(0, 100, 7))


def test_the_line_of_rows_after_a_refused_row_is_found() -> None:
    dead: list[pa.RecordBatch] = []

    def never(record: dict[str, Any]) -> dict[str, Any]:
        if record["n"] == 90:
            raise ValueError("ninety")
        return record

    record = Call("f", per=Per.RECORD, on_error=OnError.DEAD_LETTER)
    chain = Chain(
        [
            WiredStep(MapStep("sevens", LETTERS, Sevens(), ROWS), {"main": (1,)}, {"dead-letter": ()}),
            WiredStep(
                MapStep("never", record, never, ROWS),
                {},
                {"main": (lambda _: None,), "dead-letter": (dead.append,)},
            ),
        ],
        entry=[0],
        outside=[],
    )
    chain.read_by(lambda: ("numbers", "part-0", 1000))
    chain.on_batch(BATCH)
    assert [row["error_offset"] for b in dead for row in b.to_pylist()] == [1090]


@pytest.mark.parametrize(
    ("refused", "reason", "said"),
    [
        (pa.array([True, True]), "bad", "refused has 2 values of bool; it must have 1 booleans"),
        (np.zeros(1), "bad", "refused has 1 values of double; it must have 1 booleans"),
        (np.ones(1, np.bool_), 5, "reason is int; it must be a text, or a text for each row"),
        (
            np.ones(1, np.bool_),
            pa.array(["a", "b"]),
            "reason has 2 values of string; it must have 1 texts",
        ),
    ],
)
def test_refusals_that_do_not_fit_the_batch_are_an_error(refused: Any, reason: Any, said: str) -> None:
    step = MapStep("m", FAIL, lambda batch: ps.Refusing(batch, refused, reason), ROWS)
    with pytest.raises(UserCodeError, match=said):
        outputs(step, BATCH.slice(0, 1))


def test_a_filter_per_record_must_not_return_a_refusal() -> None:
    step = FilterStep("f", Call("f", Per.RECORD), lambda _: ps.Refusing(True, np.ones(1), "bad"))
    with pytest.raises(UserCodeError, match="per record, raise an exception"):
        outputs(step)


def test_columns_are_found_if_a_function_returns_a_refusal() -> None:
    assert empty_call_columns(Sevens(), (Column("n", "int64"),)) == (Column("n", "int64"),)


@pytest.mark.parametrize("count", [1, SLICED_ROWS_MAX, SLICED_ROWS_MAX + 1])
def test_a_dead_letter_keeps_no_other_row_in_memory(count: int) -> None:
    batch = pa.record_batch({"n": range(100_000), "text": ["x" * 10] * 100_000})
    letters = DeadLetters(lambda row: Where("s", "source", "part", row))
    made = letters.of(batch, [Refused(50_000 + n, "bad") for n in range(count)])
    assert made.column("n").to_pylist() == made.column("error_offset").to_pylist()
    assert sum(column.get_total_buffer_size() for column in made.columns) < 2_000
    other = batch.select(["n"])
    assert letters.of(other, [Refused(3, "bad")]).schema.names[0:2] == ["n", "error_step"]
