"""Why an attempt is given up, and why a rescale is undone: one cause for each case."""

import re
from collections.abc import Callable

import pytest

from penstock.contract.control_messages import Broken
from penstock.contract.ids import Attempt
from penstock.contract.latest import Restore
from penstock.protocol.keeper_core_messages import PlanKnown, Retire
from penstock.protocol.leader.rescale_coordinator import CancelCause
from penstock.protocol.leader.rollback import RollbackCause
from tests.support.in_memory_control_plane import InMemoryControlPlane
from tests.support.running_jobs import OTHER_PLAN, mute, running, up


def lose_a_worker(plane: InMemoryControlPlane) -> None:
    plane.kill_engine(1)


def break_a_stream(plane: InMemoryControlPlane) -> None:
    plane.report(1, Broken(Attempt(1), "a stream broke"))


def have_another_copy(plane: InMemoryControlPlane) -> None:
    engine = plane.keepers[1].engine
    assert engine is not None
    engine.rules += 1


def ask_for_a_restore(plane: InMemoryControlPlane) -> None:
    plane.want(restore=Restore("again"))


def compile_another_job(plane: InMemoryControlPlane) -> None:
    plane.post(plane.leader().ordinal, PlanKnown(OTHER_PLAN))


def be_deaf_to(kind: str) -> Callable[[InMemoryControlPlane], None]:
    def deafen(plane: InMemoryControlPlane) -> None:
        mute(plane, 0, kind)
        plane.kill_engine(1)

    return deafen


def cancel_by(change: Callable[[InMemoryControlPlane], None]) -> Callable[..., None]:
    def rescale(plane: InMemoryControlPlane) -> None:
        mute(plane, 2, "Prepare")
        up(plane, 2)
        plane.until(lambda: plane.latest.rescale == "preparing 3 workers")
        change(plane)

    return rescale


ROLLBACKS = [
    (RollbackCause.RESTORE_REQUESTED, ask_for_a_restore, "a restore was asked for"),
    (RollbackCause.OTHER_PLAN, compile_another_job, "the attempt ran another plan"),
    (RollbackCause.WORKER_LOST, lose_a_worker, "worker 1 is lost: killed"),
    (
        RollbackCause.COPIES_DIFFER,
        have_another_copy,
        "the copies of side table .rules.counts. differ: .* has 1 rows with digest 7, .* 1 with 8",
    ),
    (RollbackCause.ATTEMPT_BROKEN, break_a_stream, "worker 1: a stream broke"),
    (RollbackCause.NOT_READY, be_deaf_to("Reset"), r"workers \[0\] not ready in time"),
    (RollbackCause.NOT_RUNNING, be_deaf_to("Start"), r"workers \[0\] not running in time"),
]
CANCELS = [
    (CancelCause.NOT_PREPARED, cancel_by(lambda plane: None), "not prepared in"),
    (CancelCause.JOINER_LOST, cancel_by(lambda plane: plane.kill(2)), "joiner 2 is lost"),
    (
        CancelCause.OTHER_TABLE_WANTED,
        cancel_by(lambda plane: plane.want(workers=2)),
        "2 workers are wanted now",
    ),
    (
        CancelCause.LEADER_GONE,
        cancel_by(lambda plane: plane.post(plane.leader().ordinal, Retire())),
        "its leader is gone",
    ),
]


@pytest.mark.parametrize(("cause", "change", "text"), [*ROLLBACKS, *CANCELS])
def test_the_log_names_the_cause_and_the_reason(
    cause: str, change: Callable[[InMemoryControlPlane], None], text: str
) -> None:
    plane = running()
    change(plane)
    line = re.compile(rf"event=(rollback|rescale-undone) .*cause={cause} reason=['\"]{text}")
    plane.until(lambda: any(line.search(logged) for logged in plane.log), seconds=120.0)


def test_every_cause_of_a_rollback_is_tested_here() -> None:
    assert {cause for cause, _, _ in ROLLBACKS} == set(RollbackCause)


def test_a_break_that_no_attempt_can_mend_fails_the_job() -> None:
    plane = running()
    plane.report(1, Broken(Attempt(1), "ConfigError: no such column", fatal=True))
    plane.until(lambda: plane.latest.failure is not None)
    assert plane.latest.failure == "ConfigError: no such column"
