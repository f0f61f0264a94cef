"""Which pods have to be deleted because the leader has given up what ran in them. Pure.

A pod that is lost with its node would otherwise stay for minutes, and a StatefulSet makes no other
of its name meanwhile. Deleting one that only seems lost costs a restart and nothing else: its
engine is fenced by the attempt, its keeper by the term.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.contract.latest import Latest
from penstock.contract.status import JobStatus

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
