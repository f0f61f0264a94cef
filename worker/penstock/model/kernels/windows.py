"""Tumbling windows of event time: the end of the window of each row, and which rows are late."""

from typing import Any

from penstock.base.limits import EVENT_TIME_US_MAX
from penstock.model.kernels.jit import (
    I32,
    I64,
    INT,
    OUT_I64,
    OUT_U8,
    kernel,
    tuple_of,
)

ON_TIME, LATE, LATE_AFTER_IDLE, WITHOUT_TIME = 0, 1, 2, 3

# size, offset, allowed lateness
SHAPE = tuple_of((INT, INT, INT))
# event times, the source's bounds
TIMES = tuple_of((I64, I64))
# by key group: the watermark through which windows have been emitted
EMITTED = tuple_of((I32, I64))


@kernel(INT, SHAPE, TIMES, EMITTED, OUT_I64, OUT_U8)
def assign(shape: Any, times: Any, emitted: Any, ends: Any, verdicts: Any) -> Any:
    """Write the end of the window of every row, and whether the row is late. Return how many rows are late.

    ``emitted`` is the key group of each row and, by group, the time up to which windows have fired. A row whose time
    is beyond ``EVENT_TIME_US_MAX`` is one without time.
    """
    size, offset, lateness = shape
    event_times, bounds = times
    groups, fired = emitted
    late = 0
    for i in range(ends.size):
        begin = event_times[i] - (event_times[i] - offset) % size
        end = begin + size
        ends[i] = end
        verdict = ON_TIME
        if event_times[i] > EVENT_TIME_US_MAX or event_times[i] < -EVENT_TIME_US_MAX:
            verdict = WITHOUT_TIME
        elif end + lateness <= bounds[i]:
            verdict = LATE
        elif end + lateness <= fired[groups[i]]:
            verdict = LATE_AFTER_IDLE
        verdicts[i] = verdict
        late += verdict != ON_TIME
    return late
