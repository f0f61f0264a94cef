import pytest

from penstock.base.values import replace
from penstock.contract.ids import Incarnation, JobUid, Ordinal, SwapId, Version
from penstock.contract.latest import Desired, Latest, Leader, Lost, Restore
from penstock.contract.worker_rules import is_over, workers_needed
from penstock.supervisor.reports import AnnouncedWorker, to_end

RUN = "run-2"
FRESH = Latest(JobUid("uid"), SwapId("swap"))


def leader(ordinal: int) -> Leader:
    return Leader(Ordinal(ordinal), Incarnation("life"), "127.0.0.1:1")


def running(workers: int, *, leads: int = 0, settled: bool = True) -> Latest:
    version = Version(3)
    return replace(
        FRESH,
        workers=workers,
        version=version,
        settled=version if settled else Version(2),
        leader=leader(leads),
        run=RUN,
    )


@pytest.mark.parametrize(
    ("latest", "wanted", "now", "needed"),
    [
        (FRESH, 2, 0, 2),
        (running(2), 2, 2, 2),
        (running(2), 2, 1, 2),  # one died
        (running(2), 3, 2, 3),  # growing comes first
        (running(3), 2, 3, 3),  # not committed yet
        (running(2), 2, 3, 2),  # committed and settled
        (running(2, settled=False), 2, 3, 3),  # one that has left may have output to publish
        (running(2, leads=2), 2, 3, 3),  # the leader hands over first
        (running(2, leads=1), 2, 3, 2),
        (running(3, settled=False), 4, 3, 4),
        (running(3, settled=False), 3, 0, 3),  # a new run of a job that was being rescaled
        (running(2), 2, 4, 2),  # a growth that was called off before it was committed
    ],
)
def test_how_many_workers_run(latest: Latest, wanted: int, now: int, needed: int) -> None:
    assert workers_needed(latest, Desired(wanted, run=RUN), now) == needed


@pytest.mark.parametrize(
    ("change", "over"),
    [
        ({}, False),
        ({"stopped": True}, True),
        ({"failure": "reason"}, True),
        ({"finished": True}, True),
        ({"stopped": True, "run": "run-1"}, False),
        ({"failure": "reason", "run": "run-1"}, False),
        ({"finished": True, "run": "run-1"}, True),
    ],
)
def test_what_ends_a_run(change: dict[str, object], over: bool) -> None:
    latest = replace(running(2), **change)  # type: ignore[arg-type]
    assert is_over(latest, Desired(2, run=RUN)) is over
    assert workers_needed(latest, Desired(2, run=RUN), 2) == (0 if over else 2)


def test_a_restore_begins_a_finished_job_anew_once() -> None:
    finished = replace(running(2), finished=True)
    assert not is_over(finished, Desired(2, run=RUN, restore=Restore("n1")))
    done = replace(finished, restored="n1")
    assert is_over(done, Desired(2, run=RUN, restore=Restore("n1")))


def test_only_a_silent_keeper_of_the_lost_life_is_ended() -> None:
    lost = (Lost(Ordinal(0), Incarnation("a")), Lost(Ordinal(1), Incarnation("b")))
    announced = (
        AnnouncedWorker(Ordinal(0), Incarnation("a"), 5.0),
        AnnouncedWorker(Ordinal(1), Incarnation("newer"), 5.0),
        AnnouncedWorker(Ordinal(2), Incarnation("a"), 5.0),
    )
    assert to_end(lost, announced, 2.0) == [0]
    assert to_end(lost, (AnnouncedWorker(Ordinal(0), Incarnation("a"), 1.0),), 2.0) == []
