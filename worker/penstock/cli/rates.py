"""Two statuses make rates. Pure: times come from the statuses themselves."""

from dataclasses import dataclass

from penstock.contract.status import WORKER_UP, JobState, JobStatus, StepStatus


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
    lag = None if new.watermark_us is None else max(0.0, (now.time_us - new.watermark_us) / 1e6)
    if old is None or seconds <= 0:
        return StepRate(new, 0.0, 0.0, lag)
    return StepRate(
        new,
        max(0, new.rows_in - old.rows_in) / seconds,
        max(0, new.rows_out - old.rows_out) / seconds,
        lag,
    )


def headline(now: JobStatus) -> str:
    """Say in one line where a job stands."""
    up = sum(1 for w in now.workers if w.state == WORKER_UP)
    leader = next((str(w.ordinal) for w in now.workers if w.leader), "-")
    parts = [f"{now.job}", str(now.state), f"workers {up}/{now.wanted_workers}", f"leader {leader}"]
    if now.checkpoint is not None:
        parts.append(f"epoch {now.checkpoint.epoch}")
    if now.failure and now.state is not JobState.RUNNING:
        parts.append(now.failure.splitlines()[0])
    return "  ".join(parts)


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
