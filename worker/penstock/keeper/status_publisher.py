"""What the leader of a job in a cluster tells of its workers.

::

    keeper ── announce ──> the leader's keeper ── JobStatus ──> ConfigMap {job}-status

There is no supervisor. The leader collects what the other keepers announce, and writes a summary
that the operator and ``penstock status`` read. The summary decides nothing but which silent pod is
replaced. The next message repairs one that was lost.

The counters of a task are seconds at work, blocked and idle. Together they are all the seconds of
its life. So two readings give the share of time at work without any clock, however late they came.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from penstock.base.errors import PenstockError
from penstock.base.limits import (
    ANNOUNCE_INTERVAL_S,
    LOAD_HEARD_S,
    LOAD_WINDOW_S,
    LOAD_WINDOWS_KEPT,
    POD_STATUS_INTERVAL_S,
    SILENT_WORKERS_KEPT_S,
)
from penstock.base.values import replace
from penstock.cluster.rpc import ANNOUNCE, Client, Handler, Method, Nothing, Unreachable
from penstock.contract.ids import Attempt, Ordinal, Version
from penstock.contract.latest import Desired, Latest
from penstock.contract.status import JobState, JobStatus, Load, StepStatus, WorkerReport
from penstock.contract.status_size import fitting_bytes
from penstock.contract.summary import Seen, job_status, merge_steps
from penstock.keeper.platforms import Facts, KeeperView
from penstock.ports import MetaStore, SwapConflict, SwapUnknown, Versioned

Counters = tuple[StepStatus, ...]


Under = tuple[Attempt, Version]


@dataclass(slots=True)
class LoadMeter:
    """Keeps the shares of one attempt and one version. Another attempt or version starts without any.

    ``base`` are the counters at which the running window began.
    """

    under: Under = (Attempt(0), Version(0))
    base: Counters = ()
    busy: tuple[float, ...] = ()
    blocked: tuple[float, ...] = ()
    step: str = ""

    def look(self, latest: Latest, reports: Mapping[Ordinal, WorkerReport]) -> Load | None:
        """Add the newest counters. Returns the windows so far, None before the first."""
        under = (latest.attempt, latest.version)
        if under != self.under:
            self.under, self.base, self.busy, self.blocked = under, (), (), ()
        counters = _counters(latest, reports)
        if counters:
            self._measure(counters)
        return Load(LOAD_WINDOW_S, self.busy, self.blocked, self.step) if self.busy else None

    def _measure(self, now: Counters) -> None:
        window = _window(self.base, now)
        if window is None:
            self.base = now
        elif window.length_s >= LOAD_WINDOW_S:
            self.base, self.step = now, window.step
            self.busy = (*self.busy, window.busy)[-LOAD_WINDOWS_KEPT:]
            self.blocked = (*self.blocked, window.blocked)[-LOAD_WINDOWS_KEPT:]


@dataclass(frozen=True, slots=True)
class _Window:
    length_s: float  # of the life of one task
    busy: float
    blocked: float
    step: str


def _window(base: Counters, now: Counters) -> _Window | None:
    """Compare two readings; None when they are not of the same tasks, or went back."""
    if [(s.name, s.tasks) for s in base] != [(s.name, s.tasks) for s in now]:
        return None
    steps = [_of_step(old, new) for old, new in zip(base, now, strict=True) if new.tasks]
    if not steps or min(step.length_s for step in steps) < 0.0:
        return None
    busiest = max(steps, key=lambda step: step.busy)
    return replace(busiest, blocked=max(step.blocked for step in steps))


def _of_step(old: StepStatus, new: StepStatus) -> _Window:
    lived = _lived(new) - _lived(old)
    busy = _share(new.busy_s - old.busy_s, lived)
    blocked = _share(new.blocked_s - old.blocked_s, lived)
    return _Window(lived / new.tasks, busy, blocked, new.name)


def _share(part: float, whole: float) -> float:
    return round(min(1.0, max(0.0, part) / whole), 3) if whole > 0.0 else 0.0


def _lived(step: StepStatus) -> float:
    return step.busy_s + step.blocked_s + step.idle_s


def _counters(latest: Latest, reports: Mapping[Ordinal, WorkerReport]) -> Counters:
    """Add up the steps of all workers that own state; empty when one of them is missing."""
    if latest.closed() or latest.settled != latest.version:
        return ()
    heard = [reports.get(Ordinal(ordinal)) for ordinal in range(latest.workers)]
    told = [r.progress for r in heard if r is not None and r.engine_pid is not None]
    steps = [p.steps for p in told if p is not None and p.attempt == latest.attempt]
    return merge_steps(steps) if len(steps) == len(heard) else ()


CALL_TIMEOUT_S = 1.0


@dataclass(slots=True)
class WorkerStatuses:
    """What a leader was told of the workers in this term; a new term begins with nothing."""

    term: int
    since: float
    heard: dict[Ordinal, tuple[WorkerReport, float]] = field(default_factory=dict)
    epoch: tuple[int, int] = (0, 0)  # the newest, and when it was first seen (us)
    has_run: bool = False
    meter: LoadMeter = field(default_factory=LoadMeter)

    def hear(self, report: WorkerReport, now: float) -> None:
        """Keep the newest report of each worker."""
        self.heard[report.ordinal] = (report, now)

    def summary(self, job: str, leads: tuple[Latest, Desired], storage: str, times: tuple[float, int]) -> JobStatus:
        """Describe the job as it is seen here; ``times`` are monotonic seconds and wall us."""
        latest, desired = leads
        now, wall_us = times
        if latest.epoch != self.epoch[0]:
            self.epoch = (latest.epoch, wall_us)
        heard = {o: h for o, h in self.heard.items() if now - h[1] < SILENT_WORKERS_KEPT_S}
        status = job_status(
            Seen(
                job=job,
                latest=latest,
                desired=desired,
                reports={o: report for o, (report, _) in heard.items()},
                keepers={o: report.keeper_pid for o, (report, _) in heard.items()},
                restarts={},
                answers=(),
                storage=storage,
                address="" if latest.leader is None else latest.leader.address,
                time_us=wall_us,
                epoch_time_us=self.epoch[1],
                has_run=self.has_run,
                silent_s={o: now - at for o, (_, at) in heard.items()},
                listening_s=round(now - self.since, 1),
            )
        )
        self.has_run = self.has_run or status.state is JobState.RUNNING
        of_late = {o: report for o, (report, at) in heard.items() if now - at < LOAD_HEARD_S}
        return replace(status, load=self.meter.look(latest, of_late))


class StatusBoard:
    """Writes the summary to one object: at once when something happened, else now and then."""

    def __init__(self, store: MetaStore, name: str) -> None:
        """Write to the object ``name``, which the operator has made."""
        self._store = store
        self._name = name
        self._known: Versioned | None = None
        self._written: JobStatus | None = None
        self._written_at = 0.0

    def show(self, status: JobStatus, now: float) -> None:
        """Write the status if it is due. One that cannot be written now is replaced by the next."""
        news = self._written is None or _gist(status) != _gist(self._written)
        if not news and now - self._written_at < POD_STATUS_INTERVAL_S:
            return
        try:
            if self._known is None:
                self._known = self._store.get(self._name)
            if self._known is None:
                return
            self._known = self._store.swap(self._name, fitting_bytes(status), self._known.version)
        except (PenstockError, SwapConflict, SwapUnknown):
            self._known = None  # read it again: an earlier leader may have written last
            return
        self._written, self._written_at = status, now


def _gist(status: JobStatus) -> JobStatus:
    """Return what is written at once when it changes: everything but counters and clocks."""
    workers = tuple(replace(w, silent_s=float(w.silent_s > SILENT_GIST_S)) for w in status.workers)
    sinks = tuple(replace(s, full_s=None) for s in status.sinks)
    still = replace(status, time_us=0, listening_s=0.0, uncommitted_s=None)
    return replace(still, steps=(), splits=(), workers=workers, sinks=sinks, load=None)


SILENT_GIST_S = 5.0


class StatusPublisher:
    """One thread that reports at an interval, and at once after :meth:`wake`."""

    def __init__(
        self,
        view: KeeperView,
        dial: Callable[[str], Client],
        board: StatusBoard,
        job: str,
        storage: str,
    ) -> None:
        """Report ``view`` to the leader; the leader itself writes to ``board``."""
        self._view = view
        self._dial = dial
        self._board = board
        self._job = job
        self._storage = storage
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._statuses = WorkerStatuses(0, time.monotonic())
        self._client: Client | None = None

    @property
    def handlers(self) -> Mapping[Method[Any, Any], Handler]:
        """Take the announcements of other keepers, which go to the keeper that they believe to lead."""
        return {ANNOUNCE: self._hear}

    def start(self) -> None:
        """Begin; once."""
        threading.Thread(target=self._run, name="status-publisher", daemon=True).start()

    def wake(self) -> None:
        """Report as soon as possible."""
        self._wanted.set()

    def final_report(self) -> None:
        """Report once more, now: the process is about to end."""
        self._pass()

    def _run(self) -> None:
        while True:
            self._wanted.wait(ANNOUNCE_INTERVAL_S)
            self._wanted.clear()
            self._pass()

    def _pass(self) -> None:
        facts = self._view.facts()
        self._tell(facts)
        if facts.leads is not None:
            self._show(facts.leads)

    def _hear(self, report: WorkerReport) -> Nothing:
        with self._lock:
            self._statuses.hear(report, time.monotonic())
        return Nothing()

    def _tell(self, facts: Facts) -> None:
        leader = facts.leader
        if leader is None:
            return
        if leader.incarnation == self._view.life:
            self._hear(self._view.report())
            return
        if self._client is None or self._client.address != leader.address:
            if self._client is not None:
                self._client.close()
            self._client = self._dial(leader.address)
        with suppress(Unreachable, PenstockError):  # a new leader will be told
            self._client.call(ANNOUNCE, self._view.report(), CALL_TIMEOUT_S)

    def _show(self, leads: tuple[Latest, Desired]) -> None:
        now = time.monotonic()
        with self._lock:
            if self._statuses.term != leads[0].term:
                self._statuses = WorkerStatuses(leads[0].term, now)
            times = (now, time.time_ns() // 1000)
            status = self._statuses.summary(self._job, leads, self._storage, times)
        self._board.show(status, now)
