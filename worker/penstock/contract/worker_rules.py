"""How many workers a job needs, when a run is over, and which pods have to be deleted. Pure.

The rules are the same on one machine and in a cluster. A pod that is lost with its node would stay
for minutes, and a StatefulSet makes no other pod of its name meanwhile. To delete a pod that only
seems lost costs a restart and nothing else: its engine is fenced by the attempt, and its keeper by
the term.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.contract.latest import Desired, Latest
from penstock.contract.status import JobStatus


def is_over(latest: Latest, desired: Desired) -> bool:
    """Return whether this run has ended, so that it needs no worker.

    The leader of this run clears ``stopped`` and ``failure`` of an earlier one. A finished job
    stays finished, unless a restore is wanted that has not happened yet.
    """
    restoring = desired.restore is not None and desired.restore.nonce != latest.restored
    if latest.finished:
        return not restoring
    return latest.run == desired.run and latest.closed()


def workers_needed(latest: Latest, desired: Desired, running: int) -> int:
    """Return how many workers must run: those with ordinals below this number.

    ``running`` is the number that runs now. Workers are added first. They are removed last: when
    the smaller number is committed, all members run under it, its output is published, and the
    leader is one of those that stay.
    """
    if is_over(latest, desired):
        return 0
    leader = 0 if latest.leader is None else latest.leader.ordinal
    settled = latest.settled == latest.version and latest.workers in (0, desired.workers)
    if settled and leader < desired.workers:
        return desired.workers
    # Not settled: a worker that has left the committed table may still have output to publish.
    return max(desired.workers, latest.workers, leader + 1, running)


SILENT_POD_S = 5.0  # a keeper that reports more often ends and restarts its engine by itself


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A worker's pod as the API server shows it; ``ending``: its deletion was asked for."""

    name: str
    uid: str
    ending: bool = False


def to_replace(latest: Latest, status: JobStatus | None, pods: Iterable[PodSeen]) -> list[PodSeen]:
    """List the pods to delete, each with its uid as the precondition of the deletion.

    A pod is listed under three conditions, whatever its name. A lost life of an engine ran in it.
    It has announced no newer life. Its keeper has been silent towards a leader that listens.
    ``status`` must have been read after ``latest``. A silent pod that is already ending is listed,
    too: its node may be gone, and then only a deletion without grace frees its name.
    """
    if status is None or status.term != latest.term or status.listening_s < SILENT_POD_S:
        return []
    speaks = {w.pod for w in status.workers if w.pod and w.silent_s < SILENT_POD_S}
    newest = {w.pod: w.incarnation for w in status.workers if w.pod}
    given_up = {
        lost.pod
        for lost in latest.lost
        if lost.pod and lost.pod not in speaks and newest.get(lost.pod, "") in ("", lost.incarnation)
    }
    return [pod for pod in pods if pod.uid in given_up]
