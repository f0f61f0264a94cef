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


SILENT_POD_S = 5.0  # a keeper that speaks more often ends and restarts its engine by itself


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A worker's pod as the API server shows it; ``ending``: its deletion was asked for."""

    name: str
    uid: str
    ending: bool = False


def to_replace(latest: Latest, status: JobStatus | None, pods: Iterable[PodSeen]) -> list[PodSeen]:
    """List the pods to delete, each with its uid as the precondition of the deletion.

    Only the pod that a lost life ran in, whatever its name; only while it has announced no newer
    life; and only if its keeper has been silent towards a leader that listens. ``status`` must
    have been read after ``latest``. A pod that is ending already is listed when it is silent too:
    its node may be gone, and then only a deletion without grace frees its name.
    """
    if status is None or status.term != latest.term or status.listening_s < SILENT_POD_S:
        return []
    speaks = {w.pod for w in status.workers if w.pod and w.silent_s < SILENT_POD_S}
    newest = {w.pod: w.incarnation for w in status.workers if w.pod}
    given_up = {
        lost.pod
        for lost in latest.lost
        if lost.pod
        and lost.pod not in speaks
        and newest.get(lost.pod, "") in ("", lost.incarnation)
    }
    return [pod for pod in pods if pod.uid in given_up]
