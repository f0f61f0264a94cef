"""Watermarks: the minimum over the inputs, and the marks that each output was sent.

    inputs' marks --> WatermarkMerge.low_us  = min over active inputs (None until all have a mark)
                                    task_us  = the largest low_us so far: what the steps know
                      OutputMarks            = the last mark of each output channel, sent once

Scale: a watermark is the largest event time so far minus the bound on disorder. The lateness stamp
of a row has the same scale. A window emits when the watermark reaches the window's end plus the
allowed lateness.

At a restore and at a rescale barrier every *channel* forgets its mark, and every sender sends its
mark again when it has resumed. Until then the task keeps its own watermark. It would be wrong to
keep the old marks of the channels, for two reasons. A source that has just gained a slower split
may have sent a mark that is too high for that split. And a sender without a new mark (it is at the
end of time) would let its receivers wait for ever.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from penstock.contract.ids import ChannelId
from penstock.model.elements import Active, Idle, Watermark
from penstock.protocol.task.task_messages import Send

END_OF_TIME = 2**63 - 1  # the last watermark of a bounded source

K = TypeVar("K", bound=Hashable)


class WatermarkMerge(Generic[K]):
    """Merges the watermarks of channels (or splits) into a task's watermark, which never falls."""

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

    def advance(self) -> int | None:
        """Raise the task's watermark to the minimum. Return it if it has risen, else None."""
        low = self.low_us
        if low is None or (self.task_us is not None and low <= self.task_us):
            return None
        self.task_us = low
        return low


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
