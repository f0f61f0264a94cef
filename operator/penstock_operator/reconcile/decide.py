"""The decision of one reconcile: what is there and the time in, actions and a status out.

Order: the target is written into the status before anything is done about it; metadata and the
surroundings come before the workers; nothing is done about workers without metadata.
"""

from penstock.contract.streamjob_status import ConditionType, Pending, Reason
from penstock_operator.api.observed import Observed
from penstock_operator.reconcile.accept import Accepted, accept, last_good
from penstock_operator.reconcile.actions import Decision, Draft
from penstock_operator.reconcile.certificates import tell_of_lost_trust
from penstock_operator.reconcile.children import (
    Metadata,
    drop_views,
    keep_finalizer,
    metadata_of,
    names_taken,
    of_earlier,
    surround,
    taken_trouble,
)
from penstock_operator.reconcile.conditions import Judged
from penstock_operator.reconcile.diagnosis import (
    Trouble,
    diagnose,
    given_up_upgrade,
    unstable_upgrade,
)
from penstock_operator.reconcile.lifecycle import (
    Course,
    Heading,
    deletion_text,
    failed_savepoint,
    heading,
    let_go,
)
from penstock_operator.reconcile.replay import decide_replay, replay_trouble, unavailable
from penstock_operator.reconcile.snapshots import (
    decide_imported,
    decide_periodic,
    decide_snapshots,
    dispose,
)
from penstock_operator.reconcile.status import Worth, events_of, pending_of, status_of, worth_of
from penstock_operator.reconcile.workers import refresh_set, replace_lost, steer

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
        events = (*draft.events, *events_of(seen.job.status, status))
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
        events=(*draft.events, *events_of(seen.job.status, status)),
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
    given_up = given_up_upgrade(seen, accepted, metadata.latest, going)
    if given_up is not None:
        return given_up
    found = diagnose(seen, accepted.target, metadata.latest)
    return found or unstable_upgrade(seen, going) or replay_trouble(seen, accepted)


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
