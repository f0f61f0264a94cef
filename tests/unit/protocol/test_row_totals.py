"""The rows that a checkpoint stands for: exact through carried handles and finished splits."""

from penstock.contract.ids import (
    Attempt,
    Epoch,
    JobUid,
    Ordinal,
    SplitId,
    StageIndex,
    TaskId,
    Term,
    Version,
)
from penstock.contract.manifest import (
    RootManifest,
    SinkHandle,
    SplitState,
    StepRows,
    TaskManifest,
)
from penstock.contract.plan import Assignment, PhysicalPlan, StagePlan
from penstock.protocol.leader.checkpoint_coordinator import total_rows

PLAN = PhysicalPlan(
    "words",
    8,
    (
        StagePlan(StageIndex(0), "lines", ("lines",), source="lines"),
        StagePlan(StageIndex(1), "counts", ("counts", "output"), sinks=("output",)),
    ),
    (),
    "f",
)
READER = TaskId(StageIndex(0), Ordinal(0), 0)
COUNTER = TaskId(StageIndex(1), Ordinal(0), 0)


def handle(epoch: int, rows: int) -> SinkHandle:
    return SinkHandle("output", COUNTER, Epoch(epoch), f"cut of {epoch}", rows, 1)


def tasks(offsets: dict[str, int], *handles: SinkHandle) -> tuple[TaskManifest, ...]:
    splits = tuple(SplitState(SplitId(n), "{}", o, finished=o > 5) for n, o in offsets.items())
    return TaskManifest(READER, splits=splits), TaskManifest(COUNTER, handles=handles)


def root(epoch: int, before: RootManifest | None, parts: tuple[TaskManifest, ...]) -> RootManifest:
    rows = total_rows(before, PLAN, parts)
    names = JobUid("u"), Epoch(epoch), Term(1), Attempt(1)
    table = Assignment(Version(1), 1, ())
    return RootManifest(*names, "checkpoint", 8, "f", table, parts, rows=rows)


def test_sources_count_offsets_and_sinks_add_up_their_handles() -> None:
    first = root(1, None, tasks({"a": 6, "b": 2}, handle(1, 30)))
    assert first.rows == (StepRows("lines", 8), StepRows("output", 30))
    second = root(2, first, tasks({"a": 6, "b": 4}, handle(2, 12)))
    assert second.rows == (StepRows("lines", 10), StepRows("output", 42))


def test_a_handle_of_an_aborted_epoch_counts_once_and_a_listed_one_not_again() -> None:
    first = root(1, None, tasks({"a": 6}, handle(1, 30)))
    carried = root(3, first, tasks({"a": 9}, handle(1, 30), handle(2, 5), handle(3, 7)))
    assert carried.rows == (StepRows("lines", 9), StepRows("output", 42))
