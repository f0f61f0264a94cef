"""A function of whole windows that fails, and a window with too many rows, are named."""

from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import StateError, UserCodeError
from penstock.base.limits import FIRED_TIMERS_MAX, WHOLE_ROWS_MAX
from penstock.steps.windows import whole_rows
from penstock.steps.windows.late_rows import WindowShape
from tests.property.test_whole_windows import stepped
from tests.support.window_tasks import Tasks, batch, plain

TENS = WindowShape(10, 0, 0, "ts")


def fired(folder: Path, function: Any) -> list[Any]:
    tasks = Tasks(stepped(TENS, function), folder)
    tasks.push(batch([(1, 3, 4, 4)], [-99]))
    tasks.watermark(10)
    return plain(tasks.main)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda key, window, rows, out: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda key, window, rows, out: [key], "the function returned list; emit records by out.emit"),
        (lambda key, window, rows, out: out.emit({"row": "x"}), "the function returned a record with ['row']"),
        (lambda key, window, rows, out: out.emit(rows), "the function returned the columns ['mote'"),
        (lambda key, window, rows, out: out.emit(3), "the function returned int"),
    ],
)
def test_a_function_that_fails_is_named_with_its_window(tmp_path: Path, function: Any, problem: str) -> None:
    with pytest.raises(UserCodeError) as caught:
        fired(tmp_path, function)
    assert problem in str(caught.value)
    for part in ("windows", "window 1970-01-01T00:00:00.000000 to 1970-01-01T00:00:00.000010", "Key(mote=1)"):
        assert part in str(caught.value)


def test_a_window_with_too_many_rows_is_named(tmp_path: Path) -> None:
    tasks = Tasks(stepped(WindowShape(10, 0, 0, "ts", 5)), tmp_path)
    half = [(1, 3, 1, 1)] * (WHOLE_ROWS_MAX // 4)
    for _ in range(2):
        tasks.push(batch(half, [-99] * len(half)))
    later = [(1, 8, 1, 1)] * (WHOLE_ROWS_MAX // 4)
    for _ in range(2):
        tasks.push(batch(later, [-99] * len(later)))
    tasks.push(batch([(1, 8, 1, 1)], [-99]))
    with pytest.raises(StateError, match="step 'windows': a key has more than 1,000,000 rows in a window: make the"):
        tasks.watermark(10)


def test_a_barrier_may_be_cut_between_some_functions(tmp_path: Path) -> None:
    tasks = Tasks(stepped(TENS), tmp_path)
    many = FIRED_TIMERS_MAX + 7
    tasks.tasks[1:] = []
    tasks.tasks[0].step.on_batch(batch([(mote, 3, 1, 1) for mote in range(many)], [-99] * many))
    assert tasks.tasks[0].step.on_watermark(10) < 10, "more windows are due"
    assert len(plain(tasks.main)) == FIRED_TIMERS_MAX
    tasks.watermark(10)
    assert len(plain(tasks.main)) == many


def test_large_rows_are_read_in_smaller_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_rows, "WHOLE_SLICE_BYTES", 100_000)
    tasks = Tasks(stepped(TENS), tmp_path)
    tasks.tasks[1:] = []
    many = FIRED_TIMERS_MAX
    tasks.tasks[0].step.on_batch(batch([(mote, 3, 1, 1) for mote in range(many)], [-99] * many))
    tasks.watermark(10)
    assert len(tasks.main) > 2
    assert len(plain(tasks.main)) == many
