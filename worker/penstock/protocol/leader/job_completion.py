"""The ends of a job: its bounded input is read, it was asked to stop, or it has failed.

::

    RUNNING ── final epoch published ──> EndStreams ── all ended ──> swap finished ──┐
       ├── stop, with its savepoint copied ──> swap stopped ─────────────────────────┼──> CLOSED
       └── fatal error ──> swap failure ─────────────────────────────────────────────┘      │
              a new run clears the last two; the first only with an explicit restore <──────┘

No engine runs in a job that has finished, stopped or failed. A stop never takes a final epoch,
because the input goes on later.
"""

from dataclasses import dataclass

from penstock.base.limits import FAILURE_BYTES_MAX
from penstock.base.values import replace
from penstock.contract.control_messages import Cause, EndStreams, Shutdown
from penstock.contract.latest import Answer, Latest, Request, clip
from penstock.protocol.leader.job_restore import pending
from penstock.protocol.leader.leader_state import LeaderPhase, LeaderState
from penstock.protocol.leader.worker_registry import member_of


@dataclass(slots=True)
class JobCompletion:
    """``stop_seen_at``: since when a stop waits for the output to become visible.

    ``ended_by``: the time by which all members must have ended their streams.
    """

    stop_seen_at: float | None = None
    ended_by: float | None = None

    def drop(self) -> None:
        """Forget the end of the streams: a new attempt takes a final epoch of its own."""
        self.ended_by = None

    def finish(self, state: LeaderState) -> None:
        """End the streams when all output is visible, then finish the job."""
        if not state.record_published():  # tasks that end remove their staged output
            return
        at = state.latest
        if self.ended_by is None:
            self.ended_by = state.context.now + state.settings.ready_timeout_s
        waiting = [m for m in state.admitted() if not state.life(m).status.ended]
        for member in waiting:
            state.ensure(member, EndStreams(at.attempt), at.attempt)
            if state.context.due_or_wake(self.ended_by):
                why = "did not end its streams in time"
                state.registry.mark_lost(state.life(member), why, Cause.ORDERED)
        # A savepoint that is being copied would be given up by the end of the job.
        copying = any(kept.savepoint is not None for kept in at.retained)
        if not waiting and not copying and not state.cas.busy:
            state.propose(replace(at, finished=True, published_through=state.published_through()))

    def reconcile(self, state: LeaderState) -> bool:
        """Close the job when it failed or was asked to stop; True when no other part may act."""
        if state.cas.busy:
            return False
        at = state.latest
        if state.failure is not None:
            text = clip(state.failure, FAILURE_BYTES_MAX)
            state.failure = None
            failed = replace(state.let_go(at), failure=text, run=_run(state))
            state.propose(replace(failed, deaths=state.deaths))
            return True
        stop = next((r for r in state.requests() if r.kind == "stop" and r.argument is None), None)
        if stop is None or not self._may_stop(state):
            return False
        text = f"stopped at epoch {at.epoch}"
        if not state.published():
            text += "; its output is not all visible yet, the next run publishes it"
        answers = state.answers(Answer(stop.id, True, text))
        state.propose(replace(state.let_go(at), stopped=True, run=_run(state), answers=answers))
        return True

    def _may_stop(self, state: LeaderState) -> bool:
        """Give running members time to publish the committed epoch; after that the job stops."""
        if state.phase is not LeaderPhase.RUNNING or state.published():
            return True
        if self.stop_seen_at is None:
            self.stop_seen_at = state.context.now
        return state.context.due_or_wake(self.stop_seen_at + state.settings.ready_timeout_s)

    def closed(self, state: LeaderState) -> None:
        """End all engines, answer open requests, and open the job again for a new run."""
        self.stop_seen_at = None
        for life in state.registry.lives.values():
            if state.registry.recent(state.context, life):
                state.ensure(member_of(life), Shutdown(life.incarnation, _state(state.latest)), 0)
        at = state.latest
        if state.cas.busy:
            return
        if self._opens(state):
            opened = replace(at, failure=None, stopped=False, finished=False, stalled=None)
            state.propose(replace(opened, run=_run(state)))
            return
        left = state.requests()
        if left:
            state.propose(replace(at, answers=state.answers(*(_late(r, at) for r in left))))

    def _opens(self, state: LeaderState) -> bool:
        """Return whether a new run begins. A finished job needs a restore for that."""
        if state.desired is None or state.desired.run == state.latest.run:
            return False
        return not state.latest.finished or pending(state) is not None


def _run(state: LeaderState) -> str:
    return state.desired.run if state.desired is not None else state.latest.run


def _late(request: Request, at: Latest) -> Answer:
    """Answer a request that came after the end. Only a stop without a savepoint is fulfilled."""
    met = request.kind == "stop" and request.argument is None
    text = f"the job is {_state(at)}"
    if request.kind == "stop" and not met:
        text += f": savepoint {request.argument!r} was not taken"
    return Answer(request.id, met, text)


def _state(at: Latest) -> str:
    if at.finished:
        return "finished"
    return "stopped" if at.stopped else "failed"
