"""The supervisor with real processes: no needless rollback, and no process left at the end."""

import os
import signal
import time
from pathlib import Path

import pytest

from penstock.base.errors import BusyError, ConfigError
from penstock.base.values import replace
from penstock.contract.status import JobStatus, WorkerStatus
from penstock.supervisor import LocalCluster, connect
from tests.integration.local_job import (
    QUICK,
    after_more,
    check_exact,
    cluster_settings,
    finish,
    finish_quickly,
    log_of,
    make_lines,
    penstock_run,
    processes_of,
    sound,
    started,
    until,
    wait_for_output,
    wait_until,
)

RATE = 60
LINES = 6_000  # of each file: enough for the slowest machine


def leader(status: JobStatus) -> WorkerStatus:
    return next(worker for worker in status.workers if worker.leader)


def follower(status: JobStatus) -> WorkerStatus:
    return next(worker for worker in status.workers if not worker.leader)


def led_by_another(status: JobStatus, old: WorkerStatus) -> bool:
    return any(w.leader and w.ordinal != old.ordinal for w in status.workers)


def settled(cluster: LocalCluster, request: str) -> None:
    until(cluster, lambda _: cluster.answer(request).ok is True)


# The number of tasks is fixed. So some tasks leave a worker that stays, and come back to it later.
FIXED = tuple(f"job.graph.steps[{name}].parallelism=4" for name in ("lines", "counts"))


@pytest.mark.parametrize("more", [(), FIXED], ids=["a task a worker", "fixed parallelism"])
def test_rescales_under_load_restart_nobody(tmp_path: Path, more: tuple[str, ...]) -> None:
    folders = make_lines(tmp_path, files=5, lines=LINES)
    with started(cluster_settings(folders, rate=RATE, more=more)) as cluster:
        first = until(cluster, sound)
        for workers in (3, 2, 3):
            asked = cluster.rescale(workers)
            settled(cluster, asked.id)
            now = after_more(cluster)
            until(cluster, lambda s, n=workers: len(s.workers) == n)  # type: ignore[misc]
            assert [w.engine_pid for w in now.workers[:2]] == [w.engine_pid for w in first.workers], (
                "those that stay are not restarted"
            )
        status = finish_quickly(cluster, folders)
    assert status.attempt == 1, "no rollback"
    assert check_exact(folders) == 5 * LINES * 8


def test_a_leader_that_was_stopped_longer_than_its_lease_is_refused(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=3, lines=LINES)
    # Long enough for the lease to pass before the stopped worker counts as lost.
    patient = replace(QUICK, lease_duration_s=1.5, lease_renew_deadline_s=1.0, heartbeat_timeout_s=20.0)
    with started(cluster_settings(folders, rate=RATE, control=patient)) as cluster:
        before = until(cluster, sound)
        old = leader(before)
        assert old.keeper_pid is not None
        os.kill(old.keeper_pid, signal.SIGSTOP)
        until(cluster, lambda s: s.term > before.term and led_by_another(s, old))
        os.kill(old.keeper_pid, signal.SIGCONT)
        # On a busy machine it may lead again later, in a new term.
        now = after_more(cluster)
        assert now.term > before.term
        assert old.keeper_pid in [w.keeper_pid for w in now.workers], "it lives on as a member"
        finish_quickly(cluster, folders)
    assert "event=deposed" in log_of(folders, old.ordinal)
    check_exact(folders)


def test_a_leader_that_stood_still_for_less_than_its_lease_gives_no_worker_up(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=3, lines=LINES)
    # As in a cluster: members are lost long before the lease is.
    cluster_like = replace(QUICK, lease_duration_s=24.0, lease_renew_deadline_s=20.0)
    stands_still_s = cluster_like.heartbeat_timeout_s * 1.6
    with started(cluster_settings(folders, rate=RATE, control=cluster_like)) as cluster:
        before = until(cluster, sound)
        old = leader(before)
        assert old.keeper_pid is not None
        os.kill(old.keeper_pid, signal.SIGSTOP)
        stopped = time.monotonic()
        wait_until(lambda: time.monotonic() - stopped > stands_still_s)
        os.kill(old.keeper_pid, signal.SIGCONT)
        now = after_more(cluster)
        assert (now.attempt, now.term) == (before.attempt, before.term)
        assert [w.engine_pid for w in now.workers] == [w.engine_pid for w in before.workers]
        finish_quickly(cluster, folders)
    check_exact(folders)


def test_a_stopped_worker_is_given_up_and_replaced(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=3, lines=LINES)
    with started(cluster_settings(folders, rate=RATE)) as cluster:
        before = until(cluster, sound)
        victim = follower(before)
        assert victim.keeper_pid is not None
        os.kill(victim.keeper_pid, signal.SIGSTOP)
        until(cluster, lambda s: s.attempt > before.attempt)
        now = after_more(cluster)
        assert victim.keeper_pid not in [w.keeper_pid for w in now.workers]
        finish_quickly(cluster, folders)
    check_exact(folders)
    assert processes_of(folders.state) == []


def test_a_stopped_job_goes_on_where_it_was(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=3, lines=LINES)
    with started(cluster_settings(folders, rate=RATE)) as cluster:
        after_more(cluster)
        client = connect(folders.state, "wordcount")
        assert client.stop().ok is True
        client.close()
        stopped = cluster.wait(60)
        assert stopped is not None
        assert stopped.state == "Stopped"
    part = check_exact(folders, complete=False)
    assert 0 < part < 3 * LINES * 8
    assert processes_of(folders.state) == []
    with started(cluster_settings(folders, rate=0, workers=3)) as cluster:
        finish(cluster)
    check_exact(folders)


def test_one_run_of_a_job_at_a_time(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=1, lines=LINES)
    settings = cluster_settings(folders, rate=RATE)
    with (
        started(settings),
        pytest.raises(BusyError, match=rf"already running \(pid {os.getpid()}\)"),
    ):
        LocalCluster(settings).start()
    with pytest.raises(ConfigError, match="is not running"):
        connect(folders.state, "wordcount")


def test_all_processes_end_with_a_killed_supervisor_and_the_next_run_continues(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=3, lines=LINES)
    with penstock_run(folders, rate=RATE) as command:
        wait_for_output(folders)
        command.kill()
        command.wait()
        wait_until(lambda: processes_of(folders.state) == [])
    check_exact(folders, complete=False)
    with started(cluster_settings(folders, rate=0)) as cluster:
        finish(cluster)
    check_exact(folders)


def test_ctrl_c_stops_cleanly_and_twice_at_once(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=3, lines=LINES)
    for presses in (1, 2):
        with penstock_run(folders, rate=RATE) as command:
            rows = check_exact(folders, complete=False)
            wait_until(lambda rows=rows: check_exact(folders, complete=False) > rows)  # type: ignore[misc]
            for _ in range(presses):
                command.send_signal(signal.SIGINT)
            assert command.wait(60) == 130
        assert processes_of(folders.state) == []
    with started(cluster_settings(folders, rate=0)) as cluster:
        finish(cluster)
    check_exact(folders)
