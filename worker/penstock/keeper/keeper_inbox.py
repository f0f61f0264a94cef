"""The one queue of a keeper, and the lanes that put answers into it."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from penstock.base.errors import StorageError
from penstock.base.limits import KEEPER_INBOX_MAX, KEEPER_LANE_MAX
from penstock.protocol.control_events import CoordinatorEvent, MemberEvent


class Core(Enum):
    """Which state machine asked."""

    COORDINATOR = "coordinator"
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class ForCoordinator:
    """One event on its way to the coordinator."""

    event: CoordinatorEvent


@dataclass(frozen=True, slots=True)
class ForMember:
    """One event on its way to the member."""

    event: MemberEvent


Item = ForCoordinator | ForMember


@dataclass(frozen=True, slots=True)
class EngineCrashed:
    """A thread of the keeper failed with an unexpected error: the process ends."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Leave:
    """This process was asked to end, for ``reason``."""

    reason: str


class KeeperInbox:
    """What the loop waits on. Bounded: what comes when it is full is refused."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Item | EngineCrashed | Leave] = queue.Queue(KEEPER_INBOX_MAX)

    def put(self, item: Item | EngineCrashed | Leave) -> None:
        """Add an answer or an event of our own; waits while the loop is behind."""
        self._queue.put(item)

    def offer(self, item: Item) -> None:
        """Add a message of a peer, which it will repeat. Raises StorageError when full."""
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            raise StorageError("the keeper's inbox is full; repeat later") from None

    def take(self, timeout_s: float | None) -> Item | EngineCrashed | Leave | None:
        """Wait for the next item, at most ``timeout_s``; None when there is none by then."""
        try:
            if timeout_s is not None and timeout_s <= 0:
                return self._queue.get_nowait()
            return self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None


Job = Callable[[], Item | None]


class Lane:
    """One thread that does blocking jobs in order and puts their answers into the inbox.

    An error that a job does not turn into an answer is our bug: it ends the process, because a
    core that waits for ever for an answer would be worse.
    """

    def __init__(self, name: str, inbox: KeeperInbox) -> None:
        """Start the thread; it ends with the process."""
        self._inbox = inbox
        self._jobs: queue.Queue[Job] = queue.Queue(KEEPER_LANE_MAX)
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, job: Job) -> None:
        """Queue a job. Never blocks: cores have a bounded number of actions under way."""
        self._jobs.put_nowait(job)

    def _run(self) -> None:
        while True:
            try:
                answer = self._jobs.get()()
            except BaseException as error:
                self._inbox.put(EngineCrashed(error))
                return
            if answer is not None:
                self._inbox.put(answer)
