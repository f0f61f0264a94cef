"""What the supervisor decides, as functions of what it has read: no clocks, no processes."""

from dataclasses import dataclass

from penstock.contract.ids import Incarnation, Ordinal
from penstock.contract.latest import Lost
from penstock.contract.worker_rules import is_over, workers_needed

__all__ = ["AnnouncedWorker", "is_over", "to_end", "workers_needed"]


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
