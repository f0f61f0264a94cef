"""Processing time, as steps know it: the clock of the machine, which never goes back while a task lives."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from penstock.steps.base import NO_BOUND


class ProcessingTime:
    """The clock of one step. It stands at the least time until :meth:`follow` was called."""

    def __init__(self) -> None:
        """Follow no clock yet."""
        self._wall: Callable[[], int] = lambda: NO_BOUND
        self._latest_us = NO_BOUND

    def follow(self, wall_us: Callable[[], int]) -> None:
        """Follow a clock that gives microseconds since 1970."""
        self._wall = wall_us

    def now_us(self) -> int:
        """Return the time. If the clock is set back, time stands until the clock has caught up."""
        self._latest_us = max(self._latest_us, self._wall())
        return self._latest_us


@runtime_checkable
class ClockedStep(Protocol):
    """A step that fires by processing time, also while no input comes."""

    clock: ProcessingTime

    def next_tick(self) -> int:
        """Return the time of the clock at which something is due; NOTHING_DUE if nothing is."""
        ...

    def on_clock(self) -> None:
        """Fire what is due by the clock: at most one slice of rows."""
        ...
