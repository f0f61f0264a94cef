"""Live rescale: a table is proposed, prepared, committed with an epoch, and then only forward.

::

    IDLE ──another number is wanted, joiners live──> ADMITTING (members file, then one swap:
      ▲                                                 │        joiners, pin, proposed version)
      │ retry after a back-off                          ▼
      │                                             PREPARING (Prepare until all are prepared)
    CANCELLING <──joiner lost, late, or another         │
      ▲  (CancelRescale until all know, then            ▼
      │   one swap: unpin, members without joiners)  BARRIER (an epoch of kind rescale)
      └──aborted before the swap────────────────────────┤
                                                        │ ONE swap: {epoch, version}
                                                        ▼
    IDLE <──one swap: settled, unpin, leavers gone── RESUMING (Adopt until all have resumed,
                                                     Settled until leavers have ended)

Before the swap of {epoch, version} a failure of a joiner aborts only the rescale; after it there
is no way back: a lost member means recovery under the new version.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.base.limits import TEXT_BYTES_MAX
from penstock.contract.assignment import Assignment, next_assignment
from penstock.contract.control import Adopt, CancelRescale, MembersFile, Prepare, Settled
from penstock.contract.ids import BlobName, Ordinal, Version
from penstock.contract.latest import Lost, Member, Retained, clip
from penstock.contract.manifest import BlobRef
from penstock.contract.names import MEMBERS_SUFFIX
from penstock.model.elements import BarrierKind
from penstock.protocol.leader.checkpoint_coordinator import Epochs, Flight
from penstock.protocol.leader.leader_state import Lead
from penstock.protocol.leader.manifest_cache import Shelf
from penstock.protocol.leader.worker_registry import Life, member_of


class Stage(StrEnum):
    """Where a rescale is; see the diagram above."""

    IDLE = "idle"
    ADMITTING = "admitting"
    PREPARING = "preparing"
    BARRIER = "barrier"
    RESUMING = "resuming"
    TRIMMING = "trimming"
    CANCELLING = "cancelling"
    WITHDRAWING = "withdrawing"


@dataclass(slots=True)
class Rescale:
    """``name`` is the members file being written, ``file`` its content; ``why`` it is undone.

    ``base`` is the epoch that joiners and gainers pre-load, pinned until all have resumed.
    """

    stage: Stage = Stage.IDLE
    since: float = 0.0
    name: BlobName | None = None
    file: MembersFile | None = None
    base: Retained | None = None
    why: str | None = None
    failures: int = 0
    not_before: float = 0.0

    def drop(self) -> None:
        """Forget a rescale that was under way: the attempt ends, and a Reset clears the members."""
        self.stage = Stage.IDLE
        self.name = self.file = self.why = None

    @property
    def idle(self) -> bool:
        """Say whether no rescale is under way."""
        return self.stage is Stage.IDLE

    def _enter(self, lead: Lead, stage: Stage) -> None:
        self.stage = stage
        self.since = lead.desk.now
        lead.desk.note(f"event=rescale stage={stage} version={lead.latest.version}")

    def pursue(self, lead: Lead, shelf: Shelf, epochs: Epochs) -> None:
        """Go one step on; called while the attempt runs and is well."""
        match self.stage:
            case Stage.IDLE:
                self._look(lead, shelf, epochs)
            case Stage.ADMITTING:
                self._admit(lead, shelf)
            case Stage.PREPARING:
                self._prepare(lead, epochs)
            case Stage.BARRIER:
                self._barrier(lead, epochs)
            case Stage.RESUMING:
                self._resume(lead, shelf)
            case Stage.TRIMMING:
                self._trim(lead, shelf)
            case Stage.CANCELLING:
                self._cancel(lead, shelf)
            case Stage.WITHDRAWING:
                self._withdraw(lead, shelf)

    # --- IDLE ------------------------------------------------------------------------------------

    def _look(self, lead: Lead, shelf: Shelf, epochs: Epochs) -> None:
        """Finish what an earlier term left, else begin when another number is wanted."""
        if lead.proposing():
            self._call_off(lead, epochs, "its leader is gone")
        elif self._unsettled(lead):
            self._enter(lead, Stage.RESUMING)
        elif self._stray(lead):
            return
        elif epochs.flight is None and lead.published():
            self._begin(lead, shelf)

    def _unsettled(self, lead: Lead) -> bool:
        """Say whether the committed version came by a live rescale that has to go forward."""
        live = lead.file is not None and lead.file.proposed is not None
        return live and lead.latest.settled != lead.latest.version

    def _stray(self, lead: Lead) -> bool:
        """Call off what a delayed Prepare made a member believe; True while one does."""
        strays = [m for m in lead.admitted() if lead.life(m).status.prepared > lead.latest.version]
        for member in strays:
            version = lead.life(member).status.prepared
            lead.want(member, CancelRescale(lead.latest.attempt, version), version)
        return bool(strays)

    def waits(self, lead: Lead) -> bool:
        """Say whether only an epoch in flight keeps a rescale from beginning, or going on."""
        if self.stage is Stage.PREPARING:
            return not self._unprepared(lead)
        wanted = lead.target() - lead.latest.workers
        return self.idle and self._may_begin(lead) and len(_joiners(lead)) >= wanted

    def _may_begin(self, lead: Lead) -> bool:
        at = lead.latest
        if lead.target() == at.workers or at.epoch == 0 or lead.is_final():
            return False
        return lead.desk.due(self.not_before)

    def _begin(self, lead: Lead, shelf: Shelf) -> None:
        if not self._may_begin(lead):
            return
        workers, target = lead.latest.workers, lead.target()
        found = _joiners(lead)
        if len(found) < target - workers:
            lead.say("waiting", f"for=joiners wanted={target} committed={workers}")
            return
        self._propose(lead, shelf, target, found)

    def _propose(self, lead: Lead, shelf: Shelf, target: int, joiners: list[Life]) -> None:
        assert lead.plan is not None
        table = lead.assignment()
        assert table is not None
        proposed = replace(next_assignment(lead.plan, table, target), version=lead.next_version())
        members = (*lead.core(), *(member_of(life) for life in joiners))
        assert lead.file is not None, "it has the table"
        at, first = lead.latest.attempt, lead.first_splits()
        file = MembersFile(at, members, table, proposed, first, lead.file.plan)
        self._write(lead, shelf, file)
        self._enter(lead, Stage.ADMITTING)

    def _write(self, lead: Lead, shelf: Shelf, file: MembersFile) -> None:
        self.file = file
        self.name = lead.desk.file_name(lead.term, lead.latest.epoch, MEMBERS_SUFFIX)
        shelf.write(lead.desk, self.name, file)

    # --- ADMITTING, PREPARING, BARRIER ------------------------------------------------------------

    def _admit(self, lead: Lead, shelf: Shelf) -> None:
        """One swap admits the joiners, pins what they pre-load, and uses up the version."""
        assert self.name is not None
        assert self.file is not None
        at = lead.latest
        if at.members is not None and at.members.name == self.name:
            lead.file = self.file
            self._enter(lead, Stage.PREPARING)
        elif self.name in shelf.failed:
            self._retry(lead, shelf.failed[self.name])
        elif self.name in shelf.written and not lead.swaps.busy:
            assert at.root is not None
            assert self.file.proposed is not None
            self.base = Retained(at.epoch, at.root)
            lead.propose(
                replace(
                    at,
                    members=shelf.written[self.name],
                    proposed=self.file.proposed.version,
                    pinned=(self.base,),
                    lost=_without(at.lost, self.file.members),
                    rescale=f"preparing {self.file.proposed.workers} workers",
                )
            )

    def _prepare(self, lead: Lead, epochs: Epochs) -> None:
        """Have every member load the proposed table, then start its barrier."""
        proposed = self._table(lead)
        waiting = self._unprepared(lead)
        why = self._off(lead, proposed.workers, waiting)
        if why is not None:
            self._call_off(lead, epochs, why)
            return
        assert self.base is not None
        for member in waiting:
            base, first = self.base, lead.first_splits()
            at, everyone = lead.latest.attempt, lead.members()
            command = Prepare(at, proposed, everyone, base.epoch, base.root, first)
            lead.want(member, command, proposed.version)
        if not waiting and epochs.flight is None and lead.published():
            self._start_barrier(lead, epochs, proposed)

    def _start_barrier(self, lead: Lead, epochs: Epochs, proposed: Assignment) -> None:
        table = lead.assignment()
        assert table is not None
        flight = Flight(
            epoch=epochs.number(lead),
            kind=BarrierKind.RESCALE,
            assignment=proposed,
            tasks=table.tasks(),  # of the old table: this is the last barrier of its channels
            deadline=lead.desk.now + lead.settings.rescale_timeout_s,
        )
        epochs.start(lead, flight)
        self._enter(lead, Stage.BARRIER)

    def _barrier(self, lead: Lead, epochs: Epochs) -> None:
        """Wait for the one swap; a joiner's failure before it aborts only the rescale."""
        if not lead.proposing():
            self.failures = 0
            self._enter(lead, Stage.RESUMING)
        elif lead.swaps.busy:  # committed or not: only the swap knows
            return
        elif epochs.flight is None:
            self._call_off(lead, epochs, "its epoch was aborted")
        else:
            why = _joiner_trouble(lead)
            if why is not None:
                self._call_off(lead, epochs, why)

    def _off(self, lead: Lead, workers: int, waiting: list[Member]) -> str | None:
        """Return why the preparation cannot or need not go on.

        Once all are prepared only the epoch in flight is waited for, and its output.
        """
        if lead.target() != workers:
            return f"{lead.target()} workers are wanted now"
        if waiting and lead.desk.due(self.since + lead.settings.prepare_timeout_s):
            return f"not prepared in {lead.settings.prepare_timeout_s:g} s"
        return _joiner_trouble(lead)

    def _unprepared(self, lead: Lead) -> list[Member]:
        version = self._table(lead).version
        return [m for m in lead.members() if not _prepared(lead, m, version)]

    def _table(self, lead: Lead) -> Assignment:
        assert lead.file is not None
        assert lead.file.proposed is not None
        return lead.file.proposed

    # --- CANCELLING, WITHDRAWING ------------------------------------------------------------------

    def _call_off(self, lead: Lead, epochs: Epochs, why: str) -> None:
        if epochs.flight is not None and epochs.flight.kind is BarrierKind.RESCALE:
            epochs.abort(lead, why)
        self.why = why
        self._enter(lead, Stage.CANCELLING)

    def _cancel(self, lead: Lead, shelf: Shelf) -> None:
        """Have every member give held records back, then write the file without joiners."""
        version = self._table(lead).version
        waiting = [m for m in lead.core() if not _cancelled(lead, m)]
        for member in waiting:
            lead.want(member, CancelRescale(lead.latest.attempt, version), version)
        self._overdue(lead, waiting, "did not give its records back")
        if waiting or lead.swaps.busy:
            return
        assert lead.file is not None
        core = replace(lead.file, members=lead.core(), proposed=None)
        self._write(lead, shelf, core)
        self._enter(lead, Stage.WITHDRAWING)

    def _withdraw(self, lead: Lead, shelf: Shelf) -> None:
        """One swap unpins and forgets the joiners; then their engines are ended."""
        assert self.name is not None
        at = lead.latest
        if at.members is not None and at.members.name == self.name:
            lead.file = self.file
            self._retry(lead, self.why or "")
        elif self.name in shelf.failed:
            self._enter(lead, Stage.CANCELLING)
        elif self.name in shelf.written and not lead.swaps.busy:
            members = shelf.written[self.name]
            text = clip(f"undone: {self.why}", TEXT_BYTES_MAX)
            lead.propose(replace(at, members=members, pinned=(), rescale=text))

    def _retry(self, lead: Lead, why: str) -> None:
        self.failures += 1
        first, longest = lead.settings.backoff_first_s, lead.settings.backoff_max_s
        wait_s = min(first * 2.0 ** min(self.failures - 1, 30), longest)
        self.not_before = lead.desk.now + wait_s
        lead.desk.note(f"event=rescale-undone reason={why!r} retry_s={wait_s:g}")
        self.drop()

    # --- RESUMING, TRIMMING -----------------------------------------------------------------------

    def _resume(self, lead: Lead, shelf: Shelf) -> None:
        """Only forward: every member adopts; when all have resumed, leavers end."""
        at = lead.latest
        assert at.root is not None
        waiting = [m for m in lead.members() if not _resumed(lead, m)]
        for member in waiting:
            lead.want(member, Adopt(at.attempt, at.version, at.epoch, at.root), at.version)
        if waiting:
            self._overdue(lead, waiting, "did not resume")
            return
        if not lead.record_published():  # tasks that leave remove what they have staged
            return
        unsettled = [m for m in lead.members() if not _settled(lead, m)]
        for member in unsettled:
            lead.want(member, Settled(at.attempt, at.version), at.version)
        if unsettled or lead.swaps.busy:
            return
        if len(lead.core()) == len(lead.members()):
            if at.settled == at.version:
                self.drop()
            else:
                self._settle(lead, at.members)
            return
        assert lead.file is not None
        self._write(lead, shelf, replace(lead.file, members=lead.core()))
        self._enter(lead, Stage.TRIMMING)

    def _overdue(self, lead: Lead, waiting: list[Member], what: str) -> None:
        """Give up members that miss the deadline: their loss ends the attempt."""
        if waiting and lead.desk.due(self.since + lead.settings.ready_timeout_s):
            for member in waiting:
                lead.roster.lose(lead.life(member), f"{what} in time")

    def _trim(self, lead: Lead, shelf: Shelf) -> None:
        assert self.name is not None
        at = lead.latest
        if at.members is not None and at.members.name == self.name:
            lead.file = self.file
            self.drop()
        elif self.name in shelf.failed:
            self._enter(lead, Stage.RESUMING)
        elif self.name in shelf.written and not lead.swaps.busy:
            self._settle(lead, shelf.written[self.name])

    def _settle(self, lead: Lead, members: BlobRef | None) -> None:
        """One swap unpins what was pre-loaded, and says that all live under the version."""
        at, through = lead.latest, lead.published_through()
        settled = replace(at, members=members, settled=at.version, published_through=through)
        lead.propose(replace(settled, pinned=(), rescale=None))


def _joiners(lead: Lead) -> list[Life]:
    """Return fresh lives, ones that never ran a task, for the ordinals that are to join."""
    assert lead.plan is not None
    plan, joining = lead.plan.fingerprint, range(lead.latest.workers, lead.target())
    lives = [lead.roster.candidate(lead.desk, Ordinal(o), plan, members=[]) for o in joining]
    return [life for life in lives if life is not None]


def _joiner_trouble(lead: Lead) -> str | None:
    for member in lead.joiners():
        life = lead.life(member)
        broken = life.heartbeat.broken if life.heartbeat is not None else None
        if broken is not None and broken.attempt == lead.latest.attempt:
            lead.roster.lose(life, broken.reason)
        if not lead.roster.alive(lead.desk, life):
            return f"joiner {member.ordinal} is lost: {life.lost}"
    return None


def _prepared(lead: Lead, member: Member, version: Version) -> bool:
    return lead.heard(member) and lead.life(member).status.prepared == version


def _cancelled(lead: Lead, member: Member) -> bool:
    return lead.heard(member) and lead.life(member).status.prepared <= lead.latest.version


def _resumed(lead: Lead, member: Member) -> bool:
    return lead.heard(member) and lead.life(member).status.resumed == lead.latest.version


def _settled(lead: Lead, member: Member) -> bool:
    status = lead.life(member).status
    leaves = member.ordinal >= lead.latest.workers
    return status.settled == lead.latest.version and (status.left or not leaves)


def _without(lost: tuple[Lost, ...], members: tuple[Member, ...]) -> tuple[Lost, ...]:
    ordinals = [m.ordinal for m in members]
    return tuple(x for x in lost if x.ordinal not in ordinals)
