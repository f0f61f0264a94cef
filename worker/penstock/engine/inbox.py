"""What a task is told from outside: any thread puts, the task's thread takes, every wait wakes."""

from collections import deque
from typing import Protocol

from penstock.protocol.task_events import Committed, Event, Published, ResetTo, Stored, StoreFailed

# Events that change nothing about the order of what is being sent: taken even in the middle of it.
_HARMLESS = (Committed, Published, Stored, StoreFailed)


class Wakes(Protocol):
    """The part of a wakeup that an inbox needs."""

    def set(self) -> None:
        """Wake the waiting thread, or let its next wait return at once."""
        ...


class Inbox:
    """A queue of control events. Bounded by the protocol: a leader has one order under way."""

    __slots__ = ("_events", "_reset", "_wakeup")

    def __init__(self, wakeup: Wakes) -> None:
        """Wake the task through ``wakeup``, on which all its waits sleep."""
        self._events: deque[Event] = deque()
        self._wakeup = wakeup
        self._reset: ResetTo | None = None

    def put(self, event: Event) -> None:
        """Tell the task; from any thread, never blocks."""
        if isinstance(event, ResetTo):
            self._reset = event  # nothing that was said before it matters any more
        self._events.append(event)
        self._wakeup.set()

    def take(self) -> Event | None:
        """Return the oldest event, or None."""
        return self._events.popleft() if self._events else None

    def take_harmless(self) -> Event | None:
        """Return the oldest event if it may be handled while rows are being sent, else None."""
        if self._events and isinstance(self._events[0], _HARMLESS):
            return self._events.popleft()
        return None

    @property
    def reset(self) -> ResetTo | None:
        """Return the order to end, whatever else waits."""
        return self._reset
