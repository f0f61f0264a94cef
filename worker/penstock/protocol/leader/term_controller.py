"""One pass of a leader: it takes an event into the facts, then reconciles.

This module holds the order only: which part acts first, and what must hold before the next part
may act. The rules are in the parts.
"""

from dataclasses import dataclass, field

from penstock.contract.control_messages import (
    CheckpointWanted,
    EngineLost,
    Envelope,
    EpochFailed,
    Heartbeat,
    PublishFailed,
    Splits,
    TaskAck,
)
from penstock.contract.ids import NO_TERM
from penstock.protocol.keeper_core_messages import (
    BlobNotWritten,
    BlobRead,
    BlobsListed,
    BlobUnreadable,
    BlobWritten,
    CoordinatorEvent,
    Imported,
    ImportFailed,
    LatestRead,
    LatestUnreadable,
    PeerRefused,
    ReportArrived,
    RootFileFailed,
    RootFileRead,
    RootFileWritten,
    SavepointCopied,
    SavepointIndexed,
    SavepointNotCopied,
    SnapshotRead,
    SwapConflicted,
    SwapDone,
    SwapUnknown,
)
from penstock.protocol.leader.checkpoint_cleaner import CheckpointCleaner
from penstock.protocol.leader.checkpoint_coordinator import CheckpointCoordinator
from penstock.protocol.leader.job_completion import JobCompletion
from penstock.protocol.leader.job_restore import JobRestore
from penstock.protocol.leader.leader_state import LeaderPhase, LeaderState
from penstock.protocol.leader.leader_storage import ManifestCache
from penstock.protocol.leader.recovery import Recovery, end_strangers, record_losses
from penstock.protocol.leader.rescale_coordinator import RescaleCoordinator, RescalePhase
from penstock.protocol.leader.restart_limit import RestartLimit
from penstock.protocol.leader.rollback import Rollback, rollback
from penstock.protocol.leader.term_bootstrap import TermBootstrap
from penstock.protocol.leader.user_requests import UserRequests, is_waited_for
from penstock.protocol.leader.wanted_table import record_balance, record_refused
from penstock.protocol.leader.worker_registry import member_of

PASSES_MAX = 16  # changes of phase or stage in one step; more would be a loop
SUSPECT_HEARTBEATS = 2.5  # a member that misses so many heartbeats is dialled
ATTEMPT_PHASES = (
    LeaderPhase.RESETTING,
    LeaderPhase.PUBLISHING,
    LeaderPhase.STARTING,
    LeaderPhase.RUNNING,
)


@dataclass(slots=True)
class TermController:
    """The parts of one term. Each holds its own state, and all share the state of the leader."""

    state: LeaderState
    manifests: ManifestCache
    bootstrap: TermBootstrap = field(default_factory=TermBootstrap)
    recovery: Recovery = field(default_factory=Recovery)
    restore: JobRestore = field(default_factory=JobRestore)
    checkpoints: CheckpointCoordinator = field(default_factory=CheckpointCoordinator)
    rescale: RescaleCoordinator = field(default_factory=RescaleCoordinator)
    requests: UserRequests = field(default_factory=UserRequests)
    completion: JobCompletion = field(default_factory=JobCompletion)
    cleaner: CheckpointCleaner = field(default_factory=CheckpointCleaner)
    restart_limit: RestartLimit = field(default_factory=RestartLimit)

    def on_event(self, event: CoordinatorEvent) -> None:
        """Take one event into the facts. An answer that is not awaited changes nothing."""
        state = self.state
        match event:
            case SwapDone() | SwapConflicted() | SwapUnknown() | LatestRead() | LatestUnreadable():
                state.cas.on_event(state.context, event)
            case BlobWritten() | BlobNotWritten() | BlobRead() | BlobUnreadable():
                self.manifests.on_event(state.context, event)
            case RootFileRead() | RootFileWritten() | RootFileFailed():
                self.bootstrap.on_event(state, event)
            case SnapshotRead() | Imported() | ImportFailed():
                self.restore.on_event(state, event)
            case SavepointCopied() | SavepointIndexed() | SavepointNotCopied():
                self.requests.on_savepoint_copied(state, event)
            case BlobsListed():
                self.cleaner.on_event(state, event)
            case PeerRefused(address):
                state.registry.refuse(address)
            case ReportArrived(envelope):
                self._on_report(envelope)
            case _:
                pass

    def _on_report(self, envelope: Envelope) -> None:
        """Take a report. Heartbeats and deaths count under any term, other reports under this one."""
        state = self.state
        if envelope.job_uid != state.latest.job_uid:
            return
        body = envelope.body
        if isinstance(body, Heartbeat | EngineLost):
            state.registry.on_report(state.context, envelope)
        if isinstance(body, Heartbeat):
            self.restart_limit.on_heartbeat(state, body)
        if isinstance(body, EngineLost):
            self.restart_limit.on_report(state, body)
        if isinstance(body, EngineLost) and body.fatal and envelope.term in (NO_TERM, state.term):
            state.failure = body.reason  # no term: the engine ended before its first message
        if envelope.term != state.term:
            return
        match body:
            case TaskAck():
                self.checkpoints.on_ack(state, body)
            case EpochFailed():
                self.checkpoints.on_epoch_failed(state, body)
            case PublishFailed():
                self.checkpoints.on_publish_failed(state, body)
            case Splits():
                self.recovery.on_splits(state, body)
            case CheckpointWanted(attempt):
                if attempt == state.latest.attempt:
                    self.checkpoints.request(state)
            case _:
                pass

    # --- Reconcile --------------------------------------------------------------------------------

    def reconcile(self) -> None:
        """Make passes until nothing changes any more, then forget the files that are not named."""
        for _ in range(PASSES_MAX):
            before = self._where()
            self._pass()
            if self._where() == before:
                break
        else:
            raise AssertionError(f"the leader does not come to rest: {self._where()}")
        self.state.retrier.sweep()
        self._forget()

    def _where(self) -> tuple[LeaderPhase, RescalePhase, bool, bool]:
        state = self.state
        return state.phase, self.rescale.stage, self.checkpoints.in_flight is None, state.cas.busy

    def _pass(self) -> None:
        state = self.state
        self.checkpoints.notice(state, self.manifests)
        _announce(state)
        bootstrap = state.phase is LeaderPhase.OPENING
        if not bootstrap and state.latest.closed():
            self._close()
            return
        if not bootstrap:
            state.failure = state.failure or self.restart_limit.reconcile(state)
            state.deaths = self.restart_limit.deaths(state)
        if (self.bootstrap.checked or not bootstrap) and self.completion.reconcile(state):
            return
        if state.phase in ATTEMPT_PHASES and not state.cas.busy:
            decision = rollback(state)
            if decision is not None:
                self._recover(decision)
        self._reconcile_phase()
        if state.phase not in (LeaderPhase.OPENING, LeaderPhase.CLOSED):
            end_strangers(state)
            if not state.cas.busy:
                record_losses(state)

    def _reconcile_phase(self) -> None:
        state = self.state
        decision: Rollback | None = None
        match state.phase:
            case LeaderPhase.OPENING:
                self.bootstrap.reconcile(state, self.manifests)
            case LeaderPhase.GATHERING:
                undecided = state.cas.busy
                if self.restore.reconcile(state, self.manifests):
                    self.recovery.gather(state, self.manifests)
                elif not undecided:
                    self.recovery.drop()  # drafted from another checkpoint than will be restored
            case LeaderPhase.RESETTING:
                decision = self.recovery.reset(state)
            case LeaderPhase.PUBLISHING:
                self.recovery.publish(state)
            case LeaderPhase.STARTING:
                decision = self.recovery.start(state, self.checkpoints)
            case LeaderPhase.RUNNING:
                self._run()
            case LeaderPhase.CLOSED:  # a new run opens the job again
                state.rollback = True
                self.cleaner.reopen()
                state.enter(LeaderPhase.OPENING)
        if decision is not None and not state.cas.busy:
            self._recover(decision)

    def _run(self) -> None:
        """One pass while all members run: checkpoint in flight, rescale, answers, new requests."""
        state, checkpoints, rescale = self.state, self.checkpoints, self.rescale
        if state.plan is None:
            return
        checkpoints.reconcile(state, self.manifests)
        rescale.reconcile(state, self.manifests, checkpoints)
        if checkpoints.in_flight is not None and (checkpoints.hasty or is_waited_for(state) or rescale.waits(state)):
            checkpoints.expedite(state)
        checkpoints.decide_for(state)
        if not state.published():  # no epoch starts before the one before it is published
            return
        checkpoints.answer(state)
        self.requests.copy(state)
        self.cleaner.reconcile(state, self.manifests, rescale.name)
        if not state.cas.busy:
            record_refused(state)
        if not state.cas.busy and rescale.idle:
            record_balance(state)
        if state.cas.busy or checkpoints.in_flight is not None:
            return
        if rescale.stage not in (RescalePhase.IDLE, RescalePhase.PREPARING):
            return
        if state.is_final():
            self.completion.finish(state)
        else:
            self.requests.reconcile(state, checkpoints, rescale.idle)

    def _recover(self, decision: Rollback) -> None:
        """Give the attempt up: the next one starts from the committed epoch."""
        state = self.state
        state.reason = decision.text
        state.failure = decision.failure or state.failure
        state.failures += 1
        state.put_off(state.failures)
        state.context.log(
            f"event=rollback attempt={state.latest.attempt} cause={decision.cause} reason={decision.text!r}"
        )
        self._drop()
        state.enter(LeaderPhase.GATHERING)

    def _close(self) -> None:
        state = self.state
        if state.phase is not LeaderPhase.CLOSED:
            state.failure = None
            self._drop()
            state.enter(LeaderPhase.CLOSED)
        self.completion.closed(state)
        self.cleaner.sweep(state, self.manifests)

    def _drop(self) -> None:
        self.state.differing = None
        self.checkpoints.drop()
        self.rescale.drop()
        self.recovery.drop()
        self.completion.drop()

    def leaves(self) -> bool:
        """Return whether this leader has to step down, because its worker is no member any more."""
        state = self.state
        return (
            state.phase is LeaderPhase.RUNNING
            and not state.cas.busy
            and self.rescale.idle
            and state.latest.settled == state.latest.version
            and state.target() == state.latest.workers
            and state.me.ordinal >= state.latest.workers
        )

    def _forget(self) -> None:
        """Keep only the cached files that the object or a part of this leader names."""
        at = self.state.latest
        names = [r.root.name for r in (*at.retained, *at.pinned)]
        names += [ref.name for ref in (at.root, at.members) if ref is not None]
        in_flight = self.checkpoints.in_flight
        drafts = (
            self.recovery.name,
            self.restore.name,
            self.rescale.name,
            in_flight.name if in_flight else None,
        )
        names += [name for name in drafts if name is not None]
        self.manifests.keep(names)


def _announce(state: LeaderState) -> None:
    """Announce this term to every member, and dial members that are silent.

    A member acts on no other command of this term before the announcement. A dead member refuses
    the dial, and the refusal is known much sooner than the end of the heartbeat timeout.
    """
    patience_s = SUSPECT_HEARTBEATS * state.settings.heartbeat_interval_s
    for member in state.members():
        life = state.life(member)
        silent = state.context.due_or_wake(life.seen.at + patience_s)
        if life.lost is None and (silent or life.term < state.term):
            state.ensure(member, state.announcement(), state.term)
    for life in state.registry.lives.values():  # a lost one, too: it takes Shutdown only after it
        if life.heartbeat is not None and life.term < state.term and state.registry.recent(state.context, life):
            state.ensure(member_of(life), state.announcement(), state.term)
