"""Windows of which a function sees all rows, against a naive model that sorts rows out, through moves of the state."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.steps.base import split_hidden
from penstock.steps.windows.by_shape import whole_window
from penstock.steps.windows.late_rows import WindowShape
from penstock.steps.windows.sessions import SessionShape
from tests.property.test_sessions import sessions_of
from tests.support.window_tasks import NAME, OUTPUT, PLAIN, TURNS, Tasks, batch, kept, plain

SEEN = pa.schema([*list(OUTPUT)[:3], ("rows", pa.string())])
SHAPES = st.sampled_from(
    [
        WindowShape(20, 3, 0, "ts"), WindowShape(20, 0, 3, "ts"), WindowShape(20, 0, 3, "ts", 5),
        WindowShape(6, 1, 0, "ts", 2), WindowShape(40, 0, 0, "ts", 1), SessionShape(5, 0, "ts"),
        SessionShape(17, 3, "ts"),
    ]
)  # fmt: skip


def spelled(rows: list[tuple[Any, ...]]) -> str:
    return repr(sorted(rows, key=repr))


def see(key: Any, window: Any, rows: pa.RecordBatch, out: Any) -> None:
    """Emit all rows of the window as one text."""
    assert rows.schema.equals(PLAIN)
    assert set(rows["mote"].to_pylist()) == {key.mote}
    times = rows["ts"].cast(pa.int64()).to_pylist()
    assert times == sorted(times), "in the order of time"
    assert window.start <= times[0]
    assert times[-1] < window.end
    values = zip(times, rows["value"].to_pylist(), rows["whole"].to_pylist(), strict=True)
    out.emit({"rows": spelled(list(values))})


def stepped(shape: WindowShape | SessionShape, function: Any = see) -> Any:
    return lambda keys: whole_window(NAME, shape, keys, function, (PLAIN, PLAIN, SEEN))


def windows_of(shape: WindowShape | SessionShape, rows: list[Any]) -> list[tuple[int, int, list[Any]]]:
    """Return start, end and rows of the windows of one key."""
    if isinstance(shape, SessionShape):
        cut = sessions_of(rows, shape.gap_us)
        return [(min(t for t, *_ in some), max(t for t, *_ in some) + shape.gap_us, some) for some in cut]
    found: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        first = (row[0] - shape.offset_us) // shape.step_us * shape.step_us + shape.step_us + shape.offset_us
        for end in range(first, first + shape.size_us, shape.step_us):
            found[end].append(row)
    return [(end - shape.size_us, end, some) for end, some in found.items()]


def is_late(shape: WindowShape | SessionShape, time: int, bound: int) -> bool:
    if isinstance(shape, SessionShape):
        return time + shape.lateness_us < bound
    first = (time - shape.offset_us) // shape.step_us * shape.step_us + shape.step_us + shape.offset_us
    return first + shape.lateness_us <= bound


@given(TURNS, SHAPES)
def test_functions_see_the_rows_that_a_naive_model_sorts_out(turns: Any, shape: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(stepped(shape), Path(folder))
        by_key: dict[Any, list[Any]] = defaultdict(list)
        dropped, largest, reached = 0, -(10**6), -(10**6)
        for rows, disorder, workers in turns:
            bounds = []
            for mote, ts, value, whole in rows:
                bounds.append(largest - disorder)
                if is_late(shape, ts, max(bounds[-1], reached)):
                    dropped += 1
                else:
                    by_key[mote].append((ts, None if value is None else float(value), whole))
                largest = max(largest, ts)
            if rows:
                tasks.push(batch(rows, bounds))
            reached = max(reached, largest - disorder - 10)
            tasks.watermark(reached)
            assert all(end + shape.lateness_us <= reached for _, _, end, _ in plain(tasks.main)), "too early"
            if workers:
                tasks.rescale(workers, reached)
        tasks.watermark(2**63 - 1)
        expected = [
            (mote, start, end, spelled(some))
            for mote, rows in by_key.items()
            for start, end, some in windows_of(shape, rows)
        ]
        assert sorted(plain(tasks.main), key=repr) == sorted(expected, key=repr)
        assert sum(b.num_rows for b in tasks.late) == dropped
        for task in tasks.tasks:
            for state in (NAME, f"{NAME}.rows"):
                assert len(task.state.live_rows(state)) == 0, "nothing is kept for ever"
            task.state.close()


def test_a_function_emits_any_number_of_rows_as_dicts_and_batches(tmp_path: Path) -> None:
    def several(key: Any, window: Any, rows: pa.RecordBatch, out: Any) -> None:
        for number in range(key.mote):
            out.emit({"rows": f"{number}"})
        out.emit(pa.table({"rows": pa.array(["a", "b"][: key.mote], pa.large_string())}))
        out.emit(pa.record_batch({"rows": pa.array([], pa.string())}))

    tasks = Tasks(stepped(WindowShape(10, 0, 0, "ts"), several), tmp_path)
    tasks.push(batch([(0, 1, 1, 1), (1, 1, 1, 1), (2, 1, 1, 1)], [-99] * 3))
    tasks.watermark(2**63 - 1)
    assert sorted(plain(tasks.main)) == [
        (mote, 0, 10, text) for mote, text in ((1, "0"), (1, "a"), (2, "0"), (2, "1"), (2, "a"), (2, "b"))
    ]


def test_a_window_may_have_more_rows_than_a_part_and_a_batch_does_not_write_it_anew(tmp_path: Path) -> None:
    def counted(key: Any, window: Any, rows: pa.RecordBatch, out: Any) -> None:
        out.emit({"rows": str(rows.num_rows)})

    tasks = Tasks(stepped(WindowShape(1_000, 0, 0, "ts", 10), counted), tmp_path)
    for at in range(0, 1_000, 100):
        tasks.push(batch([(1, at + n % 7, n, 1) for n in range(500)], [-99] * 500))
    tables = [task.state._tables[f"{NAME}.rows"].hot for task in tasks.tasks]
    for table in tables:
        generation, _ = table.cut()
        table.settle(generation)
    tasks.push(batch([(1, 907, 1, 1)], [-99]))
    assert sum(table.changed for table in tables) == 2, "the first part and the newest one"
    tasks.watermark(1_000)
    assert (1, 0, 1_000, "5001") in plain(tasks.main)


def test_rows_come_in_one_order_however_they_arrive(tmp_path: Path) -> None:
    rows = [(1, 3, 5, 1), (1, 1, 2, 2), (1, 3, 5, 0), (1, 3, 4, None), (1, 2, None, 7)]

    def ordered(key: Any, window: Any, batch: pa.RecordBatch, out: Any) -> None:
        out.emit({"rows": repr(batch.to_pydict())})

    found = []
    for number, given_rows in enumerate((rows, rows[::-1])):
        tasks = Tasks(stepped(WindowShape(10, 0, 0, "ts"), ordered), tmp_path / str(number))
        for row in given_rows:
            tasks.push(batch([row], [-99]))
        tasks.watermark(10)
        found.append(split_hidden(tasks.main[0])[0].to_pydict())
    assert found[0] == found[1]


def test_open_windows_can_be_looked_at(tmp_path: Path) -> None:
    tasks = Tasks(stepped(SessionShape(10, 0, "ts")), tmp_path)
    tasks.push(batch([(1, 3, 4, 4), (1, 9, 1, None)], [-99] * 2))
    (shown,) = kept(tasks)
    assert (shown["window_start"].microsecond, shown["window_end"].microsecond) == (3, 19)


def test_the_rows_of_the_next_session_stay(tmp_path: Path) -> None:
    tasks = Tasks(stepped(SessionShape(10, 0, "ts")), tmp_path)
    tasks.push(batch([(1, 8, 1, 1), (1, 19, 2, 2)], [-99] * 2))
    for time in (18, 29):  # a bucket has 10 us: that of time 19 begins before the end of the first session
        tasks.watermark(time)
    assert plain(tasks.main) == [(1, 8, 18, "[(8, 1.0, 1)]"), (1, 19, 29, "[(19, 2.0, 2)]")]
