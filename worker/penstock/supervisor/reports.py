"""The newest announcement of each keeper, when it came, and which workers must be ended."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.contract.ids import Incarnation, Ordinal
from penstock.contract.latest import Lost
from penstock.contract.status import WorkerReport


@dataclass(frozen=True, slots=True)
class AnnouncedWorker:
    """What a keeper said last, and how long ago."""

    ordinal: Ordinal
    incarnation: Incarnation
    age_s: float


def to_end(lost: tuple[Lost, ...], announced: tuple[AnnouncedWorker, ...], silence_s: float) -> list[Ordinal]:
    """List the workers whose processes must be ended because the leader has given them up.

    Only while the lost life is the newest that was announced, and only a keeper that is silent:
    one that still speaks ends and restarts its engine by itself.
    """
    given_up = {(entry.ordinal, entry.incarnation) for entry in lost}
    return [
        worker.ordinal
        for worker in announced
        if (worker.ordinal, worker.incarnation) in given_up and worker.age_s > silence_s
    ]


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
