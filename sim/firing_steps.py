"""Steps of the simulation that fire in event time: timers, sliding windows and sessions.

A step is three pure functions over the state of a task:

    take   what a record changes. ``told`` is the latest time that the step was told for the record's key group
    due    what fires up to a watermark, in order: the time at which it fires, and what it is
    fire   what one firing changes

timer    Each record sets a timer of its own. Some are set to a time that was reached already: such a timer counts as
         one microsecond after it. A timer that fires sends a record of its time to the step ``tally``.
tally    It counts what comes. A row at or before the time that it was told shows that somebody said too much.
sliding  One count for each key and slice, and the end of the next window that the slice is in.
session  One entry for each record. A session fires when nothing can be added to it any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

from sim.workload import LATENESS_US, Row, SimRecord

StateKey = tuple[int, ...]
State = Mapping[StateKey, tuple[int, ...]]
Due = tuple[int, StateKey]

DELAYS_US = (-60, 40, 150)  # from the time of a record to that of its timer, by its offset
TALLY = 1  # stands in the keys of tallies
SIZE_US, SLIDE_US = 200, 50
GAP_US = 60


@dataclass(frozen=True, slots=True)
class StateChange:
    """What a step does: entries of the state that it writes and removes, rows for sinks, and records that it sends."""

    put: State = field(default_factory=dict)
    gone: tuple[StateKey, ...] = ()
    rows: tuple[Row, ...] = ()
    sent: tuple[SimRecord, ...] = ()


class FiringStep(Protocol):
    """A step that fires."""

    def take(self, state: State, record: SimRecord, told: int | None) -> StateChange:
        """Return what a record changes."""
        ...

    def due(self, state: State, watermark: int) -> list[Due]:
        """List what fires up to a watermark, in order."""
        ...

    def fire(self, state: State, due: Due) -> StateChange:
        """Return what one firing changes."""
        ...


def is_reached(time: int, told: int | None) -> bool:
    """Return whether a step was told a time."""
    return told is not None and time <= told


def _late(record: SimRecord) -> StateChange:
    return StateChange(rows=(("late", (record.key, record.split, record.offset)),))


def number_of(record: SimRecord) -> int:
    """Return the number of a record's split."""
    return int(record.split[1:])


class FiringTimers:
    """A function whose records set timers."""

    def take(self, state: State, record: SimRecord, told: int | None) -> StateChange:
        """Set the timer of the record."""
        time = record.ts + DELAYS_US[record.offset % len(DELAYS_US)]
        if told is not None and time <= told:
            time = told + 1
        return StateChange({(record.key, number_of(record), record.offset): (time,)})

    def due(self, state: State, watermark: int) -> list[Due]:
        """List the timers up to a watermark."""
        return sorted((time, key) for key, (time,) in state.items() if time <= watermark)

    def fire(self, state: State, due: Due) -> StateChange:
        """Clear a timer, and send its record."""
        time, (key, split, offset) = due
        return StateChange(gone=(due[1],), sent=(SimRecord(key, f"s{split}", offset, time, 0),))  # type: ignore[arg-type]


class FiringTally:
    """A count of what timers have sent. It fires nothing, and judges what comes by the time that it was told."""

    def take(self, state: State, record: SimRecord, told: int | None) -> StateChange:
        """Count a record, and show it."""
        row = record.key, record.split, record.offset
        if is_reached(record.ts, told):
            return StateChange(rows=(("out", ("late", *row)),))
        key = (record.key, TALLY)
        return StateChange({key: (state.get(key, (0,))[0] + 1,)}, rows=(("out", row),))

    def due(self, state: State, watermark: int) -> list[Due]:
        """Return nothing."""
        return []

    def fire(self, state: State, due: Due) -> StateChange:
        """Never called."""
        raise AssertionError(f"{due} was not due")


def slice_end(ts: int) -> int:
    """Return the end of the slice that holds an event time, which is the end of its first window."""
    return ts - ts % SLIDE_US + SLIDE_US


class FiringSlices:
    """Sliding windows, which share slices."""

    def take(self, state: State, record: SimRecord, told: int | None) -> StateChange:
        """Count a record in its slice, if its first window has not fired."""
        end = slice_end(record.ts)
        if end + LATENESS_US <= record.bound or is_reached(end + LATENESS_US, told):
            return _late(record)
        count, following = state.get((record.key, end), (0, end))
        return StateChange({(record.key, end): (count + 1, following)})

    def due(self, state: State, watermark: int) -> list[Due]:
        """List the windows up to a watermark, of each key the first one."""
        found = {(end + LATENESS_US, (key, end)) for (key, _), (_, end) in state.items()}
        return sorted(due for due in found if due[0] <= watermark)

    def fire(self, state: State, due: Due) -> StateChange:
        """Emit a window, and go on to the next one."""
        _, (key, end) = due
        covered = {k: v for k, v in state.items() if k[0] == key and end - SIZE_US < k[1] <= end}
        stays = {k: (n, end + SLIDE_US) for k, (n, _) in covered.items() if k[1] > end + SLIDE_US - SIZE_US}
        row = key, end, sum(count for count, _ in covered.values())
        return StateChange(stays, tuple(sorted(covered.keys() - stays.keys())), rows=(("out", row),))


class FiringSessions:
    """Sessions of a key, which end a gap after their last record."""

    def take(self, state: State, record: SimRecord, told: int | None) -> StateChange:
        """Keep a record that is on time."""
        last = record.ts + LATENESS_US
        if last < record.bound or (told is not None and last < told):
            return _late(record)
        return StateChange({(record.key, record.ts, number_of(record), record.offset): ()})

    def due(self, state: State, watermark: int) -> list[Due]:
        """List the sessions up to a watermark."""
        found = [(each[-1][1] + GAP_US + LATENESS_US, each[0]) for each in _sessions(state)]
        return sorted(due for due in found if due[0] <= watermark)

    def fire(self, state: State, due: Due) -> StateChange:
        """Emit a session."""
        (session,) = (each for each in _sessions(state) if each[0] == due[1])
        row = session[0][0], session[0][1], session[-1][1] + GAP_US, len(session)
        return StateChange(gone=tuple(session), rows=(("out", row),))


def _sessions(state: State) -> list[list[StateKey]]:
    """List the entries of each session, in order. A record at the very end of a session begins another one."""
    found: list[list[StateKey]] = []
    for _, entries in groupby(sorted(state), key=lambda entry: entry[0]):
        before: int | None = None
        for entry in entries:
            if before is None or entry[1] - before >= GAP_US:
                found.append([])
            found[-1].append(entry)
            before = entry[1]
    return found


FIRING_STEPS: dict[str, FiringStep] = {
    "timer": FiringTimers(),
    "tally": FiringTally(),
    "sliding": FiringSlices(),
    "session": FiringSessions(),
}
