"""What every source does to rows before it returns them: it bounds their size and stamps them.

The size of one read is bounded, because a row may have any size, but an element may not.

The stamp of a row says how far the event time of its split had advanced before the row:
``stamp[i] = (largest event time of the split before row i) - out_of_orderness``, which compares
with a watermark. It depends only on the order of offsets, so the same rows are late in every run,
however splits interleave. It is a hidden column; the first row of a split has ``NO_BOUND``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from penstock.base import limits
from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.os_errors import may_pass
from penstock.contract.event_time import EventTime, TimeUnit
from penstock.contract.ids import SplitId
from penstock.steps.base import BOUND_FIELD, NO_BOUND

TIME = pa.timestamp("us")


def head(batch: pa.RecordBatch, rows: int) -> pa.RecordBatch:
    """Return the first rows of a batch: at most ``rows``, and at most ``SOURCE_READ_BYTES_MAX``.

    Returns at least one row, however large. Rows are assumed to have about equal sizes; otherwise
    the piece is halved until it fits.
    """
    piece = batch if batch.num_rows <= rows else batch.slice(0, rows)
    if piece.get_total_buffer_size() <= limits.SOURCE_READ_BYTES_MAX:
        return piece  # the size of whole buffers is enough, at a tenth of the cost of nbytes
    while piece.num_rows > 1 and piece.nbytes > limits.SOURCE_READ_BYTES_MAX:
        share = piece.num_rows * limits.SOURCE_READ_BYTES_MAX // piece.nbytes
        piece = piece.slice(0, max(1, min(share, piece.num_rows // 2)))
    return piece


@contextmanager
def closed_when_it_fails(close: Callable[[], None], where: Callable[[], str]) -> Iterator[None]:
    """Close a reader whose read fails: what has raised gives no more rows. A later read begins where this one did.

    ``where`` begins the text of an error of Arrow or of the system. Raises StorageError when a retry may help, and
    StateError when not.
    """
    try:
        yield
    except (pa.ArrowInvalid, OSError, StorageError) as error:
        close()
        if isinstance(error, StorageError):
            raise
        raise (StorageError if may_pass(error) else StateError)(f"{where()}: {error}") from error


def with_stamp(schema: pa.Schema, event_time: EventTime | None) -> pa.Schema:
    """Append the hidden column to a source's schema when the source has event time.

    A column of whole numbers with a unit becomes one of times. Raises ConfigError when the column of event time is
    missing or of another type.
    """
    if event_time is None:
        return schema
    index = schema.get_field_index(event_time.column)
    if index < 0:
        has = ", ".join(schema.names)
        raise ConfigError(f"event time: there is no column {event_time.column!r}, only {has}")
    found = schema.field(index).type
    if event_time.unit is not None:
        if not pa.types.is_signed_integer(found):
            raise ConfigError(f"event time: column {event_time.column!r} is {found}, not a whole number of a time unit")
        schema = schema.set(index, schema.field(index).with_type(TIME))
    elif not pa.types.is_timestamp(found):
        raise ConfigError(f"event time: column {event_time.column!r} is {found}, not a timestamp in microseconds")
    return schema.append(BOUND_FIELD)


class Stamper:
    """Stamps the rows of one split in order; ``max_ts`` goes into the split's state."""

    __slots__ = ("_column", "_disorder_us", "_unit", "max_ts")

    def __init__(self, event_time: EventTime, max_ts: int | None) -> None:
        """Continue after rows whose largest event time was ``max_ts`` (us)."""
        self._column = event_time.column
        self._disorder_us = event_time.out_of_orderness_us
        self._unit = event_time.unit
        self.max_ts = max_ts

    def reach(self, max_ts: int | None) -> None:
        """Raise the largest event time to one that the source knows (us), which no row needs to have."""
        if max_ts is not None:
            self.max_ts = max_ts if self.max_ts is None else max(self.max_ts, max_ts)

    def stamp(self, batch: pa.RecordBatch, split: SplitId, offset: int) -> pa.RecordBatch:
        """Append the hidden column. A null event time is skipped: it does not advance the time.

        Nor does one that no window takes: see ``EVENT_TIME_US_MAX``. ``split`` and ``offset``, of the first row, are
        for errors. Raises ConfigError for a value that no timestamp[us] holds.
        """
        place = batch.schema.get_field_index(self._column)
        try:
            shown = as_times(batch.column(place), self._unit)
        except ConfigError as error:
            raise ConfigError(f"split {split!r}, rows from offset {offset} on: {error}") from error
        if self._unit is not None:
            batch = batch.set_column(place, batch.schema.field(place).with_type(TIME), shown)
        times = shown.cast(pa.int64())
        before = NO_BOUND if self.max_ts is None else self.max_ts
        values = times.fill_null(NO_BOUND).to_numpy(zero_copy_only=False)
        far = (values > limits.EVENT_TIME_US_MAX) | (values < -limits.EVENT_TIME_US_MAX)
        values = np.where(far, NO_BOUND, values)
        largest = np.maximum.accumulate(np.concatenate(([before], values)))
        self.max_ts = None if largest[-1] == NO_BOUND else int(largest[-1])
        earlier = largest[:-1]
        stamps = np.where(earlier == NO_BOUND, NO_BOUND, earlier - self._disorder_us)
        return batch.append_column(BOUND_FIELD, pa.array(stamps, pa.int64()))


def as_times(values: pa.Array, unit: TimeUnit | None) -> pa.Array:
    """Return event times as timestamp[us]; with a unit, the values are whole numbers of it.

    Raises ConfigError with a remedy for a value that no timestamp[us] holds.
    """
    try:
        return (values if unit is None else values.cast(pa.int64()).cast(pa.timestamp(unit.value))).cast(TIME)
    except pa.ArrowInvalid as error:
        remedy = "correct such rows in the input" if unit is None else "correct the unit of event time, or such rows"
        raise ConfigError(f"event time: {error}: {remedy}") from error
