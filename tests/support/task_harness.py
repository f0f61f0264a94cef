"""A harness for the core of one task of a small job, driven event by event."""

from dataclasses import dataclass, field

from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Epoch,
    JobUid,
    Ordinal,
    SplitId,
    StageIndex,
    TaskId,
    Term,
    Version,
)
from penstock.contract.manifest import RootManifest, SinkHandle, SplitState, TaskManifest
from penstock.contract.plan import (
    Assignment,
    EdgePlan,
    Partitioning,
    PhysicalPlan,
    StagePlan,
    StepState,
    first_assignment,
    next_assignment,
)
from penstock.model.elements import Barrier, BarrierKind, Data
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskCore
from penstock.protocol.task.task_state import TaskSetup

SOURCE, COUNT, OUT = StageIndex(0), StageIndex(1), StageIndex(2)
PLAN = PhysicalPlan(
    "job",
    4,
    (
        StagePlan(SOURCE, "read", ("read",), source="read", bounded=True),
        StagePlan(COUNT, "count", ("count",), keyed=True),
        StagePlan(OUT, "out", ("out",), keyed=True, sinks=("out",)),
    ),
    (
        EdgePlan(0, SOURCE, COUNT, Partitioning.KEY),
        EdgePlan(1, COUNT, OUT, Partitioning.KEY),
    ),
    "print",
    (StepState("read", "source"), StepState("count", "process"), StepState("out", "process")),
)
SPLITS = tuple(SplitState(SplitId(name), "{}", 0) for name in ("a", "b", "c"))
TWO = first_assignment(PLAN, 2, {SOURCE: tuple(s.split for s in SPLITS)})
THREE = next_assignment(PLAN, TWO, 3)
ONE = next_assignment(PLAN, TWO, 1)


def task(stage: StageIndex, worker: int) -> TaskId:
    return TaskId(stage, Ordinal(worker), 0)


def to_count(sender: int, receiver: int) -> ChannelId:
    return ChannelId(0, task(SOURCE, sender), task(COUNT, receiver))


def to_out(sender: int, receiver: int) -> ChannelId:
    return ChannelId(1, task(COUNT, sender), task(OUT, receiver))


def rows(text: str, max_ts: int | None = None) -> Data[str]:
    return Data(text, len(text), 10, None, max_ts)


def barrier(
    epoch: int,
    *,
    term: int = 1,
    committed: int = 0,
    kind: BarrierKind = BarrierKind.CHECKPOINT,
    version: int = 1,
) -> Barrier:
    return Barrier(Term(term), Epoch(epoch), Version(version), kind, Epoch(committed), 0)


def rescale(epoch: int, term: int = 1) -> Barrier:
    return barrier(epoch, term=term, kind=BarrierKind.RESCALE, version=2)


@dataclass
class Rig:
    """Drives a core and keeps its actions. Its steps fire ``slice_us`` of event time at once, None: all."""

    core: TaskCore
    now: float = 0.0
    done: list[ev.Action] = field(default_factory=list)
    slice_us: int | None = None

    def __call__(self, event: ev.Event) -> list[ev.Action]:
        actions = self.core.step(event, self.now)
        self.done += actions
        for action in actions:
            if isinstance(action, ev.LoadState):
                actions = actions + self(ev.Loaded(action.version))
            elif isinstance(action, ev.AdvanceWatermark):
                actions = actions + self(ev.Fired(self._reached(action.time_us)))
        return actions

    def _reached(self, told_us: int) -> int:
        before = self.core.state.time.task_us or 0
        return told_us if self.slice_us is None else min(told_us, before + self.slice_us)

    def arrive(self, channel: ChannelId, element: object) -> list[ev.Action]:
        assert self.core.reads(channel)
        return self(ev.ElementReceived(channel, element))  # type: ignore[arg-type]

    def store(self, epoch: int, *handles: SinkHandle, term: int = 1) -> list[ev.Action]:
        return self(ev.SnapshotStored(Term(term), Epoch(epoch), ev.SnapshotParts(handles=handles)))


def rig(
    stage: StageIndex,
    worker: int = 0,
    assignment: Assignment = TWO,
    *,
    root: RootManifest | None = None,
    joining: bool = False,
    disorder_us: int | None = None,
    held: int = 1000,
    plan: PhysicalPlan = PLAN,
) -> Rig:
    setup = TaskSetup(plan, task(stage, worker), assignment, held, None, disorder_us, SPLITS, joining)
    driven = Rig(TaskCore(setup, root))
    driven(ev.Build())
    if not joining:
        driven(ev.Started())
    return driven


def sends(actions: list[ev.Action]) -> list[tuple[ChannelId, object]]:
    return [(a.channel, a.element) for a in actions if isinstance(a, ev.Send)]


def root(epoch: int, *manifests: TaskManifest) -> RootManifest:
    return RootManifest(
        JobUid("job"),
        Epoch(epoch),
        Term(1),
        Attempt(1),
        "RESCALE",
        4,
        PLAN.fingerprint,
        TWO,
        manifests,
        PLAN.states,
        PLAN.steps,
    )


def handle(epoch: int, name: str = "h") -> SinkHandle:
    return SinkHandle("out", task(OUT, 0), Epoch(epoch), name, 1, 1)
