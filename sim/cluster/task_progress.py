"""Where a simulated engine stands: its status, computed from its tasks."""

from penstock.contract import control as msg
from penstock.contract.assignment import Assignment
from penstock.contract.ids import Attempt, Epoch, TaskId, Version
from sim.cluster.exchange import SimExchange
from sim.cluster.task import SimTask


class SimTaskProgress:
    """The part of an engine that its status is made of; all of it begins anew with an attempt."""

    exchange: SimExchange

    def __init__(self) -> None:
        self.attempt = Attempt(0)
        self.tasks: dict[TaskId, SimTask] = {}
        self._base = Epoch(0)
        self._published = Epoch(0)
        self._built = False
        self._running = False
        self._was_ready = False
        self._was_running = False
        self._cancelled = Version(0)
        self._settled = Version(0)
        self._ended = False
        self._assignment: Assignment | None = None
        self._held: tuple[Assignment | None, frozenset[TaskId]] = (None, frozenset())
        self._proposed: Assignment | None = None

    def standing(self) -> msg.EngineStatus:
        """Return the status as it is now."""
        tasks = list(self.tasks.values())
        if self._assignment is None and self._proposed is None:
            return msg.EngineStatus(self.attempt)
        self._reach(tasks)
        leaving = self._leaving(tasks)
        return msg.EngineStatus(
            self.attempt,
            self.attempt if self._was_ready else Attempt(0),
            self.attempt if self._was_running else Attempt(0),
            self._prepared(tasks),
            self._resumed(tasks),
            self._settled if all(t.finished for t in leaving) else Version(0),
            self._published_here(tasks),
            all(t.core.exhausted for t in tasks),
            bool(leaving) and all(t.finished for t in leaving),
            self._ended,
        )

    def _reach(self, tasks: list[SimTask]) -> None:
        """Note what was reached once; a joiner is ready and running when it is prepared."""
        if self._assignment is None:
            joined = self._prepared(tasks) > 0
            self._was_ready = self._was_ready or joined
            self._was_running = self._was_running or joined
            return
        self._was_ready = self._was_ready or (self._built and all(t.ready for t in tasks))
        running = self._was_ready and self._running and self.exchange.settled()
        self._was_running = self._was_running or running

    def _leaving(self, tasks: list[SimTask]) -> list[SimTask]:
        """Return the tasks that the version in force does not have, or no longer."""
        if self._assignment is None:
            return tasks
        if self._held[0] is not self._assignment:
            self._held = (self._assignment, frozenset(self._assignment.tasks()))
        return [t for t in tasks if t.id not in self._held[1]]

    def _prepared(self, tasks: list[SimTask]) -> Version:
        proposed = self._proposed
        if proposed is None or proposed.version <= self._cancelled:
            return Version(0)
        done = bool(tasks) and all(t.prepared == proposed.version for t in tasks)
        return proposed.version if done else Version(0)

    def _resumed(self, tasks: list[SimTask]) -> Version:
        if self._assignment is None:
            return Version(0)
        version = self._assignment.version
        if self._proposed is None or self._proposed.version != version:
            return version
        return version if all(t.resumed == version for t in tasks) else Version(0)

    def _published_here(self, tasks: list[SimTask]) -> Epoch:
        newest = min([t.core.state.sinks.published for t in tasks], default=Epoch(0))
        return max(self._published, newest if newest > self._base else Epoch(0))
