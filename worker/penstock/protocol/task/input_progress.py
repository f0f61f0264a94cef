"""How far a task's inputs have come: the barriers they have brought, their watermarks, and the splits of a source.

Barrier alignment says which channels wait for the others, and when all barriers have come::

    open --barrier--> blocked (every element stays in the channel's queue)
    all channels of the version blocked or ended --> the task cuts, all channels open again
    a newer barrier, or an abort                 --> all channels open again, the old barrier is off

The identity of a barrier is (term, epoch). A barrier that is not above everything this task has
cut, dropped or aborted is late: it is dropped and blocks no channel. A late barrier of a channel is
counted. A source is told of each barrier more than once, so its late barriers are not counted.

A task's watermark is the minimum over its inputs, and each output is sent it once::

    inputs' marks --> WatermarkMerge.low_us  = min over active inputs (None until all have a mark)
              steps --> WatermarkMerge.task_us = what the steps have reached: all that is due up to it has fired
                      OutputMarks            = the last mark of each output channel, sent once

Steps fire in slices, and a barrier may be cut between two of them. The task says and stores only the time that
its steps have reached, never the time heard. So the rows that they still have to emit are never late for
the receivers, and a restore goes on with the next slice when the time is heard again. Results may have event times
that lie before the time reached, by at most ``StagePlan.held_us``: the time that is said is held back by as much. The
time that is stored is not.

Scale: a watermark is the largest event time so far minus the bound on disorder. The lateness stamp
of a row has the same scale. A window emits when the watermark reaches the window's end plus the
allowed lateness.

At a restore and at a rescale barrier every *channel* forgets its mark, and every sender sends its
mark again when it has resumed. Until then the task keeps its own watermark. It would be wrong to
keep the old marks of the channels, for two reasons. A source that has just gained a slower split
may have sent a mark that is too high for that split. And a sender without a new mark (it is at the
end of time) would let its receivers wait for ever.

The splits of a source task take the place of its inputs (:class:`SourceSplits`): some may be read,
some are idle, some have ended.

    reading --barrier E (rescale), moving--> stopped --abort--> reading
                                                |--version + 1--> gone
    reading --silent for idle_after_s while asked--> idle --rows--> reading
    reading --no more rows--> finished, for ever

Only a source declares a split idle, and only for silence while the split was asked for rows. Time
in which the task waited or recovered does not count. Otherwise rows of a paused split would be late.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from penstock.contract.ids import NO_EPOCH, NO_TERM, ChannelId, Epoch, SplitId, Term
from penstock.contract.manifest import SplitState
from penstock.model.elements import Active, Barrier, Idle, Watermark
from penstock.protocol.task.task_messages import Send

BEGIN_OF_TIME = -(2**63)
END_OF_TIME = 2**63 - 1  # the last watermark of a bounded source

Identity = tuple[Term, Epoch]
K = TypeVar("K", bound=Hashable)

_NO_SPLIT = SplitId("")  # holds the last watermark of a bounded source task without splits


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


class WatermarkMerge(Generic[K]):
    """Merges the watermarks of channels (or splits), and keeps the time that the task's steps have reached."""

    __slots__ = ("_idle", "_marks", "task_us")

    def __init__(self, inputs: Iterable[K], task_us: int | None) -> None:
        """Begin with every input active and without a mark, and the task at its stored watermark."""
        self._marks: dict[K, int | None] = dict.fromkeys(inputs)
        self._idle: dict[K, None] = {}
        self.task_us = task_us

    def note(self, key: K, time_us: int) -> None:
        """Note an input's watermark. The input is active by that."""
        self._idle.pop(key, None)
        self._marks[key] = time_us

    def idle(self, key: K) -> None:
        """Note that an input is idle: it does not hold the watermark back until it is active."""
        self._idle[key] = None

    def active(self, key: K) -> bool:
        """Note that an input is active. Return whether it was idle."""
        if key not in self._idle:
            return False
        del self._idle[key]
        return True

    def end(self, key: K) -> None:
        """Forget an input that has ended."""
        self._marks.pop(key, None)
        self._idle.pop(key, None)

    def restart(self) -> None:
        """Forget the marks of all inputs; all are active. The task's watermark stays."""
        self._marks = dict.fromkeys(self._marks)
        self._idle.clear()

    def replace(self, inputs: Iterable[K]) -> None:
        """Change the set of inputs. New inputs have no mark; inputs that stay keep theirs."""
        self._marks = {key: self._marks.get(key) for key in inputs}
        self._idle = {key: None for key in self._idle if key in self._marks}

    def is_idle(self, key: K) -> bool:
        """Return whether an input is idle."""
        return key in self._idle

    @property
    def any_idle(self) -> bool:
        """Return whether some input is idle."""
        return bool(self._idle)

    @property
    def all_idle(self) -> bool:
        """Return whether all inputs are idle. True when there is no input."""
        return len(self._idle) == len(self._marks)

    @property
    def low_us(self) -> int | None:
        """Return the minimum over active inputs. None while one has no mark, or none is active."""
        low = None
        for key, mark in self._marks.items():
            if key in self._idle:
                continue
            if mark is None:
                return None
            if low is None or mark < low:
                low = mark
        return low

    def go_back(self, time_us: int | None) -> None:
        """Fall to the time that steps have reached whose groups were loaded (None: to no time), if it is less."""
        if time_us is None or (self.task_us is not None and time_us < self.task_us):
            self.task_us = time_us

    def reach(self, time_us: int) -> None:
        """Raise the task's watermark: the steps have fired all that was due up to it."""
        if self.task_us is None or time_us > self.task_us:
            self.task_us = time_us


class OutputMarks:
    """The last mark that each output channel was sent. No mark is sent twice, and none left out."""

    __slots__ = ("_idle", "_sent")

    def __init__(self) -> None:
        """Begin with no mark sent to any channel."""
        self._sent: dict[ChannelId, int] = {}
        self._idle: dict[ChannelId, None] = {}

    def restart(self) -> None:
        """Send every mark again: behind a rescale barrier the receivers have forgotten them."""
        self._sent.clear()
        self._idle.clear()

    def activate(self) -> list[Send]:
        """End every idle mark that was sent. This is needed before the next element."""
        if not self._idle:
            return []
        sends = [Send(channel, Active()) for channel in self._idle]
        self._idle.clear()
        return sends

    def watermark(self, channels: Iterable[ChannelId], low_us: int) -> list[Send]:
        """Send ``low_us`` to the channels that were sent less."""
        sends = []
        for channel in channels:
            sent = self._sent.get(channel)
            if sent is None or sent < low_us:
                self._sent[channel] = low_us
                sends.append(Send(channel, Watermark(low_us)))
        return sends

    def idle(self, channels: Iterable[ChannelId]) -> list[Send]:
        """Send an idle mark to the channels that were not sent one."""
        news = [channel for channel in channels if channel not in self._idle]
        self._idle.update(dict.fromkeys(news))
        return [Send(channel, Idle()) for channel in news]


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

    def reached(self, split: SplitId, max_ts: int | None) -> bool:
        """Note that a split has reached an event time without rows. Return whether this is news."""
        if max_ts is None or not self.reads(split) or max_ts <= self._max_ts.get(split, max_ts - 1):
            return False
        self.rows(split, max_ts)
        return True

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


def _identity(barrier: Barrier) -> Identity:
    return barrier.term, barrier.epoch
