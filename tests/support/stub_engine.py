"""A stub engine without tasks: it carries out every command at once, except muted ones."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.columns import Column
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    Ordinal,
    SplitId,
    StageIndex,
    Term,
    Version,
)
from penstock.contract.manifest import BlobRef, CopyDigest, SinkHandle, SplitState, StateFile, TaskManifest
from penstock.contract.plan import (
    Assignment,
    EdgePlan,
    Partitioning,
    PhysicalPlan,
    StagePlan,
    StepState,
)

PLAN = PhysicalPlan(
    job="wordcount",
    max_key_groups=8,
    stages=(
        StagePlan(StageIndex(0), "lines", ("lines",), source="lines", bounded=True),
        StagePlan(StageIndex(1), "counts", ("counts", "out"), keyed=True, sinks=("out",)),
    ),
    edges=(EdgePlan(0, StageIndex(0), StageIndex(1), Partitioning.KEY),),
    fingerprint="plan-1",
    states=(
        StepState("lines", "source", "parquet"),
        StepState("counts", "aggregate", keys=(Column("word", "string"),)),
        StepState("out", "sink", "parquet"),
    ),
)


@dataclass
class StubEngine:
    """Carries out commands at once. ``mute`` lists the commands that it leaves undone."""

    ordinal: Ordinal
    incarnation: Incarnation
    plan: PhysicalPlan = PLAN
    status: control.EngineStatus = field(default_factory=control.EngineStatus)
    table: Assignment | None = None
    proposed: Assignment | None = None
    exhausted: bool = False
    rules: int = 7  # the digest of its copies of a side table
    idle: bool = False  # no rows come
    mute: list[str] = field(default_factory=list)
    injected: list[int] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def hello(self) -> control.EngineHello:
        """Return the first message."""
        return control.EngineHello(self.ordinal, self.incarnation, f"flight-{self.incarnation}", self.plan)

    def obey(self, term: Term, command: control.Command) -> Iterator[control.EngineReport]:
        """Carry out a command at once, and return the reports."""
        self.commands.append(type(command).__name__)
        if type(command).__name__ in self.mute:
            return
        yield from self._act(term, command)
        yield replace(self.status, exhausted=self.exhausted)

    def _act(self, term: Term, command: control.Command) -> Iterator[control.EngineReport]:
        match command:
            case control.Enumerate(attempt, stages):
                first = tuple(SplitState(SplitId(f"file{i}"), "{}", 0) for i in range(4))
                listed = tuple(control.StageSplits(stage, first) for stage in stages)
                yield control.Splits(attempt, listed, self.plan.fingerprint)
            case control.Reset(attempt, _, _, table, _):
                self.table = table
                self.status = control.EngineStatus(attempt=attempt, ready=attempt, resumed=table.version)
            case control.Publish(_, epoch) | control.Commit(_, epoch):
                self._set(published=max(epoch, self.status.published))
            case control.PublishWhole(_, epoch):
                self._set(whole=epoch)
            case control.Start(attempt):
                self._set(running=attempt)
            case control.Inject(attempt, epoch):
                self.injected.append(epoch)
                yield from self._acks(attempt, term, epoch)
            case control.Prepare(attempt, table):
                self.proposed = table
                self._set(attempt=attempt, prepared=table.version)
                if self.table is None:
                    self._set(ready=attempt, running=attempt)
            case control.CancelRescale():
                self._set(prepared=Version(0))
            case control.Adopt(_, version):
                self.table = self.proposed
                self._set(resumed=version)
            case control.Settled(_, version):
                assert self.table is not None
                self._set(settled=version, left=self.ordinal >= self.table.workers)
            case control.EndStreams():
                self._set(ended=True)
            case _:
                pass

    def _set(self, **changes: object) -> None:
        self.status = replace(self.status, **changes)  # type: ignore[arg-type]

    def _whole(self, sink: str) -> bool | Absent:
        return True if StepState(sink, "sink", "table") in self.plan.states else ABSENT

    def _acks(self, attempt: Attempt, term: Term, epoch: Epoch) -> Iterator[control.TaskAck]:
        assert self.table is not None
        sinks = [name for stage in self.plan.stages for name in stage.sinks]
        for task in self.table.tasks_on(self.ordinal):
            stage = self.plan.stages[task.stage]
            name = BlobName(f"{term}-{epoch}-{self.incarnation}-{task}.state")
            blob, share = BlobRef(name, "hash", 1), self.table.share_of(task)
            file = StateFile(blob, stage.steps[0], share, 0, epoch, 1)
            rows, offset = (0, 0) if self.idle else (1, int(epoch))
            splits = tuple(SplitState(s, "{}", offset) for s in self.table.splits_of(task))
            handles = tuple(SinkHandle(s, task, epoch, f"{epoch}", rows, 1, self._whole(s)) for s in sinks)
            copies = (CopyDigest("rules.counts", 1, self.rules),) if stage.keyed else ABSENT
            manifest = TaskManifest(
                task, files=(file,), splits=splits, handles=handles, exhausted=self.exhausted, copies=copies
            )
            yield control.TaskAck(attempt, term, epoch, manifest)
