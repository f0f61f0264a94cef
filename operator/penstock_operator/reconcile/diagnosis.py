"""Why a job does not come up: the first cause that a person can act on, in words and one reason."""

import json
from dataclasses import dataclass

from penstock.base.errors import PeerError
from penstock.base.units import span_text
from penstock.contract import pod
from penstock.contract.codec import decode
from penstock.contract.latest import Death, Deaths, Latest
from penstock.contract.reports import DOES_NOT_LOAD, RESTARTS_EXHAUSTED
from penstock.contract.streamjob_status import Reason
from penstock.contract.streamjob_status_fields import fitting
from penstock_operator.api.observed import ContainerView, Observed, PodView
from penstock_operator.resources.target import Target

IMAGE_WAITS = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
    }
)
START_WAITS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"}
)
READ_ONLY = ("read-only file system", "subpath", "permission denied")
TERMINATIONS = {
    pod.CONFIG_INVALID: Reason.CRASH_LOOP,
    pod.VOLUME_UNUSABLE: Reason.CLAIM_READ_ONLY,
    pod.TRUST_INVALID: Reason.CRASH_LOOP,
    pod.STATE_UNUSABLE: Reason.RESTORE_FAILED,
    pod.JOB_INVALID: Reason.JOB_INVALID,
    pod.CRASHED: Reason.CRASH_LOOP,
}
# How the texts of a failed or waiting leader begin or what they name, and what that is.
FAILURES = (
    (RESTARTS_EXHAUSTED, Reason.CRASH_LOOP),
    ("MetadataMissing", Reason.METADATA_MISSING),
    ("savepoint cannot be restored", Reason.RESTORE_FAILED),
    ("is not retained", Reason.RESTORE_FAILED),
    ("restore.dropState", Reason.RESTORE_FAILED),
    ("restore.unpublished: Drop", Reason.OUTPUT_UNPUBLISHED),
    ("allowOutputReplay", Reason.RESTORE_FAILED),
    (DOES_NOT_LOAD, Reason.JOB_INVALID),
    ("ConfigError", Reason.JOB_INVALID),
)
CRASHES = 3  # deaths of engines within the window of spec.restart
PATIENCE_S = 60.0  # a pod may need so long for what then proves to be no trouble
QUOTA_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Trouble:
    """A reason of the condition Stalled, and what to do about it."""

    reason: Reason
    message: str


def diagnose(seen: Observed, target: Target | None, latest: Latest | None) -> Trouble | None:
    """Return the first cause, the nearest to the user's hands first; None when all is well."""
    if latest is not None and latest.failure is not None:
        return _failed(latest.failure)
    if target is not None and seen.claim is None and _needs_claim(target):
        return Trouble(
            Reason.CLAIM_MISSING,
            f"PersistentVolumeClaim {target.claim} (spec.checkpoint.volume.claimName) does not "
            "exist: create it; the workers start by themselves then",
        )
    wanted = [p for p in seen.pods if not p.deleting]
    for found in (_pod_trouble(p, seen.now) for p in sorted(wanted, key=lambda p: p.ordinal)):
        if found is not None:
            return found
    if seen.set_trouble and len(wanted) < (seen.stateful_set.replicas if seen.stateful_set else 0):
        return Trouble(Reason.QUOTA_EXCEEDED, f"pods cannot be made: {seen.set_trouble}")
    if latest is not None and latest.deaths.newest and _crashes(latest.deaths):
        return Trouble(Reason.CRASH_LOOP, crash_text(latest.deaths, latest.deaths.newest[-1]))
    if latest is not None and latest.stalled:
        unpublished = "publish" in latest.stalled
        reason = Reason.OUTPUT_UNPUBLISHED if unpublished else Reason.WAITING_FOR_WORKERS
        return Trouble(reason, latest.stalled)
    return None


def _crashes(deaths: Deaths) -> bool:
    """Say whether engines die again and again: one or two deaths are what recovery is for."""
    return deaths.count >= min(CRASHES, deaths.attempts)


def crash_text(deaths: Deaths, last: Death) -> str:
    """Say how often engines died, how many restarts are left, and how the newest one died."""
    window = span_text(deaths.window_s)
    return (
        f"engines died {deaths.count} times within {window}, and after {deaths.attempts} restarts "
        f"(spec.restart.attempts) the next death fails the job; the last one, of worker "
        f"{last.ordinal}: {last.reason}"
    )


def _needs_claim(target: Target) -> bool:
    volume = target.spec.checkpoint.volume
    return volume is not None and volume.claim_name is not None


def _failed(text: str) -> Trouble:
    reason = next((r for words, r in FAILURES if words in text), Reason.JOB_FAILED)
    return Trouble(reason, fitting(text))


def _pod_trouble(found: PodView, now: float) -> Trouble | None:
    if found.unschedulable:
        missing = "persistentvolumeclaim" in found.unschedulable and "not found" in (
            found.unschedulable
        )
        reason = Reason.CLAIM_MISSING if missing else Reason.UNSCHEDULABLE
        return Trouble(reason, f"pod {found.name} cannot be scheduled: {found.unschedulable}")
    for container in found.containers:
        trouble = _container_trouble(found, container)
        if trouble is not None:
            return trouble
    if found.phase == "Pending" and found.created and now - found.created > PATIENCE_S:
        waits = next((c.waiting for c in found.containers if c.waiting), "nothing that it tells")
        return Trouble(
            Reason.WAITING_FOR_WORKERS,
            f"pod {found.name} has been pending for {now - found.created:.0f} s ({waits}); "
            f"kubectl describe pod {found.name} shows its events",
        )
    return None


def _container_trouble(found: PodView, container: ContainerView) -> Trouble | None:
    place = f"pod {found.name}, container {container.name}"
    if container.waiting in IMAGE_WAITS:
        text = container.waiting_message or container.waiting
        return Trouble(
            Reason.IMAGE_PULL_FAILED, f"{place}: {text}: correct spec.image or imagePullSecrets"
        )
    ended = container.ended_message.strip()
    if container.waiting in START_WAITS or (container.ended and container.restarts > 1):
        if container.waiting not in {"", "CrashLoopBackOff"}:
            return _not_created(place, container)
        termination = _termination(ended)
        if termination is not None:
            return Trouble(
                TERMINATIONS.get(termination.reason, Reason.CRASH_LOOP),
                f"{place}: {termination.reason}: {termination.message}",
            )
        text = ended or f"exit status {container.exit_code}"
        return Trouble(Reason.CRASH_LOOP, f"{place} ended {container.restarts} times: {text}")
    return None


def _not_created(place: str, container: ContainerView) -> Trouble:
    text = container.waiting_message or container.waiting
    read_only = any(words in text.lower() for words in READ_ONLY)
    if read_only:
        advice = "the claim must be writable for the workers"
        return Trouble(Reason.CLAIM_READ_ONLY, f"{place}: {text}: {advice}")
    if "executable file not found" in text:
        advice = "spec.image is no Penstock worker image"
        return Trouble(Reason.CRASH_LOOP, f"{place}: {text}: {advice}")
    return Trouble(Reason.CRASH_LOOP, f"{place}: {text}")


def _termination(text: str) -> pod.Termination | None:
    line = text.splitlines()[-1] if text else ""
    try:
        return decode(pod.Termination, line.encode())
    except PeerError:
        pass
    try:
        plain = json.loads(line)
    except ValueError:
        return None
    if isinstance(plain, dict) and isinstance(plain.get("reason"), str):
        return pod.Termination(plain["reason"], str(plain.get("message", "")))
    return None
