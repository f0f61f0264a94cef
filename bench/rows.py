"""Rows of equal size to measure compression: readings of sensors, prose, and random bytes.

sensor   lines of readings as in the DEBS 2012 Grand Challenge: integers, a fifth of which vary
text     Python's own manual, cut into pieces
random   random bytes, which cannot be compressed

A block of rows is made once in each process. An offset is an index in it, so any offset is found at
once. Rows have numbers. Their sum at the end shows that each row arrived once and unchanged.
The job sends each row from a source on worker 0 to a stage on worker 1.
"""

import json
from collections.abc import Callable, Mapping
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from bench.stages import same, to_second
from penstock.contract.graph import Connector
from penstock.contract.ids import SplitId

SCHEMA = pa.schema([("number", pa.int64()), ("row", pa.binary())])
BLOCK_ROWS = 16_384
READINGS = 66  # fields of a line
READINGS_PER_S = 100
SEED = 7


def sensor(size: int) -> bytes:
    """Return lines of readings, joined, each cut or filled to ``size`` bytes."""
    random = np.random.Generator(np.random.PCG64(SEED))
    steps = random.integers(-1, 2, (BLOCK_ROWS, READINGS)) * (random.random(READINGS) < 0.2)
    readings = np.cumsum(steps, axis=0) + random.integers(0, 20_000, READINGS)
    start_us = 1_330_000_000_000_000
    lines = (
        f"{start_us + n * 1_000_000 // READINGS_PER_S},{n}," + ",".join(map(str, line))
        for n, line in enumerate(readings.tolist())
    )
    return b"".join(line.encode()[:size].ljust(size) for line in lines)


def text(size: int) -> bytes:
    """Return prose for all rows. It repeats after about 400 kB, which is beyond the window of LZ4."""
    prose = "\n".join(topics.values()).encode()
    wanted = BLOCK_ROWS * size
    return (prose * (wanted // len(prose) + 1))[:wanted]


def noise(size: int) -> bytes:
    """Return random bytes for all rows."""
    return np.random.Generator(np.random.PCG64(SEED)).bytes(BLOCK_ROWS * size)


MADE_OF: dict[str, Callable[[int], bytes]] = {"sensor": sensor, "text": text, "random": noise}


def block(kind: str, size: int) -> pa.Array:
    """Make the bytes of the rows of a kind."""
    offsets = np.arange(BLOCK_ROWS + 1, dtype=np.int32) * size
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(MADE_OF[kind](size))]
    return pa.Array.from_buffers(pa.binary(), BLOCK_ROWS, buffers)


class Rows:
    """One split of ``rows`` rows of a kind."""

    bounded = True
    schema = SCHEMA

    def __init__(self, kind: str, size: int, rows: int) -> None:
        """Make the block."""
        self._block = block(kind, size)
        self._rows = rows

    def splits(self) -> list[ps.SplitState]:
        """List the one split."""
        return [ps.SplitState(SplitId("rows"), json.dumps(self._rows), 0)]

    def open(self, state: ps.SplitState) -> "RowReader":
        """Begin at an offset."""
        return RowReader(self._block, state)


class RowReader:
    """Reads slices of the block."""

    def __init__(self, rows: pa.Array, state: ps.SplitState) -> None:
        """Go on at the offset of ``state``."""
        self._block, self._state = rows, state
        self._offset, self._end = state.offset, int(json.loads(state.spec))

    def read(self, max_rows: int) -> ps.Read | None:
        """Return the next rows, or None at the end."""
        first = self._offset
        rows = self._block.slice(first % BLOCK_ROWS, min(max_rows, self._end - first))
        if not len(rows):
            return None
        self._offset += len(rows)
        numbers = pa.array(np.arange(first, self._offset))
        return ps.Read(pa.RecordBatch.from_arrays([numbers, rows], schema=SCHEMA), first)

    def state(self) -> ps.SplitState:
        """Return where the next read begins."""
        ended = self._offset >= self._end
        return ps.SplitState(self._state.split, self._state.spec, self._offset, ended)

    def committed(self, epoch: int, state: ps.SplitState) -> None:
        """Do nothing: the rows need no acknowledgement."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def job(params: Mapping[str, Any]) -> ps.Job:
    """Build the job of a scenario."""
    made = ps.Job()
    rows = Rows(params["kind"], int(params["payload"]), int(params["rows"]))
    words = made.source("words", rows, batch_rows=int(params["batch_rows"]), parallelism=1)
    counts = words.partition(to_second).map("counts", same, per="batch")
    counts.sink("end", Connector("discard", {"report": params["report"]}))
    return made
