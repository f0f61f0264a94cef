"""The splits of a source task: which may be read, which are idle, which have ended.

    reading --barrier E (rescale), moving--> stopped --abort--> reading
                                                |--version + 1--> gone
    reading --silent for idle_after_s while asked--> idle --rows--> reading
    reading --no more rows--> finished, for ever

Only a source declares a split idle, and only for silence while the split was asked for rows. Time
in which the task waited or recovered does not count. Otherwise rows of a paused split would be late.
"""

from collections.abc import Iterable

from penstock.contract.ids import SplitId
from penstock.contract.manifest import SplitState
from penstock.protocol.task.watermark import END_OF_TIME, WatermarkMerge

_NO_SPLIT = SplitId("")  # holds the last watermark of a bounded source task without splits


class SourceSplits:
    """The splits of one source task and their part in its watermark."""

    __slots__ = (
        "_bounded",
        "_disorder_us",
        "_finished",
        "_idle_after_s",
        "_max_ts",
        "_moving",
        "_silent_since",
        "time",
    )

    def __init__(
        self,
        *,
        bounded: bool,
        idle_after_s: float | None,
        out_of_orderness_us: int | None,
        watermark_us: int | None,
    ) -> None:
        """Begin without splits. None: the source has no idleness, or no event time."""
        self._bounded = bounded
        self._idle_after_s = None if bounded else idle_after_s  # a bounded split is never idle
        self._disorder_us = out_of_orderness_us
        self._finished: dict[SplitId, bool] = {}
        self._max_ts: dict[SplitId, int] = {}
        self._moving: dict[SplitId, None] = {}
        self._silent_since: dict[SplitId, float] = {}
        self.time: WatermarkMerge[SplitId] = WatermarkMerge((), watermark_us)
        self.load((), ())

    def load(self, gained: Iterable[SplitState], lost: Iterable[SplitId]) -> None:
        """Take over splits at their stored state, and give up others. All splits are active."""
        for split in lost:
            self._finished.pop(split, None)
            self._max_ts.pop(split, None)
        self._moving.clear()
        self._silent_since.clear()
        for state in gained:
            self._finished[state.split] = state.finished
            if state.max_ts is not None:
                self._max_ts[state.split] = state.max_ts
        nothing = self._bounded and not self._finished
        self.time.replace((_NO_SPLIT,) if nothing else self._finished)
        for split in self._finished:
            self._note_mark(split)
        if nothing:
            self.time.note(_NO_SPLIT, END_OF_TIME)

    @property
    def exhausted(self) -> bool:
        """Return whether all splits are read to their end. False for a source that never ends."""
        return self._bounded and all(self._finished.values())

    def reads(self, split: SplitId) -> bool:
        """Return whether rows of a split may be read now."""
        return not self._finished.get(split, True) and split not in self._moving

    def stamp_us(self, split: SplitId) -> int | None:
        """Return the lateness stamp of the next row: the largest ts so far minus the disorder."""
        largest = self._max_ts.get(split)
        return None if largest is None or self._disorder_us is None else largest - self._disorder_us

    def rows(self, split: SplitId, max_ts: int | None) -> bool:
        """Note rows. Return whether the split was idle before."""
        assert self.reads(split), f"split {split} was read though it must not be"
        self._silent_since.pop(split, None)
        was_idle = self.time.active(split)
        if max_ts is not None:
            self._max_ts[split] = max(max_ts, self._max_ts.get(split, max_ts))
            self._note_mark(split)
        return was_idle

    def empty(self, split: SplitId, now: float) -> None:
        """Note that a split was asked and had no row. It becomes idle after ``idle_after_s``."""
        if self._idle_after_s is None or not self.reads(split):
            return
        since = self._silent_since.setdefault(split, now)
        if now - since >= self._idle_after_s:
            self.time.idle(split)

    def waited(self) -> None:
        """Measure silence from now on."""
        self._silent_since.clear()  # the splits were not asked for rows meanwhile

    def ended(self, split: SplitId) -> None:
        """Note that a split has no more rows."""
        assert self.reads(split), f"split {split} ended though it must not be read"
        self._finished[split] = True
        self._note_mark(split)

    def stop(self, moving: Iterable[SplitId]) -> None:
        """Stop reading the splits that move, until the rescale is decided."""
        self._moving = dict.fromkeys(moving)
        self._silent_since.clear()

    def go_on(self) -> None:
        """Read all splits again: the rescale was aborted."""
        self._moving.clear()

    def wakes_at(self) -> float | None:
        """Return when the next silent split becomes idle if it stays silent, None if none does."""
        if self._idle_after_s is None or not self._silent_since:
            return None
        return min(self._silent_since.values()) + self._idle_after_s

    def _note_mark(self, split: SplitId) -> None:
        stamp = END_OF_TIME if self._finished[split] else self.stamp_us(split)
        if stamp is not None:
            self.time.note(split, stamp)
