"""Controls the workers: the size of the StatefulSet, ``-desired``, and pods on lost nodes.

Two operators may act at the same time, one of them after stale reads. These rules make a shrink
safe:

- A write of the StatefulSet or of ``-desired`` names the version that was read.
- ``-latest`` is read after both.
- The StatefulSet and ``-desired`` each hold a number, the **fence**. The number of workers in
  ``-desired`` changes only together with its fence, and only after the StatefulSet got that fence.

Example: operator A adds workers. A writes the StatefulSet first, with the next fence, and this
changes the StatefulSet's ``resourceVersion``. Operator B has read the StatefulSet before and still
wants fewer workers. B's write names the old version, so the API server refuses it.

A scale to zero is always safe: the job continues from the committed checkpoint.

A pod on a lost node stays in the API server until its toleration ends, and then until the node
comes back. The StatefulSet cannot create its successor before. The operator deletes such a pod when
the leader has given the worker up, has named the uid of this pod, and the keeper is silent. A
process that still runs in the pod is fenced.

A pod that was scheduled to a node just before the node was lost never starts, so the leader never
hears from it. Such a pod shows that it is being deleted, but no kubelet completes the deletion.
"""

from functools import lru_cache

from penstock.base.limits import ANSWERS_MAX
from penstock.base.values import replace
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.latest import Desired, Latest, Request, Restore
from penstock.contract.schemes import Choices
from penstock.contract.streamjob import UpgradeMode
from penstock.contract.streamjob_status import Pending
from penstock.contract.worker_rules import SILENT_POD_S, PodSeen, to_replace, workers_needed
from penstock_operator.api.observed import DesiredView, Observed, PodView, SetView
from penstock_operator.api.plain import Object
from penstock_operator.reconcile import snapshots
from penstock_operator.reconcile.accept import SPECS_KEPT, Accepted, requested_restore, stateless_restore
from penstock_operator.reconcile.actions import (
    Apply,
    Create,
    DecisionBuilder,
    Delete,
    Scale,
    WriteDesired,
)
from penstock_operator.reconcile.certificates import trust_line_to_start
from penstock_operator.reconcile.lifecycle import JobPhase, run_name, run_parts
from penstock_operator.resources.target import Target, content_hash, with_applied_hash
from penstock_operator.resources.workload import stateful_set

STALE_S = 30.0  # a status of the leader that is older does not count
OVERDUE_S = 15.0  # a live kubelet ends a pod within seconds after its grace period


def reconcile_workers(
    seen: Observed,
    accepted: Accepted,
    phase: JobPhase,
    pending: Pending | None,
    builder: DecisionBuilder,
) -> None:
    """Add the writes of this phase to ``builder``."""
    latest = seen.latest.value if seen.latest is not None else None
    if latest is None or (seen.desired is None and phase is not JobPhase.TERMINATE):
        return
    match phase:
        case JobPhase.START if accepted.target is not None:
            _start(seen, accepted, accepted.target, builder)
        case JobPhase.RUN if accepted.target is not None and seen.stateful_set is not None:
            _run(seen, accepted.target, seen.stateful_set, builder)
        case JobPhase.STOP if seen.desired is not None:
            _stop(seen.desired, pending, builder, savepoint=_wants_savepoint(seen, accepted))
            _scale_up_to_committed(seen.stateful_set, latest, builder)
        case JobPhase.TERMINATE if seen.stateful_set is not None and seen.stateful_set.replicas > 0:
            current = seen.stateful_set
            builder.do(Scale(0, current.fence, current.version))
        case _:
            return


def initial_desired(seen: Observed, target: Target, latest: Latest, latest_uid: str) -> WriteDesired:
    """Return the write that creates ``-desired``: for a new job, or after somebody deleted or damaged it.

    Afterwards it repeats the committed number of workers and the committed run. So it neither
    rescales the job nor opens a closed job again.
    """
    current = seen.stateful_set
    run = latest.run or run_name(1, int(latest.epoch), target.digest)
    if current is not None and not latest.closed() and run_parts(run)[2] != current.digest[:8]:
        run = run_name(run_parts(run)[0] + 1, int(latest.epoch), current.digest)
    wanted = Desired(
        latest.workers or target.spec.replicas, run=run, partition=_schemes(target), rebalance=_rebalance(target)
    )
    damaged = seen.damaged_desired
    fences = (1, 0 if current is None else current.fence, 0 if damaged is None else damaged.fence)
    return WriteDesired(wanted, max(fences), latest_uid, "" if damaged is None else damaged.version)


def _start(seen: Observed, accepted: Accepted, target: Target, builder: DecisionBuilder) -> None:
    assert seen.desired is not None
    assert seen.latest is not None
    latest, now = seen.latest.value, seen.desired
    assert latest is not None
    asked = snapshots.snapshot_requests(seen)
    run = _run_to_start(now, latest, target)
    wanted = Desired(
        target.spec.replicas,
        # An answered request stays until a status has its answer. New requests are added in RUN.
        requests=tuple(r for r in now.value.requests if r in asked),
        restore=_restore_to_start(now, accepted, latest, run),
        run=run,
        partition=_schemes(target),
        rebalance=_rebalance(target),
    )
    fence = now.fence
    if wanted != now.value:
        fence += 1
        builder.do(WriteDesired(wanted, fence, now.latest_uid, now.version))
    manifest, applied = stateful_set_to_apply(target, target.spec.replicas, fence, trust_line_to_start(seen))
    if seen.stateful_set is None:
        # Created, never applied: after a stale read it must not overwrite a newer StatefulSet.
        builder.do(Create(manifest))
    else:
        builder.do(Apply(manifest, applied, seen.stateful_set.version, seen.stateful_set.uid))


def stateful_set_to_apply(target: Target, replicas: int, fence: int, line: int) -> tuple[Object, str]:
    """Return the StatefulSet, and the hash of its content without size, fence and trust line."""
    applied = _set_hash(target)
    return with_applied_hash(stateful_set(target, replicas, fence, line), applied), applied


@lru_cache(SPECS_KEPT)
def _set_hash(target: Target) -> str:
    return content_hash(stateful_set(target, 0, 0, 0))


def _run_to_start(now: DesiredView, latest: Latest, target: Target) -> str:
    """Name the run. A new name resets the end of the last run, and records the first epoch."""
    number, _, digest = run_parts(now.value.run)
    closed = latest.closed() and latest.run == now.value.run
    if closed or digest != target.digest[:8]:
        return run_name(number + 1, int(latest.epoch), target.digest)
    return now.value.run


def _restore_to_start(now: DesiredView, accepted: Accepted, latest: Latest, run: str) -> Restore | None:
    """Return the restore that the spec asks for, or that of an upgrade in mode Stateless."""
    assert accepted.target is not None
    asked = requested_restore(accepted, accepted.target, latest)
    wanted = accepted.target.spec.restore
    elsewhere = asked is not None and wanted is not None and not wanted.newest
    if run_parts(run)[2] == run_parts(now.value.run)[2]:
        return asked or now.value.restore  # a start that goes on, perhaps behind one that was interrupted
    fresh = None if elsewhere else stateless_restore(accepted.target, latest, run)
    return fresh or asked  # what another spec asked for, and was never done, ends with it


def _run(seen: Observed, target: Target, current: SetView, builder: DecisionBuilder) -> None:
    assert seen.desired is not None
    assert seen.latest is not None
    now, latest = seen.desired, seen.latest.value
    assert latest is not None
    wanted = replace(
        now.value,
        requests=snapshots.snapshot_requests(seen),
        run=_run_to_reopen(now, latest, target),
        partition=_schemes(target),
        rebalance=_rebalance(target),
    )
    workers = target.spec.replicas
    if current.fence < now.fence:  # somebody deleted the StatefulSet, and it was created again
        builder.do(Scale(current.replicas, now.fence, current.version))
    elif now.fence < current.fence:  # the operator was interrupted between the two writes
        wanted = replace(wanted, workers=workers)
        builder.do(WriteDesired(wanted, current.fence, now.latest_uid, now.version))
    elif now.value.workers != workers:
        wanted = replace(wanted, workers=workers)
        builder.do(Scale(max(current.replicas, workers), current.fence + 1, current.version))
        builder.do(WriteDesired(wanted, current.fence + 1, now.latest_uid, now.version))
    else:
        if wanted != now.value:
            builder.do(WriteDesired(wanted, now.fence, now.latest_uid, now.version))
        needed = workers_needed(latest, now.value, current.replicas)
        # A failed job keeps its pods, because their logs say why it failed.
        if needed != current.replicas and not latest.closed():
            builder.do(Scale(needed, current.fence, current.version))


def _schemes(target: Target) -> Choices | Absent:
    """Return the schemes that the spec asks for. Whether the job has them is for the leader to judge."""
    return target.spec.choices or ABSENT


def _rebalance(target: Target) -> int | Absent:
    """Return the number of the request to balance."""
    nonce = target.spec.rebalance_nonce
    return ABSENT if nonce is None else nonce


def _run_to_reopen(now: DesiredView, latest: Latest, target: Target) -> str:
    """Return a new run when the job has stopped for a suspension that the user then withdrew."""
    stopped = latest.stopped and not latest.finished and latest.failure is None
    return _run_to_start(now, latest, target) if stopped else now.value.run


def _wants_savepoint(seen: Observed, accepted: Accepted) -> bool:
    """Return whether a stop takes a savepoint. An upgrade without state only publishes all output."""
    target = accepted.target
    if target is None or target.spec.suspend or seen.job.deleting_since is not None:
        return True
    return target.spec.upgrade.mode is not UpgradeMode.STATELESS


def _stop(now: DesiredView, pending: Pending | None, builder: DecisionBuilder, *, savepoint: bool) -> None:
    if pending is None or pending.snapshot is None:
        return  # its name is written into the status first; the next reconcile asks for it
    request = Request(pending.snapshot, "stop", pending.snapshot if savepoint else None)
    if request not in now.value.requests[:ANSWERS_MAX]:
        others = tuple(r for r in now.value.requests if r.kind != "stop")
        last = ANSWERS_MAX - 1  # the leader looks at no more requests than ANSWERS_MAX
        wanted = replace(now.value, requests=(*others[:last], request, *others[last:]))
        builder.do(WriteDesired(wanted, now.fence, now.latest_uid, now.version))


def _scale_up_to_committed(current: SetView | None, latest: Latest, builder: DecisionBuilder) -> None:
    """Scale up to the committed number of workers. A savepoint needs all workers that hold state."""
    if current is not None and current.replicas < latest.workers:
        builder.do(Scale(latest.workers, current.fence, current.version))


def set_is_current(seen: Observed, target: Target) -> bool:
    """Return whether the StatefulSet was applied with the template that this operator makes."""
    current = seen.stateful_set
    if current is None or current.digest != target.digest:
        return True  # the template of another spec only changes in a start
    key = next((k for k in seen.children if k.kind == "StatefulSet"), None)
    return key is None or seen.children[key].applied == _set_hash(target)


def reapply_stateful_set(seen: Observed, target: Target, builder: DecisionBuilder) -> None:
    """Apply the StatefulSet again when others changed it, or when this operator is newer."""
    current = seen.stateful_set
    if current is None or current.digest != target.digest:
        return
    if seen.refresh or not set_is_current(seen, target):
        manifest, applied = stateful_set_to_apply(target, current.replicas, current.fence, current.line or 1)
        builder.do(Apply(manifest, applied, current.version, current.uid))


def replace_lost_pods(seen: Observed, latest: Latest, builder: DecisionBuilder) -> None:
    """Delete the pods of lost workers, by uid and without their grace period."""
    own = [p for p in seen.pods if p.owned and not p.forced]
    pods = [PodSeen(p.name, p.uid, p.deleting) for p in own]
    given_up = to_replace(latest, seen.running, pods)
    for found in given_up:
        builder.do(Delete("Pod", found.name, found.uid, now=True))
        builder.tell("WorkerReplaced", f"{found.name} ({found.uid}) was given up by the leader")
    told = {found.uid for found in given_up}
    for left in (p for p in own if p.deleting and p.uid not in told | _heard_from(seen)):
        _delete_overdue_pod(seen, left, builder)


def _delete_overdue_pod(seen: Observed, left: PodView, builder: DecisionBuilder) -> None:
    due = left.due + OVERDUE_S
    if seen.now < due:
        builder.again(due - seen.now)
        return
    builder.do(Delete("Pod", left.name, left.uid, now=True))
    builder.tell("WorkerReplaced", f"{left.name} ({left.uid}) should have ended: its node does not answer")


def _heard_from(seen: Observed) -> set[str]:
    """Return the uids of the pods that the leader heard from, unless the leader is silent itself."""
    running = seen.running
    if running is None or seen.now - running.time_us / 1e6 > STALE_S:
        return set()
    return {w.pod for w in running.workers if w.pod and w.silent_s < SILENT_POD_S}
