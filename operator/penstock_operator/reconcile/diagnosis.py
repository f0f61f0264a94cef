"""Finds why a job is stalled: the first cause that a person can remove, with a reason and a text."""

from dataclasses import dataclass

from penstock.base.errors import PeerError
from penstock.base.units import span_text
from penstock.contract import pod
from penstock.contract.codec import decode, parsed
from penstock.contract.control_messages import (
    DOES_NOT_LOAD,
    NO_ROOM,
    OUT_OF_MEMORY,
    RESTARTS_EXHAUSTED,
)
from penstock.contract.latest import Death, Deaths, Latest
from penstock.contract.reader import clipped
from penstock.contract.status import UnlistedSource
from penstock.contract.streamjob_status import (
    ConditionType,
    Pending,
    Reason,
)
from penstock_operator.api.observed import ContainerView, Observed, PodView, Refusal
from penstock_operator.api.plain import seconds, stamp
from penstock_operator.reconcile.accept import Accepted
from penstock_operator.reconcile.lifecycle import (
    CHANGES,
    JobPhase,
    Lifecycle,
    deletion_message,
    failure_of,
    last_savepoint_failure,
    savepoint_refused,
)
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
START_WAITS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"})
READ_ONLY = ("read-only file system", "subpath", "permission denied")
TERMINATIONS = {
    pod.CONFIG_INVALID: Reason.CRASH_LOOP,
    pod.VOLUME_UNUSABLE: Reason.CLAIM_READ_ONLY,
    pod.TRUST_INVALID: Reason.CRASH_LOOP,
    pod.STATE_UNUSABLE: Reason.RESTORE_FAILED,
    pod.JOB_INVALID: Reason.JOB_INVALID,
    pod.CRASHED: Reason.CRASH_LOOP,
}
# If the failure that the leader wrote contains the words, this is the reason. The first match counts.
FAILURES = (
    (OUT_OF_MEMORY, Reason.ENGINE_OUT_OF_MEMORY),
    (RESTARTS_EXHAUSTED, Reason.CRASH_LOOP),
    ("MetadataMissing", Reason.METADATA_MISSING),
    ("savepoint cannot be restored", Reason.RESTORE_FAILED),
    ("is not retained", Reason.RESTORE_FAILED),
    ("restore.dropState", Reason.RESTORE_FAILED),
    ("restore.unpublished", Reason.OUTPUT_UNPUBLISHED),
    ("allowOutputReplay", Reason.RESTORE_FAILED),
    (DOES_NOT_LOAD, Reason.JOB_INVALID),
    ("ConfigError", Reason.JOB_INVALID),
)
# If the message about a refused pod contains the words, this is the reason.
POD_REFUSALS = (
    ("error looking up service account", Reason.SERVICE_ACCOUNT_MISSING),
    ("exceeded quota", Reason.QUOTA_EXCEEDED),
    ("failed quota", Reason.QUOTA_EXCEEDED),
)
BESIDES = "; besides ("  # in the message about a spec that was given up: the trouble of the one that runs
CRASHES = 3  # deaths of engines within the window of spec.restart
MEMORY_CRASHES = 2  # the same for out-of-memory kills, which repeat until the limit is raised
OUT_OF_MEMORY_KILL = "OOMKilled"  # the kubelet's reason for a container that was killed
PATIENCE_S = 60.0  # a healthy pod may be pending up to this time
LEADERLESS_S = 120.0  # an election, or the way to the next leader, takes seconds
REFUSAL_PATIENCE_S = 5.0  # a refusal that may pass is reported only after this time: about four tries
LEAVING_S = 600.0  # the kubelet ends a pod in the grace period that its template gives
CRASHED_LATELY_S = 600.0  # a container counts as healthy when its last crash is older than this


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason of the condition Stalled, and a message that says what to do."""

    reason: Reason
    message: str


def diagnose(seen: Observed, target: Target | None, latest: Latest | None) -> Problem | None:
    """Return the first cause that applies, None when no cause does. The order of the checks is fixed.

    A failure of the job comes first, then missing objects and refused writes, then pods, then workers that
    cannot read what is wanted, then deaths of engines, then full volumes, then sources that cannot be listed, then a
    missing leader, and last the leader's own text about a stall.
    """
    failure = None if latest is None else failure_of(seen, latest)
    if failure is not None:
        return _failed(failure)
    if target is not None and seen.claim is None and _needs_claim(target):
        return Problem(
            Reason.CLAIM_MISSING,
            f"PersistentVolumeClaim {target.claim} (spec.checkpoint.volume.claimName) does not "
            "exist: create it; then the workers start by themselves",
        )
    if seen.refusal is not None and _lasts(seen.refusal, seen.now):
        return _refused(seen.refusal)
    wanted = [p for p in seen.pods if not p.deleting]
    for found in (_pod_problem(p, seen.now) for p in sorted(wanted, key=lambda p: p.ordinal)):
        if found is not None:
            return found
    if seen.set_trouble and len(wanted) < (seen.stateful_set.replicas if seen.stateful_set else 0):
        return _no_pods(seen.set_trouble)
    if latest is None or latest.closed() or not _has_workers(seen):
        return None  # nobody leads, and what a leader has said is past
    if seen.running is not None and seen.running.unread:
        return _unread(seen.running.unread)
    if _crashes(seen, latest.deaths):
        return _crash_loop(latest.deaths, latest.deaths.newest[-1])
    if text := _full(seen, latest):
        return Problem(
            Reason.VOLUME_FULL,
            f"a volume is full: {text}: make it larger or remove files of yours; then the job continues by itself",
        )
    if seen.running is not None and seen.running.unlisted:
        return _unlisted(seen.running.unlisted)
    if (found := _without_leader(seen, wanted)) is not None:
        return found
    if latest.stalled:
        unpublished = "publish" in latest.stalled
        reason = Reason.OUTPUT_UNPUBLISHED if unpublished else Reason.WAITING_FOR_WORKERS
        return Problem(reason, latest.stalled)
    return None


def _lasts(found: Refusal, now: float) -> bool:
    return not found.transient or now - found.since >= REFUSAL_PATIENCE_S


def _refused(found: Refusal) -> Problem:
    quota = any(words in found.text for words in ("exceeded quota", "failed quota"))
    reason = Reason.QUOTA_EXCEEDED if quota else Reason.OBJECT_REFUSED
    return Problem(
        reason,
        f"the API server does not take {found.what}: {found.text}: correct the spec (most of a "
        "StatefulSet is spec.podTemplate, spec.env and spec.resources) or what refuses it; the "
        "operator tries again by itself",
    )


def _no_pods(text: str) -> Problem:
    reason = next((r for words, r in POD_REFUSALS if words in text), Reason.POD_REFUSED)
    advice = {
        Reason.SERVICE_ACCOUNT_MISSING: "create it, or correct spec.serviceAccountName",
        Reason.QUOTA_EXCEEDED: "raise the quota, lower spec.resources, or scale down",
    }.get(reason, "the namespace's admission refuses it: correct spec.podTemplate or the policy")
    return Problem(reason, f"pods cannot be made: {text}: {advice}")


def _full(seen: Observed, latest: Latest) -> str:
    """Return the leader's text about a full volume; empty when it reports none."""
    told = None if seen.running is None else seen.running.failure
    texts = [text for text in (told, latest.stalled) if text]
    return next((text for text in texts if _says_no_room(text)), "")


def _unread(text: str) -> Problem:
    return Problem(
        Reason.FORMAT_NEWER,
        f"the workers cannot read what is wanted, and go on as they were told before: {clipped(text)}: "
        "set spec.image to an image of the version of the operator",
    )


def _unlisted(sources: tuple[UnlistedSource, ...]) -> Problem:
    told = (f"source {s.name!r} cannot be listed since {stamp(s.since_us / 1_000_000)}: {s.because}" for s in sources)
    return Problem(Reason.SOURCE_UNAVAILABLE, clipped(f"{'; '.join(told)}; the job tries again by itself"))


def _without_leader(seen: Observed, pods: list[PodView]) -> Problem | None:
    """Return that nobody leads although pods run. A leader tells something every few seconds.

    A worker is ready only under a leader. So a clock of another machine that is wrong stalls no job that runs.
    """
    up = [p for p in pods if p.runs_since]
    if any(p.ready for p in pods):
        return None
    told_s = 0.0 if seen.running is None else seen.running.time_us / 1e6
    silent_s = seen.now - max(told_s, min((p.runs_since for p in up), default=seen.now))
    if silent_s < LEADERLESS_S:
        return None
    return Problem(
        Reason.NO_LEADER,
        f"no worker has led for {silent_s:.0f} s, although {len(up)} pods run: do they reach the API server? kubectl "
        f"logs {up[0].name} -c keeper shows what they wait for; an API server at another port than 443 and 6443 has "
        "to be named in spec.security.egress",
    )


def _says_no_room(text: str) -> bool:
    return any(words in text for words in NO_ROOM)


def _has_workers(seen: Observed) -> bool:
    return seen.stateful_set is not None and seen.stateful_set.replicas > 0


def _crashes(seen: Observed, deaths: Deaths) -> bool:
    """Return whether engines of the wanted run die repeatedly. One or two deaths are left to recovery, unreported."""
    if seen.desired is None or deaths.run != seen.desired.value.run or not deaths.newest:
        return False
    enough = MEMORY_CRASHES if _by_memory(deaths.newest[-1]) else CRASHES
    return deaths.count >= min(enough, deaths.attempts)


def _by_memory(death: Death) -> bool:
    return OUT_OF_MEMORY in death.reason


def _crash_loop(deaths: Deaths, last: Death) -> Problem:
    if _by_memory(last):
        return Problem(
            Reason.ENGINE_OUT_OF_MEMORY,
            f"give the engine more by spec.resources.limits.memory, or more workers: {crash_text(deaths, last)}",
        )
    return Problem(Reason.CRASH_LOOP, crash_text(deaths, last))


def crash_text(deaths: Deaths, last: Death) -> str:
    """Return a text: how many failures there were, how many restarts are allowed, and the newest failure."""
    window = span_text(deaths.window_s)
    return (
        f"{deaths.count} failures within {window}, and after {deaths.attempts} restarts "
        f"(spec.restart.attempts) the next one fails the job; the last one, of worker "
        f"{last.ordinal}: {last.reason}"
    )


def _needs_claim(target: Target) -> bool:
    volume = target.spec.checkpoint.volume
    return volume is not None and volume.claim_name is not None


def _failed(text: str) -> Problem:
    reason = next((r for words, r in FAILURES if words in text), Reason.JOB_FAILED)
    return Problem(reason, clipped(text))


def _pod_problem(found: PodView, now: float) -> Problem | None:
    if found.unschedulable:
        missing = "persistentvolumeclaim" in found.unschedulable and "not found" in (found.unschedulable)
        reason = Reason.CLAIM_MISSING if missing else Reason.UNSCHEDULABLE
        return Problem(reason, f"pod {found.name} cannot be scheduled: {found.unschedulable}")
    for container in found.containers:
        problem = _container_problem(found, container, now)
        if problem is not None:
            return problem
    if found.phase == "Pending" and found.created and now - found.created > PATIENCE_S:
        waits = next((c.waiting for c in found.containers if c.waiting), "it does not say for what")
        return Problem(
            Reason.WAITING_FOR_WORKERS,
            f"pod {found.name} has been pending for {now - found.created:.0f} s ({waits}); "
            f"kubectl describe pod {found.name} shows its events",
        )
    return None


def _container_problem(found: PodView, container: ContainerView, now: float) -> Problem | None:
    place = f"pod {found.name}, container {container.name}"
    if container.waiting in IMAGE_WAITS:
        text = container.waiting_message or container.waiting
        ours = container.name in {pod.KEEPER_CONTAINER, pod.ENGINE_CONTAINER}
        field = "spec.image or imagePullSecrets" if ours else "its image in spec.podTemplate, or imagePullSecrets"
        return Problem(Reason.IMAGE_PULL_FAILED, f"{place}: {text}: correct {field}")
    ended = container.ended_message.strip()
    again = container.restarts > 1 and now - container.ended_at < CRASHED_LATELY_S
    if container.waiting in START_WAITS or (container.ended and again):
        if container.waiting not in {"", "CrashLoopBackOff"}:
            return _not_created(place, container)
        if container.ended == OUT_OF_MEMORY_KILL:
            return _out_of_memory(place, container)
        termination = _termination(ended)
        if termination is not None:
            return _terminated(place, termination)
        text = ended or f"exit status {container.exit_code}"
        return Problem(Reason.CRASH_LOOP, f"{place} ended {container.restarts} times: {text}")
    return None


def _out_of_memory(place: str, container: ContainerView) -> Problem:
    """Name the memory limit to raise. ``spec.resources`` is for the engine and not for the keeper."""
    engine = container.name == pod.ENGINE_CONTAINER
    reason = Reason.ENGINE_OUT_OF_MEMORY if engine else Reason.CRASH_LOOP
    field = "spec.resources.limits.memory" if engine else "its limit in spec.podTemplate"
    return Problem(
        reason,
        f"{place} was killed {container.restarts} times because memory ran out (OOMKilled): give it more by {field}",
    )


def _terminated(place: str, termination: pod.Termination) -> Problem:
    reason = TERMINATIONS.get(termination.reason, Reason.CRASH_LOOP)
    if reason is Reason.CLAIM_READ_ONLY and _says_no_room(termination.message):
        reason = Reason.VOLUME_FULL
    return Problem(reason, f"{place}: {termination.reason}: {termination.message}")


def _not_created(place: str, container: ContainerView) -> Problem:
    text = container.waiting_message or container.waiting
    read_only = any(words in text.lower() for words in READ_ONLY)
    if read_only:
        advice = "the claim must be writable for the workers"
        return Problem(Reason.CLAIM_READ_ONLY, f"{place}: {text}: {advice}")
    if "executable file not found" in text:
        advice = "spec.image is no Penstock worker image"
        return Problem(Reason.CRASH_LOOP, f"{place}: {text}: {advice}")
    return Problem(Reason.CRASH_LOOP, f"{place}: {text}")


def _termination(text: str) -> pod.Termination | None:
    line = text.splitlines()[-1] if text else ""
    try:
        return decode(pod.Termination, line.encode())
    except PeerError:
        pass
    try:
        plain = parsed(line)
    except PeerError:
        return None
    if isinstance(plain, dict) and isinstance(plain.get("reason"), str):
        return pod.Termination(plain["reason"], str(plain.get("message", "")))
    return None


def last_savepoint_problem(seen: Observed, target: Target | None) -> Problem | None:
    """Return the problem of a deletion whose last savepoint failed."""
    text = last_savepoint_failure(seen)
    if not text:
        return None
    return Problem(
        Reason.SAVEPOINT_FAILED,
        f"the last savepoint before the deletion: {text}; it is tried again, and {deletion_message(seen, target)}",
    )


def given_up_problem(seen: Observed, accepted: Accepted, also: Problem | None) -> Problem | None:
    """Return the old reason again: a spec that was given up stays so until the spec changes.

    ``also`` is what is wrong with the spec that runs in its place. It is told beside.
    """
    if accepted.given_up is None:
        return None
    stalled = seen.job.status.condition(ConditionType.STALLED)
    text = "" if stalled is None else stalled.message.partition(BESIDES)[0]
    more = "" if also is None else f"{BESIDES}{also.reason}): {also.message}"
    return Problem(accepted.given_up, text + more)


def upgrade_given_up(seen: Observed, accepted: Accepted, latest: Latest | None, lifecycle: Lifecycle) -> Problem | None:
    """Return why this reconcile gives up an upgrade: no savepoint, or it failed, or it was not stable in time."""
    pending, target = seen.job.status.pending, accepted.target
    if pending is None or target is None or latest is None:
        return None
    if lifecycle.phase is JobPhase.STOP and lifecycle.operation in CHANGES:
        return _no_savepoint(pending, latest, seen.now)
    kept = seen.job.status.last_stable
    if not target.spec.upgrade.rollback or kept is None or kept.digest == target.digest:
        return None
    failure = failure_of(seen, latest) if lifecycle.phase is JobPhase.RUN else None
    failed = failure is not None and pending.action == Reason.UPGRADING
    if not failed and not _is_unstable(pending, lifecycle, seen.now):
        return None
    text = "the new spec failed before it was stable" if failed else _not_stable_text(pending)
    again = f"{text}: generation {kept.generation} runs again until the spec changes"
    return Problem(Reason.ROLLED_BACK, f"{again}: {failure}" if failed else again)


def upgrade_overdue(seen: Observed, lifecycle: Lifecycle) -> Problem | None:
    """Return that an upgrade takes too long. The caller asks when no other cause was found."""
    pending = seen.job.status.pending
    if pending is None:
        return None
    if lifecycle.phase is JobPhase.TERMINATE and seen.now > seconds(pending.since) + LEAVING_S:
        left = ", ".join(p.name for p in seen.pods) or "pods"
        return Problem(
            Reason.UPGRADE_FAILED,
            f"the new workers wait for the end of the old ones since {pending.since} ({left}): kubectl describe pod "
            "shows what keeps them, often a node that is gone",
        )
    if not _is_unstable(pending, lifecycle, seen.now):
        return None
    return Problem(
        Reason.UPGRADE_FAILED,
        f"{_not_stable_text(pending)}: change the spec; with spec.upgrade.rollback the last stable "
        "spec comes back by itself",
    )


def _no_savepoint(pending: Pending, latest: Latest, now: float) -> Problem | None:
    if not (_is_late(pending, now) or savepoint_refused(pending, latest)):
        return None
    answer = next((a.text for a in latest.answers if a.request == pending.snapshot), "")
    return Problem(
        Reason.SAVEPOINT_FAILED,
        f"no savepoint before the upgrade ({answer or 'none by its deadline'}): the old spec keeps "
        "running; change the spec, or spec.upgrade.mode to LastCheckpoint",
    )


def _is_unstable(pending: Pending, lifecycle: Lifecycle, now: float) -> bool:
    """Say whether the new workers are not stable in time. While those before end, their deadline is another one."""
    upgrading = pending.action == Reason.UPGRADING and lifecycle.operation is Reason.UPGRADING
    begun = lifecycle.phase in {JobPhase.START, JobPhase.RUN} and pending.snapshot is None
    return upgrading and begun and _is_late(pending, now)


def _is_late(pending: Pending, now: float) -> bool:
    return 0 < seconds(pending.deadline) < now


def _not_stable_text(pending: Pending) -> str:
    return f"the new spec was not stable (running, with a checkpoint of its own) by {pending.deadline}"
