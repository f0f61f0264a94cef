"""Windows fire in slices, at a cost of the windows that fire, in an order of time and keys."""

import random
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.graph import Compute, Function
from penstock.keyed_state.hot import HotTable
from penstock.steps.base import BOUND_COLUMN, NO_BOUND
from penstock.steps.keyed import KeyColumns
from penstock.steps.windows.by_shape import AnyWindowStep, window
from penstock.steps.windows.late_rows import WindowShape

GROUPS = 8
SIZE = 10
TIME = pa.timestamp("us")
INPUT = pa.schema([("mote", pa.int64()), ("ts", TIME)])
OUTPUT = pa.schema([("mote", pa.int64()), ("window_start", TIME), ("window_end", TIME), ("count", pa.int64())])


class Windows:
    """A window step over a table in memory, and the batches it has emitted."""

    def __init__(self) -> None:
        keys = KeyColumns(INPUT, ["mote"], GROUPS)
        compute = (Compute("count", Function.COUNT),)
        self.step: AnyWindowStep = window("w", WindowShape(SIZE, 0, 0, "ts"), keys, compute, (INPUT, OUTPUT))
        self.step.open(self._open)
        self.emitted: list[pa.RecordBatch] = []
        self.step.bind({"main": self.emitted.append, "late": self.emitted.append})

    def _open(self, schema: Any) -> HotTable:
        self.table = HotTable(schema)
        return self.table

    def rows(self, motes: Any, ts: Any) -> None:
        times = pa.array(ts, pa.int64()).cast(TIME)
        bounds = pa.array([NO_BOUND] * len(motes), pa.int64())
        named = {"mote": pa.array(motes, pa.int64()), "ts": times, BOUND_COLUMN: bounds}
        self.step.on_batch(pa.record_batch(named))

    def fired(self) -> list[tuple[int, int]]:
        """Return key and end of each emitted window, in order."""
        found: list[tuple[int, int]] = []
        for batch in self.emitted:
            ends = batch.column("window_end").cast(pa.int64()).to_pylist()
            found += zip(batch.column("mote").to_pylist(), ends, strict=True)
        return found


def test_a_watermark_reads_only_windows_that_are_due() -> None:
    windows = Windows()
    windows.rows([1], [3])
    windows.rows(list(range(500)), [1000] * 500)
    ends = windows.table.column("end")
    ends[ends == 1010] = 0  # whoever reads it takes these windows for due
    windows.step.on_watermark(20)
    assert windows.fired() == [(1, 10)]


def test_many_windows_fire_in_slices_and_none_is_left() -> None:
    windows = Windows()
    motes = np.arange(FIRED_ROWS_MAX + 10)
    windows.rows(motes, motes % (2 * SIZE))
    assert windows.step.on_watermark(2**63 - 1) == 2 * SIZE - 1, "those of the second end are left"
    assert [b.num_rows for b in windows.emitted] == [FIRED_ROWS_MAX]
    windows.rows([1], [5 * SIZE])  # too late: fired is what the watermark says, not the slice
    assert windows.emitted.pop().num_rows == 1
    assert windows.step.on_watermark(2**63 - 1) == 2**63 - 1
    ends = [end for _, end in windows.fired()]
    assert ends == sorted(ends)
    assert sorted(mote for mote, _ in windows.fired()) == motes.tolist()
    assert windows.step.on_watermark(2**63 - 1) == 2**63 - 1


def test_the_order_of_firing_does_not_depend_on_the_order_of_rows() -> None:
    orders = []
    for seed in range(3):
        windows = Windows()
        rows = [(mote, ts) for mote in range(300) for ts in (1, 11, 21)]
        random.Random(seed).shuffle(rows)
        for start in range(0, len(rows), 100 + seed):
            part = rows[start : start + 100 + seed]
            windows.rows([mote for mote, _ in part], [ts for _, ts in part])
        windows.step.on_watermark(25)
        orders.append(windows.fired())
    assert len(orders[0]) == 600
    assert orders[0] == orders[1] == orders[2]
