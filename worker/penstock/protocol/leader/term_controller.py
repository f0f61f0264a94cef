"""One turn of leading: take an event into the facts, then pursue what they ask for.

What is here is order: which part looks first, and what has to hold before the next may act. The
rules themselves are in the parts.
"""

from dataclasses import dataclass, field

from penstock.contract.control import (
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
from penstock.protocol.control_events import (
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
from penstock.protocol.leader import recovery as health
from penstock.protocol.leader.checkpoint_cleaner import Collection
from penstock.protocol.leader.checkpoint_coordinator import Epochs
from penstock.protocol.leader.job_completion import Ending
from penstock.protocol.leader.job_restore import Restoring, owes_output, pending
from penstock.protocol.leader.leader_state import Lead, Phase
from penstock.protocol.leader.manifest_cache import Shelf
from penstock.protocol.leader.recovery import Recovery
from penstock.protocol.leader.rescale_coordinator import Rescale, Stage
from penstock.protocol.leader.restart_limit import Restarts
from penstock.protocol.leader.term_bootstrap import Opening
from penstock.protocol.leader.user_requests import Requests, is_waited_for
from penstock.protocol.leader.worker_registry import member_of

TURNS_MAX = 16  # changes of phase or stage in one step; more would be a loop
SUSPECT_HEARTBEATS = 2.5  # missing so many, a member is dialled
ATTEMPT_PHASES = (Phase.RESETTING, Phase.PUBLISHING, Phase.STARTING, Phase.RUNNING)


@dataclass(slots=True)
class Office:
    """The parts of one term of leading; each holds its own state and shares the lead."""

    lead: Lead
    shelf: Shelf
    opening: Opening = field(default_factory=Opening)
    recovery: Recovery = field(default_factory=Recovery)
    restoring: Restoring = field(default_factory=Restoring)
    epochs: Epochs = field(default_factory=Epochs)
    rescale: Rescale = field(default_factory=Rescale)
    requests: Requests = field(default_factory=Requests)
    ending: Ending = field(default_factory=Ending)
    collection: Collection = field(default_factory=Collection)
    restarts: Restarts = field(default_factory=Restarts)

    def absorb(self, event: CoordinatorEvent) -> None:
        """Take one event into the facts; answers nobody waits for change nothing."""
        lead = self.lead
        match event:
            case SwapDone() | SwapConflicted() | SwapUnknown() | LatestRead() | LatestUnreadable():
                lead.swaps.absorb(lead.desk, event)
            case BlobWritten() | BlobNotWritten() | BlobRead() | BlobUnreadable():
                self.shelf.absorb(lead.desk, event)
            case RootFileRead() | RootFileWritten() | RootFileFailed():
                self.opening.absorb(lead, event)
            case SnapshotRead() | Imported() | ImportFailed():
                self.restoring.absorb(lead, event)
            case SavepointCopied() | SavepointIndexed() | SavepointNotCopied():
                self.requests.hear_copy(lead, event)
            case BlobsListed():
                self.collection.absorb(lead, event)
            case PeerRefused(address):
                lead.roster.refuse(address)
            case ReportArrived(envelope):
                self._hear(envelope)
            case _:
                pass

    def _hear(self, envelope: Envelope) -> None:
        """Take a report. Life and death count under any term, all else only under this one."""
        lead = self.lead
        if envelope.job_uid != lead.latest.job_uid:
            return
        body = envelope.body
        if isinstance(body, Heartbeat | EngineLost):
            lead.roster.hear(lead.desk, envelope)
        if isinstance(body, EngineLost):
            self.restarts.hear(lead, body)
        if isinstance(body, EngineLost) and body.fatal and envelope.term in (NO_TERM, lead.term):
            lead.failure = body.reason  # no term: its engine never spoke, nothing was announced
        if envelope.term != lead.term:
            return
        match body:
            case TaskAck():
                self.epochs.hear_ack(lead, body)
            case EpochFailed():
                self.epochs.hear_failure(lead, body)
            case PublishFailed():
                self.epochs.hear_unpublished(lead, body)
            case Splits():
                self.recovery.hear_splits(lead, body)
            case CheckpointWanted(attempt):
                if attempt == lead.latest.attempt:
                    self.epochs.soon(lead)
            case _:
                pass

    # --- Pursue --------------------------------------------------------------------------------

    def tend(self) -> None:
        """Pursue until nothing changes any more; then forget what nobody names."""
        for _ in range(TURNS_MAX):
            before = self._where()
            self._turn()
            if self._where() == before:
                break
        else:
            raise AssertionError(f"the leader goes round in circles: {self._where()}")
        self.lead.courier.sweep()
        self._forget()

    def _where(self) -> tuple[Phase, Stage, bool, bool]:
        lead = self.lead
        return lead.phase, self.rescale.stage, self.epochs.flight is None, lead.swaps.busy

    def _turn(self) -> None:
        lead = self.lead
        self.epochs.notice(lead, self.shelf)
        _announce(lead)
        opening = lead.phase is Phase.OPENING
        if not opening and lead.latest.closed():
            self._close()
            return
        if not opening:
            lead.failure = lead.failure or self.restarts.pursue(lead)
            lead.deaths = self.restarts.deaths(lead)
        if (self.opening.checked or not opening) and self.ending.pursue(lead):
            return
        if lead.phase in ATTEMPT_PHASES and not lead.swaps.busy:
            why = _rollback(lead)
            if why is not None:
                self._recover(why)
        self._pursue_phase()
        if lead.phase not in (Phase.OPENING, Phase.CLOSED):
            health.dismiss(lead)
            if not lead.swaps.busy:
                health.record(lead)

    def _pursue_phase(self) -> None:
        lead = self.lead
        why: str | None = None
        match lead.phase:
            case Phase.OPENING:
                self.opening.pursue(lead, self.shelf)
            case Phase.GATHERING:
                undecided = lead.swaps.busy
                if self.restoring.pursue(lead, self.shelf):
                    self.recovery.gather(lead, self.shelf)
                elif not undecided:
                    self.recovery.drop()  # drafted from another checkpoint than will be restored
            case Phase.RESETTING:
                why = self.recovery.reset(lead)
            case Phase.PUBLISHING:
                self.recovery.publish(lead)
            case Phase.STARTING:
                why = self.recovery.start(lead, self.epochs)
            case Phase.RUNNING:
                self._run()
            case Phase.CLOSED:  # a new run has opened the job again
                lead.rollback = True
                self.collection.swept = False
                lead.enter(Phase.OPENING)
        if why is not None and not lead.swaps.busy:
            self._recover(why)

    def _run(self) -> None:
        """One turn while all members run: rescale, epoch in flight, answers, something new."""
        lead, epochs, rescale = self.lead, self.epochs, self.rescale
        if lead.plan is None:
            return
        epochs.pursue(lead, self.shelf)
        rescale.pursue(lead, self.shelf, epochs)
        if epochs.flight is not None and (
            epochs.hasty or is_waited_for(lead) or rescale.waits(lead)
        ):
            epochs.hurry(lead)
        epochs.decide_for(lead)
        if not lead.published():  # no epoch of any kind starts before the last one is published
            return
        epochs.answer(lead)
        self.requests.copy(lead)
        self.collection.pursue(lead, self.shelf, rescale.name)
        if lead.swaps.busy or epochs.flight is not None:
            return
        if rescale.stage not in (Stage.IDLE, Stage.PREPARING):
            return
        if lead.is_final():
            self.ending.finish(lead)
        else:
            self.requests.pursue(lead, epochs, rescale.idle)

    def _recover(self, why: str) -> None:
        """Give the attempt up: the next one starts from the committed epoch."""
        lead = self.lead
        lead.reason = why
        lead.failures += 1
        lead.put_off(lead.failures)
        lead.desk.note(f"event=rollback attempt={lead.latest.attempt} reason={why!r}")
        self._drop()
        lead.enter(Phase.GATHERING)

    def _close(self) -> None:
        lead = self.lead
        if lead.phase is not Phase.CLOSED:
            lead.failure = None
            self._drop()
            lead.enter(Phase.CLOSED)
        self.ending.closed(lead)
        self.collection.sweep(lead, self.shelf)

    def _drop(self) -> None:
        self.epochs.drop()
        self.rescale.drop()
        self.recovery.drop()
        self.ending.drop()

    def leaves(self) -> bool:
        """Say whether this leader has to hand over: its worker is no member any more."""
        lead = self.lead
        return (
            lead.phase is Phase.RUNNING
            and not lead.swaps.busy
            and self.rescale.idle
            and lead.latest.settled == lead.latest.version
            and lead.target() == lead.latest.workers
            and lead.me.ordinal >= lead.latest.workers
        )

    def _forget(self) -> None:
        """Keep on the shelf only what the object or a part still names."""
        at = self.lead.latest
        names = [r.root.name for r in (*at.retained, *at.pinned)]
        names += [ref.name for ref in (at.root, at.members) if ref is not None]
        flight = self.epochs.flight
        drafts = (
            self.recovery.name,
            self.restoring.name,
            self.rescale.name,
            flight.name if flight else None,
        )
        names += [name for name in drafts if name is not None]
        self.shelf.keep(names)


def _announce(lead: Lead) -> None:
    """Have everyone confirm this term before anything else is said; dial whoever falls silent.

    A member that died refuses the dial, which is known much sooner than silence is.
    """
    patience_s = SUSPECT_HEARTBEATS * lead.settings.heartbeat_interval_s
    for member in lead.members():
        life = lead.life(member)
        silent = lead.desk.due(life.seen.at + patience_s)
        if life.lost is None and (silent or life.term < lead.term):
            lead.want(member, lead.announcement(), lead.term)
    for life in lead.roster.lives.values():  # given up or not: only then it can be told to end
        if (
            life.heartbeat is not None
            and life.term < lead.term
            and lead.roster.heard(lead.desk, life)
        ):
            lead.want(member_of(life), lead.announcement(), lead.term)


def _rollback(lead: Lead) -> str | None:
    """Return why the attempt has to be given up, None when it goes on."""
    wanted = pending(lead)
    if wanted is not None and not owes_output(lead, wanted):
        return "a restore was asked for"
    if lead.plan is not None and lead.file is not None and not lead.is_of_plan():
        return "the attempt ran another plan than this leader's: two never share one"
    return health.trouble(lead)
