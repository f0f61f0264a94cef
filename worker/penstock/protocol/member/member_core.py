"""The member's core: a keeper decides for its own worker.

It fences commands, watches the engine, and repeats reports. The engine goes through these phases:

::

    OFF      ──> STARTING, UP, OFF
    STARTING ──> UP, ENDING, OFF
    UP       ──> ENDING, OFF
    ENDING   ──> OFF

- OFF: no engine runs. One is started when the job is not closed and the back-off is over.
- STARTING: an engine was asked for, and its first message (EngineHello) has not come yet.
- UP: commands go to the engine, and heartbeats to the leader.
- ENDING: the engine was told to end: it was silent, it was shut down, or the job is closed.

Commands are fenced by three comparisons. A command of a lower term is refused. A higher term is
accepted only by its announcement. Every command but a Reset must be of the attempt that the engine
has taken. An engine takes an attempt only by an order that names it as a member: a late order may
be for the engine before it. Each command reaches the engine once; the leader repeats a command until
a heartbeat shows its effect.
"""

from enum import StrEnum

from penstock.base.values import replace
from penstock.contract.control_messages import (
    Abort,
    Adopt,
    Announce,
    Broken,
    CancelRescale,
    Cause,
    CheckpointWanted,
    Command,
    Commit,
    EndStreams,
    EngineHello,
    EngineLost,
    EngineReport,
    EngineStatus,
    Enumerate,
    Envelope,
    EpochFailed,
    Expedite,
    Heartbeat,
    Inject,
    Prepare,
    Publish,
    PublishFailed,
    PublishWhole,
    Report,
    Reset,
    Settled,
    Shutdown,
    Splits,
    Start,
    TaskAck,
)
from penstock.contract.ids import Attempt, Epoch, Incarnation, JobUid, Ordinal, Term
from penstock.contract.latest import Latest, Leader, Member
from penstock.protocol.core_context import ControlSettings, Sign, StepContext, checked
from penstock.protocol.keeper_core_messages import (
    Action,
    CommandArrived,
    Drain,
    EndEngine,
    EngineGone,
    EngineReported,
    LatestRead,
    LatestUnreadable,
    MemberEvent,
    ReadLatest,
    Retire,
    SendReport,
    StartEngine,
    StoreChanged,
    ToEngine,
)
from penstock.protocol.member.member_reports import (
    OF_A_TERM,
    CommandDedup,
    DrainView,
    LastCheckpointWait,
    PendingReports,
)


class EnginePhase(StrEnum):
    """Where the engine of this worker is; see the diagram above."""

    OFF = "off"
    STARTING = "starting"
    UP = "up"
    ENDING = "ending"


TRANSITIONS: dict[EnginePhase, tuple[EnginePhase, ...]] = {
    EnginePhase.OFF: (
        EnginePhase.STARTING,
        EnginePhase.UP,  # the engine of a pod starts by itself
        EnginePhase.OFF,  # such an engine has ended before its first message
    ),
    EnginePhase.STARTING: (EnginePhase.UP, EnginePhase.ENDING, EnginePhase.OFF),
    EnginePhase.UP: (EnginePhase.ENDING, EnginePhase.OFF),
    EnginePhase.ENDING: (EnginePhase.OFF,),
}


class MemberCore:
    """The core of one member: it passes commands to the engine, and reports to the leader."""

    def __init__(
        self,
        settings: ControlSettings,
        ordinal: Ordinal,
        keeper: str,
        job_uid: JobUid,
        *,
        pod: str = "",
    ) -> None:
        self.settings = settings
        self.ordinal = ordinal
        self.keeper = keeper
        self.job_uid = job_uid
        self.pod = pod
        self.context = StepContext(Incarnation(""), settings.heartbeat_interval_s)
        self.term = Term(0)  # the newest term that was announced here
        self.fence = Term(0)  # the highest term that is known to exist
        self.leader: Leader | None = None
        self.closed: bool | None = None
        self.committed = Epoch(0)
        self.engine = EnginePhase.OFF
        self.hello: EngineHello | None = None
        self.status = EngineStatus()
        self.broken: Broken | None = None
        self.lost: EngineLost | None = None
        self.ended: tuple[Cause, str] | None = None  # it was told to end, for this reason
        self.taken = CommandDedup()
        self.open = PendingReports()
        self.sequence = 0
        self.deaths = 0
        self.deaths_unasked = 0  # of all engines of this keeper, for the metrics
        self.engine_seen = Sign()
        self.start_at = 0.0
        self.beat_at = 0.0
        self.repeat_at = 0.0
        self.read_at = 0.0
        self.reading: int | None = None
        self.unread_since: float | None = None
        self.retired = False
        self.draining: LastCheckpointWait | None = None

    def step(self, event: MemberEvent, now: float) -> list[Action]:
        """Take one event at ``now``, this keeper's monotonic seconds; return what is to be done."""
        self.context.begin(now)
        match event:
            case StoreChanged():
                self.read_at = now
            case Drain():
                began = (self.open.newest(self.taken), self.status.published, self.committed)
                self.draining = LastCheckpointWait(Epoch(max(began)))
                self.beat_at = now
            case Retire():
                self.retired = True
            case LatestRead(token, record, _, _) if token == self.reading:
                self.reading = self.unread_since = None
                self._learn(record)
            case LatestUnreadable(token, _) if token == self.reading:
                self.reading = None
                self.unread_since = now if self.unread_since is None else self.unread_since
            case CommandArrived(envelope):
                self._command(envelope)
            case EngineReported(incarnation, report):
                self._on_report(incarnation, report)
            case EngineGone():
                self._on_engine_gone(event)
            case _:
                pass
        self._reconcile()
        return self.context.actions

    def _enter(self, phase: EnginePhase) -> None:
        self.engine = checked(TRANSITIONS, self.engine, phase)

    def wakes_at(self) -> float | None:
        """Return when a Tick is due at the latest; None when only events matter."""
        return self.context.alarm

    def drained(self) -> bool:
        """Return whether a draining worker may end: no engine runs, or the wait for it is over."""
        if self.draining is None:
            return False
        return self.engine is not EnginePhase.UP or self.draining.over

    # --- The leader ------------------------------------------------------------------------------

    def _learn(self, record: Latest | None) -> None:
        """Learn who leads, and whether an engine may run."""
        if record is None or record.job_uid != self.job_uid:
            return
        if record.term >= self.fence:
            self.fence = record.term
            if record.leader != self.leader:
                self.leader = record.leader
                self.beat_at = self.context.now
            self.closed, self.committed = record.closed(), record.epoch
        if self.closed and self.lost is not None:
            self.deaths = 0  # a new run begins without deaths
            self.lost = replace(self.lost, fatal=False)

    def _command(self, envelope: Envelope) -> None:
        """Fence a command by its term, then by its attempt. It goes to the engine once."""
        command = envelope.body
        if envelope.job_uid != self.job_uid:
            return
        if envelope.term < self.fence:  # from a deposed leader
            return
        if isinstance(command, Announce):
            self._announced(envelope.term, command)
            return
        if envelope.term > self.term:  # the announcement of that term comes first
            return
        if self.engine is EnginePhase.UP:
            self._dispatch(command)  # type: ignore[arg-type]

    def _announced(self, term: Term, announce: Announce) -> None:
        self.fence = term
        self.leader = announce.leader
        if term > self.term:
            self.term = term
            self.open.close_terms_below(term)
            self.taken.forget(OF_A_TERM)
            if announce.attempt == self.taken.attempt:
                self._pass(announce)
        self.beat_at = self.context.now

    # --- Commands --------------------------------------------------------------------------------

    def _dispatch(self, command: Command) -> None:
        match command:
            case Announce():
                pass
            case Shutdown(incarnation, reason):
                if self.hello is not None and incarnation == self.hello.incarnation:
                    self._end(reason)
            case Enumerate(attempt):
                if attempt > self.taken.attempt and command != self.taken.enumerated:
                    self.taken.enumerated = command  # once, unless it names other sources
                    self._pass(command)
            case Reset(attempt, members=members):
                if attempt > self.taken.attempt and self._is_named(members):
                    self._take(attempt)
                    self._pass(command)
            case Prepare(attempt, assignment, members):
                if self.taken.attempt == 0 and self._is_named(members):
                    self._take(attempt)  # it is the first command of a joiner
                version = assignment.version
                if version > self.taken.cancelled:
                    self._once(command, attempt, version)
            case CancelRescale(attempt, version):
                self.taken.cancelled = max(self.taken.cancelled, version)
                self._once(command, attempt, version)
            case Inject(attempt, epoch) | Expedite(attempt, epoch):
                if epoch > self.taken.decided():
                    self._once(command, attempt, epoch)
            case Commit(attempt, epoch) | Abort(attempt, epoch):
                self._once(command, attempt, epoch)
                if attempt == self.taken.attempt:
                    self.open.close(epoch)
            case Publish(attempt, epoch) | PublishWhole(attempt, epoch):
                self._once(command, attempt, epoch)
            case Start(attempt) | EndStreams(attempt):
                self._once(command, attempt, attempt)
            case Adopt(attempt, version) | Settled(attempt, version):
                self._once(command, attempt, version)

    def _is_named(self, members: tuple[Member, ...]) -> bool:
        """Return whether the engine here is one of ``members``."""
        return self.hello is not None and self.hello.incarnation in [m.incarnation for m in members]

    def _take(self, attempt: Attempt) -> None:
        """Begin an attempt: what was known of the engine was about earlier ones."""
        self.taken = CommandDedup(attempt)
        self.open = PendingReports()
        self.broken = None
        self.status = EngineStatus()

    def _once(self, command: Command, attempt: Attempt, number: int) -> None:
        if attempt != self.taken.attempt:  # of a rolled-back attempt, or before its Reset
            return
        if self.taken.first(command, number):
            self._pass(command)

    def _pass(self, command: Command) -> None:
        if self.engine is EnginePhase.UP and self.hello is not None:
            self.context.do(ToEngine(self.hello.incarnation, self.term, command))
            if not isinstance(command, Inject | Expedite | Commit):  # a report follows these soon
                self.beat_at = self.context.now

    # --- The engine ------------------------------------------------------------------------------

    def _on_report(self, incarnation: Incarnation, report: EngineReport) -> None:
        if isinstance(report, EngineHello):
            self._hello(report)
        if self.hello is None or incarnation != self.hello.incarnation:
            return
        self.engine_seen = self.context.sign()
        match report:
            case EngineStatus():
                self._status(report)
            case Broken(attempt):
                if attempt >= self.taken.attempt and not self._follows_failure(report):
                    self.broken = report
                    self.taken.enumerated = None  # a listing that failed may be asked again
                    self.beat_at = self.context.now
            case TaskAck() | EpochFailed():
                if report.attempt == self.taken.attempt and report.term >= self.term:
                    self.open.keep(report)
                    self._report(report)
            case PublishFailed() | Splits() | CheckpointWanted():
                if isinstance(report, Splits) and self.broken is not None and self.broken.attempt == report.attempt:
                    self.broken = None  # what failed was a try to list them, not that attempt
                    self.beat_at = self.context.now
                self.open.keep(report)
                self._report(report)

    def _follows_failure(self, report: Broken) -> bool:
        """Return whether the attempt is known to have ended by a failure: a stream that breaks follows from it.

        A listing, which is for the next attempt, fails anew each time.
        """
        known = self.broken
        if known is None or not known.attempt == report.attempt == self.taken.attempt:
            return False
        return known.failures > report.failures

    def _hello(self, hello: EngineHello) -> None:
        if self.hello is not None or hello.ordinal != self.ordinal:
            return
        self.hello = hello
        if self.engine is not EnginePhase.ENDING:
            self._enter(EnginePhase.UP)
        self.taken = CommandDedup()
        self.open = PendingReports()
        self.broken = None
        self.status = EngineStatus()
        self.beat_at = self.context.now

    def _status(self, status: EngineStatus) -> None:
        if status.attempt < self.taken.attempt:
            return  # sent before the engine took the Reset
        if status != self.status:
            self.status = status
            self.beat_at = self.context.now
        if status.running > 0:
            self.deaths = 0
        failed = self.open.unpublished
        if failed is not None and status.published >= failed.epoch:
            self.open.unpublished = None

    def _on_engine_gone(self, gone: EngineGone) -> None:
        if self.hello is not None and gone.incarnation != self.hello.incarnation:
            return
        cause, reason = _cause(gone), gone.reason
        if self.ended is not None:
            cause, told = self.ended
            reason = f"{told}: {reason}"
        died = self.hello.incarnation if self.hello is not None else Incarnation("")
        if not died and self.lost is not None:
            died = self.lost.incarnation  # its successor died before its first message
        self.lost = EngineLost(self.ordinal, died, reason, gone.fatal, self.pod, cause, gone.incarnation)
        self.ended = None
        self.deaths_unasked += cause is Cause.DIED
        self._enter(EnginePhase.OFF)
        self.hello = None
        self.open = PendingReports()
        self.taken = CommandDedup()
        self.deaths += 1
        wait_s = self.settings.backoff_first_s * 2.0 ** min(self.deaths - 1, 30)
        self.start_at = self.context.now + min(wait_s, self.settings.backoff_max_s)
        self.beat_at = self.context.now

    def _end(self, reason: str, cause: Cause = Cause.ORDERED) -> None:
        if self.engine in (EnginePhase.UP, EnginePhase.STARTING):
            self._enter(EnginePhase.ENDING)
            self.ended = (cause, reason)
            incarnation = self.hello.incarnation if self.hello is not None else Incarnation("")
            self.context.do(EndEngine(incarnation, reason))

    # --- Reconcile ----------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        self._watch_engine()
        if self.reading is None and self.context.due_or_wake(self.read_at):
            self.reading = self.context.number()
            interval_s = self.settings.meta_poll_interval_s
            self.read_at = self.context.now + (interval_s if self.leader else interval_s / 5)
            self.context.do(ReadLatest(self.reading))
        if self.context.due_or_wake(self.repeat_at):
            self.repeat_at = self.context.now + self.settings.resend_interval_s
            for report in self.open.repeated(self.taken):
                self._report(report)
        going = self.draining if self.engine is EnginePhase.UP else None
        if going is not None and going.asks(self.context, self._drain_view()):
            self._report(CheckpointWanted(self.taken.attempt))
        if self.context.due_or_wake(self.beat_at):
            self.beat_at = self.context.now + self.settings.heartbeat_interval_s
            self._heartbeat()
        self.context.due_or_wake(min(self.beat_at, self.repeat_at))

    def _drain_view(self) -> DrainView:
        told, broken = tuple(self.taken.numbers.items()), self.broken is not None
        undecided = self.fence == self.term and self.open.undecided(self.taken) > 0
        return DrainView(self.status, told, self.committed, undecided, broken, self.unread_since)

    def _watch_engine(self) -> None:
        if self.retired or self.closed:
            self._end("the job is closed" if self.closed else "the keeper ends")
            return
        if self.engine is EnginePhase.UP:
            timeout_s = self.settings.engine_silence_timeout_s
            if self.context.due_or_wake(self.context.silent_at(self.engine_seen, timeout_s, timeout_s)):
                self._end(f"silent for {timeout_s:g} s", Cause.DIED)
        failed = self.lost is not None and self.lost.fatal
        may_start = self.engine is EnginePhase.OFF and self.closed is False and not failed
        if may_start and self.context.due_or_wake(self.start_at):
            self._enter(EnginePhase.STARTING)
            self.context.do(StartEngine())

    def _heartbeat(self) -> None:
        if self.engine is not EnginePhase.UP or self.hello is None:
            if self.lost is not None and self.engine is not EnginePhase.ENDING:
                self._report(self.lost)
            return
        self.sequence += 1
        self._report(
            Heartbeat(
                ordinal=self.ordinal,
                incarnation=self.hello.incarnation,
                keeper=self.keeper,
                flight=self.hello.flight,
                sequence=self.sequence,
                fingerprint=self.hello.plan.fingerprint,
                status=replace(self.status, attempt=self.taken.attempt),
                injected=Epoch(self.taken.number(Inject)),
                undecided=self.open.undecided(self.taken),
                broken=self.broken,
                replaces=self.lost.incarnation if self.lost is not None else None,
                pod=self.pod,
                lost=self.lost if self.status.running == 0 else None,
                draining=self.draining is not None or self.retired,
            )
        )

    def _report(self, report: Report) -> None:
        if self.leader is not None:
            # An engine ends under no order, and a keeper without an engine is announced no term.
            term = self.fence if isinstance(report, EngineLost) else self.term
            envelope = Envelope(self.job_uid, term, self.ordinal, report)
            self.context.do(SendReport(self.leader.address, envelope))


def _cause(gone: EngineGone) -> Cause:
    if gone.storage:
        return Cause.STORAGE
    return Cause.DIED if gone.known else Cause.UNKNOWN
