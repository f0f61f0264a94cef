"""A row whose event time is more than 73,000 years from 1970 is in no window: sums of such times leave 64 bits."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.base.limits import EVENT_TIME_US_MAX
from penstock.contract.graph import LATE, LATE_RIGHT, LEFT, MAIN, RIGHT, Compute, Function
from penstock.keyed_state.hot import HotTable
from penstock.steps.base import BOUND_COLUMN, NO_BOUND
from penstock.steps.distinct import DistinctStep
from penstock.steps.joins.pairs import PairBatches
from penstock.steps.joins.sides import join_side
from penstock.steps.joins.window_join import JoinWindows, WindowJoinStep
from penstock.steps.keyed import KeyColumns
from penstock.steps.windows.all_keys import PartsStep
from penstock.steps.windows.by_shape import window
from penstock.steps.windows.late_rows import LateRows, WindowShape, instants
from penstock.steps.windows.sessions import SessionShape

LAST = 2**63 - 1
FAR = [-LAST - 1, -LAST, -EVENT_TIME_US_MAX - 1, EVENT_TIME_US_MAX + 1, LAST - 150, LAST - 5, LAST]
NEAR = [-EVENT_TIME_US_MAX, -1, 0, EVENT_TIME_US_MAX]
TIME = pa.timestamp("us")
INPUT = pa.schema([("mote", pa.int64()), ("ts", TIME)])
OTHER = pa.schema([("id", pa.int64()), ("at", TIME)])
TIMES = [("window_start", TIME), ("window_end", TIME), ("count", pa.int64())]
COUNT = (Compute("count", Function.COUNT),)
KEYS = KeyColumns(INPUT, ["mote"], 4)
SLIDING = WindowShape(100, 0, 0, "ts", 50)
SHAPES: dict[str, WindowShape | SessionShape] = {
    "tumbling": WindowShape(100, 3, 0, "ts"),
    "waiting": WindowShape(100, 0, 1000, "ts"),
    "sliding": SLIDING,
    "session": SessionShape(100, 0, "ts"),
}


def rows_at(times: list[int], schema: pa.Schema = INPUT) -> pa.RecordBatch:
    arrays = pa.array(range(len(times)), pa.int64()), pa.array(times, pa.int64()).cast(TIME)
    bounds = pa.array([NO_BOUND] * len(times), pa.int64())
    return pa.RecordBatch.from_arrays([*arrays, bounds], [*schema.names, BOUND_COLUMN])


def made(kind: str) -> Any:
    if kind == "parts":
        return PartsStep("w", SLIDING, COUNT, (INPUT, pa.schema(TIMES)))
    if kind == "distinct":
        return DistinctStep("w", KEYS, 100, LateRows(instants(0, "ts"), KEYS))
    return window("w", SHAPES[kind], KEYS, COUNT, (INPUT, pa.schema([("mote", pa.int64()), *TIMES])))


@pytest.mark.parametrize("kind", [*SHAPES, "parts", "distinct"])
def test_rows_of_far_times_go_to_late_and_are_counted_as_without_time(kind: str) -> None:
    step = made(kind)
    if hasattr(step, "open"):
        step.open(HotTable)
    late: list[pa.RecordBatch] = []
    results: list[pa.RecordBatch] = []
    step.bind({MAIN: results.append, LATE: late.append})
    step.on_batch(rows_at([*NEAR, *FAR]))
    while step.on_watermark(LAST) < LAST:
        pass
    assert [t for batch in late for t in batch.column("ts").cast(pa.int64()).to_pylist()] == FAR
    assert step.counters()["without_time"] == len(FAR)
    if kind == "distinct":
        assert sum(batch.num_rows for batch in results) == len(NEAR)
        return
    for batch in results:
        starts, ends = (batch.column(name).cast(pa.int64()).to_pylist() for name in ("window_start", "window_end"))
        assert all(end - start == 100 for start, end in zip(starts, ends, strict=True))
    windows = 2 if kind in ("sliding", "parts") else 1
    assert sum(n for batch in results for n in batch.column("count").to_pylist()) == windows * len(NEAR)


def test_rows_of_far_times_are_in_no_window_of_a_join() -> None:
    sides = (
        join_side(0, KEYS, INPUT, "ts", True),
        join_side(1, KeyColumns(OTHER, ["id"], 4), OTHER, "at", True),
    )
    pairs = PairBatches(sides, pa.schema([*INPUT, ("at", TIME)]))
    step = WindowJoinStep("j", JoinWindows(100, 0, 0), sides, pairs)
    step.open(HotTable)
    late: dict[str, list[pa.RecordBatch]] = {MAIN: [], LATE: [], LATE_RIGHT: []}
    step.bind({name: batches.append for name, batches in late.items()})
    step.side(LEFT)(rows_at(FAR))
    step.side(RIGHT)(rows_at(FAR, OTHER))
    assert [sum(b.num_rows for b in late[name]) for name in late] == [0, len(FAR), len(FAR)]
    assert step.counters()["without_time"] == 2 * len(FAR)
