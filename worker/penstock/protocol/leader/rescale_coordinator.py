"""Live rescale: a table is proposed, prepared, and committed together with an epoch.

::

    IDLE        ──> ADMITTING, RESUMING, CANCELLING
    ADMITTING   ──> PREPARING, IDLE
    PREPARING   ──> BARRIER, CANCELLING, IDLE
    BARRIER     ──> RESUMING, CANCELLING, IDLE
    RESUMING    ──> TRIMMING, IDLE
    TRIMMING    ──> RESUMING, IDLE
    CANCELLING  ──> WITHDRAWING, IDLE
    WITHDRAWING ──> CANCELLING, IDLE

- IDLE: another number of workers may be wanted, other schemes, or other owners of key groups. The rescale begins when
  the workers that join live.
  Without another number of workers nobody joins or leaves, and all else is the same.
- ADMITTING: the members file with the joiners is written. One swap then names it, pins the epoch
  that the members pre-load, and uses up the number of the proposed version.
- PREPARING: Prepare is repeated until every member has loaded the proposed table.
- BARRIER: a checkpoint of kind rescale is in flight. ONE swap commits its epoch and the version.
- RESUMING: Adopt is repeated until every member has resumed. Then Settled is repeated until the
  tasks that leave have ended. One swap then says that the version is settled. Who is late is lost.
- TRIMMING: as that swap, and the members file that it names has no leavers any more.
- CANCELLING: CancelRescale is repeated until every member has given held rows back.
- WITHDRAWING: the members file without the joiners is written. One swap then names it and unpins the
  epoch. The next try follows after a back-off.

A failure of a joiner before the swap of {epoch, version} aborts only the rescale. After that swap
there is no way back: a lost member means recovery under the new version.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.base.limits import PREPARED_ALONE_S, TEXT_BYTES_MAX
from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.control_messages import Adopt, CancelRescale, MembersFile, Prepare, Settled
from penstock.contract.ids import MEMBERS_SUFFIX, BlobName, Ordinal, Version
from penstock.contract.latest import Lost, Member, Retained, clip
from penstock.contract.manifest import BlobRef
from penstock.contract.plan import Assignment
from penstock.contract.schemes import given, said
from penstock.model.elements import BarrierKind
from penstock.protocol.core_context import checked
from penstock.protocol.leader.checkpoint_coordinator import (
    CheckpointCoordinator,
    InFlightCheckpoint,
)
from penstock.protocol.leader.leader_state import LeaderState
from penstock.protocol.leader.leader_storage import ManifestCache
from penstock.protocol.leader.wanted_table import difference, next_table
from penstock.protocol.leader.worker_registry import WorkerIncarnation, member_of


class RescalePhase(StrEnum):
    """Where a rescale is; see the diagram above."""

    IDLE = "idle"
    ADMITTING = "admitting"
    PREPARING = "preparing"
    BARRIER = "barrier"
    RESUMING = "resuming"
    TRIMMING = "trimming"
    CANCELLING = "cancelling"
    WITHDRAWING = "withdrawing"


class CancelCause(StrEnum):
    """The cases in which a rescale is undone before the swap of its version."""

    LEADER_GONE = "leader-gone"  # the leader that proposed the version does not lead any more
    OTHER_TABLE_WANTED = "other-table-wanted"  # other workers, other schemes, or key groups by load
    NOT_PREPARED = "not-prepared"  # PREPARING lasts too long
    JOINER_LOST = "joiner-lost"
    CHECKPOINT_ABORTED = "checkpoint-aborted"  # the epoch that would commit the version
    FILE_NOT_WRITTEN = "file-not-written"  # the members file with the joiners


@dataclass(frozen=True, slots=True)
class RescaleCancel:
    """The decision to undo a rescale. ``text`` is for people."""

    cause: CancelCause
    text: str


# A rescale that is under way ends with its attempt: so IDLE follows every phase.
TRANSITIONS: dict[RescalePhase, tuple[RescalePhase, ...]] = {
    RescalePhase.IDLE: (
        RescalePhase.ADMITTING,
        RescalePhase.RESUMING,  # an earlier term committed the version
        RescalePhase.CANCELLING,  # an earlier term proposed a version and did not commit it
    ),
    RescalePhase.ADMITTING: (RescalePhase.PREPARING, RescalePhase.IDLE),
    RescalePhase.PREPARING: (RescalePhase.BARRIER, RescalePhase.CANCELLING, RescalePhase.IDLE),
    RescalePhase.BARRIER: (RescalePhase.RESUMING, RescalePhase.CANCELLING, RescalePhase.IDLE),
    RescalePhase.RESUMING: (RescalePhase.TRIMMING, RescalePhase.IDLE),
    RescalePhase.TRIMMING: (
        RescalePhase.RESUMING,  # the members file was not written: once more
        RescalePhase.IDLE,
    ),
    RescalePhase.CANCELLING: (RescalePhase.WITHDRAWING, RescalePhase.IDLE),
    RescalePhase.WITHDRAWING: (
        RescalePhase.CANCELLING,  # the members file was not written: once more
        RescalePhase.IDLE,
    ),
}


@dataclass(slots=True)
class RescaleCoordinator:
    """``name`` is the members file being written, ``file`` its content.

    ``undone``: why the rescale is undone.

    ``base`` is the epoch that joiners and gainers pre-load, pinned until all have resumed. ``settle_by``: the time
    by which the tasks that leave must have ended.
    """

    stage: RescalePhase = RescalePhase.IDLE
    since: float = 0.0
    name: BlobName | None = None
    file: MembersFile | None = None
    base: Retained | None = None
    undone: RescaleCancel | None = None
    settle_by: float | None = None
    failures: int = 0
    not_before: float = 0.0

    def drop(self) -> None:
        """Forget the rescale under way: the attempt ends, and Reset clears the members."""
        if not self.idle:
            self.stage = checked(TRANSITIONS, self.stage, RescalePhase.IDLE)
        self.name = self.file = self.undone = self.settle_by = None

    @property
    def idle(self) -> bool:
        """Return whether no rescale is under way."""
        return self.stage is RescalePhase.IDLE

    def _enter(self, state: LeaderState, stage: RescalePhase) -> None:
        self.stage = checked(TRANSITIONS, self.stage, stage)
        self.since = state.context.now
        state.context.log(f"event=rescale stage={stage} version={state.latest.version}")

    def reconcile(self, state: LeaderState, manifests: ManifestCache, checkpoints: CheckpointCoordinator) -> None:
        """Go one step on; called while the attempt runs without a fault."""
        match self.stage:
            case RescalePhase.IDLE:
                self._look(state, manifests, checkpoints)
            case RescalePhase.ADMITTING:
                self._admit(state, manifests, checkpoints)
            case RescalePhase.PREPARING:
                self._prepare(state, checkpoints)
            case RescalePhase.BARRIER:
                self._barrier(state, checkpoints)
            case RescalePhase.RESUMING:
                self._resume(state, manifests)
            case RescalePhase.TRIMMING:
                self._trim(state, manifests)
            case RescalePhase.CANCELLING:
                self._cancel(state, manifests)
            case RescalePhase.WITHDRAWING:
                self._withdraw(state, manifests)

    # --- IDLE ------------------------------------------------------------------------------------

    def _look(self, state: LeaderState, manifests: ManifestCache, checkpoints: CheckpointCoordinator) -> None:
        """Finish a rescale of an earlier term, else begin one when another table is wanted."""
        if state.proposing():
            cancel = RescaleCancel(CancelCause.LEADER_GONE, "its leader is gone")
            self._call_off(state, checkpoints, cancel)
        elif self._unsettled(state):
            self._enter(state, RescalePhase.RESUMING)
        elif self._stray(state):
            return
        elif checkpoints.in_flight is None and state.published():
            self._begin(state, manifests)

    def _unsettled(self, state: LeaderState) -> bool:
        """Return whether the committed version came by a live rescale that is not settled."""
        live = state.file is not None and state.file.proposed is not None
        return live and state.latest.settled != state.latest.version

    def _stray(self, state: LeaderState) -> bool:
        """Cancel a version that a late Prepare proposed to a member; True while a member has one."""
        strays = [m for m in state.admitted() if state.life(m).status.prepared > state.latest.version]
        for member in strays:
            version = state.life(member).status.prepared
            state.ensure(member, CancelRescale(state.latest.attempt, version), version)
        return bool(strays)

    def waits(self, state: LeaderState) -> bool:
        """Return whether a rescale waits only for the checkpoint in flight."""
        if self.stage is RescalePhase.PREPARING:
            return not self._unprepared(state)
        wanted = state.target() - state.latest.workers
        return self.idle and self._may_begin(state) and len(_joiners(state)) >= wanted

    def _may_begin(self, state: LeaderState) -> bool:
        table = state.assignment()
        if table is None or not state.is_of_plan() or state.latest.epoch == 0 or state.is_final():
            return False
        if difference(state, table, state.target()) is None:
            return False
        return state.context.due_or_wake(self.not_before)

    def _begin(self, state: LeaderState, manifests: ManifestCache) -> None:
        if not self._may_begin(state):
            return
        workers, target = state.latest.workers, state.target()
        found = _joiners(state)
        if len(found) < target - workers:
            state.log_once("waiting", f"for=joiners wanted={target} committed={workers}")
            return
        self._propose(state, manifests, target, found)

    def _propose(
        self,
        state: LeaderState,
        manifests: ManifestCache,
        target: int,
        joiners: list[WorkerIncarnation],
    ) -> None:
        assert state.plan is not None
        table = state.assignment()
        assert table is not None
        proposed = next_table(state, table, target)
        members = (*state.core(), *(member_of(life) for life in joiners))
        assert state.file is not None, "it has the table"
        at, first = state.latest.attempt, state.first_splits()
        file = MembersFile(at, members, table, proposed, first, state.file.plan)
        self._write(state, manifests, file)
        self._enter(state, RescalePhase.ADMITTING)

    def _write(self, state: LeaderState, manifests: ManifestCache, file: MembersFile) -> None:
        self.file = file
        self.name = state.context.file_name(state.term, state.latest.epoch, MEMBERS_SUFFIX)
        manifests.write(state.context, self.name, file)

    # --- ADMITTING, PREPARING, BARRIER ------------------------------------------------------------

    def _admit(self, state: LeaderState, manifests: ManifestCache, checkpoints: CheckpointCoordinator) -> None:
        """One swap admits the joiners, pins what they pre-load, and uses up the version."""
        assert self.name is not None
        assert self.file is not None
        at = state.latest
        if at.members is not None and at.members.name == self.name:
            state.file = self.file
            if not self.failures:
                checkpoints.put_off(state, PREPARED_ALONE_S)  # its barrier is a checkpoint, too
            self._enter(state, RescalePhase.PREPARING)
        elif self.name in manifests.failed:
            reason = manifests.failed[self.name]
            self._retry(state, RescaleCancel(CancelCause.FILE_NOT_WRITTEN, reason))
        elif self.name in manifests.written and not state.cas.busy:
            assert at.root is not None
            assert self.file.proposed is not None
            self.base = Retained(at.epoch, at.root)
            state.propose(
                replace(
                    at,
                    members=manifests.written[self.name],
                    proposed=self.file.proposed.version,
                    pinned=(self.base,),
                    lost=_without(at.lost, self.file.members),
                    rescale=clip(_preparing(at.workers, self.file.proposed), TEXT_BYTES_MAX),
                )
            )

    def _prepare(self, state: LeaderState, checkpoints: CheckpointCoordinator) -> None:
        """Let every member load the proposed table, then start the barrier."""
        proposed = self._table(state)
        waiting = self._unprepared(state)
        cancel = self._unpreparable(state, proposed, waiting)
        if cancel is not None:
            self._call_off(state, checkpoints, cancel)
            return
        assert self.base is not None
        for member in waiting:
            base, first = self.base, state.first_splits()
            at, everyone = state.latest.attempt, state.members()
            command = Prepare(at, proposed, everyone, base.epoch, base.root, first)
            state.ensure(member, command, proposed.version)
        if not waiting and checkpoints.in_flight is None and state.published():
            self._start_barrier(state, checkpoints, proposed)

    def _start_barrier(self, state: LeaderState, checkpoints: CheckpointCoordinator, proposed: Assignment) -> None:
        table = state.assignment()
        assert table is not None
        in_flight = InFlightCheckpoint(
            epoch=checkpoints.number(state),
            kind=BarrierKind.RESCALE,
            assignment=proposed,
            tasks=table.tasks(),  # of the old table: this is the last barrier of its channels
            deadline=state.context.now + state.settings.rescale_timeout_s,
        )
        checkpoints.start(state, in_flight)
        self._enter(state, RescalePhase.BARRIER)

    def _barrier(self, state: LeaderState, checkpoints: CheckpointCoordinator) -> None:
        """Wait for the one swap. A joiner's failure before the swap aborts only the rescale."""
        if not state.proposing():
            self.failures = 0
            self._enter(state, RescalePhase.RESUMING)
        elif state.cas.busy:  # the outcome of the swap decides
            return
        elif checkpoints.in_flight is None:
            cancel = RescaleCancel(CancelCause.CHECKPOINT_ABORTED, "its epoch was aborted")
            self._call_off(state, checkpoints, cancel)
        else:
            lost = _joiner_lost(state)
            if lost is not None:
                self._call_off(state, checkpoints, lost)

    def _unpreparable(self, state: LeaderState, proposed: Assignment, waiting: list[Member]) -> RescaleCancel | None:
        """Return why the preparation cannot or need not go on, None when it goes on.

        The deadline counts only while a member is not prepared. After that the rescale waits for
        the checkpoint in flight and its output.
        """
        text = difference(state, proposed, state.target())
        if text is not None:
            return RescaleCancel(CancelCause.OTHER_TABLE_WANTED, text)
        if waiting and state.context.due_or_wake(self.since + state.settings.prepare_timeout_s):
            text = f"not prepared in {state.settings.prepare_timeout_s:g} s"
            return RescaleCancel(CancelCause.NOT_PREPARED, text)
        return _joiner_lost(state)

    def _unprepared(self, state: LeaderState) -> list[Member]:
        version = self._table(state).version
        return [m for m in state.members() if not _prepared(state, m, version)]

    def _table(self, state: LeaderState) -> Assignment:
        assert state.file is not None
        assert state.file.proposed is not None
        return state.file.proposed

    # --- CANCELLING, WITHDRAWING ------------------------------------------------------------------

    def _call_off(self, state: LeaderState, checkpoints: CheckpointCoordinator, cancel: RescaleCancel) -> None:
        if checkpoints.in_flight is not None and checkpoints.in_flight.kind is BarrierKind.RESCALE:
            checkpoints.abort(state, cancel.text)
        self.undone = cancel
        self._enter(state, RescalePhase.CANCELLING)

    def _cancel(self, state: LeaderState, manifests: ManifestCache) -> None:
        """Let every member give held rows back, then write the members file without joiners."""
        version = self._table(state).version
        waiting = [m for m in state.core() if not _cancelled(state, m)]
        for member in waiting:
            state.ensure(member, CancelRescale(state.latest.attempt, version), version)
        self._overdue(state, waiting, "did not give its records back")
        if waiting or state.cas.busy:
            return
        assert state.file is not None
        core = replace(state.file, members=state.core(), proposed=None)
        self._write(state, manifests, core)
        self._enter(state, RescalePhase.WITHDRAWING)

    def _withdraw(self, state: LeaderState, manifests: ManifestCache) -> None:
        """One swap unpins the epoch and removes the joiners. Then their engines are ended."""
        assert self.name is not None
        assert self.undone is not None, "only a rescale that is undone is withdrawn"
        at = state.latest
        if at.members is not None and at.members.name == self.name:
            state.file = self.file
            self._retry(state, self.undone)
        elif self.name in manifests.failed:
            self._enter(state, RescalePhase.CANCELLING)
        elif self.name in manifests.written and not state.cas.busy:
            members = manifests.written[self.name]
            text = clip(f"undone: {self.undone.text}", TEXT_BYTES_MAX)
            state.propose(replace(at, members=members, pinned=(), rescale=text))

    def _retry(self, state: LeaderState, undone: RescaleCancel) -> None:
        self.failures += 1
        first, longest = state.settings.backoff_first_s, state.settings.backoff_max_s
        wait_s = min(first * 2.0 ** min(self.failures - 1, 30), longest)
        self.not_before = state.context.now + wait_s
        state.context.log(f"event=rescale-undone cause={undone.cause} reason={undone.text!r} retry_s={wait_s:g}")
        self.drop()

    # --- RESUMING, TRIMMING -----------------------------------------------------------------------

    def _resume(self, state: LeaderState, manifests: ManifestCache) -> None:
        """Go only forward: every member adopts. When all have resumed, those that leave end."""
        at = state.latest
        assert at.root is not None
        waiting = [m for m in state.members() if not _resumed(state, m)]
        for member in waiting:
            state.ensure(member, Adopt(at.attempt, at.version, at.epoch, at.root), at.version)
        if waiting:
            self._overdue(state, waiting, "did not resume")
            return
        if not state.record_published():  # tasks that leave remove their staged output
            return
        unsettled = [m for m in state.members() if not _settled(state, m)]
        for member in unsettled:
            state.ensure(member, Settled(at.attempt, at.version), at.version)
        if unsettled and self.settle_by is None:
            self.settle_by = state.context.now + state.settings.rescale_timeout_s
        self._overdue(state, unsettled, "did not end what leaves", self.settle_by)
        if unsettled or state.cas.busy:
            return
        if len(state.core()) == len(state.members()):
            if at.settled == at.version:
                self.drop()
            else:
                self._settle(state, at.members)
            return
        assert state.file is not None
        self._write(state, manifests, replace(state.file, members=state.core()))
        self._enter(state, RescalePhase.TRIMMING)

    def _overdue(self, state: LeaderState, waiting: list[Member], what: str, by: float | None = None) -> None:
        """Give up members that miss the deadline, that of this phase or ``by``. Their loss ends the attempt."""
        deadline = self.since + state.settings.ready_timeout_s if by is None else by
        if waiting and state.context.due_or_wake(deadline):
            for member in waiting:
                state.registry.mark_lost(state.life(member), f"{what} in time")

    def _trim(self, state: LeaderState, manifests: ManifestCache) -> None:
        assert self.name is not None
        at = state.latest
        if at.members is not None and at.members.name == self.name:
            state.file = self.file
            self.drop()
        elif self.name in manifests.failed:
            self._enter(state, RescalePhase.RESUMING)
        elif self.name in manifests.written and not state.cas.busy:
            self._settle(state, manifests.written[self.name])

    def _settle(self, state: LeaderState, members: BlobRef | None) -> None:
        """One swap unpins the epoch that was pre-loaded, and records the version as settled."""
        at, through = state.latest, state.published_through()
        settled = replace(at, members=members, settled=at.version, published_through=through)
        state.propose(replace(settled, pinned=(), rescale=None))


def _preparing(workers: int, proposed: Assignment) -> str:
    if proposed.workers != workers:
        return f"preparing {proposed.workers} workers"
    if proposed.balance is not ABSENT and proposed.balance.moved:
        return f"preparing to move {proposed.balance.moved} key groups"
    return f"preparing {said(given(proposed.schemes))}"


def _joiners(state: LeaderState) -> list[WorkerIncarnation]:
    """Return incarnations for the ordinals that join. They have never run a task."""
    assert state.plan is not None
    plan, joining = state.plan.fingerprint, range(state.latest.workers, state.target())
    lives = [state.registry.candidate(state.context, Ordinal(o), plan, members=[]) for o in joining]
    return [life for life in lives if life is not None]


def _joiner_lost(state: LeaderState) -> RescaleCancel | None:
    for member in state.joiners():
        life = state.life(member)
        broken = life.heartbeat.broken if life.heartbeat is not None else None
        if broken is not None and broken.attempt == state.latest.attempt:
            state.registry.mark_lost(life, broken.reason)
        if not state.registry.alive(state.context, life):
            text = f"joiner {member.ordinal} is lost: {life.lost}"
            return RescaleCancel(CancelCause.JOINER_LOST, text)
    return None


def _prepared(state: LeaderState, member: Member, version: Version) -> bool:
    return state.confirmed(member) and state.life(member).status.prepared == version


def _cancelled(state: LeaderState, member: Member) -> bool:
    return state.confirmed(member) and state.life(member).status.prepared <= state.latest.version


def _resumed(state: LeaderState, member: Member) -> bool:
    return state.confirmed(member) and state.life(member).status.resumed == state.latest.version


def _settled(state: LeaderState, member: Member) -> bool:
    status = state.life(member).status
    leaves = member.ordinal >= state.latest.workers
    return status.settled == state.latest.version and (status.left or not leaves)


def _without(lost: tuple[Lost, ...], members: tuple[Member, ...]) -> tuple[Lost, ...]:
    ordinals = [m.ordinal for m in members]
    return tuple(x for x in lost if x.ordinal not in ordinals)
