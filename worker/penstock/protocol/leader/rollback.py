"""Why an attempt is given up: a pure decision, with one cause for each case.

The next attempt goes back to the committed checkpoint. :func:`rollback` looks at the facts in the
order of :class:`RollbackCause`. :func:`overdue` is the decision at a deadline of a phase. Where the
cause is one that every further attempt would meet again, ``failure`` says why the job has to fail.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.contract.control_messages import Cause
from penstock.contract.latest import Member
from penstock.protocol.leader.job_restore import is_publishing, pending
from penstock.protocol.leader.leader_state import LeaderState


class RollbackCause(StrEnum):
    """The cases in which an attempt is given up."""

    RESTORE_REQUESTED = "restore-requested"  # and no committed output has to become visible first
    OTHER_PLAN = "other-plan"  # the attempt runs another plan than the leader has compiled
    WORKER_LOST = "worker-lost"  # an admitted worker is silent, dead, replaced or given up
    COPIES_DIFFER = "copies-differ"  # two tasks have other rows of a side table at one barrier
    ATTEMPT_BROKEN = "attempt-broken"  # an engine reports a stream or a task that broke
    NOT_READY = "not-ready"  # RESETTING lasts too long
    NOT_RUNNING = "not-running"  # STARTING lasts too long


@dataclass(frozen=True, slots=True)
class Rollback:
    """The decision to give an attempt up. ``text`` is for people and has the ids.

    ``failure``: why the job has to fail, because no further attempt can help.
    """

    cause: RollbackCause
    text: str
    failure: str | None = None


def rollback(state: LeaderState) -> Rollback | None:
    """Return why the attempt has to be given up, None when it goes on."""
    wanted = pending(state)
    if wanted is not None and not is_publishing(state, wanted):
        return Rollback(RollbackCause.RESTORE_REQUESTED, "a restore was asked for")
    if state.plan is not None and state.file is not None and not state.is_of_plan():
        text = "the attempt ran another plan than this leader's: two never share one"
        return Rollback(RollbackCause.OTHER_PLAN, text)
    if state.differing is not None:
        return Rollback(RollbackCause.COPIES_DIFFER, state.differing)
    for member in state.admitted():
        found = _member_rollback(state, member)
        if found is not None:
            return found
    return None


def _member_rollback(state: LeaderState, member: Member) -> Rollback | None:
    life = state.life(member)
    if not state.registry.alive(state.context, life):
        first_line = (life.lost or "").partition("\n")[0]
        text = f"worker {member.ordinal} is lost: {first_line}"
        return Rollback(RollbackCause.WORKER_LOST, text)
    broken = life.heartbeat.broken if life.heartbeat is not None else None
    if broken is None or broken.attempt != state.latest.attempt:
        return None
    text = f"worker {member.ordinal}: {broken.reason}"
    return Rollback(RollbackCause.ATTEMPT_BROKEN, text, broken.reason if broken.fatal else None)


def overdue(state: LeaderState, waiting: list[Member], cause: RollbackCause) -> Rollback | None:
    """Give members up that missed the deadline of the phase; None before the deadline.

    The deadline of a new term begins with the term, so the first heartbeat has time to come.
    """
    if not state.context.due_or_wake(state.since + state.settings.ready_timeout_s):
        return None
    what = "ready" if cause is RollbackCause.NOT_READY else "running"
    for member in waiting:
        why = f"not {what} in {state.settings.ready_timeout_s:g} s"
        state.registry.mark_lost(state.life(member), why, Cause.ORDERED)
    return Rollback(cause, f"workers {[m.ordinal for m in waiting]} not {what} in time")
