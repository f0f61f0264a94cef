"""Sliding windows whose pages do not fit in memory: keys with few slices, far apart, against a naive model."""

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa

from penstock.contract.graph import Compute, Function
from penstock.keyed_state.tiered import TieredTable
from penstock.steps.base import BOUND_COLUMN, NO_BOUND, StateSchema
from penstock.steps.keyed import KeyColumns
from penstock.steps.windows.by_shape import window
from penstock.steps.windows.late_rows import WindowShape

SIZE, SLIDE = 40, 1  # a window covers three or four pages of 16 slices
KEYS, GROUPS = 2_500, 16
BUDGET = 250_000  # fewer pages than the test makes
TIME = pa.timestamp("us")
INPUT = pa.schema([("mote", pa.int64()), ("ts", TIME), ("value", pa.int64())])
OUTPUT = pa.schema(
    [("mote", pa.int64()), ("window_start", TIME), ("window_end", TIME), ("count", pa.int64()), ("sum", pa.int64())]
)


def test_sparse_slices_on_disk_are_in_all_their_windows(tmp_path: Path) -> None:
    compute = (Compute("count", Function.COUNT), Compute("sum", Function.SUM, "value"))
    step = window("w", WindowShape(SIZE, 0, 0, "ts", SLIDE), KeyColumns(INPUT, ["mote"], GROUPS), compute,
                  (INPUT, OUTPUT))  # fmt: skip
    tables: list[TieredTable] = []

    def opened(schema: StateSchema) -> TieredTable:
        tables.append(TieredTable(schema, BUDGET, lambda: tmp_path / "cold"))
        return tables[0]

    step.open(opened)
    found: Counter[tuple[int, int, int, int]] = Counter()

    def take(batch: pa.RecordBatch) -> None:
        plain = [c.cast(pa.int64()).to_pylist() for c in batch.columns[:-1]]
        found.update((mote, end, n, total) for mote, _, end, n, total in zip(*plain, strict=True))

    step.bind({"main": take, "late": take})
    draw = Random(1)
    counts: Counter[tuple[int, int]] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    for turn in range(30):
        rows = [(draw.randrange(KEYS), turn * 7 + draw.randrange(7), draw.randrange(100)) for _ in range(600)]
        for mote, ts, value in rows:
            for end in range(ts + SLIDE, ts + SLIDE + SIZE, SLIDE):
                counts[mote, end] += 1
                sums[mote, end] += value
        motes, times, values = (pa.array(column, pa.int64()) for column in zip(*rows, strict=True))
        bounds = pa.array([NO_BOUND] * len(rows), pa.int64())
        step.on_batch(pa.RecordBatch.from_arrays([motes, times.cast(TIME), values, bounds],
                                                 [*INPUT.names, BOUND_COLUMN]))  # fmt: skip
        while step.on_watermark(turn * 7) < turn * 7:
            pass
    assert tables[0].on_disk, "the budget was meant to be too small"
    while step.on_watermark(2**63 - 1) < 2**63 - 1:
        pass
    assert found == Counter((*key, n, sums[key]) for key, n in counts.items())
    assert not len(tables[0].hot.all_rows(tombstones=False)), "no slice is kept for ever"
    tables[0].close()
