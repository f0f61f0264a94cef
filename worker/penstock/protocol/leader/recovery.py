"""Back to the committed epoch: gather, swap attempt + 1, reset, publish, start.

Order is everything here: sources start only after *all* are ready and the old output is visible;
an earlier start would mix the states of two attempts. Nothing is restarted that still lives.
"""

from dataclasses import dataclass, replace

from penstock.base.limits import LOST_MAX, TEXT_BYTES_MAX
from penstock.contract.assignment import Assignment, next_assignment
from penstock.contract.control import (
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
from penstock.contract.ids import Attempt, BlobName, Ordinal
from penstock.contract.latest import Deaths, Lost, Member, clip
from penstock.contract.manifest import SinkHandle
from penstock.contract.names import MEMBERS_SUFFIX
from penstock.contract.reports import Cause
from penstock.protocol.leader.attempt_assignment import (
    deal_anew,
    deals_all,
    stages_to_list,
    table_of,
)
from penstock.protocol.leader.checkpoint_coordinator import Epochs
from penstock.protocol.leader.job_restore import unfit
from penstock.protocol.leader.leader_state import Lead, Phase
from penstock.protocol.leader.manifest_cache import Shelf
from penstock.protocol.leader.worker_registry import Life, member_of

Table = tuple[Assignment, tuple[StageSplits, ...]]  # and first states that no checkpoint has


@dataclass(slots=True)
class Recovery:
    """``name`` is the members file of the attempt that is being admitted, ``file`` its content."""

    name: BlobName | None = None
    file: MembersFile | None = None
    splits: Splits | None = None
    retry_at: float = 0.0

    def drop(self) -> None:
        """Forget an admission that was under way."""
        self.name = None
        self.file = None

    def hear_splits(self, lead: Lead, report: Splits) -> None:
        """Keep the first answer of use: a source's splits are listed once in a job's life."""
        if lead.plan is None or report.plan != lead.plan.fingerprint:
            return  # it numbers stages as another plan does; it is said again in any case
        if report.attempt == lead.latest.attempt + 1 and not self._lists_all(lead):
            self.splits = report

    # --- GATHERING -----------------------------------------------------------------------------

    def gather(self, lead: Lead, shelf: Shelf) -> None:
        """Wait for a live engine for every ordinal, then admit them by one swap."""
        if self.file is not None and self.name is not None:
            self._admit(lead, shelf, self.name, self.file)
            return
        if lead.swaps.busy:  # a draft is made from what is decided
            return
        if lead.plan is None or not lead.desk.due(max(lead.not_before, self.retry_at)):
            return
        if not _root_known(lead, shelf):
            return
        why = unfit(lead)
        if why is not None:
            lead.failure = why
            return
        lives = self._lives(lead)
        if lives is None or _cannot_begin(lead, lives):
            return
        table = self._table(lead, lives)
        if table is not None:
            self._draft(lead, shelf, table, lives)

    def _lives(self, lead: Lead) -> list[Life] | None:
        """Choose who is admitted: the wanted number if it is there, else the committed one."""
        for count in (lead.target(), lead.latest.workers):
            lives = [_candidate(lead, ordinal) for ordinal in range(count)]
            found = [life for life in lives if life is not None]
            if found and len(found) == count:
                return found
        lead.say("waiting", f"for=workers wanted={lead.target()} committed={lead.latest.workers}")
        _say_misfits(lead)
        return None

    def _table(self, lead: Lead, lives: list[Life]) -> Table | None:
        """Return the next attempt's table; another number of workers is another version."""
        base = self._base(lead)
        if base is None:
            return self._anew(lead, lives)
        table, first = base
        if table.workers == len(lives) and table.version == lead.latest.version:
            return base
        assert lead.plan is not None
        following = next_assignment(lead.plan, table, len(lives))
        return replace(following, version=lead.next_version()), first

    def _base(self, lead: Lead) -> Table | None:
        """Return what to go on from: the attempt's table if it was of this plan, or the root's."""
        assert lead.plan is not None
        table, first = lead.assignment(), lead.first_splits()
        mine = table is not None and lead.is_of_plan()
        if mine and table is not None and deals_all(table, lead.root, lead.plan, first):
            return table, first
        stored = table_of(lead.root, lead.plan) if lead.root is not None else None
        return (stored, ()) if stored is not None else None

    def _anew(self, lead: Lead, lives: list[Life]) -> Table | None:
        """Ask one member for the splits that nobody knows, then deal everything out anew."""
        assert lead.plan is not None
        if not self._lists_all(lead):
            attempt = Attempt(lead.latest.attempt + 1)
            stages = stages_to_list(lead.root, lead.plan)
            lead.want(member_of(lives[0]), Enumerate(attempt, stages), attempt)
            return None
        wanted = stages_to_list(lead.root, lead.plan)
        first = tuple(s for s in self._listed(lead) if s.stage in wanted)
        table = deal_anew(lead.root, lead.plan, len(lives), first)
        return replace(table, version=lead.next_version()), first

    def _lists_all(self, lead: Lead) -> bool:
        """Say whether every source is known whose splits the next attempt needs."""
        assert lead.plan is not None
        listed = {s.stage for s in self._listed(lead)}
        return listed.issuperset(stages_to_list(lead.root, lead.plan))

    def _listed(self, lead: Lead) -> tuple[StageSplits, ...]:
        """Return the answer to the question that was asked before the next attempt."""
        report = self.splits
        current = report is not None and report.attempt == lead.latest.attempt + 1
        return report.splits if report is not None and current else ()

    def _draft(self, lead: Lead, shelf: Shelf, table: Table, lives: list[Life]) -> None:
        assert lead.plan is not None
        members = tuple(member_of(life) for life in lives)
        chosen = {m.ordinal: m.incarnation for m in members}
        for member in lead.admitted():  # its keeper died with it: nobody has said how
            if chosen.get(member.ordinal, member.incarnation) != member.incarnation:
                lead.roster.lose(lead.life(member), "another engine has taken its place")
        attempt, (assignment, first) = Attempt(lead.latest.attempt + 1), table
        plan = lead.plan.fingerprint
        self.file = MembersFile(attempt, members, assignment, None, first, plan)
        self.name = lead.desk.file_name(lead.term, lead.latest.epoch, MEMBERS_SUFFIX)
        shelf.write(lead.desk, self.name, self.file)

    def _admit(self, lead: Lead, shelf: Shelf, name: BlobName, file: MembersFile) -> None:
        """Swap attempt + 1 once its members file is stored; nothing is reset before."""
        at = lead.latest
        if at.members is not None and at.members.name == name:
            self.drop()
            lead.file = file
            lead.roster.prune(lead.desk, [m.incarnation for m in file.members])
            lead.enter(Phase.RESETTING)
        elif name in shelf.failed or not all(_alive(lead, m) for m in file.members):
            self.drop()
            self.retry_at = lead.desk.now + lead.settings.meta_retry_interval_s
        elif name in shelf.written and not lead.swaps.busy:
            lead.propose(
                replace(
                    at,
                    attempt=Attempt(at.attempt + 1),
                    version=file.assignment.version,
                    proposed=max(at.proposed, file.assignment.version),
                    workers=file.assignment.workers,
                    members=shelf.written[name],
                    pinned=(),
                    lost=tuple(x for x in at.lost if x.ordinal >= len(file.members)),
                    stalled=_stalled(lead),
                    rescale=None,
                    run=lead.desired.run if lead.desired is not None else at.run,
                    deaths=lead.deaths,
                )
            )

    # --- RESETTING, PUBLISHING, STARTING -------------------------------------------------------

    def reset(self, lead: Lead) -> str | None:
        """Have all members ready at this attempt; return why it failed, else None."""
        waiting = [m for m in lead.admitted() if not _ready(lead, m)]
        if not waiting:
            lead.enter(Phase.PUBLISHING)
            return None
        for member in waiting:
            if lead.heard(member) and lead.life(member).status.attempt < lead.latest.attempt:
                lead.want(member, _reset_command(lead), lead.latest.attempt)
        return _overdue(lead, waiting, "ready")

    def publish(self, lead: Lead) -> None:
        """Have the committed epoch's output made visible, whoever prepared it."""
        if lead.published():
            if lead.record_published():  # members sweep what was staged when they start
                lead.enter(Phase.STARTING)
            return
        at = lead.latest
        assert lead.root is not None
        assert lead.root.epoch == at.epoch, "output is published from the committed manifest"
        handles = [h for task in lead.root.tasks for h in task.handles]
        for member in lead.admitted():
            status = lead.life(member).status
            if status.published >= at.epoch:
                continue
            if status.running == at.attempt:
                lead.want(member, Commit(at.attempt, at.epoch, at.version), at.epoch)
            else:
                share = _share(lead.admitted(), member, handles)
                lead.want(member, Publish(at.attempt, at.epoch, share), at.epoch)

    def start(self, lead: Lead, epochs: Epochs) -> str | None:
        """Have all members run; return why it failed, else None."""
        at = lead.latest
        waiting = [m for m in lead.admitted() if not _running(lead, m)]
        if not waiting:
            lead.enter(Phase.RUNNING)
            epochs.begin(lead)
            return None
        for member in waiting:
            lead.want(member, Start(at.attempt), at.attempt)
        return _overdue(lead, waiting, "running")


# --- Health, in every phase ---------------------------------------------------------------------


def trouble(lead: Lead) -> str | None:
    """Return why the attempt cannot go on, None when all admitted members are well."""
    for member in lead.admitted():
        life = lead.life(member)
        if not lead.roster.alive(lead.desk, life):
            return f"worker {member.ordinal} is lost: {_first_line(life.lost)}"
        broken = life.heartbeat.broken if life.heartbeat is not None else None
        if broken is not None and broken.attempt == lead.latest.attempt:
            if broken.fatal:
                lead.failure = broken.reason
            return f"worker {member.ordinal}: {broken.reason}"
    return None


def record(lead: Lead) -> None:
    """Name in the object who was given up and has no successor yet, and what deaths were counted.

    Whoever is named is to be restarted; the count outlives this leader.
    """
    for member in lead.admitted():  # one that this leader never heard of is nobody's candidate
        lead.roster.alive(lead.desk, lead.life(member))
    at = lead.latest
    wanted = max(lead.target(), at.workers)
    gone = [
        life
        for life in sorted(lead.roster.lives.values(), key=lambda x: x.seen.at)
        if life.lost is not None
        and life.ordinal < wanted
        and _candidate(lead, life.ordinal) is None
    ]
    newest = {life.ordinal: Lost(life.ordinal, life.incarnation, life.pod) for life in gone}
    kept = [x for x in at.lost if x.ordinal not in newest or x == newest[x.ordinal]]
    new = [x for x in newest.values() if x not in kept]
    named = tuple(kept + new)[:LOST_MAX]  # the first ones: two lists must not take turns
    if named != at.lost or _differ(lead.deaths, at.deaths):
        lead.propose(replace(at, lost=named, deaths=lead.deaths))


def dismiss(lead: Lead) -> None:
    """End engines that run something and are no members: left, cancelled, lost or replaced."""
    if lead.file is None:
        return
    admitted = [m.incarnation for m in lead.members()]
    for life in lead.roster.lives.values():
        if not lead.roster.heard(lead.desk, life):
            continue
        stranger = life.status.attempt > 0 and life.incarnation not in admitted
        if life.lost is not None or stranger:
            why = life.lost or f"not a member of attempt {lead.latest.attempt}"
            lead.want(member_of(life), Shutdown(life.incarnation, why), 0)


def _differ(deaths: Deaths, recorded: Deaths) -> bool:
    """Say whether the object has to be told: of a death, or that there were none for a window."""
    same = (deaths.count, deaths.total, deaths.unknown) == (
        recorded.count,
        recorded.total,
        recorded.unknown,
    )
    return not same


def _first_line(reason: str | None) -> str:
    return (reason or "").partition("\n")[0]


def _root_known(lead: Lead, shelf: Shelf) -> bool:
    """Have the manifest that the object names: a swap may have been applied unnoticed.

    An epoch whose commit was unknown when the attempt was given up is committed all the same;
    the handles of the one before must not be published under its number.
    """
    at = lead.latest
    if at.members is None:
        lead.file = None  # as the object says: no attempt yet, or a restore took it away
    if at.root is None:
        lead.root = None
        return True
    if lead.root is not None and lead.root.epoch == at.epoch:
        return True
    root = shelf.root(lead.desk, at.root)
    if root is not None:
        lead.root = root
    elif at.root.name in shelf.damaged:
        lead.failure = f"checkpoint {at.epoch} cannot be read: {shelf.damaged[at.root.name]}"
    return root is not None


def _candidate(lead: Lead, ordinal: int) -> Life | None:
    if lead.plan is None:
        return None
    members = None if lead.file is None else [m.incarnation for m in lead.members()]
    return lead.roster.candidate(lead.desk, Ordinal(ordinal), lead.plan.fingerprint, members)


def _alive(lead: Lead, member: Member) -> bool:
    return lead.roster.alive(lead.desk, lead.life(member))


def _say_misfits(lead: Lead) -> None:
    """Say which engines compiled another job than the leader's: they are never admitted.

    While pods are replaced that passes. Where it lasts, the job is built differently each time.
    """
    assert lead.plan is not None
    others = []
    for life in lead.roster.lives.values():
        beat = life.heartbeat
        if beat is not None and not life.lost and beat.fingerprint != lead.plan.fingerprint:
            other = f"theirs={beat.fingerprint} ours={lead.plan.fingerprint}"
            lead.say(f"other-plan-{life.ordinal}", f"worker={life.ordinal} {other}")
            others.append(int(life.ordinal))
    if others and lead.desk.due(lead.since + lead.settings.ready_timeout_s):
        text = (
            f"workers {sorted(others)} have compiled another job than the leader: all must run the "
            "same file, code and parameters, and build the same graph every time"
        )
        if lead.latest.stalled != text:
            lead.propose(replace(lead.latest, stalled=clip(text, TEXT_BYTES_MAX)))


def _cannot_begin(lead: Lead, lives: list[Life]) -> bool:
    """Fail the job when its sources cannot even be listed."""
    for life in lives:
        broken = life.heartbeat.broken if life.heartbeat is not None else None
        if broken is not None and broken.fatal and broken.attempt == lead.latest.attempt + 1:
            lead.failure = broken.reason
            return True
    return False


def _ready(lead: Lead, member: Member) -> bool:
    status = lead.life(member).status
    attempt = lead.latest.attempt
    reached = attempt in (status.ready, status.running)
    return lead.heard(member) and status.attempt == attempt and reached


def _running(lead: Lead, member: Member) -> bool:
    status = lead.life(member).status
    attempt = lead.latest.attempt
    return lead.heard(member) and status.attempt == attempt and status.running == attempt


def _overdue(lead: Lead, waiting: list[Member], what: str) -> str | None:
    """Give up members that missed the deadline; a new term waits for their first word too."""
    if not lead.desk.due(lead.since + lead.settings.ready_timeout_s):
        return None
    for member in waiting:
        why = f"not {what} in {lead.settings.ready_timeout_s:g} s"
        lead.roster.lose(lead.life(member), why, Cause.ORDERED)
    return f"workers {[m.ordinal for m in waiting]} not {what} in time"


def _reset_command(lead: Lead) -> Reset:
    assert lead.file is not None
    assignment = lead.assignment()
    assert assignment is not None
    assert assignment.version == lead.latest.version, "members run the committed table"
    at = lead.latest
    return Reset(at.attempt, at.epoch, at.root, assignment, lead.core(), lead.file.splits)


def _share(
    members: tuple[Member, ...], me: Member, handles: list[SinkHandle]
) -> tuple[SinkHandle, ...]:
    """Deal handles out: to the worker that prepared them, else to a live one by its ordinal."""
    by_ordinal = {m.ordinal: i for i, m in enumerate(members)}
    mine = members.index(me)
    return tuple(
        h for h in handles if by_ordinal.get(h.task.worker, h.task.worker % len(members)) == mine
    )


def _stalled(lead: Lead) -> str | None:
    """Say so when attempts fail again and again; they go on at the longest back-off."""
    if lead.failures < lead.settings.restarts_before_stalled:
        return None
    text = f"{lead.failures} attempts in a row committed nothing: {lead.reason}"
    return clip(text, TEXT_BYTES_MAX)
