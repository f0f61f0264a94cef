import pytest

from penstock.base.values import replace
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    SwapId,
    Version,
)
from penstock.contract.latest import Death, Deaths, Desired, Latest, Leader, LostRows, Request
from penstock.contract.manifest import BlobRef
from penstock.contract.status import (
    CheckpointDone,
    DeathStatus,
    EngineProgress,
    JobState,
    RestartStatus,
    SinkStatus,
    SplitStatus,
    StepStatus,
    UnlistedSource,
    WorkerReport,
    held_up_texts,
    lost_texts,
    most_pending,
    pending_text,
    unlisted_texts,
)
from penstock.contract.summary import Seen, job_state, job_status, merge_steps

ROOT = BlobRef(BlobName("1-9-x-0.root.json"), "", 1)
LATEST = Latest(
    JobUid("uid"),
    SwapId("swap"),
    leader=Leader(Ordinal(1), Incarnation("keeper-1"), ""),
    attempt=Attempt(4),
    version=Version(2),
    settled=Version(2),
    workers=2,
    epoch=Epoch(9),
    root=ROOT,
    run="run",
)


def report(ordinal: int, attempt: int = 4, engine_pid: int | None = 7) -> WorkerReport:
    steps = (StepStatus("read", 1, rows_out=10, watermark_us=100 + ordinal, busy=0.5 * ordinal),)
    return WorkerReport(
        Ordinal(ordinal),
        f"keeper-{ordinal}",
        100 + ordinal,
        Incarnation("e"),
        engine_pid,
        "",
        engine_restarts=1,
        progress=EngineProgress(Attempt(attempt), steps),
        checkpoint=CheckpointDone(9, 1234, 0.5) if ordinal == 1 else None,
    )


DEATH = Death(Ordinal(1), Incarnation("e"), Attempt(3), 5, 2, "killed\nin flight: x")
DEATHS = Deaths("run", 2, 10, 600.0, 5, Attempt(3), (), (DEATH,))

SEEN = Seen(
    job="words",
    latest=LATEST,
    desired=Desired(2, run="run"),
    reports={Ordinal(0): report(0), Ordinal(1): report(1)},
    keepers={Ordinal(0): 100, Ordinal(1): 101},
    restarts={Ordinal(0): 2, Ordinal(1): 0},
    answers=(),
    storage="/checkpoints",
    address="127.0.0.1:1",
    time_us=5,
    epoch_time_us=4,
    has_run=True,
)


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (SEEN, JobState.RUNNING),
        (replace(SEEN, keepers={}), JobState.PENDING),
        (replace(SEEN, latest=replace(LATEST, attempt=Attempt(0))), JobState.STARTING),
        (replace(SEEN, latest=replace(LATEST, run="old")), JobState.STARTING),
        (replace(SEEN, reports={Ordinal(0): report(0)}), JobState.RESTARTING),
        (replace(SEEN, reports={Ordinal(0): report(0)}, has_run=False), JobState.STARTING),
        (
            replace(SEEN, reports={**SEEN.reports, Ordinal(1): report(1, attempt=3)}),
            JobState.RESTARTING,
        ),
        (
            replace(SEEN, reports={**SEEN.reports, Ordinal(1): report(1, engine_pid=None)}),
            JobState.RESTARTING,
        ),
        (replace(SEEN, desired=Desired(3, run="run")), JobState.RESCALING),
        (replace(SEEN, latest=replace(LATEST, version=Version(3))), JobState.RESCALING),
        (
            replace(
                SEEN,
                latest=replace(LATEST, version=Version(3)),
                reports={**SEEN.reports, Ordinal(1): report(1, attempt=0)},
            ),
            JobState.RESCALING,
        ),
        (
            replace(SEEN, desired=Desired(2, (Request("1", "stop"),), run="run")),
            JobState.STOPPING,
        ),
        (replace(SEEN, latest=replace(LATEST, stopped=True)), JobState.STOPPED),
        (replace(SEEN, latest=replace(LATEST, finished=True)), JobState.FINISHED),
        (replace(SEEN, latest=replace(LATEST, failure="why")), JobState.FAILED),
    ],
)
def test_the_state_in_one_word(seen: Seen, state: JobState) -> None:
    assert job_state(seen) is state


def test_a_status_is_put_together() -> None:
    status = job_status(SEEN)
    assert [w.leader for w in status.workers] == [False, True]
    assert [w.restarts for w in status.workers] == [3, 1]
    assert [w.keeper_pid for w in status.workers] == [100, 101]
    assert status.checkpoint is not None
    assert (status.checkpoint.epoch, status.checkpoint.bytes) == (9, 1234)
    assert status.checkpoint.path == "/checkpoints/1-9-x-0.root.json"
    (step,) = status.steps
    assert (step.tasks, step.rows_out, step.watermark_us, step.busy) == (2, 20, 100, 0.25)


def test_the_leader_says_for_how_long_nothing_was_committed() -> None:
    leader = replace(report(1), uncommitted_s=31.5, checkpoint_interval_s=2.0)
    other = replace(report(0), uncommitted_s=99.0)
    status = job_status(replace(SEEN, reports={Ordinal(0): other, Ordinal(1): leader}))
    assert (status.uncommitted_s, status.checkpoint_interval_s) == (31.5, 2.0)
    assert job_status(replace(SEEN, latest=replace(LATEST, leader=None))).uncommitted_s is None


def test_steps_that_only_some_workers_have_are_kept_in_order() -> None:
    a, b, c = (StepStatus(name, 1, rows_in=1) for name in "abc")
    merged = merge_steps([(a, b), (b, c)])
    assert [(step.name, step.rows_in) for step in merged] == [("a", 1), ("b", 2), ("c", 1)]
    assert merge_steps([]) == ()


def test_what_is_left_to_read_is_a_sum_of_known_numbers() -> None:
    none, known, unknown = (
        StepStatus("a", 1),
        StepStatus("a", 1, splits=2, pending_rows=5),
        StepStatus("a", 1, splits=1),
    )
    added = [merge_steps(each)[0] for each in ([(known,), (known,)], [(none,), (known,)], [(known,), (unknown,)])]
    assert [(step.splits, step.pending_rows) for step in added] == [(4, 10), (2, 5), (3, None)]
    assert [step.pending_bytes for step in added] == [None, None, None]


def test_the_splits_with_most_left_to_read_are_told() -> None:
    many = [SplitStatus("in", f"{n:03d}", n) for n in range(100)]
    assert [split.split for split in most_pending(many)] == [f"{n:03d}" for n in range(36, 100)]
    told = [replace(report(n), progress=EngineProgress(Attempt(4), splits=tuple(many[n::2]))) for n in (0, 1)]
    status = job_status(replace(SEEN, reports={r.ordinal: r for r in told}))
    assert status.splits == most_pending(many)
    assert (
        pending_text(status)
        == "pending: in 099 99 rows, in 098 98 rows, in 097 97 rows, in 096 96 rows and 60 more splits"
    )
    assert pending_text(replace(status, splits=(SplitStatus("in", "a"), SplitStatus("in", "b", 0)))) == ""
    assert pending_text(replace(status, splits=(SplitStatus("in", "a", None, 1234),))) == "pending: in a 1,234 bytes"


def test_rows_that_were_given_up_are_told() -> None:
    assert job_status(SEEN).lost_rows == ()
    lost = (LostRows("out", Epoch(7), 1200),)
    status = job_status(replace(SEEN, latest=replace(LATEST, lost_rows=lost)))
    assert (status.lost_rows, lost_texts(status)) == (lost, ["sink 'out': up to 1,200 rows of epoch 7 given up"])


def test_what_a_leader_waits_for_is_shown_as_the_reason() -> None:
    stalled = replace(SEEN, latest=replace(LATEST, stalled="waiting for worker 1"))
    assert job_status(stalled).failure == "waiting for worker 1"


@pytest.mark.parametrize("field", ["failure", "stalled"])
def test_what_ended_an_earlier_run_is_not_said_of_this_one(field: str) -> None:
    earlier = replace(LATEST, **{field: "the function raised"})  # type: ignore[arg-type]
    next_run = replace(SEEN, latest=earlier, desired=Desired(2, run="next"))
    assert job_status(next_run).state is JobState.STARTING
    assert job_status(next_run).failure is None
    assert job_status(replace(next_run, desired=Desired(2, run="run"))).failure is not None


def test_a_worker_that_does_not_get_ready_is_named_with_its_reason() -> None:
    one = replace(report(0, engine_pid=None), unready="the engine ended: no catalogue")
    unready = replace(SEEN, reports={**SEEN.reports, Ordinal(0): one})
    told = "worker 0 does not get ready, 2 engines so far: the engine ended: no catalogue"
    assert job_status(unready).failure == told
    over = replace(unready, latest=replace(LATEST, finished=True))
    assert job_status(over).failure is None


def test_deaths_of_this_run_are_told() -> None:
    assert job_status(SEEN).restarts is None
    told = job_status(replace(SEEN, latest=replace(LATEST, deaths=DEATHS))).restarts
    assert told == RestartStatus(2, 10, 600.0, (DeathStatus(1, 5, 2, DEATH.reason),))
    other = replace(DEATHS, run="an earlier one")
    assert job_status(replace(SEEN, latest=replace(LATEST, deaths=other))).restarts is None


def test_that_the_leader_cannot_read_what_is_wanted_is_in_the_status() -> None:
    assert job_status(SEEN).unread == ""
    unread = replace(report(1), unread="-desired has the format 2")
    assert job_status(replace(SEEN, reports={**SEEN.reports, Ordinal(1): unread})).unread == unread.unread
    other = replace(report(0), unread="-desired has the format 2")
    assert job_status(replace(SEEN, reports={**SEEN.reports, Ordinal(0): other})).unread == ""


def test_the_lowest_guarantee_that_a_worker_tells_counts() -> None:
    fine = SinkStatus("out", "exactly-once")
    told = [replace(fine, because="away", since_us=5), replace(fine, guarantee="at-least-once", why="compacted"), fine]
    reports = {}
    for ordinal, sink in enumerate(told):
        made = report(ordinal)
        assert made.progress is not None
        reports[Ordinal(ordinal)] = replace(made, progress=replace(made.progress, sinks=(sink,)))
    (found,) = job_status(replace(SEEN, reports=reports)).sinks
    assert found == SinkStatus("out", "at-least-once", "away", 5, "compacted")


def test_a_sink_that_cannot_publish_is_shown_as_the_worker_says_where_it_waits_for_longest() -> None:
    fine, late, first = SinkStatus("out", "exactly-once"), ("refused", 8_000_000), ("away", 5_000_000)

    def telling(ordinal: int, *sinks: SinkStatus) -> WorkerReport:
        told = report(ordinal)
        assert told.progress is not None
        return replace(told, progress=replace(told.progress, sinks=sinks))

    reports = {
        Ordinal(0): telling(0, fine, replace(fine, name="other")),
        Ordinal(1): telling(1, replace(fine, because=late[0], since_us=late[1])),
        Ordinal(2): telling(2, replace(fine, because=first[0], since_us=first[1])),
    }
    status = job_status(replace(SEEN, reports=reports, time_us=65_500_000))
    assert [(s.name, s.because, s.since_us) for s in status.sinks] == [("out", *first), ("other", "", None)]
    assert held_up_texts(status) == ["sink 'out' cannot publish for 60 s, and no checkpoint is taken meanwhile: away"]


def test_a_sink_that_has_no_room_for_long_is_named_as_the_worker_says_where_it_has_lasted_longest() -> None:
    def told(ordinal: int, full_s: float | None) -> WorkerReport:
        sinks = (SinkStatus("out", "exactly-once", full_s=full_s), SinkStatus("other", "exactly-once", full_s=1.0))
        found = report(ordinal)
        assert found.progress is not None
        return replace(found, progress=replace(found.progress, sinks=sinks))

    reports = {Ordinal(0): told(0, 12.3), Ordinal(1): told(1, None), Ordinal(2): told(2, 11.0)}
    status = job_status(replace(SEEN, reports=reports))
    assert held_up_texts(status) == [
        "sink 'out' has taken no rows for 12 s: it has not yet stored or sent those before; a target that is slow or"
        " away, or a full disk, does this"
    ]
    held_up = tuple(replace(sink, because="away", since_us=0) for sink in status.sinks)
    assert all("cannot publish" in text for text in held_up_texts(replace(status, sinks=held_up)))


def test_a_source_that_cannot_be_listed_is_told_until_the_job_is_over() -> None:
    waits = report(1)
    assert waits.progress is not None
    away = UnlistedSource("orders", "no broker", 5_000_000)
    waits = replace(waits, progress=replace(waits.progress, unlisted=(away,)))
    seen = replace(SEEN, reports={**SEEN.reports, Ordinal(1): waits}, time_us=65_500_000)
    assert unlisted_texts(job_status(seen)) == [
        "source 'orders' could not be listed for 60 s, and the job waits for it: no broker"
    ]
    assert not job_status(SEEN).unlisted
    assert not job_status(replace(seen, latest=replace(LATEST, stopped=True))).unlisted
