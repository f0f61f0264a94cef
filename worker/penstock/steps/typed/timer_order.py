"""The order in which the timers of one slice fire: those that were taken off the queue, and those set meanwhile.

Timers fire in the order of time, hash, field and key. A function that is called may set a timer of its key to a time
within the slice. That timer fires in its place between the others. A timer that is set to a time behind the slice goes
to the queue, and fires in a later slice.
"""

from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np

from penstock.steps.base import DueTimers, KeyedState

Place = tuple[int, int, int, bytes]  # time, hash, field and key


class TimerOrder:
    """Gives (time, row, field) of the timers of one slice, in order. Some may have been cleared or set anew since."""

    def __init__(self, state: KeyedState, due: DueTimers, last_us: int | None) -> None:
        """Begin with the timers that were taken: all up to ``last_us``, or if it is None, up to the last of these."""
        self._state = state
        self._taken = list(
            zip(due.times.tolist(), due.hashes.tolist(), due.rows.tolist(), due.fields.tolist(), strict=True)
        )
        self._hashes = {row: hashed for _, hashed, row, _ in self._taken}
        self._keys: dict[int, bytes] = {}
        self._next = 0
        self._set: list[tuple[Place, int]] = []  # a heap of what was set meanwhile, with the row
        time, hashed, row, field = self._taken[-1]
        self._last = (time, hashed, field, self._key(row)) if last_us is None else (last_us + 1, 0, 0, b"")

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Go through the timers until none is left in the slice."""
        while True:
            if self._set and (self._next == len(self._taken) or self._comes_first(self._set[0][0])):
                (time, _, field, _), row = heappop(self._set)
            elif self._next < len(self._taken):
                time, _, row, field = self._taken[self._next]
                self._next += 1
            else:
                return
            yield time, row, field

    def _comes_first(self, place: Place) -> bool:
        time, hashed, row, field = self._taken[self._next]
        if place[:2] != (time, hashed):
            return place[:2] < (time, hashed)
        return place[2:] < (field, self._key(row))

    def set(self, time: int, row: int, field: int) -> None:
        """Note that a timer of a row of the slice was set, to a time behind that of the timer that is firing."""
        if time <= self._last[0]:
            place = time, self._hashes[row], field, self._key(row)
            if place <= self._last:
                heappush(self._set, (place, row))

    def _key(self, row: int) -> bytes:
        found = self._keys.get(row)
        if found is None:
            found = self._keys[row] = self._state.keys_of(np.array([row], np.int32)).data.tobytes()
        return found
