"""The last argument ``ctx`` of a function with types: what time it is."""

from collections.abc import Callable
from typing import Any


class CallContext:
    """``time`` is processing time, ``watermark`` the event time that the step has reached, None before the first one.

    Both are microseconds. They stay for the records of one call of the step, and for the timers of one slice.
    """

    __slots__ = ("time", "watermark")

    def __init__(self) -> None:
        """Begin before all times."""
        self.time = 0
        self.watermark: int | None = None

    def given(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that gets this object behind its other arguments."""
        return lambda *arguments: function(*arguments, self)
