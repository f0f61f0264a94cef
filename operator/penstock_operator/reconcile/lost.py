"""Replaces the pods of workers that the leader has given up, whose node does not answer.

A pod on a lost node stays in the API server's view until its toleration ends, and then until the
node is back: nobody else would make room for its successor. The leader's word, the pod's uid and
the keeper's silence together say that it is safe; a process that still runs there is fenced off.

A pod that was put on a node just lost never starts, so the leader never hears of it: it is known
by its deletion, which no kubelet carries out.
"""

from penstock.contract.latest import Latest
from penstock.contract.replacing import SILENT_POD_S, PodSeen, to_replace
from penstock_operator.api.observed import Observed, PodView
from penstock_operator.reconcile.decision import Delete, Draft

STALE_S = 30.0
OVERDUE_S = 15.0  # a kubelet that lives ends a pod within seconds of its grace period


def replace_lost(seen: Observed, latest: Latest, draft: Draft) -> None:
    """Delete the pods of lost lives, by uid and without their grace period."""
    own = [p for p in seen.pods if p.owned]
    pods = [PodSeen(p.name, p.uid, p.deleting) for p in own]
    given_up = to_replace(latest, seen.running, pods)
    for found in given_up:
        draft.do(Delete("Pod", found.name, found.uid, now=True))
        draft.tell("WorkerReplaced", f"{found.name} ({found.uid}) was given up by the leader")
    told = {found.uid for found in given_up}
    for left in (p for p in own if p.deleting and p.uid not in told | _speaking(seen)):
        _end_overdue(seen, left, draft)


def _end_overdue(seen: Observed, left: PodView, draft: Draft) -> None:
    due = left.due + OVERDUE_S
    if seen.now < due:
        draft.again(due - seen.now)
        return
    draft.do(Delete("Pod", left.name, left.uid, now=True))
    draft.tell("WorkerReplaced", f"{left.name} ({left.uid}) should have ended: its node is silent")


def _speaking(seen: Observed) -> set[str]:
    """What the leader says counts while it says something: it may be lost too."""
    running = seen.running
    if running is None or seen.now - running.time_us / 1e6 > STALE_S:
        return set()
    return {w.pod for w in running.workers if w.pod and w.silent_s < SILENT_POD_S}
