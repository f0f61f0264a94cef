"""The inbox of a task: any thread puts events, the task's thread takes them and is woken."""

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

# Events that do not depend on the order of rows: they are taken even while rows are being sent. A
# barrier that is already known is harmless too.
_HARMLESS = (EpochCommitted, Hurried, Injected, Published, SnapshotStored, StoreFailed)


@dataclass(frozen=True, slots=True)
class FetchedState:
    """The state of a LoadState action was fetched in the background, or fetching has failed.

    ``fetched`` is None for a task without keyed state, and when there is nothing to load.
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
)  # answers to requests of the task: their number is bounded by the requests


@dataclass(frozen=True, slots=True)
class Stop:
    """End the task, but keep its prepared output, which a committed epoch may list."""


class TaskInbox:
    """A queue of control events.

    Few events wait: a leader has one order at a time, and a barrier comes once from the leader and
    once from each task of the worker that meets it. If more than ``TASK_INBOX_MAX`` events wait,
    :meth:`put` raises an error and the attempt ends.
    """

    __slots__ = ("_events", "_reset", "_wakeup")

    def __init__(self, wakeup: Wakeup) -> None:
        """Wake the task through ``wakeup``, on which its thread sleeps."""
        self._events: deque[Event | FetchedState | Stop] = deque()
        self._wakeup = wakeup
        self._reset: ResetTo | Stop | None = None

    def put(self, event: Event | FetchedState | Stop) -> None:
        """Add an event and wake the task. From any thread; never blocks.

        Raises StorageError when too many events wait. Answers to the task's own requests and the
        order to end are always accepted.
        """
        if isinstance(event, ResetTo | Stop):
            self._reset = event  # earlier events do not matter any more
        elif len(self._events) >= TASK_INBOX_MAX and not isinstance(event, _ANSWERS):
            raise StorageError(f"a task has not taken {TASK_INBOX_MAX} orders: {type(event).__name__} is too much")
        self._events.append(event)
        self._wakeup.set()

    def take(self) -> Event | FetchedState | Stop | None:
        """Return the oldest event, or None."""
        return self._events.popleft() if self._events else None

    def take_harmless(self, is_news: Callable[[Barrier], bool]) -> Event | None:
        """Return the oldest event if it may be handled while rows are being sent; None otherwise.

        A barrier that is already known may be handled: events behind it must not wait for it.
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
        """True when no event waits. A later event wakes the task."""
        return not self._events

    @property
    def reset(self) -> ResetTo | Stop | None:
        """The order to end, if there is one, even when other events wait."""
        return self._reset
