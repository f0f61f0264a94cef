"""Which spec is to run: the newest, or the last good one where the newest cannot be taken.

::

    the newest spec ── is refused ──────────────────────> the running spec, Accepted=False
        ├───────────── was given up at this generation ─> the running or last stable spec, Stalled
        └───────────── is good ─────────────────────────> the newest spec

Restores, once per nonce: those that a spec asks for, and those of the upgrade mode Stateless.

The leader keeps one nonce, that of its last restore. An upgrade without state makes one up, which
ends with the spec's own: what the spec asked for before is not done again after it.
"""

import json
from dataclasses import dataclass
from functools import lru_cache

from penstock.base.errors import ConfigError, PeerError
from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.codec import parsed
from penstock.contract.job_reader import read_stream_job
from penstock.contract.latest import Latest, Restore
from penstock.contract.schema import API_VERSION, Plain
from penstock.contract.settings import Autoscaling
from penstock.contract.streamjob import KIND, Spec, UpgradeMode
from penstock.contract.streamjob_status import ConditionType, Reason
from penstock.contract.streamsnapshot import SnapshotState
from penstock_operator.api.classes import digest_of, refused
from penstock_operator.api.folders import folder_at
from penstock_operator.api.observed import JobView, Observed
from penstock_operator.resources.target import Owner, RestoreSource, Target

TWO_AUTOSCALERS = (
    "a HorizontalPodAutoscaler has set spec.replicas, so spec.autoscaling is off: remove one of "
    "them; without the HorizontalPodAutoscaler, kubectl scale to another number ends this"
)
SPECS_KEPT = 8192  # parsed specs: every reconcile of a job needs its own one, and jobs are reconciled in turn
HELD = (Reason.ROLLED_BACK, Reason.SAVEPOINT_FAILED)
STATELESS = "stateless "  # the prefix of a nonce that is not from a spec


@dataclass(frozen=True, slots=True)
class Accepted:
    """The spec that is to run, and what the condition Accepted says about the newest one.

    - ``target``: what is to run; None while no spec is good.
    - ``reason``, ``message``: of the condition Accepted.
    - ``given_up``: why the newest spec was given up (a reason of Stalled).
    - ``restore_path``: the folder to restore, as a keeper sees it.
    - ``is_newest``: the newest spec was not refused.
    - ``bounds``: of the autoscaler; None when it is off.
    """

    target: Target | None
    reason: Reason
    message: str
    given_up: Reason | None = None
    restore_path: str | None = None
    is_newest: bool = True
    bounds: Autoscaling | None = None


class SpecRefusedError(Exception):
    """The newest spec is refused."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Take what the condition Accepted will say."""
        super().__init__(message)
        self.reason = reason
        self.message = message


def owner_of(job: JobView) -> Owner:
    """Return the job as the owner of its objects."""
    return Owner(job.name, job.namespace, job.uid)


def accept(seen: Observed) -> Accepted:
    """Choose the spec that is to run."""
    try:
        found = _newest(seen)
    except SpecRefusedError as error:
        return Accepted(running_target(seen), error.reason, error.message, is_newest=False)
    given_up = reason_given_up(seen)
    if given_up is None:
        return found
    kept = last_stable_target(seen) if given_up is Reason.ROLLED_BACK else running_target(seen)
    return replace(found, target=_without_restore(kept or found.target), given_up=given_up, restore_path=None)


def _without_restore(target: Target | None) -> Target | None:
    """Return the target without its restore: a spec that comes back has had it."""
    return target and replace(target, spec=replace(target.spec, restore=None))


def reason_given_up(seen: Observed) -> Reason | None:
    """Return why the newest spec was given up; None when it was not. A new generation is tried."""
    stalled = seen.job.status.condition(ConditionType.STALLED)
    if stalled is None or stalled.observed_generation != seen.job.generation:
        return None
    return next((r for r in HELD if r == stalled.reason), None)


def requested_target(seen: Observed) -> Target | None:
    """Return what the newest spec asks for, even if it is refused; None when it is not readable."""
    return _target(seen, seen.job.spec_text)


def running_target(seen: Observed) -> Target | None:
    """Return the spec that the workers run, with the wanted number of workers."""
    current = seen.stateful_set
    if current is None or current.config not in seen.configs:
        return None
    target = _target(seen, _text(seen.configs[current.config]))
    if target is None:
        return None
    workers = target.spec.replicas if seen.desired is None else seen.desired.value.workers
    stopped = seen.latest is not None and seen.latest.value is not None and seen.latest.value.stopped
    suspended = stopped or target.spec.suspend or _asks_to_suspend(seen.job)
    spec = replace(target.spec, replicas=workers, suspend=current.replicas == 0 and suspended)
    return replace(target, spec=spec, digest=current.digest)


def _asks_to_suspend(job: JobView) -> bool:
    """Read from the newest spec, whose other fields may be invalid, whether no worker is to run."""
    return isinstance(job.spec, dict) and job.spec.get("suspend") is True


def last_stable_target(seen: Observed) -> Target | None:
    """Return the last spec that ran and completed a checkpoint, with the number wanted now."""
    kept = seen.job.status.last_stable
    if kept is None:
        return None
    for plain in seen.configs.values():
        if digest_of(plain) == kept.digest:
            target = _target(seen, _text(plain))
            newest = _target(seen, seen.job.spec_text)
            if target is None or newest is None:
                return target
            now = newest.spec
            replicas = replicas_of(seen, now)
            spec = replace(target.spec, replicas=replicas, suspend=now.suspend)
            return replace(target, spec=spec)
    return None


def _text(spec: Plain) -> str:
    return json.dumps(spec, sort_keys=True)


def _target(seen: Observed, spec: str) -> Target | None:
    try:
        return target_of(owner_of(seen.job), spec)
    except ConfigError:
        return None


@lru_cache(SPECS_KEPT)
def target_of(owner: Owner, text: str) -> Target:
    """Read a spec (JSON) as a target. Raises ConfigError with all its problems."""
    spec, plain = _read(owner.name, owner.namespace, text)
    return Target(owner, spec, plain, digest_of(plain))


@lru_cache(SPECS_KEPT)
def _read(name: str, namespace: str, text: str) -> tuple[Spec, Plain]:
    try:
        plain = parsed(text)
    except PeerError as error:
        raise ConfigError(f"the object: spec: {error}") from error
    found: Plain = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": plain,
    }
    return read_stream_job(found, cluster=True).spec, plain


def _newest(seen: Observed) -> Accepted:
    job = seen.job
    try:
        target = target_of(owner_of(job), job.spec_text)
    except ConfigError as error:
        raise SpecRefusedError(Reason.SPEC_INVALID, str(error)) from error
    target = _with_replicas(target, replicas_of(seen, target.spec))
    _check_changes(seen, target)
    _check_claim(seen, target)
    source, path = _restore(seen, target)
    if source is not None:
        target = replace(target, restore=source)
    bounds = target.spec.autoscaling
    if bounds is not None and job.scaled_by_hpa:
        return Accepted(target, Reason.AUTOSCALER_CONFLICT, TWO_AUTOSCALERS, restore_path=path)
    return Accepted(target, Reason.VALID, "", restore_path=path, bounds=bounds)


@lru_cache(SPECS_KEPT)
def _with_replicas(target: Target, replicas: int) -> Target:
    """Return the target with this number of workers. Equal arguments give the same object.

    Caches of other functions have the target as their key.
    """
    if target.spec.replicas == replicas:
        return target
    return replace(target, spec=replace(target.spec, replicas=replicas))


def _check_changes(seen: Observed, target: Target) -> None:
    current = seen.stateful_set
    if current is None or current.config not in seen.configs:
        return
    changed = refused(seen.configs[current.config], target.plain)
    if changed:
        fields = ", ".join(f"spec.{path}" for path in changed)
        raise SpecRefusedError(
            Reason.SPEC_INVALID,
            f"{fields} cannot change in the life of a job: the last good spec goes on; change "
            "back, or create a job under another name that restores a savepoint of this one",
        )


def _check_claim(seen: Observed, target: Target) -> None:
    if seen.claim is not None and "ReadWriteMany" not in seen.claim.access_modes:
        modes = ", ".join(seen.claim.access_modes) or "none"
        raise SpecRefusedError(
            Reason.VOLUME_NOT_READ_WRITE_MANY,
            f"claim {target.claim} has the access modes {modes}: all workers write checkpoints, "
            "which needs ReadWriteMany",
        )


def _restore(seen: Observed, target: Target) -> tuple[RestoreSource | None, str | None]:
    """Find the folder to restore: what to mount, and its path in a container."""
    wanted = target.spec.restore
    if wanted is None or wanted.empty or wanted.newest or last_restore_nonce(seen) == wanted.nonce:
        return None, None
    path = wanted.path
    if wanted.snapshot_ref is not None:
        found = [s for s in seen.snapshots if s.name == wanted.snapshot_ref]
        path = found[0].status.path if found else None
        state = found[0].status.state if found else None
        if path is None or state is not SnapshotState.COMPLETED:
            raise SpecRefusedError(Reason.RESTORE_NOT_FOUND, f"StreamSnapshot {wanted.snapshot_ref} {_lacks(state)}")
    assert path is not None, "the newest checkpoint needs none"
    return restore_source(target, path)


def _lacks(state: SnapshotState | None) -> str:
    """Say why no job can be restored from a StreamSnapshot in this state (None: there is none)."""
    if state is None:
        return "does not exist"
    if state is SnapshotState.COMPLETED:
        return "is a checkpoint, whose files the job removes after a while: take one of type Savepoint"
    return f"is {state}, not Completed"


def last_restore_nonce(seen: Observed) -> str:
    """Return the nonce of the last restore that was carried out, empty when there was none."""
    latest = seen.latest.value if seen.latest is not None else None
    return "" if latest is None else nonce_of(latest)


def nonce_of(latest: Latest) -> str:
    """Return the nonce of the last restore that a spec asked for, empty when there was none."""
    if latest.restored.startswith(STATELESS):
        return latest.restored.split(" ", 2)[2]
    return latest.restored


def restore_source(target: Target, path: str) -> tuple[RestoreSource | None, str]:
    """Turn a folder on the claim into what to mount (None: the job's own) and its path in a pod.

    Raises SpecRefusedError for a path outside the namespace's folders, and for ``.`` or ``..``.
    """
    owner = target.owner
    folder = folder_at(owner.namespace, path)
    if folder is None:
        raise SpecRefusedError(
            Reason.RESTORE_NOT_FOUND,
            f"spec.restore.path {path!r}: expected {owner.namespace}/JOB/savepoints/NAME on the "
            "claim of the checkpoints, as status.path of a StreamSnapshot shows it",
        )
    if folder.job == owner.name:
        return None, folder.path
    source = RestoreSource(target.claim, f"{folder.namespace}/{folder.job}")
    return source, f"{pod.RESTORE_FOLDER}/{folder.inside}"


def wants_restore(target: Target, latest: Latest) -> bool:
    """Say whether the spec asks for a restore that was not carried out yet, by its nonce."""
    wanted = target.spec.restore
    return wanted is not None and wanted.nonce != nonce_of(latest)


def requested_restore(accepted: Accepted, target: Target, latest: Latest) -> Restore | None:
    """Return the restore that the spec asks for; None when it was done, or has no folder."""
    wanted = target.spec.restore
    if wanted is None or not wants_restore(target, latest):
        return None
    if accepted.restore_path is None and not (wanted.empty or wanted.newest):
        return None
    return Restore(
        wanted.nonce,
        path=accepted.restore_path,
        allow_output_replay=wanted.allow_output_replay,
        drop_unpublished=wanted.drops_unpublished,
        empty=wanted.empty is True,
        drop_state=wanted.dropped,
        unpublished=wanted.sinks,
    )


def stateless_restore(target: Target, latest: Latest, run: str) -> Restore | None:
    """Return the restore of an upgrade in mode Stateless; None when there is no state to drop.

    The leader keeps only the nonce of its last restore. The nonce made here therefore ends with the
    spec's own nonce: what the spec asked for before is not done again afterwards.
    """
    if target.spec.upgrade.mode is not UpgradeMode.STATELESS or latest.max_epoch == 0:
        return None
    wanted = target.spec.restore
    # A restore of the newest checkpoint says which part of it to drop. Here all of it is dropped.
    done = wanted.nonce if wanted is not None and wanted.newest else nonce_of(latest)
    return Restore(
        f"{STATELESS}{run} {done}",
        allow_output_replay=True,
        drop_unpublished=wanted is not None and wanted.drops_unpublished,
        empty=True,
        unpublished=() if wanted is None else wanted.sinks,
    )


def replicas_of(seen: Observed, spec: Spec) -> int:
    """Return how many workers are wanted: the autoscaler's number if it is on, else the spec's.

    The autoscaler's number is in the status; the bounds are those of the newest spec. Without a
    number in the status the present number of workers counts, because a status can be lost.
    """
    if spec.autoscaling is None or seen.job.scaled_by_hpa:
        return spec.replicas
    chosen = seen.job.status.autoscaling
    there = 0 if seen.desired is None else seen.desired.value.workers
    replicas = there or spec.replicas if chosen is None else chosen.replicas
    return clamped(replicas, spec.autoscaling)


def clamped(replicas: int, bounds: Autoscaling) -> int:
    """Return the nearest number within the bounds."""
    return min(max(replicas, bounds.min_replicas), bounds.max_replicas)
