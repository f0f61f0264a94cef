"""Values that bad rows have repeatedly: only rows with such a value are tried alone."""

import gc
import weakref
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.limits import (
    BAD_VALUE_ROWS_MAX,
    BAD_VALUES_ASKED_EACH,
    BAD_VALUES_IN_VAIN_MAX,
    BAD_VALUES_WATCHED_MAX,
)
from penstock.contract.graph import Call, OnError, Per
from penstock.steps.bad_values import BadValues
from penstock.steps.stateless import MapStep

ROWS = 8192
NUMBERS = pa.schema([("number", pa.float64())])


def texts(*bad: int, value: str | None = "n/a") -> pa.RecordBatch:
    found: list[str | None] = [str(n + 0.5) for n in range(ROWS)]
    for place in bad:
        found[place] = value
    return pa.record_batch({"id": range(ROWS), "text": found})


def learned(*values: str) -> BadValues:
    known = BadValues()
    for value in values:
        row = pa.record_batch({"id": [7], "text": [value]})
        known.refused(ValueError(f"could not convert {value!r}"), row)
    return known


class Parse:
    """Converts texts to numbers, and counts calls and rows."""

    def __init__(self) -> None:
        self.calls = self.rows = 0

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.calls += 1
        self.rows += batch.num_rows
        return pa.record_batch({"number": [float(t) for t in batch.column("text").to_pylist()]})


def mapped(function: Any, dead: list[int]) -> MapStep:
    step = MapStep("parse", Call("f", Per.BATCH, None, (), OnError.DEAD_LETTER), function, NUMBERS)
    letters = {"dead-letter": lambda b: dead.extend(b.column("id").to_pylist())}
    step.bind({"main": lambda _: None, **letters})
    return step


@pytest.mark.parametrize("value", ["n/a", None])
def test_a_repeated_bad_value_makes_no_call_for_other_rows_fail(value: str | None) -> None:
    parse, dead = Parse(), list[int]()
    step = mapped(parse, dead)
    for _ in range(60):
        step.on_batch(texts(5000, value=value))
    parse.calls, parse.rows = 0, 0
    for turn in range(20):
        step.on_batch(texts(turn * 400, value=value))
    assert dead == [5000] * 60 + [turn * 400 for turn in range(20)]
    assert parse.rows == 20 * ROWS, "every row is passed once, the bad one alone"
    assert parse.calls <= 20 * 7


def test_a_value_is_watched_when_it_repeats() -> None:
    rows = texts(3, 70)
    assert learned("n/a").watch(rows) is None
    watch = learned("n/a", "n/a").watch(rows)
    assert watch is not None
    assert [watch.next(at) for at in (0, 3, 4, 71)] == [3, 3, 70, ROWS]


def test_a_value_whose_row_passed_is_never_watched_again() -> None:
    known = learned("n/a", "n/a")
    watch = known.watch(texts(3, 70))
    assert watch is not None
    watch.passed(watch.next(0))
    assert watch.next(4) == ROWS
    for _ in range(3):
        known.refused(ValueError("'n/a'"), texts(3).slice(3, 1))
    assert known.watch(texts(3)) is None


def test_a_value_that_no_row_has_for_long_is_no_longer_watched() -> None:
    known = learned("n/a", "n/a")
    for _ in range(BAD_VALUE_ROWS_MAX // ROWS):
        assert known.watch(texts()) is not None
    known.watch(texts())
    assert known.watch(texts(3)) is None


class Asked(ValueError):
    """Counts how often its message is read."""

    times = 0

    def __str__(self) -> str:
        type(self).times += 1
        return str(self.args[0])


def refuse(known: BadValues, value: str) -> None:
    row = pa.record_batch({"id": [7], "text": [value]})
    known.refused(Asked(f"could not convert {value!r}"), row)


def test_few_exceptions_are_examined_if_values_do_not_repeat() -> None:
    known = BadValues()
    for n in range(BAD_VALUES_IN_VAIN_MAX):
        refuse(known, f"bad{n}")
    Asked.times = 0
    refuse(known, "one")
    one = Asked.times
    for n in range(10 * BAD_VALUES_ASKED_EACH):
        refuse(known, f"other{n}")
    asked, Asked.times = Asked.times - one, 0
    refuse(BadValues(), "alone")
    assert one == 0
    assert asked == 10 * Asked.times
    for _ in range(2 * BAD_VALUES_ASKED_EACH):
        refuse(known, "n/a")
    assert known.watch(texts(3)) is not None, "a value that begins to repeat is found"


def test_the_number_of_watched_values_is_bounded() -> None:
    values = [f"bad{n}" for n in range(BAD_VALUES_WATCHED_MAX + 1)]
    known = learned(*(value for value in values for _ in range(2)))
    for number, value in enumerate(values):
        watch = known.watch(texts(9, value=value))
        assert watch is not None
        assert watch.next(0) == (9 if number < BAD_VALUES_WATCHED_MAX else ROWS)


def test_an_exception_is_freed_when_its_row_is_a_dead_letter() -> None:
    """A stored exception would keep its frames, and so a whole batch, in memory."""
    raised: list[weakref.ref[BaseException]] = []

    class Bad(Exception):
        pass

    def check(batch: pa.RecordBatch) -> pa.RecordBatch:
        if "n/a" in batch.column("text").to_pylist():
            error = Bad("no number")
            raised.append(weakref.ref(error))
            try:
                raise error
            finally:
                del error
        return pa.record_batch({"number": [0.5] * batch.num_rows})

    dead: list[int] = []
    gc.disable()
    try:
        mapped(check, dead).on_batch(texts(77))
        assert [error() for error in raised] == [None] * len(raised)
    finally:
        gc.enable()
    assert dead == [77]
    assert raised
