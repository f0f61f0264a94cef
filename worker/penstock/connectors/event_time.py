"""The stamp of a row: how far the event time of its split had advanced before the row.

``stamp[i] = (largest event time of the split before row i) - out_of_orderness``, which compares
with a watermark. It depends only on the order of offsets, so the same rows are late in every run,
however splits interleave. It is a hidden column; the first row of a split has ``NO_STAMP``.
"""

import numpy as np
import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.contract.columns import HIDDEN_PREFIX
from penstock.contract.graph import EventTime

STAMP = f"{HIDDEN_PREFIX}bound"
STAMP_FIELD = pa.field(STAMP, pa.int64(), nullable=False)
NO_STAMP = -(2**63)


def with_stamp(schema: pa.Schema, event_time: EventTime | None) -> pa.Schema:
    """Append the hidden column to a source's schema when the source has event time.

    Raises ConfigError when the column of event time is missing or no timestamp.
    """
    if event_time is None:
        return schema
    index = schema.get_field_index(event_time.column)
    if index < 0:
        has = ", ".join(schema.names)
        raise ConfigError(f"event time: there is no column {event_time.column!r}, only {has}")
    found = schema.field(index).type
    if not pa.types.is_timestamp(found):
        raise ConfigError(f"event time: column {event_time.column!r} is {found}, not a timestamp in microseconds")
    return schema.append(STAMP_FIELD)


class Stamper:
    """Stamps the rows of one split in order; ``max_ts`` goes into the split's state."""

    __slots__ = ("_column", "_disorder_us", "max_ts")

    def __init__(self, event_time: EventTime, max_ts: int | None) -> None:
        """Continue after rows whose largest event time was ``max_ts`` (us)."""
        self._column = event_time.column
        self._disorder_us = event_time.out_of_orderness_us
        self.max_ts = max_ts

    def stamp(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Append the hidden column. A null event time is skipped: it does not advance the time."""
        times = batch.column(self._column).cast(pa.timestamp("us")).cast(pa.int64())
        before = NO_STAMP if self.max_ts is None else self.max_ts
        values = times.fill_null(NO_STAMP).to_numpy(zero_copy_only=False)
        largest = np.maximum.accumulate(np.concatenate(([before], values)))
        self.max_ts = None if largest[-1] == NO_STAMP else int(largest[-1])
        earlier = largest[:-1]
        stamps = np.where(earlier == NO_STAMP, NO_STAMP, earlier - self._disorder_us)
        return batch.append_column(STAMP_FIELD, pa.array(stamps, pa.int64()))
