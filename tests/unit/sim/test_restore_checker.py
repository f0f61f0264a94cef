"""Made-up restores that nobody has asked for, or that begin from elsewhere, are refused."""

import pytest

from penstock.base.values import replace
from penstock.contract.ids import Attempt, BlobName, Epoch, JobUid, Ordinal, SplitId, StageIndex, SwapId, TaskId, Term
from penstock.contract.latest import Desired, Latest, Restore, Retained, SinkRestore, Unpublished
from penstock.contract.manifest import BlobRef, RootManifest, SplitState, TaskManifest
from penstock.contract.plan import first_assignment
from sim.checks.restore_checker import RestoreChecker
from sim.kernel.kernel import Violation
from sim.workload import Shape, make_plan

PLAN, _ = make_plan("count", Shape(groups=2))
TABLE = first_assignment(PLAN, 1, {StageIndex(0): ()})
OLDER, NEWER = BlobRef(BlobName("1-1-root"), "", 0), BlobRef(BlobName("1-2-root"), "", 0)
AT = replace(
    Latest(JobUid("job"), SwapId("s")),
    epoch=Epoch(2),
    root=NEWER,
    retained=(Retained(Epoch(1), OLDER), Retained(Epoch(2), NEWER)),
)


def manifest(epoch: int, offset: int) -> RootManifest:
    """Return a manifest of one task that has read one split up to ``offset``."""
    task = TaskManifest(TaskId(StageIndex(0), Ordinal(0), 0), splits=(SplitState(SplitId("s"), "", offset),))
    return RootManifest(JobUid("job"), Epoch(epoch), Term(1), Attempt(1), "checkpoint", 2, "", TABLE, (task,))


ROOTS = {OLDER.name: manifest(1, 10), NEWER.name: manifest(2, 20)}


def checker(*asked: Restore) -> RestoreChecker:
    """Return a checker that has heard of some restores. The savepoint has the offsets of the older epoch."""
    made = RestoreChecker(ROOTS.__getitem__, lambda _: ROOTS[OLDER.name])
    for restore in asked:
        made.wanted(Desired(1, run="run", restore=restore))
    return made


@pytest.mark.parametrize(
    ("restore", "after"),
    [
        (Restore("r"), AT),
        (Restore("r", epoch=Epoch(1), allow_output_replay=True), replace(AT, root=OLDER, replayed=True)),
        (Restore("r", path="savepoints/s"), replace(AT, root=OLDER)),
        (Restore("r", empty=True, allow_output_replay=True), replace(AT, root=None, replayed=True)),
    ],
)
def test_a_restore_begins_from_what_was_named(restore: Restore, after: Latest) -> None:
    checker(restore).check(AT, replace(after, restored="r"))


@pytest.mark.parametrize(
    ("restore", "after", "why"),
    [
        (Restore("other"), AT, "nobody has asked"),
        (Restore("r"), replace(AT, root=OLDER), "other offsets"),
        (Restore("r"), replace(AT, root=None), "begins from None"),
        (Restore("r", epoch=Epoch(1)), AT, "other offsets"),
        (Restore("r", epoch=Epoch(7)), AT, "not retained"),
        (Restore("r", path="savepoints/s"), AT, "other offsets"),
        (Restore("r", empty=True, allow_output_replay=True), AT, "begins from"),
        (Restore("r", empty=True), replace(AT, root=None, replayed=True), "nobody has allowed"),
    ],
)
def test_a_restore_to_elsewhere_is_refused(restore: Restore, after: Latest, why: str) -> None:
    with pytest.raises(Violation, match=why):
        checker(restore).check(AT, replace(after, restored="r"))


def test_output_is_not_repeated_at_a_plain_rollback() -> None:
    asked = checker(Restore("r", allow_output_replay=True))
    with pytest.raises(Violation, match="nobody has allowed"):
        asked.check(AT, replace(AT, replayed=True))


@pytest.mark.parametrize(
    ("nonce", "sink", "lost"),
    [("", "out", False), ("drop", "out", True), ("drop", "late", False), ("all", "late", True), ("none", "out", False)],
)
def test_output_is_lost_only_where_a_user_gives_it_up(nonce: str, sink: str, lost: bool) -> None:
    asked = checker(
        Restore("drop", unpublished=(SinkRestore("out", Unpublished.DROP),)),
        Restore("all", drop_unpublished=True),
        Restore("none"),
    )
    assert asked.may_lose(nonce, sink) == lost
