"""When rows on disk come due: for each key group, a lower bound of its first row.

Database keys of timed state are in the order in which rows come due. So one key per key group is
enough: no row before that key is on disk only. The key is a lower bound; one read of the database
makes it exact when that matters. So the memory used grows with the key groups, not with the rows.
"""

from collections.abc import Iterable

import numpy as np

from penstock.base.limits import KEY_GROUPS_MAX
from penstock.model.arrays import Int64s
from penstock.state.due_rows import NEVER
from penstock.state.rocks import DUE_BYTES, ColdRow, ColdRows, end_of, group_of

_PAST = b"\xff" * 9  # greater than any hash and tag


class ColdDue:
    """The order in which the rows in ``cold``, the database of a timed state, come due."""

    def __init__(self, cold: ColdRows) -> None:
        """Begin with no row."""
        self._cold = cold
        self._from: dict[int, bytes] = {}
        self._ends: Int64s = np.full(KEY_GROUPS_MAX, NEVER, np.int64)

    def add(self, keys: Iterable[bytes]) -> None:
        """Add rows that have moved from memory to disk, by their database keys."""
        for key in keys:
            known = self._from.get(group_of(key))
            if known is None or key < known:
                self._put(key)

    def first(self) -> int:
        """Return the earliest end of the rows on disk; NEVER when there is none."""
        key = self._first_key()
        return NEVER if key is None else end_of(key)

    def take(self, bound: int, most: int) -> list[ColdRow]:
        """Return up to ``most`` rows due at ``bound``, the first of all rows on disk.

        Some may be stale copies of rows in memory. The caller must bring the others into memory at
        once: from now on they do not count as rows on disk.
        """
        found: list[ColdRow] = []
        while len(found) < most:
            key = self._first_key()
            if key is None or end_of(key) > bound:
                break
            room = most - len(found)
            part = self._cold.from_key(key, end_of(key), room)
            found += part
            all_of_end = len(part) < room
            self._put(key[:DUE_BYTES] + _PAST if all_of_end else part[-1].key + b"\0")
        return found

    def _put(self, key: bytes) -> None:
        group = group_of(key)
        self._from[group], self._ends[group] = key, end_of(key)

    def _first_key(self) -> bytes | None:
        """Return the first key by end and group; None when there is none."""
        while True:
            group = int(np.argmin(self._ends))
            if self._ends[group] == NEVER:
                return None
            key = self._cold.next_key(self._from[group])
            if key is None:
                del self._from[group]
                self._ends[group] = NEVER
            elif end_of(key) == self._ends[group]:
                return key
            else:
                self._put(key)
