"""Measures how long a rescale stopped the rows of one task, and logs it for people."""

import logging

from penstock.contract.ids import TaskId, Version

log = logging.getLogger(__name__)


class RescaleTimings:
    """Times of the rescale under way, in seconds. Used by the task's thread only."""

    __slots__ = ("_aligned_s", "_blocked_at", "_cut_at", "_task", "load_s")

    def __init__(self, task: TaskId) -> None:
        """Begin outside a rescale."""
        self._task = task
        self._blocked_at: float | None = None
        self._cut_at: float | None = None
        self._aligned_s = 0.0
        self.load_s = 0.0

    def barrier(self, now: float) -> None:
        """Note the first barrier of a cut: its channel is blocked now."""
        if self._blocked_at is None:
            self._blocked_at = now

    def cut(self, now: float) -> None:
        """Note the cut at the rescale barrier: from now on only rows that move are held."""
        since, self._blocked_at = self._blocked_at, None
        self._aligned_s = 0.0 if since is None else now - since
        self._cut_at = now

    def released(self, version: Version, now: float) -> None:
        """Note that the last held rows were sent to their new owners."""
        if self._cut_at is not None:
            moved_ms = 1000 * (now - self._cut_at)
            log.info(
                "event=rescale_released task=%s version=%d moved_ms=%.1f",
                self._task,
                version,
                moved_ms,
            )
            self._cut_at = None

    def resumed(self, version: Version) -> None:
        """Note that the task runs under the new version."""
        log.info(
            "event=rescale_resumed task=%s version=%d aligned_ms=%.1f load_ms=%.1f",
            self._task,
            version,
            1000 * self._aligned_s,
            1000 * self.load_s,
        )
