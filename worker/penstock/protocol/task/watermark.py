"""Watermarks: the minimum over what holds a task back, and what each output was sent.

    input speaks ----> WatermarkMerge.low_us  = min over active inputs (None until all have spoken)
                                     task_us  = the largest low_us ever: what the steps know
                       Marks                  = what each output channel was sent, mark once

Scale: a watermark is the largest event time so far minus the bound on disorder, the same scale
as the lateness stamp of a row. A window emits when the watermark reaches its end plus the
allowed lateness.

At a restore and at a rescale barrier every *channel* forgets what it mark, and every sender says
it again when it has resumed. Until then the task stands at its own watermark. Keeping the old
value instead would be wrong twice: a source that has just gained a slower split may have mark
more than is true of that split, and a sender that has nothing new to say (it is at the end of
time) would leave its receivers waiting for ever.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from penstock.contract.ids import ChannelId
from penstock.model.elements import Active, Idle, Watermark
from penstock.protocol.task.task_events import Send

END_OF_TIME = 2**63 - 1  # the last watermark of a bounded source

K = TypeVar("K", bound=Hashable)


class WatermarkMerge(Generic[K]):
    """Merges the watermarks of channels (or splits) into a task's, which never goes back."""

    __slots__ = ("_idle", "_marks", "task_us")

    def __init__(self, inputs: Iterable[K], task_us: int | None) -> None:
        """Begin with every input active and silent, and the task where its snapshot left it."""
        self._marks: dict[K, int | None] = dict.fromkeys(inputs)
        self._idle: dict[K, None] = {}
        self.task_us = task_us

    def note(self, key: K, time_us: int) -> None:
        """Note an input's watermark; it is active with it."""
        self._idle.pop(key, None)
        self._marks[key] = time_us

    def idle(self, key: K) -> None:
        """Note that an input holds nothing back until it is active again."""
        self._idle[key] = None

    def active(self, key: K) -> bool:
        """Note that an input is active; say whether that is news."""
        if key not in self._idle:
            return False
        del self._idle[key]
        return True

    def end(self, key: K) -> None:
        """Forget an input that has ended."""
        self._marks.pop(key, None)
        self._idle.pop(key, None)

    def restart(self) -> None:
        """Let every input be silent and active again; the task's watermark stands."""
        self._marks = dict.fromkeys(self._marks)
        self._idle.clear()

    def replace(self, inputs: Iterable[K]) -> None:
        """Change the set of inputs: new ones begin silent, those that stay keep their word."""
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
        """Return whether no input has anything to expect; true when there is none."""
        return len(self._idle) == len(self._marks)

    @property
    def low_us(self) -> int | None:
        """Return the minimum over active inputs; None while one is silent or none is active."""
        low = None
        for key, mark in self._marks.items():
            if key in self._idle:
                continue
            if mark is None:
                return None
            if low is None or mark < low:
                low = mark
        return low

    def advance(self) -> int | None:
        """Raise the task's watermark to the minimum; return it if it rose, else None."""
        low = self.low_us
        if low is None or (self.task_us is not None and low <= self.task_us):
            return None
        self.task_us = low
        return low


class OutputMarks:
    """What each output channel was sent last; nothing is mark twice, nothing is left out."""

    __slots__ = ("_idle", "_sent")

    def __init__(self) -> None:
        """Begin with nothing mark to anyone."""
        self._sent: dict[ChannelId, int] = {}
        self._idle: dict[ChannelId, None] = {}

    def restart(self) -> None:
        """Behind a rescale barrier the receivers have forgotten: all will be mark again."""
        self._sent.clear()
        self._idle.clear()

    def activate(self) -> list[Send]:
        """End every idle mark that was sent: wanted before the next element."""
        if not self._idle:
            return []
        sends = [Send(channel, Active()) for channel in self._idle]
        self._idle.clear()
        return sends

    def watermark(self, channels: Iterable[ChannelId], low_us: int) -> list[Send]:
        """Tell those channels that have not heard of ``low_us`` yet."""
        sends = []
        for channel in channels:
            sent = self._sent.get(channel)
            if sent is None or sent < low_us:
                self._sent[channel] = low_us
                sends.append(Send(channel, Watermark(low_us)))
        return sends

    def idle(self, channels: Iterable[ChannelId]) -> list[Send]:
        """Tell those channels that do not know it that nothing is to be expected."""
        news = [channel for channel in channels if channel not in self._idle]
        self._idle.update(dict.fromkeys(news))
        return [Send(channel, Idle()) for channel in news]
