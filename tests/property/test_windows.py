"""Windows against a naive model: late rows by the source's bound, each window emitted once."""

from collections import defaultdict
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.graph import Compute, Function
from penstock.keyed_state.hot import HotTable
from penstock.steps.base import BOUND_COLUMN
from penstock.steps.keyed import KeyColumns
from penstock.steps.windows.by_shape import window
from penstock.steps.windows.late_rows import WindowShape
from penstock.steps.windows.whole import ShapeStep

TIME = pa.timestamp("us")
INPUT = pa.schema([("mote", pa.int64()), ("ts", TIME), ("value", pa.float64())])
OUTPUT = pa.schema(
    [
        ("mote", pa.int64()),
        ("window_start", TIME),
        ("window_end", TIME),
        ("count", pa.int64()),
        ("sum", pa.float64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
        ("mean", pa.float64()),
        ("newest", TIME),
    ]
)
COMPUTE = (
    Compute("count", Function.COUNT),
    Compute("sum", Function.SUM, "value"),
    Compute("min", Function.MIN, "value"),
    Compute("max", Function.MAX, "value"),
    Compute("mean", Function.MEAN, "value"),
    Compute("newest", Function.MAX, "ts"),
)
ROW = st.tuples(st.none() | st.integers(0, 3), st.integers(-50, 200), st.none() | st.integers(-9, 9))
BATCHES = st.lists(st.tuples(st.lists(ROW, max_size=12), st.integers(0, 30)), min_size=1, max_size=8)


def made(shape: WindowShape) -> tuple[ShapeStep, list[pa.RecordBatch], list[pa.RecordBatch]]:
    step = window("minutes", shape, KeyColumns(INPUT, ["mote"], 16), COMPUTE, (INPUT, OUTPUT))
    step.open(HotTable)
    main: list[pa.RecordBatch] = []
    late: list[pa.RecordBatch] = []
    step.bind({"main": main.append, "late": late.append})
    return step, main, late


def batch(rows: list[Any], bounds: list[int]) -> pa.RecordBatch:
    columns = [
        pa.array([r[0] for r in rows], pa.int64()),
        pa.array([r[1] for r in rows], pa.int64()).cast(TIME),
        pa.array([r[2] for r in rows], pa.float64()),
        pa.array(bounds, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=INPUT.append(pa.field(BOUND_COLUMN, "int64")))


def expected(windows: dict[Any, list[Any]], size: int) -> list[Any]:
    found = []
    for (end, mote), rows in windows.items():
        values = [v for _, v in rows if v is not None]
        none = None if not values else 0
        found.append(
            (
                mote,
                end - size,
                end,
                len(rows),
                none if none is None else float(sum(values)),
                none if none is None else float(min(values)),
                none if none is None else float(max(values)),
                none if none is None else sum(values) / len(values),
                max(t for t, _ in rows),
            )
        )
    return sorted(found, key=str)


def plain(batches: list[pa.RecordBatch]) -> list[Any]:
    rows = []
    for each in batches:
        numbers = [c.cast(pa.int64()) if c.type == TIME else c for c in each.columns[:-1]]
        rows += list(zip(*(n.to_pylist() for n in numbers), strict=True))
    return sorted(rows, key=str)


@given(BATCHES, st.sampled_from([1, 7, 20]), st.sampled_from([0, 3]), st.sampled_from([0, 5]))
def test_windows_agree_with_a_naive_model(batches: Any, size: int, lateness: int, offset: int) -> None:
    step, main, late = made(WindowShape(size, offset, lateness, "ts"))
    windows: dict[Any, list[Any]] = defaultdict(list)
    dropped, largest = 0, -(10**6)
    for rows, disorder in batches:
        bounds = []
        for mote, ts, value in rows:
            bound = largest - disorder
            bounds.append(bound)
            end = ts - (ts - offset) % size + size
            if end + lateness <= max(bound, step._late.emitted[0]):
                dropped += 1
            else:
                windows[end, mote].append((ts, value))
            largest = max(largest, ts)
        step.on_batch(batch(rows, bounds))
        emitted_before = plain(main)
        watermark = largest - disorder - 10
        step.on_watermark(max(watermark, int(step._late.emitted[0])))
        assert all(r in plain(main) for r in emitted_before)
        assert all(r[2] + lateness <= step._late.emitted[0] for r in plain(main))
    step.on_watermark(2**63 - 1)
    assert plain(main) == expected(windows, size)
    assert sum(b.num_rows for b in late) == dropped
    counted = step.counters()
    assert counted["late"] + counted["late_after_idle"] == dropped
    ends = [e for b in main for e in b.column("window_end").cast(pa.int64()).to_pylist()]
    assert ends == sorted(ends), "windows come in order of their end"
