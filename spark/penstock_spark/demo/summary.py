"""The table at the end, and the same as JSON."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock_spark.demo.job import RunningJob
from penstock_spark.demo.scenario import Disturbance

Row = tuple[str, object]


@dataclass(frozen=True, slots=True)
class Counting:
    """The word count: the disturbed run, then the rest at full speed."""

    job: RunningJob
    events: tuple[Disturbance, ...]
    paced_words: int
    paced_seconds: float
    rest_words: int
    rest_seconds: float


def job_rows(counting: Counting, rows: int) -> list[Row]:
    """Return how much was read and written, how fast, and when the first result was visible."""
    first = counting.job.seen.first_output_s
    paced, rest = counting.paced_words, counting.rest_words
    return [
        ("lines read", rows),
        ("words counted and written", paced + rest),
        ("seconds to the first result", "-" if first is None else round(first, 2)),
        ("words while it was disturbed, paced", paced),
        ("words per second of these", round(paced / counting.paced_seconds)),
        ("words of the rest, at full speed", rest),
        ("words per second of these, start and end included", round(rest / counting.rest_seconds)),
    ]


def checkpoint_rows(job: RunningJob) -> list[Row]:
    """Return the number of checkpoints, their sizes and their durations."""
    seen = [c for c in job.seen.checkpoints.values() if c.bytes]
    if not seen:
        return [("checkpoints", len(job.seen.checkpoints))]
    sizes = sorted(c.bytes for c in seen)
    times = sorted(c.duration_s for c in seen)
    return [
        ("checkpoints", len(job.seen.checkpoints)),
        (
            "new state per checkpoint, median / largest",
            f"{_mid(sizes) / 1e6:.1f} / {sizes[-1] / 1e6:.1f} MB",
        ),
        (
            "barrier to commit, median / longest",
            f"{times[len(times) // 2]:.2f} / {times[-1]:.2f} s",
        ),
    ]


def event_rows(events: Sequence[Disturbance]) -> list[Row]:
    """Return how long each disturbance took."""
    return [(e.name, f"{e.seconds:.2f} s") for e in events]


def pause_rows(logs: Sequence[Path]) -> list[Row]:
    """Read from the engines' logs for how long rows waited at the rescales.

    Moved key groups: from the barrier at a sender to the release of what it held. The others: while
    a task aligned its barrier and loaded what it gained.
    """
    text = "\n".join(log.read_text(errors="replace") for log in logs)
    rows: list[Row] = []
    for version in sorted({int(v) for v in re.findall(r"event=rescale_\w+ .*version=(\d+)", text)}):
        moved = _times(text, f"event=rescale_released .*version={version} moved_ms=([0-9.]+)")
        stayed = _times(text, f"event=rescale_resumed .*version={version} aligned_ms=([0-9.]+)")
        rows.append((f"pause at rescale to version {version}: moved groups", _ms(moved)))
        rows.append((f"pause at rescale to version {version}: other groups", _ms(stayed)))
    return rows


def _times(text: str, pattern: str) -> list[float]:
    return [float(found) for found in re.findall(pattern, text)]


def _ms(times: Sequence[float]) -> str:
    return f"{max(times):.0f} ms" if times else "none"


def _mid(values: Sequence[float]) -> float:
    """Return the median of sorted values."""
    return values[len(values) // 2]
