"""Where the engine stands, said to the keeper when it changes and repeated as a sign of life."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from penstock.contract.control import EngineStatus
from penstock.contract.ids import Attempt, Epoch, Version
from penstock.engine.task_thread import TaskThread, is_leaving
from penstock.protocol.task.task_state import TaskLifecycle


@dataclass(slots=True)
class AttemptMarks:
    """What is known of an attempt beside its tasks. Written by the main thread and publisher."""

    attempt: Attempt = Attempt(0)
    restored: Epoch = Epoch(0)
    built: bool = False
    running: bool = False
    joined: bool = False
    proposed: Version = Version(0)
    republished: Epoch = Epoch(0)
    ending: bool = False


def status_of(marks: AttemptMarks, tasks: Iterable[TaskThread]) -> EngineStatus:
    """Draw the status from the tasks; every field is about ``marks.attempt``."""
    threads = list(tasks)
    status = EngineStatus(attempt=marks.attempt)
    if not marks.built:
        return status
    members = [t for t in threads if t.core.state.life is not TaskLifecycle.JOINING]
    leaving = [t for t in members if is_leaving(t.core)]
    ready = all(t.progress.ready for t in threads if not t.core.state.setup.joining)
    prepared = all(t.progress.prepared == marks.proposed for t in threads)
    stands = [t.progress for t in threads]
    if marks.joined:
        ready = prepared or not any(t.core.state.life is TaskLifecycle.JOINING for t in threads)
    return replace(
        status,
        ready=marks.attempt if ready else Attempt(0),
        running=marks.attempt if ready and (marks.running or marks.joined) else Attempt(0),
        prepared=marks.proposed if prepared else Version(0),
        resumed=min((s.resumed for s in stands), default=Version(0)),
        settled=min((_settled(t) for t in threads), default=Version(0)),
        published=_published(marks, members),
        exhausted=all(t.progress.exhausted for t in members if t not in leaving),
        left=bool(leaving) and all(t.progress.finished for t in leaving),
        ended=marks.ending and all(t.progress.finished for t in threads),
    )


def _settled(thread: TaskThread) -> Version:
    """Return the version under which a task lives; one that leaves has to have ended.

    The next version may have it again, on channels of the same names.
    """
    progress = thread.progress
    return progress.settled if progress.finished or not is_leaving(thread.core) else Version(0)


def _published(marks: AttemptMarks, members: list[TaskThread]) -> Epoch:
    lowest = min((t.progress.published for t in members), default=Epoch(0))
    own = lowest if lowest > marks.restored else Epoch(0)
    return max(own, marks.republished)


class StatusTeller(threading.Thread):
    """Sends the status when it has changed, and anew after each interval without a change."""

    def __init__(
        self,
        draw: Callable[[], EngineStatus],
        send: Callable[[EngineStatus], None],
        interval_s: float,
    ) -> None:
        """Draw with ``draw``, on this thread only, and send with ``send``."""
        super().__init__(name="status", daemon=True)
        self._draw = draw
        self._send = send
        self._interval_s = interval_s
        self._news = threading.Event()
        self._over = False

    def changed(self) -> None:
        """Look again soon. From any thread; never blocks."""
        self._news.set()

    def stop(self) -> None:
        """End the thread after what it is saying."""
        self._over = True
        self._news.set()

    def run(self) -> None:
        """Tell until stopped."""
        said: EngineStatus | None = None
        while not self._over:
            news = self._news.wait(self._interval_s)
            self._news.clear()
            status = self._draw()
            if status != said or not news:
                said = status
                self._send(status)
