"""What an engine reports of broken streams and failed tasks: once, of this attempt, and whether it is for good."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.base.errors import ConfigError, PeerError, StateError, StorageError, UserCodeError, Where
from penstock.base.values import replace
from penstock.contract import control_messages as c
from penstock.contract.ids import Attempt, Epoch, Incarnation, JobUid, Ordinal, Term
from penstock.contract.settings import ShuffleSettings
from penstock.engine.worker import Worker
from penstock.storage.blobs import DirectoryBlobStore
from penstock.transport.exchange import Identity
from penstock.transport.transport_events import StreamBroken
from tests.support.fakes import FakeClock
from tests.support.task_harness import OUT, PLAN, TWO, task

ME = Ordinal(2)
THREE = replace(TWO, workers=3)  # which has no task for it
NEVER_S = 3600.0


def nothing(*_: object, **__: object) -> None:
    """Do nothing."""


def splits_of_an_absent_broker(_: object, listing: Callable[[str], AbstractContextManager[object]]) -> None:
    with listing("orders"):
        raise StorageError("no broker answers")


@pytest.fixture
def said() -> list[object]:
    return []


@pytest.fixture
def worker(tmp_path: Path, said: list[object]) -> Iterator[Worker]:
    job = SimpleNamespace(
        publishers={},
        identity=Identity(JobUid("job"), ME, Incarnation("life")),
        shuffle=ShuffleSettings(),
        plan=PLAN,
        sinks=(),
        first_splits=splits_of_an_absent_broker,
        watched=tuple,
        listen=nothing,
        claim=nothing,
    )
    made = Worker(
        ME,
        Incarnation("life"),
        cast(Any, job),
        DirectoryBlobStore(tmp_path),
        say=said.append,
        clock=FakeClock(),
        heartbeat_interval_s=NEVER_S,
        warmed=threading.Event(),
    )
    made.command(Term(1), c.Reset(Attempt(1), Epoch(0), None, THREE, (), ()))
    yield made
    assert made.close()


def broken(said: list[object]) -> list[c.Broken]:
    return [report for report in said if isinstance(report, c.Broken)]


def test_a_broken_stream_is_reported_once_and_only_for_the_attempt_that_runs(
    worker: Worker, said: list[object]
) -> None:
    for attempt, peer in ((0, 0), (2, 0), (1, 3), (1, 0), (1, 0), (1, 1)):
        worker._on_transport(StreamBroken(Attempt(attempt), Ordinal(peer), None, "reset by peer"))
    (report,) = broken(said)
    assert report.attempt == 1
    assert report.reason.startswith(c.STREAM_BROKE)
    assert "reset by peer" in report.reason
    assert "Ordinal(0)" in report.reason or "peer=0" in report.reason, "worker 3 is in no table: it may close"
    worker.command(Term(1), c.Reset(Attempt(2), Epoch(0), None, THREE, (), ()))
    worker._on_transport(StreamBroken(Attempt(2), Ordinal(0), None, "again"))
    assert [r.attempt for r in broken(said)] == [1, 2]


@pytest.mark.parametrize(
    ("error", "fatal"),
    [
        (UserCodeError(Where("step"), ValueError("wrong")), True),
        (ConfigError("no such column"), True),
        (StateError("altered"), True),
        (StorageError("disk full"), False),
        (PeerError("gap"), False),
        (OSError("stale handle"), False),
    ],
)
def test_what_would_come_again_fails_the_job_at_once(
    worker: Worker, said: list[object], error: Exception, fatal: bool
) -> None:
    worker.broken(task(OUT, 0), error)
    (report,) = broken(said)
    assert report.fatal is fatal


def test_a_source_that_cannot_be_listed_is_told_until_an_attempt_begins(worker: Worker, said: list[Any]) -> None:
    def told() -> tuple[str, ...]:
        worker._say_progress()
        assert {step.busy for step in said[-1].steps} == {0.0}, "nothing works without tasks"
        return tuple(each.because for each in said[-1].unlisted)

    worker.command(Term(1), c.Enumerate(Attempt(2), ()))
    assert [(report.attempt, report.fatal) for report in broken(said)] == [(2, False)]
    assert told() == ("no broker answers",)
    worker.command(Term(1), c.Reset(Attempt(2), Epoch(0), None, THREE, (), ()))
    assert told() == ()
