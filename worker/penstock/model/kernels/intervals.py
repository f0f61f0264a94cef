"""Interval joins in compiled loops: late rows, times of stored rows, partners of rows, and pairs.

Stored rows are as in :mod:`penstock.model.kernels.joins`. The first column of each is its event time.
"""

from typing import Any

import numpy as np

from penstock.base.limits import EVENT_TIME_US_MAX
from penstock.model.kernels.jit import (
    I32,
    I64,
    INT,
    OUT_I32,
    OUT_I64,
    OUT_U8,
    U8,
    VOID,
    helper,
    kernel,
    load64,
    tuple_of,
)
from penstock.model.kernels.joins import NO_ROW
from penstock.model.kernels.windows import LATE, LATE_AFTER_IDLE, ON_TIME, WITHOUT_TIME
from penstock.model.table_columns import NO_TIMER

PART_ROWS = 64
_TAG_BYTES = 1

# event times, the source's bounds
TIMES = tuple_of((I64, I64))
# by row: the key group; by group: the time reached
REACHED = tuple_of((I32, I64))
# bytes, starts and sizes of stored rows
STORED = tuple_of((U8, I64, I64))
# units and times
ASKED = tuple_of((I64, I64))
# of each event: its unit, and the least and the largest time of its partners
EVENTS = tuple_of((I64, I64, I64))
# of each event: its first partner, or NO_ROW if it has none, and how many of them are skipped and taken
PARTNERS = tuple_of((I64, I64, I64))
# of each pair: its unit, own row and partner
PICKS = tuple_of((OUT_I32, OUT_I32, OUT_I32))


@kernel(INT, INT, TIMES, REACHED, OUT_U8)
def judge(lateness: Any, times: Any, reached: Any, verdicts: Any) -> Any:
    """Write whether each row is late. Return how many rows are."""
    event_times, bounds = times
    groups, time_of_group = reached
    late = 0
    for i in range(verdicts.size):
        last = event_times[i] + lateness
        verdict = ON_TIME
        if event_times[i] > EVENT_TIME_US_MAX or event_times[i] < -EVENT_TIME_US_MAX:
            verdict = WITHOUT_TIME
        elif last < bounds[i]:
            verdict = LATE
        elif last < time_of_group[groups[i]]:
            verdict = LATE_AFTER_IDLE
        verdicts[i] = verdict
        late += verdict != ON_TIME
    return late


@kernel(VOID, I32, I64, OUT_I64)
def lower_timers(rows: Any, times: Any, timers: Any) -> None:
    """Set each timer to the least of its own time, if it has one, and the times of its rows."""
    for i in range(rows.size):
        if timers[rows[i]] == NO_TIMER or times[i] < timers[rows[i]]:
            timers[rows[i]] = times[i]


@kernel(VOID, I32, I64, I64, tuple_of((OUT_I64, OUT_I64)))
def note_times(places: Any, numbers: Any, times: Any, ranges: Any) -> None:
    """Widen the range of times of each part. Row i, of part ``places[i]``, is number ``numbers[i]`` of its unit."""
    least, most = ranges
    for i in range(places.size):
        place, first = places[i], numbers[i] % PART_ROWS == 0
        if first or times[i] < least[place]:
            least[place] = times[i]
        if first or times[i] > most[place]:
            most[place] = times[i]


@kernel(VOID, U8, I64, OUT_I64)
def times_of(data: Any, starts: Any, times: Any) -> None:
    """Write the event time of each stored row."""
    for i in range(starts.size):
        times[i] = np.int64(load64(data, starts[i] + _TAG_BYTES))


@kernel(VOID, ASKED, I64, I64, OUT_I64)
def newest(asked: Any, times: Any, ends: Any, found: Any) -> None:
    """Write the last row of a unit whose time is at most that asked for, -1 where there is none.

    ``asked`` are units and times. The rows of unit u are ``ends[u]`` up to ``ends[u + 1]``, by time.
    """
    units, until = asked
    for i in range(found.size):
        low, high = ends[units[i]], ends[units[i] + 1]
        begin = low
        while low < high:
            middle = (low + high) // 2
            if times[middle] <= until[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low - 1 if low > begin else -1


@helper
def _is_after(data: Any, start: Any, size: Any, other: Any, other_size: Any) -> Any:
    """Return whether the bytes of a row are greater than those of another one."""
    for i in range(min(size, other_size)):
        if data[start + i] != data[other + i]:
            return data[start + i] > data[other + i]
    return size > other_size


@kernel(INT, I64, I64, STORED)
def are_ordered(units: Any, times: Any, stored: Any) -> Any:
    """Return whether rows are in the order of unit, time and bytes. Units never fall."""
    data, starts, sizes = stored
    for i in range(1, times.size):
        if units[i] != units[i - 1] or times[i] > times[i - 1]:
            continue
        if times[i] < times[i - 1] or _is_after(data, starts[i - 1], sizes[i - 1], starts[i], sizes[i]):
            return 0
    return 1


@helper
def _first_at(times: Any, low: Any, high: Any, time: Any) -> Any:
    """Return the first place from ``low`` on, before ``high``, with this time or a later one; else ``high``."""
    while low < high:
        middle = (low + high) // 2
        if times[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(VOID, EVENTS, I64, I64, OUT_I64, OUT_I64)
def find_partners(events: Any, times: Any, ends: Any, first: Any, count: Any) -> None:
    """Write first and number of the partners of each event.

    ``times`` are those of all partners, unit by unit; those of unit u end before ``ends[u + 1]``.
    """
    units, lows, highs = events
    for i in range(first.size):
        begin, end = ends[units[i]], ends[units[i] + 1]
        first[i] = _first_at(times, begin, end, lows[i])
        count[i] = max(0, _first_at(times, first[i], end, highs[i] + 1) - first[i])


@kernel(VOID, tuple_of((I64, I64)), PARTNERS, PICKS)
def pair_up(events: Any, partners: Any, picks: Any) -> None:
    """Write the pairs of events, of which each has a unit and a row."""
    units, rows = events
    first, skipped, taken = partners
    of_unit, own, other = picks
    at = 0
    for i in range(units.size):
        for j in range(skipped[i], skipped[i] + taken[i]):
            of_unit[at] = units[i]
            own[at] = rows[i]
            other[at] = NO_ROW if first[i] == NO_ROW else first[i] + j
            at += 1
