"""The table at the end, and the same as JSON."""

from collections.abc import Sequence

from penstock_spark.demo.job import RunningJob
from penstock_spark.demo.scenario import Event

Row = tuple[str, object]


def job_rows(job: RunningJob, rows: int, words: int, seconds: float) -> list[Row]:
    """Say how much was read and written, how fast, and how soon the first result was there."""
    first = job.seen.first_output_s
    return [
        ("lines read", rows),
        ("words counted and written", words),
        ("seconds, with all that was done to it", round(seconds, 1)),
        ("words per second, paced by the demo", round(words / seconds)),
        ("seconds to the first result", "-" if first is None else round(first, 2)),
    ]


def checkpoint_rows(job: RunningJob) -> list[Row]:
    """Say how many checkpoints there were, how large and how long."""
    seen = sorted(job.seen.checkpoints.values(), key=lambda c: c.epoch)
    if not seen:
        return [("checkpoints", 0)]
    sizes = sorted(c.bytes for c in seen)
    times = sorted(c.duration_s for c in seen)
    return [
        ("checkpoints seen", len(seen)),
        (
            "new state per checkpoint, median / largest",
            f"{_mid(sizes) / 1e6:.1f} / {sizes[-1] / 1e6:.1f} MB",
        ),
        (
            "barrier to commit, median / longest",
            f"{times[len(times) // 2]:.2f} / {times[-1]:.2f} s",
        ),
    ]


def event_rows(events: Sequence[Event]) -> list[Row]:
    """Say how long each disturbance took."""
    return [(e.name, f"{e.seconds:.2f} s") for e in events]


def _mid(values: Sequence[float]) -> float:
    """Return the middle of sorted values."""
    return values[len(values) // 2]
