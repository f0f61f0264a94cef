"""Two statuses make rates. Pure: times come from the statuses themselves."""

from collections import deque
from dataclasses import dataclass

from penstock.base.values import replace
from penstock.contract.status import (
    ENDED,
    WORKER_UP,
    CheckpointStatus,
    JobStatus,
    StepStatus,
)

FIRST_WATERMARK_US = -62_135_596_800_000_000  # year 1; below it: none yet
LAST_WATERMARK_US = 253_402_300_800_000_000  # year 10000; beyond it: the end of an input
LOOK_BACK_US = 3_000_000  # rates are over at least so long


@dataclass(frozen=True, slots=True)
class StepRate:
    """A step with its rates in rows per second; ``lag_s``: how far its watermark is behind."""

    step: StepStatus
    rows_in_per_s: float
    rows_out_per_s: float
    lag_s: float | None


def step_rates(before: JobStatus | None, now: JobStatus) -> tuple[StepRate, ...]:
    """Return the rates between two statuses; zero at first and after a restart of counters."""
    old = {s.name: s for s in before.steps} if before is not None and _follows(before, now) else {}
    seconds = (now.time_us - before.time_us) / 1e6 if before is not None else 0.0
    return tuple(_rate(old.get(s.name), s, seconds, now) for s in now.steps)


def _follows(before: JobStatus, now: JobStatus) -> bool:
    return before.attempt == now.attempt and before.time_us < now.time_us


def _rate(old: StepStatus | None, new: StepStatus, seconds: float, now: JobStatus) -> StepRate:
    lag = _lag_s(new.watermark_us, now.time_us)
    if old is None or seconds <= 0:
        return StepRate(new, 0.0, 0.0, lag)
    return StepRate(
        new,
        max(0, new.rows_in - old.rows_in) / seconds,
        max(0, new.rows_out - old.rows_out) / seconds,
        lag,
    )


def _lag_s(watermark_us: int | None, time_us: int) -> float | None:
    """Return how far a watermark is behind; None where there is no time, or its input has ended."""
    if watermark_us is None or not FIRST_WATERMARK_US < watermark_us < LAST_WATERMARK_US:
        return None
    return max(0.0, (time_us - watermark_us) / 1e6)


class History:
    """The statuses of the last seconds: engines count once a second, so rates need a longer look.

    Once a job has ended its engines are gone: their last counters stay, over the whole run.
    """

    def __init__(self) -> None:
        self._first: JobStatus | None = None
        self._recent: deque[JobStatus] = deque()

    def add(self, now: JobStatus) -> tuple[JobStatus | None, JobStatus]:
        """Take a status; return what to compare it with, and it with what must not be forgotten."""
        last = self._recent[-1] if self._recent else None
        if last is not None and now.state in ENDED:
            now = _with_last_counts(last, now)
        if self._first is None or _anew(self._first, now) or (last and _anew(last, now)):
            self._first = now
            self._recent.clear()
        self._recent.append(now)
        while len(self._recent) > 2 and now.time_us - self._recent[1].time_us >= LOOK_BACK_US:
            self._recent.popleft()
        return (self._first if now.state in ENDED else self._recent[0]), now


def _anew(before: JobStatus, now: JobStatus) -> bool:
    """Say whether counters began anew between two statuses, or just began."""
    old = {s.name: _rows(s) for s in before.steps}
    fewer = any(_rows(s) < old.get(s.name, 0) for s in now.steps)
    return before.attempt != now.attempt or not before.steps or fewer


def _with_last_counts(last: JobStatus, now: JobStatus) -> JobStatus:
    checkpoint = now.checkpoint
    known = last.checkpoint
    if checkpoint is not None and known is not None and known.epoch == checkpoint.epoch:
        checkpoint = replace(checkpoint, bytes=known.bytes, duration_s=known.duration_s)
    said = {s.name: s for s in now.steps}
    known_steps = last.steps or now.steps  # engines go one by one: each step's larger count is true
    steps = tuple(max(s, said.get(s.name, s), key=_rows) for s in known_steps)
    return replace(now, steps=steps, checkpoint=checkpoint)


def _rows(step: StepStatus) -> int:
    return step.rows_in + step.rows_out


def headline(now: JobStatus) -> str:
    """Say in one line where a job stands."""
    up = sum(w.state == WORKER_UP for w in now.workers)
    leader = next((str(w.ordinal) for w in now.workers if w.leader), "-")
    parts = [now.job, str(now.state)]
    if now.state not in ENDED:
        parts += [f"workers {up}/{now.wanted_workers}", f"leader {leader}"]
    if now.checkpoint is not None:
        parts.append(f"epoch {now.checkpoint.epoch}")
    return "  ".join(parts)


def checkpoint_text(checkpoint: CheckpointStatus) -> str:
    """Say how large a checkpoint was and how long it took, as far as its leader could tell."""
    if not checkpoint.duration_s:
        return f"epoch {checkpoint.epoch}"
    size, took = short_bytes(checkpoint.bytes), short_seconds(checkpoint.duration_s)
    return f"epoch {checkpoint.epoch}: {size} in {took}"


def short_count(value: float) -> str:
    """Spell a count in four or five characters: 999, 12.3k, 4.56M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.3g}{unit}" if scaled < 999.5 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}"


def short_bytes(value: int) -> str:
    """Spell a size: 0 B, 1.5 KiB, 64 MiB."""
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.3g} {unit}" if size < 999.5 else f"{size:.0f} {unit}"
        size /= 1024
    raise AssertionError("the last unit always returns")


def short_seconds(value: float) -> str:
    """Spell a duration: 35 ms, 1.2 s, 3 min, 5 h, 17 d."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    for limit, unit in ((120.0, "s"), (7200.0, "min"), (172800.0, "h")):
        if value < limit:
            scaled = value / {"s": 1, "min": 60, "h": 3600}[unit]
            return f"{scaled:.3g} {unit}"
    return f"{value / 86400:.3g} d"
