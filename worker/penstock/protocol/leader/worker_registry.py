"""The registry of workers: one record per incarnation, kept from heartbeats; and commands to them.

::

    unknown ──heartbeat──> live ──silent, refused twice, replaced, or given up──> lost (for ever)

Silence counts only while this leader listens. After a gap in its own steps the leader reads the
messages that have arrived before it judges anyone, see :class:`StepContext`.

Two incarnations of one ordinal are never admitted at once. The swap that begins an attempt fixes
the members. Any other incarnation is at most a candidate for the next attempt. A lost incarnation
is never taken back.

Each command is repeated until a heartbeat shows its effect (:class:`CommandRetrier`).
"""

from dataclasses import dataclass, field

from penstock.contract.control_messages import Cause, Command, EngineLost, EngineStatus, Envelope, Heartbeat
from penstock.contract.ids import Incarnation, JobUid, Ordinal, Term
from penstock.contract.latest import Member
from penstock.protocol.core_context import Sign, StepContext
from penstock.protocol.keeper_core_messages import SendCommand

REFUSALS = 2  # refused dials in a row after which an incarnation is lost
NO_STATUS = EngineStatus()


@dataclass(frozen=True, slots=True)
class Address:
    """Where the commands to one incarnation of a worker are sent."""

    ordinal: Ordinal
    incarnation: Incarnation
    keeper: str


@dataclass(slots=True)
class CommandRetrier:
    """Sends each command at once, and again every ``resend_s`` while it is asked for."""

    job_uid: JobUid
    term: Term
    sender: Ordinal
    resend_s: float
    sent: dict[tuple[Incarnation, str, int], float] = field(default_factory=dict)
    wanted: dict[tuple[Incarnation, str, int], float] = field(default_factory=dict)

    def ensure(self, context: StepContext, to: Address, command: Command, number: int) -> None:
        """Repeat ``command`` at intervals. ``number`` distinguishes it from others of its kind."""
        key = (to.incarnation, type(command).__name__, number)
        at = self.wanted.get(key, self.sent.get(key))
        if at is None or context.due_or_wake(at + self.resend_s):
            at = context.now
            self.send(context, to, command)
            context.due_or_wake(at + self.resend_s)
        self.wanted[key] = at

    def send(self, context: StepContext, to: Address, command: Command) -> None:
        """Send once: the receiver also learns the content in another way."""
        envelope = Envelope(self.job_uid, self.term, self.sender, command)
        context.do(SendCommand(to.ordinal, to.keeper, envelope))

    def sweep(self) -> None:
        """End a step: commands that were not asked for in it are forgotten, which bounds them."""
        self.sent = self.wanted
        self.wanted = {}


@dataclass(slots=True)
class WorkerIncarnation:
    """One incarnation: its newest heartbeat with the term and the time of it, and why it was lost."""

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
        """Return the newest status of the engine; zeros before the first one."""
        return NO_STATUS if self.heartbeat is None else self.heartbeat.status


@dataclass(slots=True)
class WorkerRegistry:
    """``since``: when this leader began to listen. Silence counts from then on.

    An incarnation that is silent for ``timeout_s`` is lost. Time in which the leader itself stood
    still does not count, up to ``excused_s_max``.
    """

    timeout_s: float
    since: Sign
    excused_s_max: float
    lives: dict[Incarnation, WorkerIncarnation] = field(default_factory=dict)

    def life(self, ordinal: Ordinal, incarnation: Incarnation) -> WorkerIncarnation:
        """Return the record of an incarnation; the first call makes it."""
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
        """Take a heartbeat or the report of an engine's end; late ones are dropped."""
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
        else:  # a successor died before its first message; this end was reported before
            self.mark_lost(life, "its engine was replaced")

    def refuse(self, address: str) -> None:
        """Count a refused dial against the incarnation whose keeper has this address."""
        for life in self.lives.values():
            if life.keeper == address:
                life.refusals += 1
                if life.refusals >= REFUSALS:
                    self.mark_lost(life, f"{address} refuses connections")

    def mark_lost(self, life: WorkerIncarnation, reason: str, cause: Cause = Cause.UNKNOWN) -> None:
        """Give an incarnation up for ever. The first reason stays, unless its cause was unknown."""
        if life.draining and cause is Cause.UNKNOWN:
            cause = Cause.ORDERED
        if life.lost is None or (life.cause is Cause.UNKNOWN and cause is not Cause.UNKNOWN):
            life.lost, life.cause = reason, cause

    def alive(self, context: StepContext, life: WorkerIncarnation) -> bool:
        """Return whether an incarnation lives. One that is silent too long becomes lost."""
        if life.lost is None and context.due_or_wake(self._silent_at(context, life)):
            self.mark_lost(life, f"not heard of for {self.timeout_s:g} s")
        return life.lost is None

    def recent(self, context: StepContext, life: WorkerIncarnation) -> bool:
        """Return whether the newest heartbeat of an incarnation, lost or not, is recent."""
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
        """Return an incarnation that may be admitted for ``ordinal``: alive, and of this plan.

        It has run no attempt, or it is one of ``members`` (None: the members are not known). An
        incarnation that ran an attempt and is no member is being ended.
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
        """Forget incarnations that are lost and silent, except ``keep``. This bounds the registry."""
        self.lives = {
            i: life for i, life in self.lives.items() if not life.lost or i in keep or self.recent(context, life)
        }


def member_of(life: WorkerIncarnation) -> Member:
    """Describe an incarnation as a member of an attempt."""
    assert life.heartbeat is not None
    beat = life.heartbeat
    return Member(life.ordinal, life.incarnation, beat.keeper, beat.flight, life.pod)


def address_of(life: WorkerIncarnation, member: Member | None = None) -> Address | None:
    """Return the address of an incarnation, from its heartbeat or from the members file."""
    if life.heartbeat is not None:
        return Address(life.ordinal, life.incarnation, life.heartbeat.keeper)
    if member is not None:
        return Address(member.ordinal, member.incarnation, member.keeper)
    return None
