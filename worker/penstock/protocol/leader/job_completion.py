"""The ends of a job: bounded input read to its end, a stop that was asked for, a failure.

::

    RUNNING ── final epoch published ──> EndStreams ── all ended ──> swap finished ──┐
       ├── stop, with its savepoint copied ──> swap stopped ─────────────────────────┼──> CLOSED
       └── fatal error ──> swap failure ─────────────────────────────────────────────┘      │
              a new run clears the last two; the first only with an explicit restore <──────┘

Under any of the three no engine runs. A stop never takes a final epoch: the input goes on later.
"""

from dataclasses import dataclass, replace

from penstock.base.limits import FAILURE_BYTES_MAX
from penstock.contract.control import EndStreams, Shutdown
from penstock.contract.latest import Answer, Latest, Request, clip
from penstock.contract.reports import Cause
from penstock.protocol.leader.job_restore import pending
from penstock.protocol.leader.leader_state import Lead, Phase
from penstock.protocol.leader.worker_registry import member_of


@dataclass(slots=True)
class Ending:
    """``stop_seen_at``: since when a stop waits for output to become visible.

    ``ended_by``: when all members must have ended their streams.
    """

    stop_seen_at: float | None = None
    ended_by: float | None = None

    def drop(self) -> None:
        """Forget that streams were to end: a new attempt takes a final epoch of its own."""
        self.ended_by = None

    def finish(self, lead: Lead) -> None:
        """End the streams, which is allowed only now that all output is visible; then finish."""
        if not lead.record_published():  # tasks that end remove what they have staged
            return
        at = lead.latest
        if self.ended_by is None:
            self.ended_by = lead.desk.now + lead.settings.ready_timeout_s
        waiting = [m for m in lead.admitted() if not lead.life(m).status.ended]
        for member in waiting:
            lead.want(member, EndStreams(at.attempt), at.attempt)
            if lead.desk.due(self.ended_by):
                why = "did not end its streams in time"
                lead.roster.lose(lead.life(member), why, Cause.ORDERED)
        # A savepoint that is being copied would be given up by the end of the job.
        copying = any(kept.savepoint is not None for kept in at.retained)
        if not waiting and not copying and not lead.swaps.busy:
            lead.propose(replace(at, finished=True, published_through=lead.published_through()))

    def pursue(self, lead: Lead) -> bool:
        """Close the job when it has to; True when nothing else may be done."""
        if lead.swaps.busy:
            return False
        at = lead.latest
        through = lead.published_through() if lead.published() else at.published_through
        if lead.failure is not None:
            text = clip(lead.failure, FAILURE_BYTES_MAX)
            lead.failure = None
            failed = replace(at, failure=text, run=_run(lead), published_through=through)
            lead.propose(replace(failed, deaths=lead.deaths))
            return True
        stop = next((r for r in lead.requests() if r.kind == "stop" and r.argument is None), None)
        if stop is None or not self._may_stop(lead):
            return False
        text = f"stopped at epoch {at.epoch}"
        if not lead.published():
            text += "; its output is not all visible yet, the next run publishes it"
        answers = lead.answers(Answer(stop.id, True, text))
        lead.propose(
            replace(at, stopped=True, run=_run(lead), published_through=through, answers=answers)
        )
        return True

    def _may_stop(self, lead: Lead) -> bool:
        """Give running members a while to publish what is committed; stop in any case then."""
        if lead.phase is not Phase.RUNNING or lead.published():
            return True
        if self.stop_seen_at is None:
            self.stop_seen_at = lead.desk.now
        return lead.desk.due(self.stop_seen_at + lead.settings.ready_timeout_s)

    def closed(self, lead: Lead) -> None:
        """End engines, answer whoever still asks, and open again for a new run."""
        self.stop_seen_at = None
        for life in lead.roster.lives.values():
            if lead.roster.heard(lead.desk, life):
                lead.want(member_of(life), Shutdown(life.incarnation, _state(lead.latest)), 0)
        at = lead.latest
        if lead.swaps.busy:
            return
        if self._opens(lead):
            opened = replace(at, failure=None, stopped=False, finished=False, stalled=None)
            lead.propose(replace(opened, run=_run(lead)))
            return
        left = lead.requests()
        if left:
            lead.propose(replace(at, answers=lead.answers(*(_late(r, at) for r in left))))

    def _opens(self, lead: Lead) -> bool:
        """Say whether a new run begins; what is finished stays so, unless it is restored."""
        if lead.desired is None or lead.desired.run == lead.latest.run:
            return False
        return not lead.latest.finished or pending(lead) is not None


def _run(lead: Lead) -> str:
    return lead.desired.run if lead.desired is not None else lead.latest.run


def _late(request: Request, at: Latest) -> Answer:
    """Answer what came after the end: only a stop that wants nothing kept has what it wants."""
    met = request.kind == "stop" and request.argument is None
    text = f"the job is {_state(at)}"
    if request.kind == "stop" and not met:
        text += f": savepoint {request.argument!r} was not taken"
    return Answer(request.id, met, text)


def _state(at: Latest) -> str:
    if at.finished:
        return "finished"
    return "stopped" if at.stopped else "failed"
