"""The limit of restarts: it counts deaths and failures of engines and decides when they fail the job.

A record that kills an engine kills the next engine, too. A source or sink that raises may raise in every
attempt. So a leader counts both, as Flink's failure-rate restart strategy does. When ``attempts``
restarts happened within ``window_s``, the next death or failure fails the job. The :class:`Cause` of a
loss decides how it counts:

::

    admitted engines died                     one death for each attempt, however many engines died
    engines died before their admission       one death for each round, however many died in it
    a member was lost for an unknown cause    the second loss at the same ordinal, and each later one
    a task of an admitted engine raised       one for each attempt that has counted no death
    a listing of splits raised                one for each time
    the end was ordered                       none (drained, not ready, retired)
    a stream broke, storage failed, restore   none

A *round* begins when one ordinal has lost more engines than any ordinal before, in this attempt.

A commit does not clear the count: other splits may make progress while one record kills each
engine that reads it. A time of ``window_s`` without a death clears the count, and so does a new run.
The count is a part of ``Latest``, so it outlives leaders. A leader measures times by its own clock.
So a new leader treats inherited deaths as if they had happened now.
"""

from dataclasses import dataclass, field

from penstock.base.limits import (
    DEATH_BYTES_MAX,
    DEATHS_KEPT_MAX,
    LOST_MAX,
    RESTART_ATTEMPTS_MAX,
)
from penstock.base.units import span_text
from penstock.contract.control_messages import RESTARTS_EXHAUSTED, Cause, EngineLost, Heartbeat
from penstock.contract.ids import Attempt, Incarnation, Ordinal
from penstock.contract.latest import Death, Deaths, clip
from penstock.protocol.core_context import StepContext
from penstock.protocol.leader.leader_state import LeaderPhase, LeaderState
from penstock.protocol.leader.worker_registry import WorkerIncarnation

WHAT_TO_DO = (
    "It happens again each time: correct the step, source or sink, or take the rows in flight out of the "
    "input, and run the job again. spec.restart says how often it is tried."
)


@dataclass(slots=True)
class RestartLimit:
    """The count of deaths.

    - ``times``: the times of the deaths within the last ``window_s``, oldest first.
    - ``total``: the number of all deaths in this ``run``.
    - ``judged``: the newest attempt whose losses are decided: they counted as a death or not.
      ``counted``: the newest attempt in which a death was counted.
    - ``unknown``: for each ordinal, the time of its newest loss for an unknown cause.
    - ``failed``: for each engine, how many of its failures are known.
    - ``early``: for each ordinal, the engines that died before their admission since ``attempt``
      began. ``rounds``: how many deaths were counted for them.
    """

    run: str = ""
    times: list[float] = field(default_factory=list)
    total: int = 0
    judged: Attempt = Attempt(0)
    counted: Attempt = Attempt(0)
    unknown: dict[Ordinal, float] = field(default_factory=dict)
    newest: tuple[Death, ...] = ()
    reason: str = ""
    attempt: Attempt = Attempt(0)
    failed: dict[Incarnation, int] = field(default_factory=dict)
    early: dict[Ordinal, list[Incarnation]] = field(default_factory=dict)
    rounds: int = 0

    @classmethod
    def inherited(cls, context: StepContext, deaths: Deaths) -> "RestartLimit":
        """Continue the count that ``Latest`` has."""
        return cls(
            run=deaths.run,
            times=[context.now] * deaths.count,
            total=deaths.total,
            judged=deaths.judged,
            counted=deaths.newest[-1].attempt if deaths.newest else Attempt(0),
            unknown=dict.fromkeys(deaths.unknown, context.now),
            newest=deaths.newest,
            reason=deaths.newest[-1].reason if deaths.newest else "",
        )

    # --- Reports -------------------------------------------------------------------------

    def on_report(self, state: LeaderState, lost: EngineLost) -> None:
        """Count engines that die before they are admitted: one death for each round; see the module."""
        at = state.latest
        if lost.cause is not Cause.DIED or state.phase is not LeaderPhase.GATHERING:
            return
        if at.attempt > 0 and lost.ordinal >= at.workers:  # a joiner: the attempt continues without it
            return
        known = [death.incarnation for death in self.newest]
        admitted = [m.incarnation for m in state.members()]
        if lost.died in ("", *known, *admitted):
            return
        died = self.early.setdefault(lost.ordinal, [])
        if lost.died in died:  # the keeper repeats its report until another engine lives
            return
        died.append(lost.died)
        if len(died) > self.rounds:
            self.rounds = len(died)
            self._count(state, lost.ordinal, lost.died, lost.reason)

    def on_heartbeat(self, state: LeaderState, beat: Heartbeat) -> None:
        """Count a failure that an engine reports. A heartbeat repeats it, so its number tells whether it is known."""
        broken = beat.broken
        if broken is None or broken.failures <= self.failed.get(beat.incarnation, 0):
            return
        if broken.attempt > state.latest.attempt:
            if state.phase is not LeaderPhase.GATHERING:
                return
        elif beat.incarnation not in [m.incarnation for m in state.admitted()]:
            return  # a joiner, or an engine of an older attempt
        lives = state.registry.lives
        self.failed = {i: n for i, n in self.failed.items() if i in lives} | {beat.incarnation: broken.failures}
        if broken.attempt > state.latest.attempt:
            self._count(state, beat.ordinal, beat.incarnation, broken.reason)
        elif self.counted < broken.attempt:
            self.counted = broken.attempt
            self._count(state, beat.ordinal, beat.incarnation, broken.reason)

    # --- Reconcile --------------------------------------------------------------------------------

    def reconcile(self, state: LeaderState) -> str | None:
        """Count the losses of this attempt. Return why the job has to fail, or None."""
        if state.desired is not None and state.desired.run != self.run:
            if self.run:
                self.judged = self.counted = state.latest.attempt
            self._forget(state.desired.run)
        if state.latest.attempt != self.attempt:  # a new attempt ends the rounds before it
            self.attempt, self.early, self.rounds = state.latest.attempt, {}, 0
        self._judge(state)
        window_s = state.settings.restart_window_s
        if self.times and state.context.due_or_wake(self.times[-1] + window_s):
            self._forget(self.run)
        if len(self.times) <= state.settings.restart_attempts or not self.newest:
            return None
        return self._exhausted(state, self.newest[-1])

    def _judge(self, state: LeaderState) -> None:
        """Count at most one death for this attempt. A loss of unknown cause is weighed once."""
        if state.file is None or state.file.attempt != state.latest.attempt:
            return  # its members are not known yet
        attempt = state.latest.attempt
        lost = [life for life in map(state.life, state.admitted()) if life.lost is not None]
        died = next((life for life in lost if life.cause is Cause.DIED), None)
        if died is not None and self.counted < attempt:
            self.judged = self.counted = attempt
            self._count(state, died.ordinal, died.incarnation, died.lost or "")
            return
        if self.judged >= attempt:
            return
        for life in lost:
            if life.cause is Cause.UNKNOWN:
                self.judged = attempt
                self._weigh(state, life)
                return

    def _weigh(self, state: LeaderState, life: WorkerIncarnation) -> None:
        """Count a loss of unknown cause if the same ordinal had another one within the window."""
        before = self.unknown.get(life.ordinal)
        self.unknown[life.ordinal] = state.context.now
        if before is not None and state.context.now - before < state.settings.restart_window_s:
            self._count(state, life.ordinal, life.incarnation, life.lost or "")

    def _count(self, state: LeaderState, ordinal: Ordinal, incarnation: Incarnation, reason: str) -> None:
        now = state.context.now
        oldest = now - state.settings.restart_window_s
        young = [at for at in self.times if at > oldest]
        self.times = [*young[-RESTART_ATTEMPTS_MAX:], now]
        self.total += 1
        self.reason = reason
        count, limit = len(self.times), state.settings.restart_attempts
        kept = clip(reason, DEATH_BYTES_MAX)
        death = Death(ordinal, incarnation, state.latest.attempt, self.total, count, kept)
        self.newest = (*self.newest, death)[-DEATHS_KEPT_MAX:]
        state.put_off(count)
        state.context.log(f"event=death worker={ordinal} count={count} attempts={limit} reason={reason!r}")

    def _forget(self, run: str) -> None:
        """Clear the count: a new run has begun, or ``window_s`` have passed without a death."""
        if run != self.run:
            self.total = 0
        self.run = run
        self.times, self.unknown, self.newest, self.reason = [], {}, (), ""

    # --- The record --------------------------------------------------------------------------

    def deaths(self, state: LeaderState) -> Deaths:
        """Return the count as ``Latest`` stores it; empty while this run has no loss to remember."""
        if not self.total and not self.unknown:
            return Deaths()
        return Deaths(
            run=self.run,
            count=len(self.times),
            attempts=state.settings.restart_attempts,
            window_s=state.settings.restart_window_s,
            total=self.total,
            judged=self.judged,
            unknown=tuple(sorted(self.unknown))[:LOST_MAX],
            newest=self.newest,
        )

    def _exhausted(self, state: LeaderState, last: Death) -> str:
        first, *details = (self.reason or last.reason).splitlines() or [""]
        window = span_text(state.settings.restart_window_s)
        allowed = state.settings.restart_attempts
        count = (
            f"{len(self.times)} failures within {window}, and {RESTARTS_EXHAUSTED} "
            f"{allowed} restart{'' if allowed == 1 else 's'}"
        )
        return "\n".join([f"worker {last.ordinal}: {first}: {count}", *details, WHAT_TO_DO])
