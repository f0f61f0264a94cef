"""A count of rows by key behind steps to which rows go by one of two schemes; ``test_schemes`` knows the answers.

It is copied beside the job file and imported by the engines, as a user's module is.
"""

import numpy as np
import pyarrow as pa

import penstock as ps

COLUMNS = {"key": "int64", "n": "int64"}


def even(batch: pa.RecordBatch, tasks: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.asarray(batch.column("key")) % tasks


def turned(batch: pa.RecordBatch, tasks: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return (np.asarray(batch.column("key")) + 1) % tasks


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def job(parameters: ps.Parameters) -> ps.Job:
    job = ps.Job()
    connector = ps.parquet(parameters["input"], rate=parameters.integer("rate"))
    rows = job.source("rows", connector, columns=COLUMNS, batch_rows=32)
    dealt = rows.partition(schemes={"even": even, "turned": turned}, use="even").map("work", same)
    counts = dealt.key_by("key").aggregate("counts", count=ps.count(), last=ps.last("n"))
    counts.sink("output", ps.parquet(parameters["output"]))
    return job
