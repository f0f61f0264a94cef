"""The tasks of one attempt on this worker: made at a reset or a prepare, told what happens.

Reset -> build -> (all Ready) -> open streams -> Started ... ResetTo -> ended
"""

import logging
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.base.limits import HELD_BYTES_MAX, RESET_DEADLINE_S
from penstock.contract.assignment import Assignment, channels_of
from penstock.contract.control import Adopt, Prepare, Reset, Settled, StageSplits
from penstock.contract.ids import ChannelId, Epoch, Ordinal, TaskId, Version
from penstock.contract.latest import Member
from penstock.contract.manifest import RootManifest
from penstock.engine.attempt_status import AttemptMarks
from penstock.engine.build import JobParts
from penstock.engine.task_inbox import Stop
from penstock.engine.task_runtime import TaskRuntime
from penstock.engine.task_thread import TaskThread
from penstock.model.elements import Barrier
from penstock.protocol.task import task_events as ev
from penstock.protocol.task.task_core import TaskCore
from penstock.protocol.task.task_state import TaskSetup
from penstock.transport.exchange import Exchange, Peer, Wiring
from penstock.transport.wakeup import Wakeup

log = logging.getLogger(__name__)

EXIT_STUCK = 70  # a task did not end: the process does


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    """What an attempt needs of its worker."""

    ordinal: Ordinal
    job: JobParts
    exchange: Exchange
    host: TaskRuntime


class Attempt:
    """One attempt. Its methods are for the worker's main thread, but for :meth:`inject`."""

    def __init__(self, place: TaskPlacement, marks: AttemptMarks) -> None:
        """Begin without tasks."""
        self.marks = marks
        self.tasks: dict[TaskId, TaskThread] = {}
        self._place = place
        self._wakeups: dict[TaskId, Wakeup] = {}
        self._assignment: Assignment | None = None
        self._proposed: Assignment | None = None
        self._members: dict[Ordinal, Peer] = {}
        self._opened: dict[ChannelId, None] = {}

    # --- Build and end ------------------------------------------------------------------------

    def build(self, order: Reset, root: RootManifest | None) -> None:
        """Make and start the threads of all tasks here; they load and say when they are ready."""
        self._assignment = order.assignment
        self._members = _peers(order.members)
        mine = order.assignment.tasks_on(self._place.ordinal)
        for task in mine:
            self._make(task, order.assignment, root, order.splits, joining=False)
        self.marks.built = True
        self._begin(mine)

    def start(self) -> None:
        """Open the streams and let rows flow."""
        if self.marks.running:
            return
        assert self._assignment is not None, "built before it starts"
        if not self.marks.joined:
            self._open(self._assignment)
        self._place.job.sweep(self.marks.attempt)
        self.marks.running = True
        self.tell(ev.Started())

    def tell(self, event: ev.Event | Stop) -> None:
        """Put an event into the inbox of every task."""
        for thread in self.tasks.values():
            thread.inbox.put(event)

    def inject(self, barrier: Barrier) -> None:
        """Give a barrier to the source tasks. From any thread."""
        for thread in tuple(self.tasks.values()):
            if thread.core.state.splits is not None:
                thread.inbox.put(ev.Injected(barrier))

    def end(self, order: ev.ResetTo | Stop) -> None:
        """End all tasks. One that does not within the deadline ends the process.

        Only a reset says what was not committed, so only a reset discards prepared output.
        """
        self._end(list(self.tasks.values()), order)

    # --- Rescale ------------------------------------------------------------------------------

    def prepare(self, order: Prepare, root: RootManifest | None) -> None:
        """Know the proposed table: tell the tasks, and make those that join here."""
        if self._proposed == order.assignment:
            return
        self.cancel(self.marks.proposed)
        self._retire()
        self._proposed = order.assignment
        self._members.update(_peers(order.members))
        self.marks.proposed = order.assignment.version
        for thread in self.tasks.values():
            thread.progress.prepared = Version(0)
            thread.inbox.put(ev.Proposed(order.assignment, root))
        new = [t for t in order.assignment.tasks_on(self._place.ordinal) if t not in self.tasks]
        for task in new:
            self._make(task, order.assignment, root, order.splits, joining=True)
        self.marks.built = True
        if self.marks.joined:
            self._open(order.assignment, Version(order.assignment.version - 1))
        self._begin(new)

    def cancel(self, version: Version) -> None:
        """The proposed table is off: joining tasks end, the others return to the old one."""
        if self._proposed is None or self._proposed.version != version:
            return
        self._proposed = None
        self.marks.proposed = Version(0)
        assert self._assignment is None or self._assignment.version < version, "adopted already"
        joining = [
            t for t in self.tasks.values() if t.core.state.setup.assignment.version == version
        ]
        for thread in joining:
            thread.inbox.put(ev.ResetTo(Epoch(0)))
            del self.tasks[thread.task]
        self.tell(ev.Cancelled(version))

    def adopt(self, order: Adopt, read: Callable[[], RootManifest]) -> None:
        """The version is committed: open its streams and let the tasks load and resume."""
        if self._proposed is not None and self._proposed.version == order.version:
            if not self.marks.joined:
                self._open(self._proposed, Version(order.version - 1))
            self._assignment, self._proposed = self._proposed, None
        elif self._assignment is None or self._assignment.version != order.version:
            return
        if all(t.progress.resumed >= order.version for t in self.tasks.values()):
            return
        self.tell(ev.RescaleCommitted(order.version, read()))

    def settle(self, order: Settled) -> None:
        """All have resumed: what this version does not have may end."""
        self.tell(ev.RescaleSettled(order.version))

    def has_left(self, peer: Ordinal) -> bool:
        """Say whether a worker is in no table any more: its streams may close as they like."""
        tables = [t for t in (self._assignment, self._proposed) if t is not None]
        return bool(tables) and all(peer >= table.workers for table in tables)

    # --- Parts --------------------------------------------------------------------------------

    def _end(self, threads: list[TaskThread], order: ev.ResetTo | Stop) -> None:
        for thread in threads:
            thread.inbox.put(order)
        deadline = time.monotonic() + RESET_DEADLINE_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                log.critical(
                    "event=task_stuck task=%s deadline_s=%g", thread.task, RESET_DEADLINE_S
                )
                os._exit(EXIT_STUCK)
            del self.tasks[thread.task]

    def _make(
        self,
        task: TaskId,
        assignment: Assignment,
        root: RootManifest | None,
        splits: tuple[StageSplits, ...],
        *,
        joining: bool,
    ) -> None:
        job = self._place.job
        idle_after_s, disorder_us = job.event_time(task.stage)
        first = tuple(s for group in splits if group.stage == task.stage for s in group.splits)
        setup = TaskSetup(
            job.plan, task, assignment, HELD_BYTES_MAX, idle_after_s, disorder_us, first, joining
        )
        # One wakeup for a task id, also when a cancelled table made the task before: its input,
        # which is there already, sets this one.
        wakeup = self._wakeups.setdefault(task, Wakeup())
        fresh = root is None and not joining
        parts = job.parts(TaskCore(setup, root), self.marks.attempt, fresh=fresh)
        self.tasks[task] = TaskThread(parts, self._place.host, wakeup)

    def _begin(self, tasks: Iterable[TaskId]) -> None:
        for task in tasks:
            self.tasks[task].start()

    def _retire(self) -> None:
        """Forget the channels and tasks that the table does not have: it is settled, they ended.

        A worker that left may join again, as another life, and its channels begin anew. So may a
        task that left a worker that stays.
        """
        if self._assignment is None:
            return
        members = frozenset(self._assignment.tasks())
        self._end([t for t in self.tasks.values() if t.task not in members], Stop())
        kept = set(channels_of(self._place.job.plan, self._assignment))
        gone = [c for c in self._opened if c not in kept]
        self._place.exchange.retire(gone)
        for channel in gone:
            del self._opened[channel]

    def _open(self, assignment: Assignment, version: Version | None = None) -> None:
        """Open the channels of a table that are not open; ``version`` is what peers have loaded."""
        place = self._place
        channels = channels_of(place.job.plan, assignment)
        new = tuple(c for c in channels if c not in self._opened)
        self._opened.update(dict.fromkeys(new))
        wiring = Wiring(
            self._members,
            new,
            place.job.schemas,
            {t: w for t, w in self._wakeups.items() if t in self.tasks},
            assignment.version if version is None else version,
        )
        place.exchange.open_attempt(self.marks.attempt, wiring)


def _peers(members: Iterable[Member]) -> dict[Ordinal, Peer]:
    return {m.ordinal: Peer(m.incarnation, m.flight) for m in members}
