"""Decides the order in which the splits of a source task are read.

    waiting --a place is free--> read in turns --no more rows--> gone
       ^                               |
       +-------- gives its place ------+

Splits that hold files and memory while they are read share ``places``. All other splits are read in
turns. A split that may not be read, because it moves, keeps its files and memory, but no place.
"""

from collections import deque
from collections.abc import Callable, Iterable

from penstock.contract.ids import SplitId


class SplitTurns:
    """The splits that have rows left, in the order in which they are read."""

    def __init__(self, places: int) -> None:
        """Begin without splits."""
        self._places = places
        self._reading: deque[SplitId] = deque()
        self._waiting: deque[SplitId] = deque()
        self._placed: set[SplitId] = set()  # those of ``_reading`` that take a place

    def join(self, split: SplitId, *, takes_place: bool) -> None:
        """Add a split after the others. If it takes a place, it waits for a free one."""
        (self._waiting if takes_place else self._reading).append(split)

    def end(self, split: SplitId) -> None:
        """Forget a split that has no more rows."""
        self._reading.remove(split)
        self._placed.discard(split)

    def leave(self, splits: Iterable[SplitId]) -> None:
        """Forget splits that are closed."""
        gone = set(splits)
        self._reading = deque(split for split in self._reading if split not in gone)
        self._waiting = deque(split for split in self._waiting if split not in gone)
        self._placed -= gone

    @property
    def wanted(self) -> bool:
        """Whether a split waits for a place."""
        return bool(self._waiting)

    def give_place(self, split: SplitId) -> None:
        """Put ``split``, which holds no files now, behind all splits that wait for a place."""
        self.end(split)
        self._waiting.append(split)

    def next(self, reads: Callable[[SplitId], bool]) -> SplitId | None:
        """Return the next split for which ``reads`` is true; None when there is none."""
        self._fill(reads)
        for _ in range(len(self._reading)):
            split = self._reading[0]
            self._reading.rotate(-1)
            if reads(split):
                return split
        return None

    def _fill(self, reads: Callable[[SplitId], bool]) -> None:
        """Give free places to waiting splits."""
        if not self._waiting:
            return
        free = self._places - sum(map(reads, self._placed))
        for _ in range(len(self._waiting)):
            if free <= 0:
                return
            split = self._waiting.popleft()
            if reads(split):
                self._reading.append(split)
                self._placed.add(split)
                free -= 1
            else:
                self._waiting.append(split)
