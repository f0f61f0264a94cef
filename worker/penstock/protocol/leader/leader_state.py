"""The state of one term of a leader, and the questions about it that all its parts ask.

Each part (bootstrap, recovery, checkpoints, rescale, requests, completion, cleaner) has its own
state and shares this one. The facts are ``latest`` (the object as the last decided swap wrote it),
the members file that it names, and the heartbeats. All else is derived from the facts after every
event. So a message that is repeated, late or lost changes nothing.

::

    OPENING    ──> GATHERING, RESETTING, CLOSED
    GATHERING  ──> RESETTING, CLOSED
    RESETTING  ──> PUBLISHING, GATHERING, CLOSED
    PUBLISHING ──> STARTING, GATHERING, CLOSED
    STARTING   ──> RUNNING, GATHERING, CLOSED
    RUNNING    ──> GATHERING, CLOSED
    CLOSED     ──> OPENING

- OPENING: the leader checks the volume and reads what the object names. A new leader that finds an
  attempt goes on with it in RESETTING. When all members already run, one round of heartbeats leads
  from there to RUNNING, and no stream is touched.
- GATHERING: the leader waits for a live engine of every worker. Then one swap begins the next
  attempt.
- RESETTING: every member goes back to the committed checkpoint and reports that it is ready.
- PUBLISHING: the output of the committed epoch becomes visible.
- STARTING: every member starts its sources.
- RUNNING: checkpoints, rescales and requests take place.
- CLOSED: the job is finished, stopped or failed. A new run opens it again.

When a member is lost, breaks, or misses a deadline, the leader gives the attempt up and goes back
to GATHERING (see :mod:`penstock.protocol.leader.rollback`).
"""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.limits import ANSWERS_MAX, LOST_OUTPUT_MAX, TEXT_BYTES_MAX
from penstock.base.values import replace
from penstock.contract.balance import Balance
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.control_messages import Announce, Command, MembersFile, PublishWhole, StageSplits
from penstock.contract.ids import Epoch, StageIndex, Term, Version
from penstock.contract.latest import Answer, Deaths, Desired, Latest, Leader, Member, Request, clip
from penstock.contract.manifest import RootManifest, SinkHandle
from penstock.contract.plan import Assignment, PhysicalPlan
from penstock.contract.schemes import Choices, chosen, given
from penstock.protocol.core_context import ControlSettings, StepContext, checked
from penstock.protocol.leader.attempt_assignment import stages_to_list
from penstock.protocol.leader.leader_storage import MetadataCas
from penstock.protocol.leader.worker_registry import CommandRetrier, WorkerIncarnation, WorkerRegistry, address_of
from penstock.protocol.unpublished_output import lost_rows, publishable


class LeaderPhase(StrEnum):
    """Where the leader is; see the diagram above."""

    OPENING = "opening"
    GATHERING = "gathering"
    RESETTING = "resetting"
    PUBLISHING = "publishing"
    STARTING = "starting"
    RUNNING = "running"
    CLOSED = "closed"


_GIVEN_UP = (LeaderPhase.GATHERING, LeaderPhase.CLOSED)  # a rollback, or the job has ended

TRANSITIONS: dict[LeaderPhase, tuple[LeaderPhase, ...]] = {
    LeaderPhase.OPENING: (
        LeaderPhase.GATHERING,  # there is no attempt that could go on
        LeaderPhase.RESETTING,  # a new leader goes on with the attempt that it finds
        LeaderPhase.CLOSED,
    ),
    LeaderPhase.GATHERING: (LeaderPhase.RESETTING, LeaderPhase.CLOSED),
    LeaderPhase.RESETTING: (LeaderPhase.PUBLISHING, *_GIVEN_UP),
    LeaderPhase.PUBLISHING: (LeaderPhase.STARTING, *_GIVEN_UP),
    LeaderPhase.STARTING: (LeaderPhase.RUNNING, *_GIVEN_UP),
    LeaderPhase.RUNNING: _GIVEN_UP,
    LeaderPhase.CLOSED: (LeaderPhase.OPENING,),  # a new run
}


@dataclass(slots=True)
class LeaderState:
    """One term of this leader. ``file`` and ``root`` are what ``latest`` names, once they are read.

    - ``failures``: how many attempts in a row have committed no new rows; ``not_before``: when their
      back-off ends.
    - ``differing``: copies of a side table that are not equal, which ends the attempt.
    - ``deaths``: what the limit of restarts has counted.
    - ``failure``: why the job has to fail.
    - ``rollback``: a new attempt is required, because the job was closed meanwhile.
    - ``logged``: the newest text of each topic that is logged once.
    """

    settings: ControlSettings
    me: Leader
    context: StepContext
    cas: MetadataCas
    retrier: CommandRetrier
    registry: WorkerRegistry
    uid: str
    plan: PhysicalPlan | None
    desired: Desired | None
    phase: LeaderPhase = LeaderPhase.OPENING
    since: float = 0.0
    file: MembersFile | None = None
    root: RootManifest | None = None
    failures: int = 0
    not_before: float = 0.0
    reason: str = ""
    failure: str | None = None
    rollback: bool = False
    differing: str | None = None
    deaths: Deaths = Deaths()
    logged: dict[str, str] = field(default_factory=dict)

    # --- Facts ---------------------------------------------------------------------------------

    @property
    def latest(self) -> Latest:
        """Return the object as the last decided swap wrote it."""
        return self.cas.latest

    @property
    def term(self) -> Term:
        """Return the term of this leader."""
        return self.cas.latest.term

    def enter(self, phase: LeaderPhase) -> None:
        """Change the phase. Raises AssertionError when the table has no such transition."""
        self.phase = checked(TRANSITIONS, self.phase, phase)
        self.begin_phase()

    def begin_phase(self) -> None:
        """Log the phase that begins now; its deadlines count from now."""
        self.since = self.context.now
        self.context.log(
            f"event=phase phase={self.phase} term={self.term} attempt={self.latest.attempt}"
            f" version={self.latest.version} epoch={self.latest.epoch}"
        )

    def log_once(self, topic: str, text: str) -> None:
        """Log ``text`` once: again only when it changes."""
        if self.logged.get(topic) != text:
            self.logged[topic] = text
            self.context.log(f"event={topic} term={self.term} {text}")

    def put_off(self, failures: int) -> None:
        """Delay the next attempt. The second one is at once; each further one waits twice as long."""
        if failures > 1:
            first, longest = self.settings.backoff_first_s, self.settings.backoff_max_s
            wait_s = min(first * 2.0 ** min(failures - 1, 30), longest)
            self.not_before = max(self.not_before, self.context.now + wait_s)

    # --- Members -------------------------------------------------------------------------------

    def members(self) -> tuple[Member, ...]:
        """List all members of the members file, with those that join and those that leave."""
        return self.file.members if self.file is not None else ()

    def core(self) -> tuple[Member, ...]:
        """List the members of the committed version."""
        return tuple(m for m in self.members() if m.ordinal < self.latest.workers)

    def joiners(self) -> tuple[Member, ...]:
        """List the members of a proposed table that is not committed."""
        if not self.proposing():
            return ()
        return tuple(m for m in self.members() if m.ordinal >= self.latest.workers)

    def proposing(self) -> bool:
        """Return whether the members file carries a table that is not committed."""
        proposed = self.file.proposed if self.file is not None else None
        return proposed is not None and proposed.version != self.latest.version

    def admitted(self) -> tuple[Member, ...]:
        """List the members whose loss ends the attempt: all but joiners."""
        return self.core() if self.proposing() else self.members()

    def assignment(self) -> Assignment | None:
        """Return the committed table."""
        if self.file is None:
            return None
        if self.file.proposed is not None and not self.proposing():
            return self.file.proposed
        return self.file.assignment

    def is_of_plan(self) -> bool:
        """Return whether the attempt that the members file is of ran the plan of this leader."""
        plan = self.plan
        return self.file is not None and plan is not None and self.file.plan == plan.fingerprint

    def first_splits(self) -> tuple[StageSplits, ...]:
        """Return the first states of the splits that no checkpoint knows, from the members file."""
        if self.file is None or self.plan is None or not self.is_of_plan():
            return ()
        wanted = stages_to_list(self.root, self.plan)
        return tuple(s for s in self.file.splits if s.stage in wanted)

    def life(self, member: Member) -> WorkerIncarnation:
        """Return what is known of a member. A member of an older term is only known to live."""
        return self.registry.of(member)

    def confirmed(self, member: Member) -> bool:
        """Return whether a member has confirmed this term. Its status counts only then."""
        return self.life(member).term == self.term

    # --- Messages ------------------------------------------------------------------------------

    def ensure(self, member: Member, command: Command, number: int) -> None:
        """Repeat ``command`` to a member while it is asked for."""
        address = address_of(self.life(member), member)
        assert address is not None
        self.retrier.ensure(self.context, address, command, number)

    def send_once(self, member: Member, command: Command) -> None:
        """Send a command once, because the member also learns its content in another way."""
        address = address_of(self.life(member), member)
        assert address is not None
        self.retrier.send(self.context, address, command)

    def announcement(self) -> Announce:
        """Return the message with which this term begins at a member."""
        at = self.latest
        return Announce(self.me, at.attempt, at.epoch, at.version, at.published_through)

    # --- Output --------------------------------------------------------------------------------

    def published(self) -> bool:
        """Return whether the output of the committed epoch is visible.

        The object says so, or every member reports it, and the first one that of whole sinks.
        """
        return self.latest.published_through >= self.latest.epoch or (
            bool(self.members())
            and all(self._has_published(m) for m in self.admitted())
            and self._has_published_whole()
        )

    def _has_published(self, member: Member) -> bool:
        status = self.life(member).status
        return (
            self.confirmed(member) and status.attempt == self.latest.attempt and status.published >= self.latest.epoch
        )

    def _has_published_whole(self) -> bool:
        handles, status = self._whole_output(), self.life(self.admitted()[0]).status
        if not handles:
            return handles is not None
        return status.whole is not ABSENT and status.whole >= self.latest.epoch

    def _whole_output(self) -> tuple[SinkHandle, ...] | None:
        """Return the handles of whole sinks that the committed epoch has; None while its manifest is not read."""
        root = self.root
        if root is None or root.epoch != self.latest.epoch or self.plan is None:
            return None
        if not any(handle.whole is True for task in root.tasks for handle in task.handles):
            return ()
        return tuple(handle for handle in publishable(root, self.plan) if handle.whole is True)

    def publish_whole(self) -> None:
        """Let the first member publish the output of whole sinks, unless it has.

        A table takes one commit for each epoch, so one worker makes it. When that worker is lost, the next attempt
        names the first of its members. Two publishers at once do no harm, because the target has a marker.
        """
        at, handles = self.latest, self._whole_output()
        if handles and not self._has_published_whole():
            order = PublishWhole(at.attempt, at.epoch, handles, at.handling() or ABSENT)
            self.ensure(self.admitted()[0], order, at.epoch)

    def published_through(self) -> Epoch:
        """Return what a swap may now write as published."""
        return Epoch(max(self.latest.published_through, self.latest.epoch))

    def record_published(self) -> bool:
        """Record in the object that the committed output is visible; True once it is recorded.

        Staged output is removed only after this. A leader that recovers an epoch which the object
        does not call published orders the publication again, and that needs the staged output.
        """
        if self.latest.published_through >= self.latest.epoch:
            return True
        if self.published() and not self.cas.busy:
            self.propose(self.let_go(self.latest))
        return False

    def let_go(self, at: Latest) -> Latest:
        """Return ``at`` with its output recorded as visible, once it is; what a restore has given up is named there."""
        if not self.published():
            return at
        through = replace(at, published_through=self.published_through())
        given = at.handling() if self.latest.published_through < self.latest.epoch else ()
        if not given or self.root is None:
            return through
        skipped = [self.life(m).status.skipped for m in self.admitted()]
        lost = lost_rows(self.root, given, [rows for each in skipped if each is not ABSENT for rows in each])
        if lost:
            said = " ".join(f"{each.sink}={each.rows}" for each in lost)
            self.log_once("output-given-up", f"epoch={at.epoch} rows-at-most: {said}")
        known = () if at.lost_rows is ABSENT else at.lost_rows
        return replace(
            through,
            unpublished=ABSENT,
            lost_output=(*at.lost_output, at.epoch)[-LOST_OUTPUT_MAX:] if lost else at.lost_output,
            lost_rows=(*known, *lost)[-LOST_OUTPUT_MAX:] or ABSENT,
        )

    def is_final(self) -> bool:
        """Return whether the committed epoch is the last one of this attempt's bounded input."""
        root = self.root
        return (
            root is not None
            and root.epoch == self.latest.epoch
            and root.kind == "final"
            and root.attempt == self.latest.attempt
        )

    # --- What is wanted ------------------------------------------------------------------------

    def target(self) -> int:
        """Return the wanted number of workers; the committed one while nothing is known."""
        return self.desired.workers if self.desired is not None else self.latest.workers

    def asked_schemes(self) -> Choices:
        """Return the schemes that are asked for; the committed ones while nothing is known."""
        return given(self.latest.schemes if self.desired is None else self.desired.partition)

    def schemes(self, table: Assignment) -> Choices | Absent:
        """Return the schemes that are wanted after those of ``table``."""
        assert self.plan is not None
        return chosen(self.plan.schemes, self.asked_schemes(), given(table.schemes))

    def balance_wanted(self) -> int | None:
        """Return the number of the request to balance that has no answer yet; None if there is none."""
        asked = ABSENT if self.desired is None else self.desired.rebalance
        done = self.latest.balance
        return None if asked is ABSENT or (done is not ABSENT and done.nonce == asked) else asked

    def balance_with(self, table: Assignment) -> Balance | Absent:
        """Return what the object says of the last request to balance once ``table`` is committed."""
        at = self.latest
        return at.balance if table.version == at.version or table.balance is ABSENT else table.balance

    def requests(self) -> tuple[Request, ...]:
        """List the requests that have no answer yet, oldest first, at most ``ANSWERS_MAX``."""
        if self.desired is None:
            return ()
        answered = {a.request for a in self.latest.answers}
        asked = self.desired.requests[:ANSWERS_MAX]
        return tuple(r for r in asked if r.id not in answered)

    def answers(self, *new: Answer) -> tuple[Answer, ...]:
        """Return the answers and the ``new`` ones, without answers to requests that are gone."""
        known = self.latest.answers
        if self.desired is not None:
            asked = [r.id for r in self.desired.requests[:ANSWERS_MAX]]
            known = tuple(a for a in known if a.request in asked)
        answered = [a.request for a in known]
        fresh = tuple(replace(a, text=clip(a.text, TEXT_BYTES_MAX)) for a in new if a.request not in answered)
        return (known + fresh)[-ANSWERS_MAX:]

    def stage_sources(self) -> list[StageIndex]:
        """List the stages that read a source."""
        assert self.plan is not None
        return [s.index for s in self.plan.stages if s.source is not None]

    # --- Swaps ---------------------------------------------------------------------------------

    def propose(self, intent: Latest) -> None:
        """Begin a swap. ``latest`` shows the outcome when it is decided."""
        assert intent.term == self.term, "only the claim of a term changes the term"
        assert intent.max_epoch >= self.latest.max_epoch
        assert intent.published_through >= self.latest.published_through
        self.cas.propose(self.context, intent)

    def next_version(self) -> Version:
        """Return a version number that no proposal has used."""
        return Version(max(self.latest.version, self.latest.proposed) + 1)
