"""How long a task waited, seen from another thread while it waits."""

import time

from penstock.engine.progress_reporter import spent
from penstock.engine.task_runtime import TaskProgress


def test_a_wait_under_way_counts() -> None:
    progress = TaskProgress()
    seen: list[tuple[float, float]] = []
    progress.block(lambda: seen.append(progress.waited(time.monotonic() + 60)))
    progress.sleep(lambda _: seen.append(progress.waited(time.monotonic() + 60)), 1.0)
    assert seen[0][0] == 0
    assert seen[0][1] >= 60
    assert seen[1][0] >= 60
    assert seen[1][1] < 60


def test_a_wait_that_has_ended_is_counted_once() -> None:
    progress = TaskProgress()
    progress.block(time.monotonic)
    now = progress.waited(time.monotonic() + 60)
    assert now == (progress.slept_s, progress.blocked_s)
    assert now[1] > 0


def test_time_neither_asleep_nor_blocked_counts_as_work() -> None:
    progress = TaskProgress(born=100.0, slept_s=5.0, blocked_s=2.0)
    assert spent([progress], 110.0) == (3.0, 2.0, 5.0)
    progress.asleep_at = 106.0
    assert spent([progress, progress], 110.0) == (0.0, 4.0, 18.0), "never less than nothing"
