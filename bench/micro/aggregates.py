"""CPU time per row of each aggregate: the kernel and the arrays that it needs.

``python bench/micro/aggregates.py [rows per batch] [distinct keys]``. The best of many
runs is shown, because other programs can only add time. To compare revisions, alternate runs with
``PYTHONPATH`` set to the ``worker`` folder of each.
"""

import sys
import time

import numpy as np
import pyarrow as pa

from penstock.contract.graph import Compute, Function
from penstock.keyed_state.hot import HotTable
from penstock.steps.base import StateSchema
from penstock.steps.keyed import Aggregates, KeyColumns

GROUPS = 256
RUNS = 300
KINDS = {"int64": pa.int64(), "uint64": pa.uint64(), "double": pa.float64()}


def least_ns(aggregates: Aggregates, rows: pa.RecordBatch) -> float:
    """Return the CPU time of one row."""
    keys = KeyColumns(rows.schema, ["k"], GROUPS)
    table = HotTable(StateSchema("sums", keys.fields, aggregates.values()))
    found = table.rows(keys.codec.keys(keys.of(rows)))
    least = float("inf")
    for _ in range(RUNS):
        begin = time.process_time_ns()
        aggregates.running(aggregates.fold(table, found, rows))
        least = min(least, time.process_time_ns() - begin)
    return float(least / rows.num_rows)


def main(rows: int, distinct: int) -> None:
    """Measure every function over every kind."""
    random = np.random.default_rng(1)
    keys = pa.array(random.integers(0, distinct, rows))
    values = random.integers(0, 1000, rows)
    for name, kind in KINDS.items():
        batch = pa.record_batch({"k": keys, "v": pa.array(values).cast(kind)})
        for function in Function:
            made = Aggregates("sums", (Compute("x", function, "v"),), batch.schema)
            print(f"{name:8} {function:6} {least_ns(made, batch):6.2f} ns")


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:3]) if len(sys.argv) > 2 else (8192, 10_000))
