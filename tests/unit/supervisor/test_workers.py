"""Workers that cannot be started at once: the others go on, and each is tried again."""

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.base import limits
from penstock.cluster.launch import KeeperLaunch
from penstock.contract.ids import JobUid, Ordinal
from penstock.protocol.core_context import ControlSettings
from penstock.supervisor import workers as module
from penstock.supervisor.folders import JobFolder
from penstock.supervisor.workers import FAILURES_SHOWN, Workers


class Running:
    """A keeper that runs until it is killed."""

    pid = 7

    def ended(self) -> bool:
        return False

    def wait_for_end(self) -> None:
        """Nobody watches this one."""

    def wait(self) -> int:
        return -9

    def terminate(self) -> None:
        """It stays."""

    def kill(self) -> None:
        """It is no process."""


class Stuck(Running):
    """A keeper that waits for a disk: not even SIGKILL ends it now."""

    def __init__(self) -> None:
        self.killed = 0

    def kill(self) -> None:
        self.killed += 1


def launch(ordinal: Ordinal) -> KeeperLaunch:
    return KeeperLaunch(JobUid("uid"), "words", "default", ordinal, "", "", "", "", "", "", ControlSettings())


def test_a_worker_that_a_full_disk_keeps_from_starting_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full, now = True, 0.0

    def start(given: KeeperLaunch, log: Path) -> Running:
        if is_full and given.ordinal == 1:
            raise OSError(errno.ENOSPC, "No space left on device", str(log))
        return Running()

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    workers = Workers(JobFolder.make(tmp_path, "words", "default"), launch, lambda: None, start)
    failed = f"worker 1 cannot be started: {tmp_path}/words/workers/1/log: No space left on device"
    assert workers.run_all(2) == ["worker 0 started (pid 7)", failed]
    assert workers.pids() == {0: 7}
    assert workers.next_due() == limits.RESTART_BACKOFF_FIRST_S
    assert workers.run_all(2) == []
    assert workers.trouble() is None
    for _ in range(FAILURES_SHOWN):
        now += limits.RESTART_BACKOFF_MAX_S
        workers.run_all(2)
    assert workers.trouble() == failed
    is_full, now = False, now + limits.RESTART_BACKOFF_MAX_S
    assert workers.run_all(2) == ["worker 1 started (pid 7)"]
    assert workers.restarts(Ordinal(1)) == 0
    assert workers.trouble() is None


def test_a_worker_that_does_not_end_when_killed_is_killed_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is due in the past would let the supervisor's loop turn without a pause."""
    now, stuck = 0.0, Stuck()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    workers = Workers(JobFolder.make(tmp_path, "words", "default"), launch, lambda: None, lambda *_: stuck)
    workers.run_all(1)
    assert workers.run_all(0) == ["worker 0 told to end"]
    for kills in range(1, 4):
        due = workers.next_due()
        assert due is not None
        assert due > now
        now = due
        assert workers.run_all(0) == []
        assert stuck.killed == kills
