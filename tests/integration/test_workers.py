"""Keepers as processes: they are restarted, ended, and never left running."""

import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.launch import KeeperLaunch
from penstock.contract.ids import Ordinal
from penstock.protocol.core_context import ControlSettings
from penstock.supervisor.folders import JobFolder
from penstock.supervisor.workers import Workers
from tests.integration.local_job import wait_until


def launch(ordinal: Ordinal) -> KeeperLaunch:
    """Return a launch that a keeper cannot read, as one of another version: its job has no uid."""
    no_uid: Any = None
    return KeeperLaunch(no_uid, "words", "default", ordinal, "", "", "", "", "", "", ControlSettings())


@pytest.fixture
def ended() -> threading.Event:
    return threading.Event()


@pytest.fixture
def workers(tmp_path: Path, ended: threading.Event) -> Workers:
    return Workers(JobFolder.make(tmp_path, "words", "default"), launch, ended.set)


def test_a_keeper_that_fails_is_started_again_and_at_last_said(workers: Workers, tmp_path: Path) -> None:
    def fails() -> bool:
        workers.run_all(1)
        return workers.trouble() is not None

    wait_until(fails)
    log = tmp_path / "words" / "workers" / "0" / "log"
    assert workers.trouble() == f"worker 0 keeps ending (status 1): see {log}"
    assert "Expected `str`, got `null` - at `$.job_uid`" in log.read_text()
    assert workers.restarts(Ordinal(0)) in (2, 3), "a first life whose process took long to load may count as sound"
    workers.kill_all()
    assert workers.pids() == {}


def test_workers_that_are_not_needed_are_told_to_end(workers: Workers, ended: threading.Event) -> None:
    workers.run_all(2)
    assert sorted(workers.pids()) == [0, 1]
    news = workers.run_all(0)
    assert [text for text in news if "told to end" in text]
    while workers.pids():
        ended.wait(0.1)
        workers.run_all(0)
    workers.run_all(0)
    assert workers.next_due() is None, "the loop has nothing to wake up for"
