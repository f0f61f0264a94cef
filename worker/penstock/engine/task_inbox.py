"""What a task is told from outside: any thread puts, the task's thread takes, every wait wakes."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import StorageError
from penstock.base.limits import TASK_INBOX_MAX
from penstock.model.elements import Barrier
from penstock.protocol.task.task_events import (
    EpochCommitted,
    Event,
    Hurried,
    Injected,
    LoadState,
    Preloaded,
    Published,
    ResetTo,
    SnapshotStored,
    StoreFailed,
)
from penstock.transport.wakeup import Wakeup

# Events that change nothing about the order of what is being sent: taken even in the middle of it.
# A barrier is if it is no news.
_HARMLESS = (EpochCommitted, Hurried, Injected, Published, SnapshotStored, StoreFailed)


@dataclass(frozen=True, slots=True)
class FetchedState:
    """What a Load asked for was fetched beside the task (or could not be): now it may be taken.

    ``fetched`` is None for a task without keyed state, or with nothing to load.
    """

    order: LoadState
    fetched: Any
    error: BaseException | None = None


_ANSWERS = (
    FetchedState,
    Preloaded,
    Published,
    SnapshotStored,
    StoreFailed,
)  # as many as the task has asked for


@dataclass(frozen=True, slots=True)
class Stop:
    """End the task and leave what it prepared alone: a committed epoch may list it."""


class TaskInbox:
    """A queue of control events.

    Few events wait: a leader has one order under way, and a barrier is brought once by the leader
    and once by each task beside that meets it. Should more than ``TASK_INBOX_MAX`` wait all the
    same, whoever brings another order hears an error, and the attempt ends.
    """

    __slots__ = ("_events", "_reset", "_wakeup")

    def __init__(self, wakeup: Wakeup) -> None:
        """Wake the task through ``wakeup``, on which all its waits sleep."""
        self._events: deque[Event | FetchedState | Stop] = deque()
        self._wakeup = wakeup
        self._reset: ResetTo | Stop | None = None

    def put(self, event: Event | FetchedState | Stop) -> None:
        """Tell the task; from any thread, never blocks.

        Raises StorageError when too many events wait. Answers to what the task itself has asked
        for are always taken, and so is its end.
        """
        if isinstance(event, ResetTo | Stop):
            self._reset = event  # nothing that was said before it matters any more
        elif len(self._events) >= TASK_INBOX_MAX and not isinstance(event, _ANSWERS):
            raise StorageError(
                f"a task has not taken {TASK_INBOX_MAX} orders: {type(event).__name__} is too much"
            )
        self._events.append(event)
        self._wakeup.set()

    def take(self) -> Event | FetchedState | Stop | None:
        """Return the oldest event, or None."""
        return self._events.popleft() if self._events else None

    def take_harmless(self, is_news: Callable[[Barrier], bool]) -> Event | None:
        """Return the oldest event if it may be handled while rows are being sent, else None.

        A barrier that is no news may: it must not keep what is behind it waiting.
        """
        first = self._events[0] if self._events else None
        if isinstance(first, Injected) and is_news(first.barrier):
            return None
        if isinstance(first, _HARMLESS):
            self._events.popleft()
            return first
        return None

    @property
    def empty(self) -> bool:
        """True when no event waits; one that comes afterwards wakes the task."""
        return not self._events

    @property
    def reset(self) -> ResetTo | Stop | None:
        """Return the order to end, whatever else waits."""
        return self._reset
