"""The leader's core: there is one per keeper, and it is idle until its keeper leads.

::

    FOLLOWING ──Lease held──> CLAIMING (read -latest, swap term + 1) ──decided──> LEADING
        ▲                                                                            │
        └── cooled down ── deposed: Lease lost, another term, or handed over <───────┘

A step takes one event into the facts and then reconciles: it compares all facts with what is
wanted, and asks for what is missing. So no event is needed twice, no event can come too late, and
the next heartbeat repairs the loss of an event.

The state of one term is in :mod:`leader_state`, and the order of its parts in
:mod:`term_controller`. Each rule is in the part with its name: :mod:`leader_storage` (unknown
outcomes of swaps), :mod:`term_bootstrap` (the file ROOT), :mod:`recovery` and :mod:`rollback`
(attempts), :mod:`checkpoint_coordinator`, :mod:`rescale_coordinator`, :mod:`user_requests`,
:mod:`job_completion`, :mod:`job_restore` and :mod:`checkpoint_cleaner`.
"""

from dataclasses import dataclass

from penstock.base.values import replace
from penstock.contract.ids import JobUid, Term
from penstock.contract.latest import Desired, Leader
from penstock.contract.plan import PhysicalPlan
from penstock.protocol.core_context import ControlSettings, StepContext
from penstock.protocol.keeper_core_messages import (
    Action,
    BlobRead,
    BlobUnreadable,
    CoordinatorEvent,
    DesiredRead,
    LatestRead,
    LatestUnreadable,
    LeaseFailed,
    LeaseRead,
    LeaseWritten,
    PeerRefused,
    PlanKnown,
    ReadLatest,
    ReportArrived,
    Retire,
    SwapConflicted,
    SwapDone,
    SwapUnknown,
    Tick,
)
from penstock.protocol.leader.election import Election
from penstock.protocol.leader.leader_state import LeaderState
from penstock.protocol.leader.leader_storage import ManifestCache, MetadataCas
from penstock.protocol.leader.restart_limit import RestartLimit
from penstock.protocol.leader.takeover import Takeover
from penstock.protocol.leader.term_controller import TermController
from penstock.protocol.leader.worker_registry import CommandRetrier, WorkerRegistry


@dataclass(slots=True)
class TermClaim:
    """The claim of a term by a keeper that holds the Lease: read the object, then swap the term."""

    token: int | None = None
    retry_at: float = 0.0
    cas: MetadataCas | None = None
    uid: str = ""


class LeaderCore:
    """Decides for the whole job while its keeper leads. ``me.incarnation`` identifies the keeper.

    ``job_uid`` names the job that the keeper was started for. The core does not touch the object of
    another job.
    """

    def __init__(self, settings: ControlSettings, me: Leader, job_uid: JobUid) -> None:
        self.settings = settings
        self.me = me
        self.job_uid = job_uid
        self.context = StepContext(me.incarnation, settings.heartbeat_interval_s)
        self.election = Election(settings, me.incarnation)
        self.plan: PhysicalPlan | None = None
        self.desired: Desired | None = None
        self.claim: TermClaim | None = None
        self.controller: TermController | None = None
        self.takeover = Takeover(settings, me)
        self.retired = False

    def step(self, event: CoordinatorEvent, now: float) -> list[Action]:
        """Take one event at ``now``, this keeper's monotonic seconds; return what is to be done."""
        self.context.begin(now)
        self._on_event(event)
        self._reconcile()
        return self.context.actions

    def wakes_at(self) -> float | None:
        """Return when a Tick is due at the latest; None when only events matter."""
        return self.context.alarm

    def leads(self) -> Term | None:
        """Return the term under which this keeper leads, None while it does not."""
        return self.controller.state.term if self.controller is not None else None

    # --- Facts ---------------------------------------------------------------------------------

    def _on_event(self, event: CoordinatorEvent) -> None:
        match event:
            case Tick():
                pass
            case Retire():
                self.retired = True
                self._step_down("its keeper retires")
            case LeaseRead() | LeaseWritten() | LeaseFailed():
                self.election.on_event(self.context, event)
            case PlanKnown(plan):
                self.plan = plan
            case DesiredRead(desired):
                self.desired = desired
            case _:
                self._on_claim_event(event)
                if self.controller is not None:
                    self.controller.on_event(event)
                else:
                    self._follow(event)

    def _follow(self, event: CoordinatorEvent) -> None:
        """Watch the leader. When it is known to be dead, its Lease is taken before it expires."""
        dead: str | None = None
        match event:
            case PeerRefused(address):
                if self._patience_s() == 0.0:
                    self.takeover.refuse(self.context, address)
            case LatestRead() | LatestUnreadable() | BlobRead() | BlobUnreadable():
                dead = self.takeover.on_event(self.context, event)
            case ReportArrived(envelope):
                dead = self.takeover.on_report(self.context, envelope)
            case _:
                pass
        if dead is not None and not self.election.held:
            self.context.log(f"event=takeover leader={dead}")
            self.election.acquire_expired(self.context, dead)

    def _on_claim_event(self, event: CoordinatorEvent) -> None:
        claim = self.claim
        if claim is None:
            return
        match event:
            case LatestRead(token, record, version, uid) if token == claim.token:
                claim.token = None
                if record is None:
                    self.context.log("event=stalled reason='MetadataMissing: there is no -latest'")
                    claim.retry_at = self.context.now + self.settings.lease_retry_s
                    return
                if record.job_uid != self.job_uid:  # the object of an earlier job is not adopted
                    self.context.log(f"event=stalled reason='-latest is of job {record.job_uid}'")
                    claim.retry_at = self.context.now + self.settings.lease_retry_s
                    return
                claim.uid = uid
                claim.cas = MetadataCas(record, version, self.settings.meta_retry_interval_s)
                term = Term(record.term + 1)
                claim.cas.propose(self.context, replace(record, term=term, leader=self.me))
            case LatestUnreadable(token, _) if token == claim.token:
                claim.token = None
                claim.retry_at = self.context.now + self.settings.meta_retry_interval_s
            case SwapDone() | SwapConflicted() | SwapUnknown() | LatestRead() | LatestUnreadable():
                if claim.cas is not None:
                    claim.cas.on_event(self.context, event)
            case _:
                pass

    # --- Reconcile --------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        self.takeover.reconcile(self.context)
        self.election.reconcile(self.context, self._patience_s())
        if not self.election.held:
            if self.controller is not None or self.claim is not None:
                self._step_down("the Lease is lost")
            return
        if self.controller is None:
            self._reconcile_claim()
        if self.controller is not None:
            self._lead(self.controller)

    def _patience_s(self) -> float | None:
        """Return how long to leave a free Lease to others: a worker that has to leave comes last."""
        if self.retired:
            return None
        leaves = self.desired is not None and self.me.ordinal >= self.desired.workers
        return self.settings.lease_duration_s if leaves else 0.0

    def _reconcile_claim(self) -> None:
        if self.claim is None:
            self.claim = TermClaim()
        claim = self.claim
        if claim.cas is None:
            if claim.token is None and self.context.due_or_wake(claim.retry_at):
                claim.token = self.context.number()
                self.context.do(ReadLatest(claim.token))
        elif claim.cas.deposed is not None:
            self.claim = TermClaim()  # another swap came first: claim a term above its term
            self._reconcile_claim()
        elif claim.cas.busy:
            claim.cas.reconcile(self.context)
        else:
            self._begin_term(claim.cas, claim.uid)

    def _begin_term(self, cas: MetadataCas, uid: str) -> None:
        settings = self.settings
        at = cas.latest
        retrier = CommandRetrier(at.job_uid, at.term, self.me.ordinal, settings.resend_interval_s)
        registry = WorkerRegistry(settings.heartbeat_timeout_s, self.context.sign(), settings.lease_renew_deadline_s)
        for lost in at.lost:
            life = registry.life(lost.ordinal, lost.incarnation)
            life.pod = lost.pod
            registry.mark_lost(life, "given up in an earlier term")
        state = LeaderState(
            settings=settings,
            me=self.me,
            context=self.context,
            cas=cas,
            retrier=retrier,
            registry=registry,
            uid=uid,
            plan=self.plan,
            desired=self.desired,
        )
        self.claim = None
        state.deaths = at.deaths
        restart_limit = RestartLimit.inherited(self.context, at.deaths)
        self.controller = TermController(
            state, ManifestCache(settings.meta_retry_interval_s), restart_limit=restart_limit
        )
        state.begin_phase()

    def _step_down(self, why: str) -> None:
        """Stop leading. Nothing is aborted or deleted: the next term decides what is undecided."""
        if self.controller is not None:
            self.context.log(f"event=deposed term={self.controller.state.term} reason={why!r}")
        self.controller = None
        self.claim = None
        self.election.give_up(self.context)

    def _lead(self, controller: TermController) -> None:
        state = controller.state
        state.plan, state.desired = self.plan, self.desired
        state.cas.reconcile(self.context)
        if state.cas.deposed is not None:
            self._step_down(state.cas.deposed)
            return
        controller.reconcile()
        if controller.leaves():
            self._step_down(f"worker {self.me.ordinal} is to go")
