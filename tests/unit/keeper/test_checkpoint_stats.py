import pytest
from prometheus_client import generate_latest

from penstock.contract.control_messages import (
    NO_ROOM,
    STREAM_BROKE,
    Broken,
    EngineStatus,
    Envelope,
    EpochFailed,
    Heartbeat,
    Inject,
    PublishFailed,
    Report,
)
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    SwapId,
    TaskId,
    Term,
    Version,
)
from penstock.contract.latest import Latest, Leader
from penstock.contract.manifest import BlobRef, RootManifest, StateFile, TaskManifest
from penstock.contract.plan import Assignment
from penstock.contract.status import CheckpointDone, WorkerReport
from penstock.keeper.checkpoint_stats import BROKEN_TOLD, CheckpointWatch
from penstock.metrics.registry import registry_of
from penstock.protocol import keeper_core_messages as km

TASK = TaskId(StageIndex(0), Ordinal(0), 0)
UID = JobUid("uid")


def inject(epoch: int) -> km.SendCommand:
    body = Inject(Attempt(1), Epoch(epoch), Version(1), 0, Epoch(0))
    return km.SendCommand(Ordinal(0), "", Envelope(UID, Term(1), Ordinal(0), body))


def manifest(epoch: int) -> km.WriteBlob:
    files = tuple(
        StateFile(BlobRef(BlobName(f"f{e}"), "", e * 10), "s", (), e, Epoch(e), 1) for e in (epoch - 1, epoch)
    )
    root = RootManifest(
        UID,
        Epoch(epoch),
        Term(1),
        Attempt(1),
        "checkpoint",
        4,
        "",
        Assignment(Version(1), 1, ()),
        (TaskManifest(TASK, files), TaskManifest(TASK, files)),
    )
    return km.WriteBlob(BlobName("root"), root)


def swap(epoch: int, attempt: int = 1) -> km.SwapLatest:
    swap_id = SwapId(f"swap-{epoch}")
    return km.SwapLatest(Latest(UID, swap_id, epoch=Epoch(epoch), attempt=Attempt(attempt)), "1")


def failed(epoch: int) -> km.ReportArrived:
    body = EpochFailed(Attempt(1), Term(1), Epoch(epoch), TASK, "no space left")
    return km.ReportArrived(Envelope(UID, Term(1), Ordinal(0), body))


def heard(body: Report) -> km.ReportArrived:
    return km.ReportArrived(Envelope(UID, Term(1), Ordinal(0), body))


def beat(reason: str, reached: int = 4) -> Heartbeat:
    broken = Broken(Attempt(4), reason)
    status = EngineStatus(Attempt(reached))
    return Heartbeat(Ordinal(1), Incarnation("e"), "k", "f", 1, "p", status, broken=broken)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            km.BlobNotWritten(BlobName("members"), f"/a: {NO_ROOM[0]}"),
            "members was not written: /a: No space left",
        ),
        (
            km.SwapUnknown(SwapId("swap-2"), "metadata.sqlite: database or disk is full"),
            "the record of the newest checkpoint was not written: metadata.sqlite: database or",
        ),
        (
            heard(PublishFailed(Attempt(1), Epoch(3), "link: denied")),
            "output of epoch 3 cannot be published: link: denied",
        ),
        (
            heard(beat("sink 'out': ValueError: no")),
            "attempt 4 ended, the job goes back and tries again: sink 'out': ValueError: no",
        ),
    ],
)
def test_what_keeps_a_leader_from_committing_is_told_until_it_commits(event: km.CoordinatorEvent, words: str) -> None:
    watch = CheckpointWatch()
    watch.saw_event(event, 9.0)
    assert watch.trouble is not None
    assert watch.trouble.startswith(words)
    watch.saw_action(inject(3), 10.0)
    watch.saw_action(swap(3), 11.0)
    assert watch.trouble is not None
    watch.saw_event(km.SwapDone(SwapId("swap-3"), "2"), 12.0)
    assert watch.trouble is None


@pytest.mark.parametrize("committed", [0, 3])
def test_going_back_is_no_end_of_trouble(committed: int) -> None:
    watch = CheckpointWatch()
    if committed:
        watch.saw_action(inject(committed), 7.0)
        watch.saw_action(swap(committed), 8.0)
        watch.saw_event(km.SwapDone(SwapId(f"swap-{committed}"), "2"), 8.5)
    watch.saw_event(heard(beat("sink 'out': ValueError: no")), 9.0)
    watch.saw_action(swap(committed, attempt=2), 10.0)
    watch.saw_event(km.SwapDone(SwapId(f"swap-{committed}"), "2"), 11.0)
    assert watch.trouble is not None


def test_streams_that_break_attempt_after_attempt_are_told() -> None:
    watch = CheckpointWatch()
    told = []
    for attempt in range(1, BROKEN_TOLD + 1):
        broken = Broken(Attempt(attempt), f"{STREAM_BROKE}a batch of 5124 bytes is charged as 1984")
        for _ in range(2):  # a heartbeat is repeated
            status = EngineStatus(Attempt(attempt))
            watch.saw_event(
                heard(Heartbeat(Ordinal(1), Incarnation("e"), "k", "f", 1, "p", status, broken=broken)), 9.0
            )
        told.append(watch.trouble)
    assert told[:-1] == [None] * (BROKEN_TOLD - 1)
    assert "charged as 1984" in str(told[-1])
    watch.saw_action(inject(3), 10.0)
    watch.saw_action(swap(3), 11.0)
    watch.saw_event(km.SwapDone(SwapId("swap-3"), "2"), 12.0)
    assert watch.trouble is None
    watch.saw_event(heard(beat(f"{STREAM_BROKE}the peer is gone")), 13.0)
    assert watch.trouble is None


@pytest.mark.parametrize(("reason", "reached"), [(f"{STREAM_BROKE}the peer is gone", 4), ("no broker answers", 3)])
def test_what_follows_from_a_death_or_is_told_as_a_source_that_waits_is_no_trouble(reason: str, reached: int) -> None:
    watch = CheckpointWatch()
    watch.saw_event(heard(beat(reason, reached)), 9.0)
    assert watch.trouble is None


def test_size_and_duration_are_those_of_one_epoch() -> None:
    watch = CheckpointWatch()
    watch.saw_action(inject(3), 10.0)
    watch.saw_action(inject(3), 10.5)  # to another member, or repeated
    watch.saw_action(manifest(3), 11.0)
    watch.saw_action(swap(3), 11.0)
    assert watch.newest is None
    watch.saw_event(km.SwapDone(SwapId("swap-3"), "2"), 12.25)
    assert watch.newest == CheckpointDone(3, 30, 2.25)


def test_a_swap_of_something_else_is_no_checkpoint() -> None:
    watch = CheckpointWatch()
    watch.saw_action(inject(3), 10.0)
    watch.saw_action(swap(2), 11.0)
    watch.saw_event(km.SwapDone(SwapId("swap-2"), "2"), 12.0)
    watch.saw_event(km.SwapDone(SwapId("unknown"), "2"), 12.0)
    assert watch.newest is None


def test_a_failure_is_shown_until_the_next_success() -> None:
    watch = CheckpointWatch()
    watch.saw_event(failed(3), 11.0)
    assert watch.trouble == "checkpoint 3 failed: no space left"
    watch.saw_action(inject(4), 12.0)
    watch.saw_action(swap(4), 12.0)
    watch.saw_event(km.SwapDone(SwapId("swap-4"), "2"), 12.0)
    assert watch.trouble is None


def test_a_late_repetition_of_a_failure_is_none() -> None:
    watch = CheckpointWatch()
    watch.saw_action(inject(4), 12.0)
    watch.saw_action(swap(4), 12.0)
    watch.saw_event(km.SwapDone(SwapId("swap-4"), "2"), 12.0)
    watch.saw_event(failed(3), 12.5)
    assert watch.trouble is None


def test_failures_are_counted_until_one_is_committed() -> None:
    watch = CheckpointWatch()
    watch.saw_action(inject(1), 1.0)
    watch.saw_event(failed(1), 2.0)
    watch.saw_event(failed(1), 2.0)  # of another task
    assert watch.failures == 1
    watch.saw_action(inject(2), 3.0)  # nobody answers in time
    assert watch.failures == 1
    watch.saw_action(inject(3), 4.0)
    assert watch.failures == 2
    watch.saw_action(swap(3), 5.0)
    watch.saw_event(km.SwapDone(SwapId("swap-3"), "2"), 5.0)
    assert watch.failures == 0
    watch.saw_action(inject(4), 6.0)
    assert watch.failures == 0


def test_a_former_leader_no_longer_exports_its_last_checkpoint() -> None:
    watch = CheckpointWatch()
    watch.saw_action(inject(3), 10.0)
    watch.saw_action(swap(3), 11.0)
    watch.saw_event(km.SwapDone(SwapId("swap-3"), "2"), 12.0)
    watch.saw_event(failed(4), 12.5)

    def exported() -> bool:
        report = WorkerReport(Ordinal(0), "me", 1, Incarnation("e"), 2, "", checkpoint=watch.newest)
        text = generate_latest(registry_of("words", lambda: report)).decode()
        return "penstock_checkpoint_epoch" in text

    me = Incarnation("me")
    for leader in (None, Leader(Ordinal(0), me, "")):
        watch.saw_leader(leader, me, 13.0)
        assert exported()
    watch.saw_leader(Leader(Ordinal(1), Incarnation("other"), ""), me, 14.0)
    assert not exported()
    assert (watch.trouble, watch.failures) == (None, 0)


def test_a_leader_waits_since_it_leads_or_has_committed() -> None:
    watch, me = CheckpointWatch(), Incarnation("me")
    mine, other = Leader(Ordinal(0), me, ""), Leader(Ordinal(1), Incarnation("other"), "")

    def since(leader: Leader | None, now: float) -> float | None:
        watch.saw_leader(leader, me, now)
        return watch.waits_since

    assert [since(None, 1.0), since(mine, 2.0), since(mine, 3.0)] == [None, 2.0, 2.0]
    watch.saw_action(inject(3), 10.0)
    watch.saw_action(swap(3), 11.0)
    watch.saw_event(km.SwapDone(SwapId("swap-3"), "2"), 12.0)
    assert [since(mine, 13.0), since(other, 14.0)] == [12.0, None]
