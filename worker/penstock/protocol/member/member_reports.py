"""What a member knows of its engine: commands it has taken, reports not decided yet, its last checkpoint.

A worker that is about to end has one last checkpoint: with it the others repeat little work.

The worker asks for the checkpoint and does not force it. If the epoch does not come in time, the
others replay its input. When all workers end together, the leader may end first, and then no leader
tells the others the outcome. So a worker waits only while its last epoch can still come. The rights
of the workers end with a deleted job: then nothing can be committed, and no message says so.
"""

from dataclasses import dataclass, field

from penstock.base.limits import (
    DRAIN_PUBLISH_S,
    DRAIN_STILL_S,
    DRAIN_UNREAD_S,
    RESEND_INTERVAL_S,
)
from penstock.contract.control_messages import (
    Abort,
    Adopt,
    CancelRescale,
    CheckpointWanted,
    Command,
    Commit,
    EngineStatus,
    Enumerate,
    EpochFailed,
    Expedite,
    Inject,
    Prepare,
    Publish,
    PublishFailed,
    Report,
    Settled,
    Shutdown,
    Splits,
    TaskAck,
)
from penstock.contract.ids import Attempt, Epoch, TaskId, Term
from penstock.protocol.core_context import StepContext

# A new leader repeats these commands under its own term, where their numbers may recur.
OF_A_TERM = (Inject, Expedite, Abort, Commit, Prepare, CancelRescale, Adopt, Settled, Shutdown)


@dataclass(slots=True)
class CommandDedup:
    """The newest number of each kind of command that went to the engine in ``attempt``.

    - ``cancelled``: the highest proposed version that was cancelled. A Prepare of it that comes
      later is out of date.
    - ``enumerated``: the newest order to list splits.
    """

    attempt: Attempt = Attempt(0)
    numbers: dict[str, int] = field(default_factory=dict)
    cancelled: int = 0
    enumerated: Enumerate | None = None

    def first(self, command: Command, number: int) -> bool:
        """Return whether ``command`` is newer than all of its kind, and remember its number."""
        kind = type(command).__name__
        if number <= self.numbers.get(kind, 0):
            return False
        self.numbers[kind] = number
        return True

    def number(self, kind: type) -> int:
        """Return the newest number of a kind of command, 0 when there was none."""
        return self.numbers.get(kind.__name__, 0)

    def decided(self) -> int:
        """Return the newest epoch whose outcome has gone to the engine."""
        return max(self.number(Commit), self.number(Abort), self.number(Publish))

    def forget(self, kinds: tuple[type, ...]) -> None:
        """Forget the numbers of these kinds, so that such commands pass again."""
        for kind in kinds:
            self.numbers.pop(kind.__name__, None)


@dataclass(slots=True)
class PendingReports:
    """The reports that are repeated until they are decided: acknowledgements, failures, answers."""

    acks: dict[TaskId, TaskAck] = field(default_factory=dict)
    failed: EpochFailed | None = None
    unpublished: PublishFailed | None = None
    splits: Splits | None = None
    wanted: CheckpointWanted | None = None

    def keep(self, report: TaskAck | EpochFailed | PublishFailed | Splits | CheckpointWanted) -> None:
        """Remember a report until it is decided."""
        match report:
            case TaskAck():
                self.acks[report.manifest.task] = report
            case EpochFailed():
                self.failed = report
            case PublishFailed():
                self.unpublished = report
            case Splits():
                self.splits = report
            case CheckpointWanted():
                self.wanted = report

    def close(self, epoch: Epoch) -> None:
        """Forget reports about epochs up to ``epoch``: these are decided."""
        self.acks = {task: ack for task, ack in self.acks.items() if ack.epoch > epoch}
        if self.failed is not None and self.failed.epoch <= epoch:
            self.failed = None

    def close_terms_below(self, term: Term) -> None:
        """Forget reports about epochs of older terms: the announcement of ``term`` decides them."""
        self.acks = {task: ack for task, ack in self.acks.items() if ack.term >= term}
        if self.failed is not None and self.failed.term < term:
            self.failed = None

    def newest(self, taken: CommandDedup) -> Epoch:
        """Return the newest epoch that has begun here, by a command or by a barrier in band."""
        return Epoch(max([taken.number(Inject), *(a.epoch for a in self.acks.values())]))

    def undecided(self, taken: CommandDedup) -> Epoch:
        """Return the newest epoch that has begun here and whose outcome is not known, else 0."""
        newest = self.newest(taken)
        return Epoch(newest if newest > taken.decided() else 0)

    def repeated(self, taken: CommandDedup) -> list[Report]:
        """List the reports to repeat. A request for a checkpoint is repeated only once."""
        if self.splits is not None and self.splits.attempt <= taken.attempt:
            self.splits = None
        open_reports = (self.failed, self.unpublished, self.splits, self.wanted)
        self.wanted = None
        return [*self.acks.values(), *(r for r in open_reports if r is not None)]


@dataclass(frozen=True, slots=True)
class DrainView:
    """What a worker that ends knows. A change of it means that the last epoch may still come.

    - ``told``: the number of the newest command of each kind.
    - ``committed``: the newest epoch that is known to be committed.
    - ``undecided``: an epoch of the newest term has begun here, and its outcome is not known.
    - ``broken``: the attempt can take no further epoch.
    - ``unread_since``: since when -latest cannot be read; None when the last read succeeded.
    """

    status: EngineStatus
    told: tuple[tuple[str, int], ...]
    committed: Epoch
    undecided: bool
    broken: bool
    unread_since: float | None


@dataclass(slots=True)
class LastCheckpointWait:
    """The wait for the last epoch: one that is later than ``after``, the newest one begun before.

    - ``seen``: the newest view; ``moved_at``: when it last changed.
    - ``committed_at``: when the last epoch was found committed.
    - ``over``: there is nothing to wait for.
    """

    after: Epoch
    ask_at: float = 0.0
    seen: DrainView | None = None
    moved_at: float = 0.0
    committed_at: float | None = None
    over: bool = False

    def asks(self, context: StepContext, view: DrainView) -> bool:
        """Return whether to ask the leader now. It is asked repeatedly, because it may change."""
        if view != self.seen:
            self.seen, self.moved_at = view, context.now
        if self.committed_at is None and view.committed > self.after:
            self.committed_at = context.now
        self.over = self._over(context, view)
        if self.over or not context.due_or_wake(self.ask_at):
            return False
        self.ask_at = context.now + RESEND_INTERVAL_S
        context.due_or_wake(self.ask_at)
        return True

    def _over(self, context: StepContext, view: DrainView) -> bool:
        """Return whether the last epoch is committed and visible, or none can come any more."""
        status = view.status
        if status.running == 0 or status.left or status.ended or status.published > self.after:
            return True
        if self.committed_at is not None:  # a recovery makes the output visible in any case
            return context.due_or_wake(self.committed_at + DRAIN_PUBLISH_S)
        if view.broken and not view.undecided:
            return True  # the attempt goes back to the committed epoch: no new epoch is kept
        if view.unread_since is not None and context.due_or_wake(view.unread_since + DRAIN_UNREAD_S):
            return True
        if view.undecided and not view.broken:
            return False  # the leader commits the epoch or reports that it is aborted
        return context.due_or_wake(self.moved_at + DRAIN_STILL_S)
