"""User functions that raise: how often they are called again, and which errors and rows result."""

import io
import os
import sys
from bdb import BdbQuit
from collections.abc import Callable
from math import log2
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.base.errors import StorageError, UserCodeError
from penstock.contract.graph import Call, OnError, Per
from penstock.contract.schema import MESSAGE_CHARS_MAX
from penstock.keyed_state.hot import HotTable
from penstock.steps.keyed import KeyColumns
from penstock.steps.process import ProcessStep
from penstock.steps.state_values import BatchState
from penstock.steps.stateless import FilterStep, FlatMapStep, MapStep

ROWS = 8192
NUMBERS = pa.schema([("n", pa.int64())])
BATCH = pa.record_batch({"n": range(ROWS)}, schema=NUMBERS)
KEYED = pa.schema([("k", pa.string()), ("n", pa.int64())])


def call(per: Per, on_error: OnError = OnError.FAIL, rows: int | None = None) -> Call:
    return Call("f", per, rows, (), on_error)


def run(step: Any, *batches: pa.RecordBatch) -> dict[str, list[pa.RecordBatch]]:
    found: dict[str, list[pa.RecordBatch]] = {"main": [], "dead-letter": []}
    step.bind({name: found[name].append for name in found})
    for batch in batches or (BATCH,):
        step.on_batch(batch)
    return found


def values(batches: list[pa.RecordBatch], name: str = "n") -> list[Any]:
    return [v for batch in batches for v in batch.column(name).to_pylist()]


def bad_in_batches(bad: set[int], calls: list[list[int]]) -> Callable[[pa.RecordBatch], Any]:
    def check(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch.column("n").to_pylist())
        if found := bad.intersection(calls[-1]):
            raise ValueError(f"{min(found)} is bad")
        return batch

    return check


@pytest.mark.parametrize("bad", [0, 4097, ROWS - 1])
def test_a_batch_function_is_called_again_for_halves(bad: int) -> None:
    calls: list[list[int]] = []
    with pytest.raises(UserCodeError, match=f"{bad} is bad"):
        run(MapStep("check", call(Per.BATCH), bad_in_batches({bad}, calls), NUMBERS))
    assert len(calls) <= log2(ROWS) + 2
    assert all(c[0] <= bad for c in calls), "nothing behind the first bad row is called again"


@pytest.mark.parametrize("kind", [MapStep, FlatMapStep, FilterStep])
def test_a_function_per_record_is_called_once_for_each_row(kind: Any) -> None:
    calls: list[int] = []

    def check(record: dict[str, Any]) -> Any:
        calls.append(record["n"])
        if record["n"] == 5000:
            raise ValueError("bad")
        return {MapStep: record, FlatMapStep: [record], FilterStep: True}[kind]

    given = () if kind is FilterStep else (NUMBERS,)
    with pytest.raises(UserCodeError, match="bad"):
        run(kind("check", call(Per.RECORD), check, *given))
    assert calls == list(range(5001)), "nothing runs behind the first bad row, or twice"
    calls.clear()
    found = run(kind("check", call(Per.RECORD, OnError.DEAD_LETTER), check, *given))
    assert calls == list(range(ROWS))
    assert values(found["main"]) == [n for n in range(ROWS) if n != 5000]
    assert values(found["dead-letter"]) == [5000]


def test_values_that_do_not_fit_are_found_without_another_call() -> None:
    calls: list[int] = []

    def spell(record: dict[str, Any]) -> dict[str, Any]:
        calls.append(record["n"])
        return {"n": "many" if record["n"] in {7, 8000} else record["n"]}

    found = run(MapStep("spell", call(Per.RECORD, OnError.DEAD_LETTER), spell, NUMBERS))
    assert calls == list(range(ROWS))
    assert values(found["dead-letter"]) == [7, 8000]
    assert len(values(found["main"])) == ROWS - 2
    with pytest.raises(UserCodeError, match=r"record: \{'n': 7\}"):
        run(MapStep("spell", call(Per.RECORD), spell, NUMBERS))


def test_few_calls_find_several_bad_rows_and_the_rest_is_one_batch_in_order() -> None:
    calls: list[list[int]] = []
    bad = {0, 1, 3000, 3001, ROWS - 1}
    step = MapStep("check", call(Per.BATCH, OnError.DEAD_LETTER), bad_in_batches(bad, calls), NUMBERS)
    found = run(step)
    assert values(found["dead-letter"]) == sorted(bad)
    assert values(found["main"]) == [n for n in range(ROWS) if n not in bad]
    assert len(found["main"]) == 1, "what follows costs per batch"
    assert len(calls) < 5 * (log2(ROWS) + 2) + ROWS / 100


def test_if_every_row_is_bad_each_is_called_about_once() -> None:
    calls: list[list[int]] = []
    bad = set(range(ROWS))
    step = MapStep("check", call(Per.BATCH, OnError.DEAD_LETTER), bad_in_batches(bad, calls), NUMBERS)
    assert len(values(run(step)["dead-letter"])) == ROWS
    assert len(calls) < 1.2 * ROWS


def together(batch: pa.RecordBatch) -> pa.RecordBatch:
    if {20, 21}.issubset(batch.column("n").to_pylist()):
        raise ValueError("20 and 21")
    return batch


def test_rows_that_fail_only_in_one_batch_are_reported_as_a_range() -> None:
    with pytest.raises(UserCodeError, match="20 and 21") as raised:
        run(MapStep("pairs", call(Per.BATCH), together, NUMBERS))
    where = raised.value.where
    assert where.rows > 1
    assert f"{where.rows} rows from there on, together only" in str(raised.value)


def test_rows_that_fail_only_in_one_batch_are_not_dead_letters() -> None:
    found = run(MapStep("pairs", call(Per.BATCH, OnError.DEAD_LETTER), together, NUMBERS))
    assert values(found["main"]) == list(range(ROWS))
    assert not found["dead-letter"]


def test_a_row_that_a_map_drops_is_a_bad_row() -> None:
    def drops(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.not_equal(batch.column("n"), 777))

    step = MapStep("drops", call(Per.BATCH, OnError.DEAD_LETTER), drops, NUMBERS)
    found = run(step)
    assert values(found["dead-letter"]) == [777]
    assert values(found["dead-letter"], "error") == ["ValueError: a map returned 0 rows for 1"]
    assert len(values(found["main"])) == ROWS - 1


@pytest.mark.parametrize("per", list(Per))
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), RecursionError("deep")])
def test_every_exception_of_a_function_is_an_error_of_its_row(per: Per, error: BaseException) -> None:
    def leaves(given: Any) -> Any:
        numbers = [given["n"]] if per is Per.RECORD else given.column("n").to_pylist()
        if 9 in numbers:
            raise error
        return given

    with pytest.raises(UserCodeError, match=type(error).__name__) as raised:
        run(MapStep("leaves", call(per), leaves, NUMBERS))
    assert "record: {'n': 9}" in str(raised.value)
    found = run(MapStep("leaves", call(per, OnError.DEAD_LETTER), leaves, NUMBERS))
    assert values(found["dead-letter"]) == [9]
    assert type(error).__name__ in values(found["dead-letter"], "error")[0]


@pytest.mark.parametrize("per", list(Per))
def test_no_function_is_called_after_the_user_left_the_debugger(per: Per) -> None:
    calls: list[Any] = []

    def debugged(given: Any) -> Any:
        calls.append(given)
        raise BdbQuit

    assert "bdb" in sys.modules
    with pytest.raises(UserCodeError, match="BdbQuit"):
        run(MapStep("debugged", call(per, OnError.DEAD_LETTER), debugged, NUMBERS))
    assert len(calls) == 1


@pytest.mark.parametrize("per", list(Per))
def test_a_storage_error_is_not_an_error_of_a_row(per: Per) -> None:
    def full(_: Any) -> Any:
        raise StorageError("no space left on device")

    with pytest.raises(StorageError, match="no space"):
        run(MapStep("full", call(per, OnError.DEAD_LETTER), full, NUMBERS))


def deep(number: int) -> float:
    return 1 / (number - 42)


def test_an_error_shows_only_the_frames_of_user_code() -> None:
    with pytest.raises(UserCodeError) as raised:
        run(MapStep("m", call(Per.RECORD), lambda r: {"n": deep(r["n"])}, NUMBERS))
    text = str(raised.value)
    first, record, *trace = text.splitlines()
    assert first == "step 'm': ZeroDivisionError: division by zero"
    assert record == "record: {'n': 42}"
    assert trace[0] == "Traceback of your code (most recent call last):"
    assert [line.split(", in ")[1] for line in trace if line.startswith("  File")] == [
        "<lambda>",
        "deep",
    ]
    assert "    return 1 / (number - 42)" in trace
    assert "penstock/steps" not in text


def test_a_cause_is_shown_with_its_own_frames() -> None:
    def wraps(record: dict[str, Any]) -> Any:
        try:
            deep(42)
        except ZeroDivisionError as error:
            raise ValueError("no ratio") from error

    with pytest.raises(UserCodeError) as raised:
        run(MapStep("m", call(Per.RECORD), wraps, NUMBERS))
    text = str(raised.value)
    assert "ValueError: no ratio" in text.splitlines()[0]
    assert "ZeroDivisionError: division by zero" in text
    assert "in deep" in text


def test_the_text_of_an_error_is_bounded() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise TypeError("no text")

    def recursive(record: dict[str, Any]) -> Any:
        return recursive_again(record)

    def recursive_again(record: dict[str, Any]) -> Any:
        return recursive(record)

    def long(record: dict[str, Any]) -> Any:
        raise ValueError("x" * 1_000_000)

    def odd(record: dict[str, Any]) -> Any:
        raise Odd

    wide = pa.record_batch({f"a{i}": ["y" * 100_000] for i in range(50)})
    for function in (recursive, long, odd):
        with pytest.raises(UserCodeError) as raised:
            run(MapStep("m", call(Per.RECORD), function, NUMBERS), wide)
        assert len(str(raised.value)) < MESSAGE_CHARS_MAX, "the status of a StreamJob takes it"
        assert f"in {function.__name__}" in str(raised.value)


STATE = pa.schema([("seen", pa.int64()), ("newest", pa.string())])
GIVEN = pa.schema([("k", pa.string()), ("n", pa.int64()), ("seen", pa.int64())])


def keyed(rows: list[tuple[str, int]]) -> pa.RecordBatch:
    return pa.record_batch({"k": [k for k, _ in rows], "n": [n for _, n in rows]}, schema=KEYED)


def process(per: Per, function: Any) -> ProcessStep:
    given = call(per, OnError.DEAD_LETTER)
    step = ProcessStep("own", KeyColumns(KEYED, ["k"], 16), given, function, (STATE, GIVEN))
    step.open(HotTable)
    return step


def test_a_record_that_raises_half_way_changes_no_state_and_emits_no_rows() -> None:
    def add(record: dict[str, Any], state: dict[str, Any]) -> Any:
        state["seen"] += 1
        yield {"k": record["k"], "n": record["n"], "seen": state["seen"]}
        if record["n"] < 0:
            raise ValueError("negative")

    found = run(process(Per.RECORD, add), keyed([("a", 1), ("a", -1), ("b", 1), ("a", 2)]))
    assert values(found["main"], "seen") == [1, 1, 2]
    assert values(found["dead-letter"]) == [-1]


def test_a_record_whose_rows_do_not_fit_is_undone_and_later_rows_of_its_key_run_again() -> None:
    calls: list[int] = []

    def add(record: dict[str, Any], state: dict[str, Any]) -> Any:
        calls.append(record["n"])
        state["seen"] += 1
        misfit = record["n"] in {2, 5}
        return [{"k": record["k"], "n": "x" if misfit else record["n"], "seen": state["seen"]}]

    rows = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("a", 5), ("b", 6), ("a", 7)]
    step = process(Per.RECORD, add)
    found = run(step, keyed(rows))
    assert list(zip(values(found["main"]), values(found["main"], "seen"), strict=True)) == [
        (1, 1), (3, 1), (4, 2), (6, 2), (7, 3),
    ]  # fmt: skip
    assert values(found["dead-letter"]) == [2, 5]
    assert calls == [1, 2, 3, 4, 5, 6, 7, 4, 5, 7], "only rows that saw what was undone"
    step.on_batch(keyed([("a", 8), ("b", 9)]))
    assert values(found["main"], "seen")[-2:] == [4, 3]


def test_a_batch_that_raises_changes_no_state() -> None:
    def add(batch: pa.RecordBatch, state: BatchState) -> pa.RecordBatch:
        seen = state["seen"]
        places = []
        for key in state.index:
            seen[key] += 1
            places.append(seen[key])
        state["seen"] = seen
        if -1 in batch.column("n").to_pylist():
            raise ValueError("negative")
        return pa.record_batch({"k": batch.column("k"), "n": batch.column("n"), "seen": places})

    rows = [("ab"[i % 2], -1 if i == 37 else i) for i in range(100)]
    found = run(process(Per.BATCH, add), keyed(rows))
    expected = [n // 2 + 1 - (n % 2 == 1 and n > 37) for n in range(100) if n != 37]
    assert values(found["main"], "seen") == expected
    assert values(found["dead-letter"]) == [-1]


def test_a_row_that_python_cannot_represent_shows_no_library_frames() -> None:
    column = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    rows = pa.RecordBatch.from_arrays([column], names=["text"])
    with pytest.raises(UserCodeError) as raised:
        run(MapStep("look", call(Per.RECORD), lambda record: record, rows.schema), rows)
    assert "column 'text' (string) cannot be read as a Python value" in str(raised.value)
    assert "pyarrow" not in str(raised.value), raised.value


def test_a_user_who_leaves_the_debugger_at_a_terminal_gets_no_advice_to_use_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = os.openpty()
    said = []
    for stdin in (os.fdopen(theirs), io.StringIO()):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(UserCodeError) as raised:
            run(MapStep("stop", call(Per.RECORD), leave, NUMBERS))
        said.append(str(raised.value).splitlines()[0])
        stdin.close()
    os.close(ours)
    assert said[0].endswith("BdbQuit: the debugger was left: the job ends at this row")
    assert said[1].endswith("the debugger found no terminal; penstock run --debug has one")


def leave(_record: dict[str, Any]) -> Any:
    raise BdbQuit


FINE = [
    pa.array([1000, 1001], pa.time64("ns")),
    pa.array([[1000], [1001]], pa.list_(pa.time64("ns"))),
    pa.array([{"t": None}, {"t": [1001]}], pa.struct([("t", pa.large_list(pa.time64("ns")))])),
    pa.array([[], [("a", 1001)]], pa.map_(pa.string(), pa.time64("ns"))),
    pa.array([1000, 1001], pa.time64("ns")).dictionary_encode(),
]


@pytest.mark.parametrize("column", FINE, ids=lambda column: str(column.type))
def test_a_time_of_the_day_that_python_would_cut_is_refused_with_row_and_column(column: pa.Array) -> None:
    batch = pa.record_batch({"n": [7, 8], "t": column})
    seen: list[Any] = []

    def keep(record: dict[str, Any]) -> dict[str, Any]:
        seen.append(record["n"])
        return {"n": record["n"]}

    step = MapStep("keep", call(Per.RECORD, OnError.DEAD_LETTER), keep, NUMBERS)
    found = run(step, batch)
    assert (values(found["main"]), seen) == ([7], [7])
    [letter] = found["dead-letter"]
    assert letter.num_rows == 1
    with pytest.raises(UserCodeError) as error:
        run(MapStep("keep", call(Per.RECORD), keep, NUMBERS), batch)
    said = f"column 't' ({column.type}) cannot be read as a Python value: 00:00:00.000001001 is finer than us"
    assert said in str(error.value)


def test_a_time_of_the_day_in_nanoseconds_that_python_holds_is_read() -> None:
    batch = pa.record_batch({"t": pa.array([1000, None, 86_399_999_999_000], pa.time64("ns"))})
    found = run(MapStep("keep", call(Per.RECORD), lambda record: record, batch.schema), batch)
    assert found["main"] == [batch]
