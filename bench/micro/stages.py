"""The time of a batch in each stage, on one thread, with rows in memory. Nothing is sent.

    python bench/micro/stages.py [--rows 8192] [--payload 32] [--keys 10000] [--receivers 2]
                                 [--rest-ms 0]

It shows microseconds per batch and nanoseconds per row for each stage of the network word count, and
the cost of a batch of one row, which is nearly all Python. With ``--rest-ms 4`` the thread sleeps
before each batch, as at a fixed rate, so other programs use the caches in between. The median of
alternating runs is shown, because the speed of a shared machine changes by half within a second.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.discard_sink import DiscardSink
from penstock.connectors.generator import SCHEMA, WordSource
from penstock.contract.connectors import WordsSpec
from penstock.contract.graph import Compute, Function
from penstock.contract.ids import Attempt, Ordinal, StageIndex, TaskId
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model.elements import Data
from penstock.model.kernels import routing
from penstock.model.keys import hash_columns
from penstock.model.split import split_by
from penstock.steps.keyed import Aggregates, KeyColumns
from penstock.transport.batches import join, measure

GROUPS = 256
ROUNDS = 200
TASK = TaskId(StageIndex(1), Ordinal(0), 0)
Stage = Callable[[int], Any]


@dataclass(slots=True)
class Line:
    """The stages of one task, over batches of one size; each takes the number of a batch."""

    rows: int
    stages: dict[str, Stage]

    def run(self, rest_s: float = 0.0) -> dict[str, float]:
        """Return the median time of every stage in seconds; the thread sleeps before a batch."""
        took: dict[str, list[float]] = {name: [] for name in self.stages}
        for number in range(ROUNDS):
            time.sleep(rest_s)
            for name, stage in self.stages.items():
                begin = time.perf_counter()
                stage(number)
                took[name].append(time.perf_counter() - begin)
        return {name: median(times) for name, times in took.items()}


def line(spec: WordsSpec, rows: int, receivers: int) -> Line:
    """Build the stages over the batches that a reader of ``spec`` gives."""
    source = WordSource(spec)
    reader = source.open(source.splits()[0])
    batches = [_read(reader, rows) for _ in range(ROUNDS)]
    owners, sent = (np.arange(GROUPS) * receivers // GROUPS).astype(np.int32), np.zeros(GROUPS, np.int64)
    hashes = [hash_columns([b.column(0)]) for b in batches]
    numbers = [np.empty(b.num_rows, np.int32) for b in batches]
    for hashed, number in zip(hashes, numbers, strict=True):
        routing.look_up(hashed, owners, sent, number)
    halves = [(b.slice(0, rows // 2), b.slice(rows // 2)) for b in batches]
    parts = [[Data(h, h.num_rows, measure(h)) for h in pair] for pair in halves]
    return Line(
        rows,
        {
            "read": lambda _: reader.read(rows),
            "hash": lambda n: hash_columns([batches[n].column(0)]),
            "owner": lambda n: routing.look_up(hashes[n], owners, sent, numbers[n]),
            "split": lambda n: split_by(batches[n], numbers[n], receivers),
            "join two": lambda n: join(parts[n]),
            **_counting(batches),
        },
    )


def _read(reader: Any, rows: int) -> pa.RecordBatch:
    """Read this many rows, in several reads if they are many or the generator's block ends."""
    pieces = [reader.read(rows).batch]
    while (left := rows - sum(piece.num_rows for piece in pieces)) > 0:
        pieces.append(reader.read(left).batch)
    return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)


def _counting(batches: list[pa.RecordBatch]) -> dict[str, Stage]:
    state = KeyedStateBackend(StateSettings(), (Range(0, GROUPS),), GROUPS)
    keys = KeyColumns(SCHEMA, ["word"], GROUPS)
    aggregates = Aggregates("counts", (Compute("count", Function.COUNT),), SCHEMA)
    opened = state.open(_schema(keys, aggregates))
    encoded = [keys.codec.keys(keys.of(b)) for b in batches]
    rows = [opened.rows(k) for k in encoded]
    output = SCHEMA.append(pa.field("count", pa.int64()))
    folded = [aggregates.fold(opened, r, b) for r, b in zip(rows, batches, strict=True)]
    counts = [aggregates.running(f)[0] for f in folded]
    sink = DiscardSink("end", output).writer(TASK, Attempt(1))
    made = [pa.RecordBatch.from_arrays([b.column(0), c], schema=output) for b, c in zip(batches, counts, strict=True)]
    return {
        "keys": lambda n: keys.codec.keys(keys.of(batches[n])),
        "table": lambda n: opened.rows(encoded[n]),
        "count": lambda n: aggregates.running(aggregates.fold(opened, rows[n], batches[n])),
        "emit": lambda n: pa.RecordBatch.from_arrays([batches[n].column(0), counts[n]], schema=output),
        "sink": lambda n: sink.write(made[n]),
    }


def _schema(keys: KeyColumns, aggregates: Aggregates) -> Any:
    from penstock.steps.base import StateSchema  # noqa: PLC0415

    return StateSchema("counts", keys.fields, aggregates.values())


def main() -> None:
    """Measure batches of the size asked for and of one row; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=8192, help="of a batch")
    parser.add_argument("--payload", type=int, default=32)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--receivers", type=int, default=2)
    parser.add_argument("--rest-ms", type=float, default=0.0, help="before each batch")
    options = parser.parse_args()
    spec = WordsSpec(payload=options.payload, keys=options.keys)
    rest_s = options.rest_ms / 1000
    large = line(spec, options.rows, options.receivers).run(rest_s)
    single = line(spec, 1, options.receivers).run(rest_s)
    print(f"{'stage':10} us a batch of {options.rows} rows   ns a row   us a batch of 1 row")
    for name, took in large.items():
        print(f"{name:10} {took * 1e6:23.1f} {took / options.rows * 1e9:10.1f}", end="")
        print(f" {single[name] * 1e6:22.1f}")
    total, ones = sum(large.values()), sum(single.values())
    print(f"{'all':10} {total * 1e6:23.1f} {total / options.rows * 1e9:10.1f} {ones * 1e6:22.1f}")


if __name__ == "__main__":
    main()
