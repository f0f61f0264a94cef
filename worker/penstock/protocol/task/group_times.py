"""Up to which time the steps of each key group may have fired: further than the task has reached.

A step that is told a time fires in slices. Until the last slice, some of the windows and timers up to that time
have fired and others have not. And a task that gains groups from a task that has reached less goes back to
that time, though its own groups have fired beyond it. A row for a window that may have fired must be late.
So snapshots have these times, by group.
"""

from collections.abc import Iterable

from penstock.contract.keygroups import Share, intersect, subtract
from penstock.contract.manifest import GroupsTime


class GroupTimes:
    """The times that the steps of one task were told, by key group."""

    __slots__ = ("_gained", "_told_us")

    def __init__(self) -> None:
        """Begin with steps that were told nothing."""
        self._gained: tuple[GroupsTime, ...] = ()
        self._told_us: int | None = None

    def tell(self, time_us: int) -> None:
        """Note that the steps of all groups are told a time."""
        if self._told_us is None or time_us > self._told_us:
            self._told_us = time_us

    def gain(self, kept: Share, gained: Iterable[GroupsTime]) -> None:
        """Note that groups were loaded with the times that they have; those of ``kept`` were here before."""
        self._gained = (*self._all(kept), *gained)
        self._told_us = None

    def beyond(self, time_us: int | None, share: Share) -> tuple[GroupsTime, ...]:
        """Return the groups of ``share`` whose steps were told a later time than ``time_us``, each once."""
        told = self._told_us
        if not self._gained and (told is None or (time_us is not None and told <= time_us)):
            return ()
        found = tuple(g for g in self._all(share) if time_us is None or g.time_us > time_us)
        if not found:
            self._gained = ()
        return found

    def _all(self, share: Share) -> list[GroupsTime]:
        found, left, told = [], share, self._told_us
        for gained in sorted(self._gained, key=lambda g: -g.time_us):
            mine = intersect(gained.groups, left)
            if mine and (told is None or gained.time_us > told):
                found.append(GroupsTime(mine, gained.time_us))
                left = subtract(left, mine)
        return found if told is None or not left else [*found, GroupsTime(left, told)]
