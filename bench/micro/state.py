"""Rows per second of key hash, partitioning, look-ups, a running count, a snapshot and its files.

``python bench/micro/state.py [rows per batch] [distinct keys]``; the best of many runs is shown,
because other programs can only add time.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.contract.graph import Compute, Function
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model.kernels import routing
from penstock.model.keys import hash_columns
from penstock.model.split import split_by
from penstock.steps.keyed import KeyColumns, RunningAggregate
from penstock.steps.stateless import split_words
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 256
RUNS = 200


def best(name: str, rows: int, run: Callable[[], object], runs: int = RUNS) -> None:
    """Print the best time of ``runs`` and the rate."""
    run()
    least = float("inf")
    for _ in range(runs):
        begin = time.perf_counter()
        run()
        least = min(least, time.perf_counter() - begin)
    print(f"{name:28} {least * 1e6:12,.0f} us {rows / least / 1e6:10.1f} M rows/s")


def main(rows: int, distinct: int) -> None:
    """Measure everything once."""
    words = np.array([f"{i:032d}" for i in range(distinct)])
    random = np.random.default_rng(1)
    batches = [
        pa.record_batch({"word": pa.array(words[random.integers(0, distinct, rows)].tolist())}) for _ in range(20)
    ]
    schema, column = batches[0].schema, batches[0].column(0)
    table, owners = np.arange(GROUPS, dtype=np.int32) % 3, np.empty(rows, np.int32)
    hashes, sent = hash_columns([column]), np.zeros(GROUPS, np.int64)
    lines = pa.array([" ".join(["word"] * 10)] * rows)
    best("hash", rows, lambda: hash_columns([column]))
    best("look up 3 destinations", rows, lambda: routing.look_up(hashes, table, sent, owners))
    best("split to them", rows, lambda: split_by(batches[0], owners, 3))
    best("lines into words (words)", rows * 10, lambda: split_words(lines), RUNS // 10)

    state = KeyedStateBackend(StateSettings(), (Range(0, GROUPS),), GROUPS)
    keys = KeyColumns(schema, ["word"], GROUPS)
    compute = (Compute("count", Function.COUNT),)
    output = schema.append(pa.field("count", pa.int64()))
    step = RunningAggregate("counts", keys, compute, (schema, output), state.open)
    step.bind({"main": lambda batch: None})
    turns = iter(range(10**9))
    best("running count", rows, lambda: step.on_batch(batches[next(turns) % len(batches)]))
    for start in range(0, distinct, rows):
        part = pa.array(words[start : start + rows].tolist())
        step.on_batch(pa.record_batch([part], schema=schema))
    _cuts(state, distinct)


def _cuts(state: KeyedStateBackend, keys: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        blobs = DirectoryBlobStore(Path(folder))
        state.flip(Epoch(1))  # loads its kernels, as an engine does before its first row
        while not state.copy_on():
            pass
        begin = time.perf_counter()
        cut = state.flip(Epoch(2))
        cut_at = time.perf_counter()
        while not state.copy_on():
            pass
        copied = time.perf_counter()
        cut.write(lambda suffix: BlobName(f"2{suffix}"), blobs)
        written = time.perf_counter()
    print(f"cut of {keys:,} changed keys in {(cut_at - begin) * 1e3:.1f} ms, ", end="")
    print(f"copied little by little in {(copied - cut_at) * 1e3:.1f} ms, ", end="")
    print(f"written beside processing in {(written - copied) * 1e3:.1f} ms")
    state.close()


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[1:]]
    main(*(numbers + [8192, 10_000][len(numbers) :]))
