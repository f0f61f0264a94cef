"""The newest announcement of each keeper, and when it came."""

import threading
import time
from collections.abc import Mapping

from penstock.contract.ids import Ordinal
from penstock.contract.status import WorkerReport
from penstock.supervisor.restart_policy import AnnouncedWorker


class Reports:
    """Written by rpc threads, read by the loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard: dict[Ordinal, tuple[WorkerReport, float]] = {}

    def put(self, report: WorkerReport) -> None:
        """Keep the newest report of a keeper."""
        with self._lock:
            self._heard[report.ordinal] = (report, time.monotonic())

    def of(self, pids: Mapping[Ordinal, int]) -> dict[Ordinal, WorkerReport]:
        """Return the reports of the keepers with these process ids, and drop those of earlier keepers."""
        with self._lock:
            return {
                ordinal: report
                for ordinal, (report, _) in self._heard.items()
                if pids.get(ordinal) == report.keeper_pid
            }

    def all(self) -> dict[Ordinal, WorkerReport]:
        """Return the newest report of every worker of this run, also of those that have ended."""
        with self._lock:
            return {ordinal: report for ordinal, (report, _) in self._heard.items()}

    def announced(self, pids: Mapping[Ordinal, int]) -> tuple[AnnouncedWorker, ...]:
        """Return the lives that the running keepers announced, with their age."""
        now = time.monotonic()
        with self._lock:
            return tuple(
                AnnouncedWorker(ordinal, report.incarnation, now - heard)
                for ordinal, (report, heard) in sorted(self._heard.items())
                if pids.get(ordinal) == report.keeper_pid
            )
