"""How busy a job is, as its leader measures it: from the workers' counters, window by window.

The counters of a task are seconds at work, blocked and idle; together they are all the seconds of
its life. So two readings give a share without any clock, however late they were heard.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.limits import LOAD_WINDOW_S, LOAD_WINDOWS_KEPT
from penstock.contract.ids import Attempt, Ordinal, Version
from penstock.contract.latest import Latest
from penstock.contract.progress import WorkerReport
from penstock.contract.status import Load, StepStatus
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
    shares: tuple[float, ...] = ()
    step: str = ""

    def look(self, latest: Latest, reports: Mapping[Ordinal, WorkerReport]) -> Load | None:
        """Take in what was heard of late. Returns the windows so far; None before the first."""
        under = (latest.attempt, latest.version)
        if under != self.under:
            self.under, self.base, self.shares = under, (), ()
        counters = _counters(latest, reports)
        if counters:
            self._measure(counters)
        return Load(LOAD_WINDOW_S, self.shares, self.step) if self.shares else None

    def _measure(self, now: Counters) -> None:
        window = _window(self.base, now)
        if window is None:
            self.base = now
        elif window.length_s >= LOAD_WINDOW_S:
            self.base, self.step = now, window.step
            self.shares = (*self.shares, round(window.share, 3))[-LOAD_WINDOWS_KEPT:]


@dataclass(frozen=True, slots=True)
class _Window:
    length_s: float  # of the life of one task
    share: float
    step: str


def _window(base: Counters, now: Counters) -> _Window | None:
    """Compare two readings; None when they are not of the same tasks, or went back."""
    if [(s.name, s.tasks) for s in base] != [(s.name, s.tasks) for s in now]:
        return None
    found: list[_Window] = []
    for old, new in zip(base, now, strict=True):
        worked, lived = new.busy_s - old.busy_s, _lived(new) - _lived(old)
        if lived < 0.0:
            return None
        if new.tasks:
            share = min(1.0, max(0.0, worked) / lived) if lived else 0.0
            found.append(_Window(lived / new.tasks, share, new.name))
    return max(found, key=lambda w: w.share, default=None)


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
