"""How busy a job is, as its leader measures it: from the workers' counters, window by window.

The counters of a task are seconds at work, blocked and idle; together they are all the seconds of
its life. So two readings give a share without any clock, however late they were heard.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.limits import LOAD_WINDOW_S, LOAD_WINDOWS_KEPT
from penstock.base.values import replace
from penstock.contract.ids import Attempt, Ordinal, Version
from penstock.contract.latest import Latest
from penstock.contract.status import Load, StepStatus, WorkerReport
from penstock.contract.summary import merge_steps

Counters = tuple[StepStatus, ...]
Under = tuple[Attempt, Version]


@dataclass(slots=True)
class LoadMeter:
    """Keeps the shares of one attempt and one version; another one begins anew.

    ``base`` are the counters at which the running window began.
    """

    under: Under = (Attempt(0), Version(0))
    base: Counters = ()
    busy: tuple[float, ...] = ()
    blocked: tuple[float, ...] = ()
    step: str = ""

    def look(self, latest: Latest, reports: Mapping[Ordinal, WorkerReport]) -> Load | None:
        """Take in what was heard of late. Returns the windows so far; None before the first."""
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
    """Add up the steps of all workers that own state; empty when one of them is not heard of."""
    if latest.closed() or latest.settled != latest.version:
        return ()
    heard = [reports.get(Ordinal(ordinal)) for ordinal in range(latest.workers)]
    told = [r.progress for r in heard if r is not None and r.engine_pid is not None]
    steps = [p.steps for p in told if p is not None and p.attempt == latest.attempt]
    return merge_steps(steps) if len(steps) == len(heard) else ()
