"""The two micro-benchmarks of the actor paper: a pipeline of three stages, and a producer with its consumer.

In the pipeline, tuples of three numbers (24 bytes) go from a source through a forwarder to a sink. ``between`` says
how they come to the forwarder: ``forward`` chains it to the source, and ``round_robin`` sends them to the tasks of all
workers in turn. The producer sends messages of four bytes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps


@ps.record
class Three:
    """A tuple of the pipeline."""

    a: int
    b: int
    c: int


class Numbers:
    """A source that makes rows of their offsets. Each split has ``rows`` rows."""

    bounded = True

    def __init__(self, schema: pa.Schema, rows: int, splits: int) -> None:
        """Fill each column of whole numbers with the offset, one of four bytes with its lower half."""
        self.schema = schema
        self.rows = rows
        self.count = splits

    def splits(self) -> list[ps.SplitState]:
        """List the splits, each with its number of rows."""
        return [ps.SplitState(f"split-{n}", str(self.rows), 0, self.rows == 0) for n in range(self.count)]

    def open(self, state: ps.SplitState) -> "NumberReader":
        """Open a split at its offset."""
        return NumberReader(self.schema, state)


class NumberReader:
    """Reads one split."""

    def __init__(self, schema: pa.Schema, state: ps.SplitState) -> None:
        """Go on at the offset of ``state``."""
        self.schema, self.split, self.spec = schema, state.split, state.spec
        self.offset, self.end = state.offset, int(state.spec)

    def read(self, max_rows: int) -> ps.Read | None:
        """Return the next rows, None at the end."""
        first, self.offset = self.offset, min(self.offset + max_rows, self.end)
        if first == self.offset:
            return None
        numbers = np.arange(first, self.offset)
        made = {f.type: pa.array(numbers.astype(f.type.to_pandas_dtype(), copy=False)) for f in self.schema}
        return ps.Read(pa.RecordBatch.from_arrays([made[f.type] for f in self.schema], schema=self.schema), first)

    def state(self) -> ps.SplitState:
        """Return where the next read begins."""
        return ps.SplitState(self.split, self.spec, self.offset, self.offset == self.end)

    def committed(self, epoch: int, state: ps.SplitState) -> None:
        """Do nothing: numbers are made anew."""

    def close(self) -> None:
        """Do nothing."""


def pass_on(r: Three) -> Three:
    """Forward a tuple."""
    return Three(r.a, r.b, r.c)


def _begin(job: ps.Job, params: ps.Parameters, name: str, columns: dict[str, str]) -> ps.Stream:
    """Begin with numbers that are made here, or with those that are pushed."""
    batch_rows = params.integer("batch_rows")
    announce = params.get("announce")
    if announce:
        return job.source(name, ps.ingest(2, announce), columns=columns, batch_rows=batch_rows)
    schema = pa.schema([pa.field(column, pa.type_for_alias(kind)) for column, kind in columns.items()])
    numbers = Numbers(schema, params.integer("rows"), params.integer("splits"))
    return job.source(name, numbers, batch_rows=batch_rows)


def _sink(params: ps.Parameters) -> Any:
    return ps.parquet(params["output"]) if params["output"] else ps.discard()


def job(params: ps.Parameters) -> ps.Job:
    """Build the pipeline."""
    ways: dict[str, Callable[[ps.Stream], ps.Stream]] = {
        "forward": lambda stream: stream.forward(),
        "round_robin": lambda stream: stream.round_robin(),
    }
    if params["between"] not in ways:
        raise ps.ConfigError(f"between is {params['between']!r}; it must be one of {', '.join(ways)}")
    job = ps.Job()
    tuples = _begin(job, params, "tuples", dict.fromkeys(("a", "b", "c"), "int64"))
    ways[params["between"]](tuples).map("forwarder", pass_on).sink("end", _sink(params))
    return job


def producer(params: ps.Parameters) -> ps.Job:
    """Build the producer and its consumer, which are in two tasks."""
    job = ps.Job()
    messages = _begin(job, params, "producer", {"n": "int32"})
    messages.round_robin().sink("consumer", _sink(params))
    return job
