"""The decision of one reconcile: what is there and the time in, actions and a status out.

Order: the target is written into the status before anything is done about it; metadata and the
surroundings come before the workers; nothing is done about workers without metadata.
"""

from penstock.contract.latest import Latest
from penstock.contract.streamjob_status import (
    ConditionType,
    Pending,
    Reason,
    StreamJobStatus,
    Truth,
)
from penstock_operator.api.observed import Observed
from penstock_operator.api.times import seconds
from penstock_operator.reconcile.accept import Accepted, accept, last_good
from penstock_operator.reconcile.conditions import Judged
from penstock_operator.reconcile.course import CHANGES, Course, Heading, heading, refused
from penstock_operator.reconcile.decision import Decision, Draft, Event
from penstock_operator.reconcile.deletion import deletion_text, failed_savepoint, let_go
from penstock_operator.reconcile.diagnosis import Trouble, diagnose
from penstock_operator.reconcile.disposal import dispose
from penstock_operator.reconcile.imported import decide_imported
from penstock_operator.reconcile.lost import replace_lost
from penstock_operator.reconcile.metadata import Metadata, metadata_of
from penstock_operator.reconcile.periodic import decide_periodic
from penstock_operator.reconcile.replay import decide_replay, replay_trouble, unavailable
from penstock_operator.reconcile.snapshots import decide_snapshots
from penstock_operator.reconcile.status import Worth, pending_of, status_of, worth_of
from penstock_operator.reconcile.surroundings import (
    drop_views,
    keep_finalizer,
    of_earlier,
    surround,
)
from penstock_operator.reconcile.taken import names_taken, taken_trouble
from penstock_operator.reconcile.trust import tell_of_lost_trust
from penstock_operator.reconcile.workers import refresh_set, steer

AUTOSCALED = "Autoscaled"  # reasons of events
ENGINE_DIED = "EngineDied"
FOREIGN_POD = "ForeignPod"
WARNED = (
    (ConditionType.STALLED, Truth.TRUE),
    (ConditionType.ACCEPTED, Truth.FALSE),
    (ConditionType.SNAPSHOTS_TAKEN, Truth.FALSE),
    (ConditionType.SECURED, Truth.FALSE),
)
REST_S = 60.0  # of a job at rest: how often its epochs and rows are looked at, to be shown
WATCHFUL_S = 5.0  # while an operation is under way, beside the watches


def decide(seen: Observed) -> Decision:
    """Decide. The same observation gives the same decision, whoever asks and however often."""
    draft = Draft()
    accepted = unavailable(seen, accept(seen))
    taken = names_taken(seen, accepted.target)
    metadata = metadata_of(seen, accepted.target, taken, draft)
    going = heading(seen, accepted, metadata.latest)
    pending = pending_of(seen, accepted, going)
    trouble = _trouble(seen, accepted, metadata, going, taken_trouble(seen, taken))
    at = Judged(seen, accepted, metadata.latest, going, trouble)
    status = decide_replay(at, status_of(at, pending), draft)
    if _changed(seen.job.status.pending, pending):
        # Written before anything is done about it: a crash leaves a trace of what was meant.
        draft.actions.clear()
        tell_of_lost_trust(seen, accepted.target, draft)
        events = (*draft.events, *_news(seen.job.status, status))
        return Decision((), status, status_first=True, events=events, again_s=0.05)
    _act(at, pending, draft, taken=bool(taken))
    runs = not _why_no_snapshot(at) and going.operation is None and at.latest is not None
    status = decide_periodic(seen, accepted.target, status, draft, runs=runs)
    if seen.look_again_s is not None:
        draft.again(seen.look_again_s)
    draft.again(WATCHFUL_S if going.operation is not None or _lacks_pods(seen) else REST_S)
    worth = worth_of(seen.job.status, status)
    return Decision(
        tuple(draft.actions),
        None if worth is Worth.NOTHING else status,
        shows=worth is Worth.SHOWN and not draft.actions,
        events=(*draft.events, *_news(seen.job.status, status)),
        again_s=draft.again_s,
    )


def _lacks_pods(seen: Observed) -> bool:
    """Say whether a set has fewer pods than it should: why is in events, which nobody watches."""
    at = seen.stateful_set
    return at is not None and sum(not p.deleting for p in seen.pods) < at.replicas


def _act(at: Judged, pending: Pending | None, draft: Draft, *, taken: bool) -> None:
    """``taken``: an object of others has a name of the job's; no worker is started beside it."""
    seen, accepted, going = at.seen, at.accepted, at.heading
    begins = taken and seen.stateful_set is None
    newer = seen.latest is not None and seen.latest.newer  # whoever reads it writes the rest, too
    if seen.job.deleting_since is not None:
        let_go(seen, accepted, going.course, draft)
    else:
        keep_finalizer(seen, draft)
        if accepted.target is not None and not (of_earlier(seen) or begins or newer):
            surround(seen, accepted.target, draft)
            refresh_set(seen, accepted.target, draft)
            drop_views(seen, draft)
    if at.latest is not None and not (taken and going.course is Course.START):
        steer(seen, accepted, going.course, pending, draft)
    if at.latest is not None:
        replace_lost(seen, at.latest, draft)
    decide_snapshots(seen, draft, _why_no_snapshot(at))
    decide_imported(seen, draft)
    dispose(seen, accepted.target or last_good(seen), draft)


def _trouble(
    seen: Observed,
    accepted: Accepted,
    metadata: Metadata,
    going: Heading,
    taken: Trouble | None,
) -> Trouble | None:
    text = failed_savepoint(seen)
    if text:
        return Trouble(
            Reason.SAVEPOINT_FAILED,
            f"the last savepoint before the deletion: {text}; it is tried again, and "
            f"{deletion_text(seen, accepted.target)}",
        )
    if metadata.reason is not None:
        return Trouble(metadata.reason, metadata.message)
    if accepted.held is not None:
        stalled = seen.job.status.condition(ConditionType.STALLED)
        return Trouble(accepted.held, "" if stalled is None else stalled.message)
    if taken is not None:
        return taken
    given_up = _give_up(seen, accepted, metadata.latest, going)
    if given_up is not None:
        return given_up
    found = diagnose(seen, accepted.target, metadata.latest)
    return found or _unstable(seen, going) or replay_trouble(seen, accepted)


def _unstable(seen: Observed, going: Heading) -> Trouble | None:
    """Say that an upgrade takes too long, where nothing says why and nothing goes back."""
    pending = seen.job.status.pending
    if pending is None or pending.action != Reason.UPGRADING or going.course is Course.STOP:
        return None
    if going.operation is not Reason.UPGRADING or not 0 < seconds(pending.deadline) < seen.now:
        return None
    return Trouble(
        Reason.UPGRADE_FAILED,
        f"the new spec was not stable (running, with a checkpoint of its own) by "
        f"{pending.deadline}: change the spec; with spec.upgrade.rollback the one before comes "
        "back by itself",
    )


def _give_up(
    seen: Observed, accepted: Accepted, latest: Latest | None, going: Heading
) -> Trouble | None:
    """Give an upgrade up that waits too long: for its savepoint, or to become stable."""
    pending, target = seen.job.status.pending, accepted.target
    if pending is None or target is None or latest is None:
        return None
    late = 0 < seconds(pending.deadline) < seen.now
    if going.course is Course.STOP and going.operation in CHANGES:
        if late or refused(pending, latest):
            answer = next((a.text for a in latest.answers if a.request == pending.snapshot), "")
            text = f"no savepoint before the upgrade ({answer or 'none by its deadline'}): the old "
            return Trouble(
                Reason.SAVEPOINT_FAILED,
                text + "spec goes on; change the spec, or spec.upgrade.mode to LastCheckpoint",
            )
        return None
    kept = seen.job.status.last_stable
    if pending.action != Reason.UPGRADING or going.operation is not Reason.UPGRADING:
        return None
    if late and target.spec.upgrade.rollback and kept is not None and kept.digest != target.digest:
        return Trouble(
            Reason.ROLLED_BACK,
            "the new spec was not stable (running, with a checkpoint of its own) by "
            f"{pending.deadline}: generation {kept.generation} runs again until the spec changes",
        )
    return None


def _changed(old: Pending | None, new: Pending | None) -> bool:
    return new is not None and old != new


def _why_no_snapshot(at: Judged) -> str:
    latest = at.latest
    if latest is None:
        return "the job has no metadata yet"
    if latest.finished:
        return "the job has finished"
    if latest.failure is not None:
        return "the job has failed"
    if at.heading.course is not Course.RUN:
        return "the job does not run"
    return ""


def _input_news(old: StreamJobStatus, new: StreamJobStatus) -> list[Event]:
    """Warn once for each change of the files that are not read."""
    before = old.condition(ConditionType.INPUT_COMPLETE)
    now = new.condition(ConditionType.INPUT_COMPLETE)
    if now is None or now.status is not Truth.FALSE:
        return []
    if before is not None and before.message == now.message:
        return []
    return [Event(now.reason, now.message, warning=True)]


def _foreign_news(old: StreamJobStatus, new: StreamJobStatus) -> list[Event]:
    """Warn once for each change of the pods that look like workers and do not count."""
    before, now = old.condition(ConditionType.STALLED), new.condition(ConditionType.STALLED)
    if now is None or now.status is not Truth.FALSE or not now.message:
        return []
    if before is not None and before.message == now.message:
        return []
    return [Event(FOREIGN_POD, now.message, warning=True)]


def _death_news(old: StreamJobStatus, new: StreamJobStatus) -> list[Event]:
    """Warn of each death of an engine: its container does not restart, so nobody else says it."""
    was, now = old.restarts, new.restarts
    if now is None or (was is not None and now.count <= was.count and now.last == was.last):
        return []
    text = f"an engine of {now.worker} died ({now.count} within spec.restart.window): {now.last}"
    return [Event(ENGINE_DIED, text, warning=True)]


def _news(old: StreamJobStatus, new: StreamJobStatus) -> tuple[Event, ...]:
    """Tell what changed: an operation begun, a spec refused, a job stalled, ready or ended."""
    found: list[Event] = []
    if new.pending is not None and (
        old.pending is None or old.pending.action != new.pending.action
    ):
        found.append(Event(new.pending.action, f"generation {new.observed_generation}"))
    for kind, truth in WARNED:
        before, now = old.condition(kind), new.condition(kind)
        if now is not None and now.status is truth:
            same = before is not None and (before.status, before.reason) == (truth, now.reason)
            if not same:
                found.append(Event(now.reason, now.message, warning=True))
    found += _input_news(old, new)
    found += _foreign_news(old, new)
    found += _death_news(old, new)
    if old.state is not new.state and new.state in {"Running", "Suspended", "Finished", "Failed"}:
        found.append(Event(str(new.state), f"was {old.state}", warning=new.state == "Failed"))
    was, chosen = old.autoscaling, new.autoscaling
    if was is not None and chosen is not None and was.replicas != chosen.replicas:
        text = f"{was.replicas} -> {chosen.replicas} workers: {chosen.message}"
        found.append(Event(AUTOSCALED, text, warning=chosen.undone))
    return tuple(found)
