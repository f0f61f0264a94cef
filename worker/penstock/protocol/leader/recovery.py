"""The way to the next attempt: gather workers, swap attempt + 1, reset, publish, start.

The order is the rule. Sources start only after *all* members are ready and the old output is
visible. An earlier start would mix the states of two attempts. No worker that still lives is
restarted.
"""

from dataclasses import dataclass

from penstock.base.limits import LOST_MAX, TEXT_BYTES_MAX
from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.control_messages import (
    Commit,
    Enumerate,
    MembersFile,
    Publish,
    Reset,
    Shutdown,
    Splits,
    StageSplits,
    Start,
)
from penstock.contract.ids import MEMBERS_SUFFIX, Attempt, BlobName, Ordinal
from penstock.contract.latest import Deaths, Lost, Member, clip
from penstock.contract.manifest import SinkHandle
from penstock.contract.plan import Assignment
from penstock.protocol.leader.attempt_assignment import (
    deal_anew,
    deals_all,
    stages_to_list,
    table_of,
)
from penstock.protocol.leader.checkpoint_coordinator import CheckpointCoordinator
from penstock.protocol.leader.job_restore import log_evolution, unfit
from penstock.protocol.leader.leader_state import LeaderPhase, LeaderState
from penstock.protocol.leader.leader_storage import ManifestCache
from penstock.protocol.leader.rollback import Rollback, RollbackCause, overdue
from penstock.protocol.leader.wanted_table import difference, next_table
from penstock.protocol.leader.worker_registry import WorkerIncarnation, member_of
from penstock.protocol.unpublished_output import publishable

Table = tuple[Assignment, tuple[StageSplits, ...]]  # with the splits that no checkpoint knows


@dataclass(slots=True)
class Recovery:
    """The next attempt's admission: ``name`` is its members file, ``file`` the content.

    ``splits`` is the newest listing of splits that no checkpoint knows.
    """

    name: BlobName | None = None
    file: MembersFile | None = None
    splits: Splits | None = None
    retry_at: float = 0.0

    def drop(self) -> None:
        """Forget the admission that is under way."""
        self.name = None
        self.file = None

    def on_splits(self, state: LeaderState, report: Splits) -> None:
        """Keep the first complete listing: the splits of a source are listed once per job."""
        if state.plan is None or report.plan != state.plan.fingerprint:
            return  # another plan numbers its stages differently
        if report.attempt == state.latest.attempt + 1 and not self._lists_all(state):
            self.splits = report

    # --- GATHERING -----------------------------------------------------------------------------

    def gather(self, state: LeaderState, manifests: ManifestCache) -> None:
        """Wait for a live engine for every ordinal, then admit them by one swap."""
        if self.file is not None and self.name is not None:
            self._admit(state, manifests, self.name, self.file)
            return
        if state.cas.busy:  # the next attempt is based on decided swaps only
            return
        if state.plan is None or not state.context.due_or_wake(max(state.not_before, self.retry_at)):
            return
        if not _root_known(state, manifests):
            return
        why = unfit(state)
        if why is not None:
            state.failure = why
            return
        log_evolution(state)
        lives = self._lives(state)
        if lives is None or _cannot_begin(state, lives):
            return
        table = self._table(state, lives)
        if table is not None:
            self._draft(state, manifests, table, lives)

    def _lives(self, state: LeaderState) -> list[WorkerIncarnation] | None:
        """Choose the members: as many as wanted if they live, else the committed number."""
        for count in (state.target(), state.latest.workers):
            lives = [_candidate(state, ordinal) for ordinal in range(count)]
            found = [life for life in lives if life is not None]
            if found and len(found) == count:
                return found
        state.log_once("waiting", f"for=workers wanted={state.target()} committed={state.latest.workers}")
        _log_other_plans(state)
        return None

    def _table(self, state: LeaderState, lives: list[WorkerIncarnation]) -> Table | None:
        """Return the next attempt's table; another number of workers, or another scheme, is another version."""
        base = self._base(state)
        if base is None:
            return self._anew(state, lives)
        table, first = base
        if difference(state, table, len(lives)) is None and table.version == state.latest.version:
            return base
        return next_table(state, table, len(lives)), first

    def _base(self, state: LeaderState) -> Table | None:
        """Return the table to go on from: the attempt's if it has this plan, or the checkpoint's."""
        assert state.plan is not None
        table, first = state.assignment(), state.first_splits()
        mine = table is not None and state.is_of_plan()
        if mine and table is not None and deals_all(table, state.root, state.plan, first):
            return table, first
        stored = table_of(state.root, state.plan) if state.root is not None else None
        return (stored, ()) if stored is not None else None

    def _anew(self, state: LeaderState, lives: list[WorkerIncarnation]) -> Table | None:
        """Ask one member for the splits that are not known, then make a table from nothing."""
        assert state.plan is not None
        if not self._lists_all(state):
            attempt = Attempt(state.latest.attempt + 1)
            stages = stages_to_list(state.root, state.plan)
            state.ensure(member_of(lives[0]), Enumerate(attempt, stages), attempt)
            return None
        wanted = stages_to_list(state.root, state.plan)
        first = tuple(s for s in self._listed(state) if s.stage in wanted)
        table = deal_anew(state.root, state.plan, len(lives), first)
        return replace(table, version=state.next_version(), schemes=state.schemes(table)), first

    def _lists_all(self, state: LeaderState) -> bool:
        """Return whether the splits of every source are listed that the next attempt needs."""
        assert state.plan is not None
        listed = {s.stage for s in self._listed(state)}
        return listed.issuperset(stages_to_list(state.root, state.plan))

    def _listed(self, state: LeaderState) -> tuple[StageSplits, ...]:
        """Return the listing that was made for the next attempt."""
        report = self.splits
        current = report is not None and report.attempt == state.latest.attempt + 1
        return report.splits if report is not None and current else ()

    def _draft(
        self,
        state: LeaderState,
        manifests: ManifestCache,
        table: Table,
        lives: list[WorkerIncarnation],
    ) -> None:
        assert state.plan is not None
        members = tuple(member_of(life) for life in lives)
        chosen = {m.ordinal: m.incarnation for m in members}
        for member in state.admitted():  # a keeper that died as well reports no cause
            if chosen.get(member.ordinal, member.incarnation) != member.incarnation:
                state.registry.mark_lost(state.life(member), "another engine has taken its place")
        attempt, (assignment, first) = Attempt(state.latest.attempt + 1), table
        plan = state.plan.fingerprint
        self.file = MembersFile(attempt, members, assignment, None, first, plan)
        self.name = state.context.file_name(state.term, state.latest.epoch, MEMBERS_SUFFIX)
        manifests.write(state.context, self.name, self.file)

    def _admit(self, state: LeaderState, manifests: ManifestCache, name: BlobName, file: MembersFile) -> None:
        """Swap attempt + 1 once its members file is stored. No member is reset before the swap."""
        at = state.latest
        if at.members is not None and at.members.name == name:
            self.drop()
            state.file = file
            state.registry.prune(state.context, [m.incarnation for m in file.members])
            state.enter(LeaderPhase.RESETTING)
        elif name in manifests.failed or not all(_alive(state, m) for m in file.members):
            self.drop()
            self.retry_at = state.context.now + state.settings.meta_retry_interval_s
        elif name in manifests.written and not state.cas.busy:
            state.propose(
                replace(
                    at,
                    attempt=Attempt(at.attempt + 1),
                    version=file.assignment.version,
                    proposed=max(at.proposed, file.assignment.version),
                    workers=file.assignment.workers,
                    schemes=file.assignment.schemes,
                    balance=state.balance_with(file.assignment),
                    members=manifests.written[name],
                    pinned=(),
                    lost=tuple(x for x in at.lost if x.ordinal >= len(file.members)),
                    stalled=_stalled(state),
                    rescale=None,
                    run=state.desired.run if state.desired is not None else at.run,
                    deaths=state.deaths,
                )
            )

    # --- RESETTING, PUBLISHING, STARTING -------------------------------------------------------

    def reset(self, state: LeaderState) -> Rollback | None:
        """Make all members ready at this attempt; return why it is given up, else None."""
        waiting = [m for m in state.admitted() if not _ready(state, m)]
        if not waiting:
            state.enter(LeaderPhase.PUBLISHING)
            return None
        for member in waiting:
            if state.confirmed(member) and state.life(member).status.attempt < state.latest.attempt:
                state.ensure(member, _reset_command(state), state.latest.attempt)
        return overdue(state, waiting, RollbackCause.NOT_READY)

    def publish(self, state: LeaderState) -> None:
        """Make the output of the committed epoch visible, whichever worker prepared it."""
        if state.published():
            if state.record_published():  # members remove staged output when they start
                state.enter(LeaderPhase.STARTING)
            return
        if state.plan is None:  # the members run it, but this leader's own engine has not compiled it yet
            return
        at = state.latest
        assert state.root is not None
        assert state.root.epoch == at.epoch, "output is published from the committed manifest"
        handles, how = publishable(state.root, state.plan), at.handling() or ABSENT
        state.publish_whole()
        for member in state.admitted():
            status = state.life(member).status
            if status.published >= at.epoch:
                continue
            if status.running == at.attempt:
                state.ensure(member, Commit(at.attempt, at.epoch, at.version), at.epoch)
            else:
                share = _share(state.admitted(), member, handles)
                state.ensure(member, Publish(at.attempt, at.epoch, share, how), at.epoch)

    def start(self, state: LeaderState, checkpoints: CheckpointCoordinator) -> Rollback | None:
        """Make all members run; return why the attempt is given up, else None."""
        at = state.latest
        waiting = [m for m in state.admitted() if not _running(state, m)]
        if not waiting:
            state.enter(LeaderPhase.RUNNING)
            checkpoints.begin(state)
            return None
        for member in waiting:
            state.ensure(member, Start(at.attempt), at.attempt)
        return overdue(state, waiting, RollbackCause.NOT_RUNNING)


# --- Health, in every phase ---------------------------------------------------------------------


def record_losses(state: LeaderState) -> None:
    """Record in the object the lost workers that have no successor, and the counted deaths.

    A recorded worker has to be restarted. The count outlives this leader.
    """
    for member in state.admitted():  # a member that never sent this leader a heartbeat, too
        state.registry.alive(state.context, state.life(member))
    at = state.latest
    wanted = max(state.target(), at.workers)
    gone = [
        life
        for life in sorted(state.registry.lives.values(), key=lambda x: x.seen.at)
        if life.lost is not None and life.ordinal < wanted and _candidate(state, life.ordinal) is None
    ]
    newest = {life.ordinal: Lost(life.ordinal, life.incarnation, life.pod) for life in gone}
    kept = [x for x in at.lost if x.ordinal not in newest or x == newest[x.ordinal]]
    new = [x for x in newest.values() if x not in kept]
    named = tuple(kept + new)[:LOST_MAX]  # always the first ones: else two lists would alternate
    if named != at.lost or _differ(state.deaths, at.deaths):
        state.propose(replace(at, lost=named, deaths=state.deaths))


def end_strangers(state: LeaderState) -> None:
    """End engines that are lost, and engines that run an attempt and are no members of it: left, undone or replaced.

    While no members are known, a lost engine is ended all the same: its keeper would go on with it for ever.
    """
    admitted = None if state.file is None else [m.incarnation for m in state.members()]
    for life in state.registry.lives.values():
        if not state.registry.recent(state.context, life):
            continue
        stranger = admitted is not None and life.status.attempt > 0 and life.incarnation not in admitted
        if life.lost is not None or stranger:
            why = life.lost or f"not a member of attempt {state.latest.attempt}"
            state.ensure(member_of(life), Shutdown(life.incarnation, why), 0)


def _differ(deaths: Deaths, recorded: Deaths) -> bool:
    """Return whether the recorded deaths are out of date."""
    same = (deaths.count, deaths.total, deaths.unknown) == (
        recorded.count,
        recorded.total,
        recorded.unknown,
    )
    return not same


def _root_known(state: LeaderState, manifests: ManifestCache) -> bool:
    """Read the manifest that the object names; True when it is known.

    The outcome of a commit may have been unknown when the attempt was given up. If the swap was
    applied, the epoch is committed. Then the output handles of the epoch before it must not be
    published under its number.
    """
    at = state.latest
    if at.members is None:
        state.file = None  # as the object says: no attempt yet, or a restore took it away
    if at.root is None:
        state.root = None
        return True
    if state.root is not None and state.root.epoch == at.epoch:
        return True
    root = manifests.root(state.context, at.root)
    if root is not None:
        state.root = root
    elif at.root.name in manifests.damaged:
        state.failure = f"checkpoint {at.epoch} cannot be read: {manifests.damaged[at.root.name]}"
    return root is not None


def _candidate(state: LeaderState, ordinal: int) -> WorkerIncarnation | None:
    if state.plan is None:
        return None
    members = None if state.file is None else [m.incarnation for m in state.members()]
    return state.registry.candidate(state.context, Ordinal(ordinal), state.plan.fingerprint, members)


def _alive(state: LeaderState, member: Member) -> bool:
    return state.registry.alive(state.context, state.life(member))


def _log_other_plans(state: LeaderState) -> None:
    """Log the engines that have compiled another job than the leader: they are never admitted.

    While pods are replaced this passes. When it lasts, the job is built differently each time, and
    the object says so.
    """
    assert state.plan is not None
    others = []
    for life in state.registry.lives.values():
        beat = life.heartbeat
        if beat is not None and not life.lost and beat.fingerprint != state.plan.fingerprint:
            other = f"theirs={beat.fingerprint} ours={state.plan.fingerprint}"
            state.log_once(f"other-plan-{life.ordinal}", f"worker={life.ordinal} {other}")
            others.append(int(life.ordinal))
    if others and state.context.due_or_wake(state.since + state.settings.ready_timeout_s):
        text = (
            f"workers {sorted(others)} have compiled another job than the leader: all must run the "
            "same file, code and parameters, and build the same graph every time"
        )
        if state.latest.stalled != text:
            state.propose(replace(state.latest, stalled=clip(text, TEXT_BYTES_MAX)))


def _cannot_begin(state: LeaderState, lives: list[WorkerIncarnation]) -> bool:
    """Fail the job when its sources cannot be listed."""
    for life in lives:
        broken = life.heartbeat.broken if life.heartbeat is not None else None
        if broken is not None and broken.fatal and broken.attempt == state.latest.attempt + 1:
            state.failure = broken.reason
            return True
    return False


def _ready(state: LeaderState, member: Member) -> bool:
    status = state.life(member).status
    attempt = state.latest.attempt
    reached = attempt in (status.ready, status.running)
    return state.confirmed(member) and status.attempt == attempt and reached


def _running(state: LeaderState, member: Member) -> bool:
    status = state.life(member).status
    attempt = state.latest.attempt
    return state.confirmed(member) and status.attempt == attempt and status.running == attempt


def _reset_command(state: LeaderState) -> Reset:
    assert state.file is not None
    assignment = state.assignment()
    assert assignment is not None
    assert assignment.version == state.latest.version, "members run the committed table"
    at = state.latest
    return Reset(at.attempt, at.epoch, at.root, assignment, state.core(), state.file.splits)


def _share(members: tuple[Member, ...], me: Member, handles: list[SinkHandle]) -> tuple[SinkHandle, ...]:
    """Choose the handles that ``me`` publishes: its own, and a share of those of lost workers."""
    by_ordinal = {m.ordinal: i for i, m in enumerate(members)}
    mine = members.index(me)
    own = (h for h in handles if h.whole is not True)
    return tuple(h for h in own if by_ordinal.get(h.task.worker, h.task.worker % len(members)) == mine)


def _stalled(state: LeaderState) -> str | None:
    """Return the text for users when attempts fail again and again; they go on nevertheless."""
    if state.failures < state.settings.restarts_before_stalled:
        return None
    text = f"{state.failures} attempts in a row committed no new rows: {state.reason}"
    return clip(text, TEXT_BYTES_MAX)
