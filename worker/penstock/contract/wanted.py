"""How many workers a job needs, and when a run is over: the same rules locally and in a cluster."""

from penstock.contract.latest import Desired, Latest


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
