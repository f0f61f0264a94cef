"""Barrier alignment: which channels wait for the others, and when all barriers have come.

    open --barrier--> blocked (every element stays in the channel's queue)
    all channels of the version blocked or ended --> the task cuts, all channels open again
    a newer barrier, or an abort                 --> all channels open again, the old barrier is off

The identity of a barrier is (term, epoch). A barrier that is not above everything this task has
cut, dropped or aborted is late: it is dropped and blocks no channel. A late barrier of a channel is
counted. A source is told of each barrier more than once, so its late barriers are not counted.
"""

from collections.abc import Iterable

from penstock.contract.ids import NO_EPOCH, NO_TERM, ChannelId, Epoch, Term
from penstock.model.elements import Barrier

Identity = tuple[Term, Epoch]


class BarrierAligner:
    """Aligns the barriers of one task's input channels. A task without inputs aligns at once."""

    __slots__ = ("_blocked", "_channels", "_current", "_done", "_ended", "late")

    def __init__(self, channels: Iterable[ChannelId]) -> None:
        """Begin with the channels of the version, all open."""
        self._channels: dict[ChannelId, None] = dict.fromkeys(channels)
        self._ended: dict[ChannelId, None] = {}
        self._blocked: dict[ChannelId, None] = {}
        self._current: Barrier | None = None
        self._done: Identity = (NO_TERM, NO_EPOCH)
        self.late = 0

    def reads(self, channel: ChannelId) -> bool:
        """Return whether the next element of a channel may be taken."""
        return channel in self._channels and not (self._blocked and channel in self._blocked)

    def barrier(self, channel: ChannelId | None, barrier: Barrier) -> Barrier | None:
        """Take a barrier from a channel (None: a command to a source). Return it if the cut is due."""
        identity = _identity(barrier)
        if identity <= self._done or (self._current and identity < _identity(self._current)):
            self.late += channel is not None  # a source gets each barrier more than once
            return None
        if self._current is None or identity > _identity(self._current):
            self._blocked.clear()
            self._current = barrier
        if channel is not None:
            self._blocked[channel] = None
        return self._complete()

    def begins(self, barrier: Barrier) -> bool:
        """Return whether a barrier is newer than all barriers that this task knows."""
        newest = self._done if self._current is None else _identity(self._current)
        return _identity(barrier) > newest

    def end(self, channel: ChannelId) -> Barrier | None:
        """Count an ended channel as aligned. Return the barrier if the cut is due by that."""
        self._ended[channel] = None
        return self._complete()

    def off(self, term: Term, epoch: Epoch) -> None:
        """Give up all barriers up to (term, epoch): those that still come are late."""
        self._done = max(self._done, (term, epoch))
        if self._current is not None and _identity(self._current) <= self._done:
            self._current = None
            self._blocked.clear()

    def replace(self, channels: Iterable[ChannelId]) -> None:
        """Switch to the channels of a new version, between two cuts."""
        assert self._current is None, "the version switches between two barriers"
        self._channels = dict.fromkeys(channels)
        self._ended = {c: None for c in self._ended if c in self._channels}

    @property
    def all_ended(self) -> bool:
        """Return whether every channel of the version has ended."""
        return len(self._ended) == len(self._channels)

    def _complete(self) -> Barrier | None:
        barrier = self._current
        if barrier is None:
            return None
        if any(c not in self._blocked and c not in self._ended for c in self._channels):
            return None
        self._done = _identity(barrier)
        self._current = None
        self._blocked.clear()
        return barrier


def _identity(barrier: Barrier) -> Identity:
    return barrier.term, barrier.epoch
