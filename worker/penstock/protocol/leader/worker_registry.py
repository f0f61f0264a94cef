"""Who is alive, as heartbeats tell: one record per life of a worker's engine.

::

    unknown ──heartbeat──> live ──silence, refused twice, replaced, given up──> lost (for ever)

Silence counts while this leader listens: after a gap in its own steps it reads what has come
before it judges anyone, see :class:`StepContext`.

Never two admitted lives of one ordinal: an attempt's members are fixed by the swap that wrote
them, and a stranger is at most a candidate for the next one. A lost life is never taken back.
"""

from dataclasses import dataclass, field

from penstock.contract.control_messages import Cause, EngineLost, EngineStatus, Envelope, Heartbeat
from penstock.contract.ids import Incarnation, Ordinal, Term
from penstock.contract.latest import Member
from penstock.protocol.leader.command_retrier import Address
from penstock.protocol.step_context import Sign, StepContext

REFUSALS = 2  # dials in a row that show that nobody listens any more
NO_STATUS = EngineStatus()


@dataclass(slots=True)
class WorkerIncarnation:
    """One life: its newest heartbeat, under which term and when it came, why it was lost."""

    ordinal: Ordinal
    incarnation: Incarnation
    heartbeat: Heartbeat | None = None
    term: Term = Term(0)
    seen: Sign = Sign()
    keeper: str = ""
    pod: str = ""
    refusals: int = 0
    lost: str | None = None
    cause: Cause = Cause.UNKNOWN
    draining: bool = False

    @property
    def status(self) -> EngineStatus:
        """Return what the engine last said of itself; zeros before it said anything."""
        return NO_STATUS if self.heartbeat is None else self.heartbeat.status


@dataclass(slots=True)
class WorkerRegistry:
    """``since`` is when this leader began to listen: silence is counted from then, not before.

    A life that is silent for ``timeout_s`` is lost; up to ``excused_s_max`` of a leader's own
    standstill are not counted.
    """

    timeout_s: float
    since: Sign
    excused_s_max: float
    lives: dict[Incarnation, WorkerIncarnation] = field(default_factory=dict)

    def life(self, ordinal: Ordinal, incarnation: Incarnation) -> WorkerIncarnation:
        """Return the record of a life, made on its first mention."""
        known = self.lives.get(incarnation)
        if known is None:
            known = WorkerIncarnation(ordinal, incarnation, seen=self.since)
            self.lives[incarnation] = known
        return known

    def of(self, member: Member) -> WorkerIncarnation:
        """Return the record of an admitted member."""
        life = self.life(member.ordinal, member.incarnation)
        life.keeper = life.keeper or member.keeper
        life.pod = life.pod or member.pod
        return life

    def on_report(self, context: StepContext, envelope: Envelope) -> None:
        """Take a heartbeat or the news of an engine's end; late ones are dropped."""
        match envelope.body:
            case Heartbeat() as heartbeat:
                self._heartbeat(context, envelope.term, heartbeat)
            case EngineLost() as lost:
                self._engine_lost(lost)

    def _heartbeat(self, context: StepContext, term: Term, heartbeat: Heartbeat) -> None:
        life = self.life(heartbeat.ordinal, heartbeat.incarnation)
        if life.heartbeat is not None and heartbeat.sequence <= life.heartbeat.sequence:
            return
        life.heartbeat = heartbeat
        life.term = term
        life.seen = context.sign()
        life.refusals = 0
        life.keeper = heartbeat.keeper
        life.pod = heartbeat.pod
        life.draining = heartbeat.draining
        if heartbeat.lost is not None:
            self._engine_lost(heartbeat.lost)
        if heartbeat.replaces:
            before = self.life(heartbeat.ordinal, heartbeat.replaces)
            before.pod = before.pod or heartbeat.pod
            self.mark_lost(before, "its engine was replaced")

    def _engine_lost(self, lost: EngineLost) -> None:
        if not lost.incarnation:
            return
        life = self.life(lost.ordinal, lost.incarnation)
        life.pod = life.pod or lost.pod
        if lost.died in ("", lost.incarnation):
            self.mark_lost(life, lost.reason, lost.cause)
        else:  # a successor that never said a word; how this life ended was said before
            self.mark_lost(life, "its engine was replaced")

    def refuse(self, address: str) -> None:
        """Count a refused dial against whoever was last heard of at ``address``."""
        for life in self.lives.values():
            if life.keeper == address:
                life.refusals += 1
                if life.refusals >= REFUSALS:
                    self.mark_lost(life, f"{address} refuses connections")

    def mark_lost(self, life: WorkerIncarnation, reason: str, cause: Cause = Cause.UNKNOWN) -> None:
        """Give a life up for ever; the first reason stays, unless it did not say why."""
        if life.draining and cause is Cause.UNKNOWN:
            cause = Cause.ORDERED
        if life.lost is None or (life.cause is Cause.UNKNOWN and cause is not Cause.UNKNOWN):
            life.lost, life.cause = reason, cause

    def alive(self, context: StepContext, life: WorkerIncarnation) -> bool:
        """Return whether a life is neither lost nor silent; silence makes it lost."""
        if life.lost is None and context.due_or_wake(self._silent_at(context, life)):
            self.mark_lost(life, f"not heard of for {self.timeout_s:g} s")
        return life.lost is None

    def recent(self, context: StepContext, life: WorkerIncarnation) -> bool:
        """Return whether a life, lost or not, has been heard of lately."""
        return life.heartbeat is not None and context.now < self._silent_at(context, life)

    def _silent_at(self, context: StepContext, life: WorkerIncarnation) -> float:
        return context.silent_at(life.seen, self.timeout_s, self.excused_s_max)

    def candidate(
        self,
        context: StepContext,
        ordinal: Ordinal,
        fingerprint: str,
        members: list[Incarnation] | None,
    ) -> WorkerIncarnation | None:
        """Return a life that may be admitted for ``ordinal``: heard of, alive, of this plan.

        It is fresh or one of ``members`` (None: not known): one that ran an earlier attempt and
        is no member is being ended.
        """
        for life in reversed(list(self.lives.values())):
            if (
                life.ordinal == ordinal
                and life.heartbeat is not None
                and life.heartbeat.fingerprint == fingerprint
                and (life.status.attempt == 0 or members is None or life.incarnation in members)
                and self.alive(context, life)
            ):
                return life
        return None

    def prune(self, context: StepContext, keep: list[Incarnation]) -> None:
        """Forget lives lost before the current attempt and silent since: bounds the roster."""
        self.lives = {
            i: life
            for i, life in self.lives.items()
            if not life.lost or i in keep or self.recent(context, life)
        }


def member_of(life: WorkerIncarnation) -> Member:
    """Describe a life as a member of an attempt."""
    assert life.heartbeat is not None
    beat = life.heartbeat
    return Member(life.ordinal, life.incarnation, beat.keeper, beat.flight, life.pod)


def address_of(life: WorkerIncarnation, member: Member | None = None) -> Address | None:
    """Return where a life is told something, from its heartbeat or from the members file."""
    if life.heartbeat is not None:
        return Address(life.ordinal, life.incarnation, life.heartbeat.keeper)
    if member is not None:
        return Address(member.ordinal, member.incarnation, member.keeper)
    return None
