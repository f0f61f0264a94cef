"""Replaces the pods of workers that the leader has given up, whose node does not answer.

A pod on a lost node stays in the API server's view until its toleration ends, and then until the
node is back: nobody else would make room for its successor. The leader's word, the pod's uid and
the keeper's silence together say that it is safe; a process that still runs there is fenced off.
"""

from penstock.contract.latest import Latest
from penstock.contract.replacing import PodSeen, to_replace
from penstock_operator.api.observed import Observed
from penstock_operator.reconcile.decision import Delete, Draft


def replace_lost(seen: Observed, latest: Latest, draft: Draft) -> None:
    """Delete the pods of lost lives, by uid and without their grace period."""
    pods = [PodSeen(p.name, p.uid, p.deleting) for p in seen.pods]
    for found in to_replace(latest, seen.running, pods):
        draft.do(Delete("Pod", found.name, found.uid, now=True))
        draft.tell("WorkerReplaced", f"{found.name} ({found.uid}) was given up by the leader")
