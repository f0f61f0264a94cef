"""The commands that one incarnation of an engine has taken, and its reports that are not decided yet."""

from dataclasses import dataclass, field

from penstock.contract.control_messages import (
    Abort,
    Adopt,
    CancelRescale,
    CheckpointWanted,
    Command,
    Commit,
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
