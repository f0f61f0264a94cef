"""What the supervisor decides, as functions of what it has read: no clocks, no processes."""

from dataclasses import dataclass

from penstock.contract.ids import Incarnation, Ordinal
from penstock.contract.latest import Desired, Latest, Lost


def is_over(latest: Latest, desired: Desired) -> bool:
    """Say whether this run has ended, so that no worker is needed.

    ``stopped`` and ``failure`` of an earlier run are cleared by the leader of this one; what is
    finished stays finished, unless a restore is asked for that has not happened yet.
    """
    restoring = desired.restore is not None and desired.restore.nonce != latest.restored
    if latest.finished:
        return not restoring
    return latest.run == desired.run and latest.closed()


def workers_needed(latest: Latest, desired: Desired, running: int) -> int:
    """Say how many workers must run: ordinals below this number. ``running`` is what runs now.

    Growing comes first. Shrinking comes last: when the smaller number is committed, all members
    run under it, its output is published, and the leader is one of those that stay.
    """
    if is_over(latest, desired):
        return 0
    leader = 0 if latest.leader is None else latest.leader.ordinal
    settled = latest.settled == latest.version and latest.workers in (0, desired.workers)
    if settled and leader < desired.workers:
        return desired.workers
    # Not settled: a worker that has left the committed table may still have output to publish.
    return max(desired.workers, latest.workers, leader + 1, running)


@dataclass(frozen=True, slots=True)
class Announced:
    """What a keeper said last, and how long ago."""

    ordinal: Ordinal
    incarnation: Incarnation
    age_s: float


def to_end(
    lost: tuple[Lost, ...], announced: tuple[Announced, ...], silence_s: float
) -> list[Ordinal]:
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
