"""The simulated supervisor: it starts, restarts and ends workers, and writes -desired.

It is level-triggered, like the real one: at each look it compares the job's object with what runs.
It alone may end a worker that the leader has given up. It never ends a worker that has started a
newer life meanwhile.
"""

from dataclasses import dataclass

from penstock.base.values import replace
from penstock.contract.ids import Ordinal
from penstock.contract.latest import Desired, Latest, Request, Restore, SinkRestore, Unpublished
from penstock.contract.schemes import SchemeChoice
from sim.cluster.ports import Machine
from sim.kernel.kernel import SimKernel

LOOK_US = 300_000
RESTART_US = (50_000, 600_000)


@dataclass(frozen=True, slots=True)
class Look:
    """Time to compare."""


@dataclass(frozen=True, slots=True)
class KeeperDied:
    """A keeper's process is gone."""

    ordinal: Ordinal


@dataclass(frozen=True, slots=True)
class Restart:
    """Start the worker again."""

    ordinal: Ordinal


class SupervisorNode:
    """Acts as the operator: the number of workers, their lives, the user's requests."""

    def __init__(self, kernel: SimKernel, machine: Machine, workers: int) -> None:
        self.kernel = kernel
        self.machine = machine
        self.desired = Desired(workers, run="run-1")
        self.impossible: int | None = None
        self.away_until: dict[Ordinal, int] = {}
        self._requests = 0
        self._balances = 0
        self._restores = 0

    def handle(self, event: object, now: float) -> None:
        """Take one event."""
        match event:
            case Look():
                self._look()
                self.kernel.at(LOOK_US, "super", Look())
            case KeeperDied(ordinal):
                delay = self.kernel.streams.schedule.randint(*RESTART_US)
                away = self.away_until.get(ordinal, 0) - self.kernel.now_us
                self.kernel.at(max(delay, away), "super", Restart(ordinal))
            case Restart(ordinal):
                if self._wanted(ordinal) and not self.machine.worker_runs(ordinal):
                    self.machine.start_worker(ordinal)

    def rescale(self, workers: int) -> None:
        """Request another number of workers. New workers start before the leader knows of it."""
        self.desired = replace(self.desired, workers=workers)
        self._start_missing()
        self.machine.write_desired(self.desired)

    def choose(self, choice: SchemeChoice) -> None:
        """Request another scheme of a step."""
        self.desired = replace(self.desired, partition=(choice,))
        self.machine.write_desired(self.desired)

    def rebalance(self) -> None:
        """Request that key groups are dealt out by load."""
        self._balances += 1
        self.desired = replace(self.desired, rebalance=self._balances)
        self.machine.write_desired(self.desired)

    def ask(self, kind: str, argument: str | None) -> None:
        """Ask for something once."""
        self._requests += 1
        request = Request(f"request-{self._requests}", kind, argument)
        self.desired = replace(self.desired, requests=(*self.desired.requests, request))
        self.machine.write_desired(self.desired)

    def run_again(self, *, oldest: bool, allow_replay: bool) -> None:
        """Start a stopped job again: a new run, optionally from its oldest retained epoch, if it has one."""
        restore = None
        retained = self.machine.latest().retained
        if oldest and retained:
            restore = Restore("restore-1", None, retained[0].epoch, allow_replay)
        for ordinal in self.machine.ordinals():
            if not self.machine.worker_runs(ordinal):
                self.machine.start_worker(ordinal)
        self.desired = replace(self.desired, requests=(), restore=restore, run="run-2")
        self.machine.write_desired(self.desired)

    def begin_from(self, path: str, run: str) -> None:
        """Start another job, which begins from the savepoint at ``path``."""
        restore = Restore("restore-1", path)
        self.desired = replace(self.desired, requests=(), restore=restore, run=run)
        for ordinal in self.machine.ordinals():
            self.machine.start_worker(ordinal)
        self.machine.write_desired(self.desired)

    def begin_empty(self, *, allow_replay: bool, drop_unpublished: bool) -> None:
        """Request that the job begins without state, once for each call."""
        self._restores += 1
        restore = Restore(
            f"empty-{self._restores}",
            allow_output_replay=allow_replay,
            drop_unpublished=drop_unpublished,
            empty=True,
        )
        self.desired = replace(self.desired, restore=restore)
        self.machine.write_desired(self.desired)

    def give_up_output(self, sink: str) -> None:
        """Request once that unpublished output of a sink is given up."""
        self._restores += 1
        restore = Restore(f"output-{self._restores}", unpublished=(SinkRestore(sink, Unpublished.DROP),))
        self.desired = replace(self.desired, restore=restore)
        self.machine.write_desired(self.desired)

    def drop_state(self, steps: tuple[str, ...]) -> None:
        """Request once that the state of some steps is given up."""
        self._restores += 1
        restore = Restore(f"drop-{self._restores}", drop_state=steps)
        self.desired = replace(self.desired, restore=restore)
        self.machine.write_desired(self.desired)

    def _look(self) -> None:
        latest = self.machine.latest()
        for lost in latest.lost:
            if self.machine.engine_life(lost.ordinal) == lost.incarnation:
                self.kernel.happened("supervisor ended a lost worker")
                self.machine.end_worker(lost.ordinal)
        answered = {a.request for a in latest.answers}
        left = tuple(r for r in self.desired.requests if r.id not in answered)
        if left != self.desired.requests:
            self.desired = replace(self.desired, requests=left)
            self.machine.write_desired(self.desired)
        self._start_missing()
        self._shrink(latest)

    def ended(self) -> bool:
        """Return whether the run that is wanted has ended, not one before it."""
        latest = self.machine.latest()
        return latest.finished or (latest.closed() and latest.run == self.desired.run)

    def _start_missing(self) -> None:
        latest = self.machine.latest()
        for number in range(max(self.desired.workers, latest.workers)):
            if not self.ended() and not self.machine.worker_known(Ordinal(number)):
                self.machine.start_worker(Ordinal(number))

    def _shrink(self, latest: Latest) -> None:
        wanted = self.desired.workers
        if latest.leader is None or latest.leader.ordinal >= wanted:
            return
        if latest.workers == wanted and latest.settled == latest.version:
            for ordinal in self.machine.ordinals():
                if ordinal >= wanted and self.machine.worker_known(ordinal):
                    self.kernel.happened("supervisor removed a worker")
                    self.machine.remove_worker(ordinal)

    def _wanted(self, ordinal: Ordinal) -> bool:
        possible = ordinal != self.impossible
        return possible and self.machine.worker_known(ordinal) and not self.ended()
