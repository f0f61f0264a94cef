"""User functions of the measured jobs: a relay, stages that sleep, and partition functions."""

import time
from typing import Any

import numpy as np
import pyarrow as pa

SLEEPS_MS = (0, 1, 2, 3, 2, 1)  # for each packet, one after the other, over and over
PHASE_S = 8.0
CHANGES_AFTER_S = 10.0

Places = np.ndarray[Any, np.dtype[np.int64]]


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows unchanged."""
    return batch


def record(row: dict[str, Any]) -> dict[str, Any]:
    """Return a record unchanged. Python makes objects of each row."""
    return {"word": row["word"]}


def to_first(batch: pa.RecordBatch, tasks: int) -> Places:
    """Send all rows to the task of the first worker."""
    return np.zeros(batch.num_rows, np.int64)


def to_second(batch: pa.RecordBatch, tasks: int) -> Places:
    """Send all rows to the task of the second worker."""
    return np.full(batch.num_rows, min(1, tasks - 1), np.int64)


def row_30us(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take 30 us for each row."""
    time.sleep(batch.num_rows * 30e-6)
    return batch


def row_100us(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take 100 us for each row."""
    time.sleep(batch.num_rows * 100e-6)
    return batch


def row_1ms(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take a millisecond for each row."""
    time.sleep(batch.num_rows * 1e-3)
    return batch


def call_200ms(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take 200 ms for each call, and 10 us for each row."""
    time.sleep(0.2 + batch.num_rows * 10e-6)
    return batch


def changing(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Take 3 us and 300 us for each row, alternating after some seconds."""
    slow = int(time.monotonic() / CHANGES_AFTER_S) % 2
    time.sleep(batch.num_rows * (300e-6 if slow else 3e-6))
    return batch


class SleepyStage:
    """Sleeps for each packet. The time follows a cycle that begins at the first packet."""

    def __init__(self) -> None:
        """Begin at the first call."""
        self._begun: float | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Sleep, then pass rows on."""
        now = time.monotonic()
        if self._begun is None and batch.num_rows:
            self._begun = now
        if self._begun is not None:
            time.sleep(batch.num_rows * sleep_ms(now - self._begun) / 1000)
        return batch


def sleep_ms(since_s: float) -> int:
    """Return how long to sleep for a packet at this time after the first one."""
    return SLEEPS_MS[int(since_s / PHASE_S) % len(SLEEPS_MS)]


sleepy = SleepyStage()
