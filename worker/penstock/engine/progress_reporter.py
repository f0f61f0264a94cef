"""Counters of the engine's tasks for people. They are shown and exported; no decision uses them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from penstock.base.threads import Event, Thread, monotonic
from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.ids import Attempt, ChannelId, TaskId
from penstock.contract.plan import PhysicalPlan, StagePlan
from penstock.contract.status import (
    EngineProgress,
    InputSeen,
    SinkStatus,
    SplitStatus,
    StepStatus,
    UnlistedSource,
    most_pending,
)
from penstock.engine.output_publisher import HeldUp
from penstock.engine.task_runtime import TaskProgress
from penstock.engine.task_thread import TaskThread
from penstock.steps.lookup.table_calls import TableWait
from penstock.transport.stats import ExchangeStats

INTERVAL_S = 1.0
_FLOOR_S = 0.001


class ProgressCounters:
    """Makes :class:`EngineProgress` values; shares of time are since the previous call."""

    def __init__(
        self,
        plan: PhysicalPlan,
        sinks: Callable[[], tuple[SinkStatus, ...]],
        unlisted: Callable[[], tuple[UnlistedSource, ...]],
    ) -> None:
        """Report the steps of ``plan``, its sinks with their guarantees, and the sources that cannot be listed."""
        self._plan = plan
        self._sinks = sinks
        self._unlisted = unlisted
        self._before: dict[TaskId, tuple[float, float]] = {}
        self._at = monotonic()

    def draw(
        self,
        attempt: Attempt,
        tasks: Sequence[TaskThread],
        stats: ExchangeStats,
        inputs: tuple[InputSeen, ...] = (),
        held_up: Mapping[str, HeldUp] = MappingProxyType({}),
    ) -> EngineProgress:
        """Return the present counters. ``held_up`` has the sinks that cannot publish."""
        now = monotonic()
        span, self._at = max(now - self._at, _FLOOR_S), now
        queued = _queued(stats)
        steps: list[StepStatus] = []
        splits = [split for task in tasks for split in task.pending()]
        for stage in self._plan.stages:
            mine = [t for t in tasks if t.task.stage == stage.index]
            steps += self._stage(stage, mine, span, queued)
        full = {name: round(max(0.0, now - since), 1) for name, since in _full(tasks).items()}
        sinks = tuple(_with_reason(s, held_up.get(s.name), full.get(s.name)) for s in self._sinks())
        all_steps, most = with_pending(steps, splits), most_pending(splits)
        return EngineProgress(attempt, all_steps, sinks, inputs, most, self._unlisted())

    def _stage(
        self,
        stage: StagePlan,
        tasks: list[TaskThread],
        span: float,
        queued: dict[TaskId, int],
    ) -> list[StepStatus]:
        busy, blocked = self._shares(tasks, span)
        worked_s, blocked_s, idle_s = spent([t.progress for t in tasks], self._at)
        times = [t.core.state.time.task_us for t in tasks]
        known = [w for w in times if w is not None]
        watermark = min(known) if known and len(known) == len(times) else None
        counters = _counters(tasks)
        waits = _longest(tasks)
        return [
            StepStatus(
                name=step,
                tasks=len(tasks),
                rows_in=counters.get((step, "rows_in"), 0),
                rows_out=counters.get((step, "rows_out"), 0),
                late_rows=counters.get((step, "late"), 0) + counters.get((step, "late_after_idle"), 0),
                dead_rows=counters.get((step, "dead_letters"), 0),
                untimed_rows=counters.get((step, "without_time"), 0),
                busy=busy,
                blocked=blocked,
                blocked_s=blocked_s,
                busy_s=worked_s,
                idle_s=idle_s,
                queue_bytes=sum(queued.get(t.task, 0) for t in tasks) if place == 0 else 0,
                state_keys=counters.get((step, "keys"), 0),
                watermark_us=watermark,
                varies=stage.varying is not ABSENT and step in stage.varying,
                shed_rows=counters.get((step, "shed"), 0),
                waits_s=max(0.0, self._at - waits[step].since_s) if step in waits else None,
                because=waits[step].because if step in waits else "",
            )
            for place, step in enumerate(stage.steps)
        ]

    def _shares(self, tasks: list[TaskThread], span: float) -> tuple[float, float]:
        if not tasks:
            return 0.0, 0.0
        slept = blocked = 0.0
        for thread in tasks:
            before = self._before.get(thread.task, (0.0, 0.0))
            now = self._before[thread.task] = thread.progress.waited(self._at)
            slept += max(0.0, now[0] - before[0])
            blocked += max(0.0, now[1] - before[1])
        whole = span * len(tasks)
        waits = min(1.0, blocked / whole)
        return max(0.0, min(1.0, 1.0 - slept / whole - waits)), waits


def _longest(tasks: Iterable[TaskThread]) -> dict[str, TableWait]:
    """Return the lookups of tasks that wait for their table: of each step the one that has waited for longest."""
    found: dict[str, TableWait] = {}
    for task in tasks:
        for step, waits in task.waiting_for().items():
            found[step] = min(found.get(step, waits), waits, key=lambda each: each.since_s)
    return found


def with_pending(steps: Iterable[StepStatus], splits: Iterable[SplitStatus]) -> tuple[StepStatus, ...]:
    """Give each source step the number of its splits, and the sum of what they have left to read."""
    found: dict[str, list[SplitStatus]] = {}
    for split in splits:
        found.setdefault(split.step, []).append(split)
    return tuple(_of_splits(step, found[step.name]) if step.name in found else step for step in steps)


def _of_splits(step: StepStatus, splits: Sequence[SplitStatus]) -> StepStatus:
    rows, sizes = [s.pending_rows for s in splits], [s.pending_bytes for s in splits]
    return replace(step, splits=len(splits), pending_rows=_sum_of_known(rows), pending_bytes=_sum_of_known(sizes))


def _sum_of_known(counts: Iterable[int | None]) -> int | None:
    """Return the sum, None if a count is not known."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _full(tasks: Iterable[TaskThread]) -> dict[str, float]:
    """Return since when a task has seen each sink without room: of each sink the longest."""
    found: dict[str, float] = {}
    for task in tasks:
        for name, since in task.full_sinks().items():
            found[name] = min(found.get(name, since), since)
    return found


def _with_reason(sink: SinkStatus, held_up: HeldUp | None, full_s: float | None) -> SinkStatus:
    if held_up is None and full_s is None:
        return sink
    because, since_us = ("", None) if held_up is None else (held_up.because, held_up.since_us)
    return replace(sink, because=because, since_us=since_us, full_s=full_s)


def spent(progresses: Iterable[TaskProgress], now: float) -> tuple[float, float, float]:
    """Return the seconds that tasks have worked, were blocked and slept, until ``now``."""
    worked = blocked = idle = 0.0
    for progress in progresses:
        slept, waited = progress.waited(now)
        worked += max(0.0, now - progress.born - slept - waited)
        blocked += waited
        idle += slept
    return round(worked, 3), round(blocked, 3), round(idle, 3)


def _counters(tasks: Iterable[TaskThread]) -> dict[tuple[str, str], int]:
    totals: dict[tuple[str, str], int] = {}
    for thread in tasks:
        for key, value in thread.counters().items():
            totals[key] = totals.get(key, 0) + value
    return totals


def _queued(stats: ExchangeStats) -> dict[TaskId, int]:
    queued: dict[TaskId, int] = {}
    for channel in stats.inputs:
        receiver = _receiver(channel.channel)
        queued[receiver] = queued.get(receiver, 0) + channel.queued_bytes
    return queued


def _receiver(channel: ChannelId) -> TaskId:
    return channel.receiver


class ProgressReporter(Thread):
    """Sends the counters once a second. It is a thread of its own: its failure stops no heartbeat."""

    def __init__(self, send: Callable[[], None]) -> None:
        """Call ``send`` until stopped."""
        super().__init__(name="progress", daemon=True)
        self._send = send
        self._wanted = Event()
        self._over = False

    def report_now(self) -> None:
        """Send the counters now. From any thread; never blocks."""
        self._wanted.set()

    def stop(self) -> None:
        """End the thread."""
        self._over = True
        self._wanted.set()

    def run(self) -> None:
        """Send until stopped."""
        while True:
            self._wanted.wait(INTERVAL_S)
            self._wanted.clear()
            if self._over:
                return
            self._send()
