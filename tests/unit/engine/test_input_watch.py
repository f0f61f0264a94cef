"""The look for files that are in no checkpoint: said once for each change."""

import logging
from collections.abc import Collection

import pytest

from penstock.base.errors import ConfigError
from penstock.contract.control_messages import StageSplits
from penstock.contract.ids import Ordinal, SplitId, StageIndex, TaskId
from penstock.contract.manifest import SplitState, TaskManifest
from penstock.contract.status import InputSeen
from penstock.engine.input_watch import InputWatch, WatchedInput, known_splits
from tests.support.task_harness import PLAN, root

STAGE = StageIndex(0)


class Folder:
    """An input whose files are the names it is given."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.fails: Exception | None = None

    def look(self, known: Collection[SplitId]) -> InputSeen:
        if self.fails:
            raise self.fails
        unread = tuple(n for n in self.names if n not in known)
        return InputSeen("in", len(known), len(unread), unread)


def splits(*names: str) -> tuple[SplitState, ...]:
    return tuple(SplitState(SplitId(n), "{}", 0) for n in names)


def test_the_known_files_are_those_restored_and_those_listed_first_by_stage() -> None:
    task = TaskId(STAGE, Ordinal(0), 0)
    restored = root(1, TaskManifest(task, splits=splits("c")))
    first = (StageSplits(StageIndex(1), splits("a", "b")),)
    known = known_splits(restored, PLAN, first)
    assert known == {STAGE: {"c"}, StageIndex(1): {"a", "b"}}
    assert known_splits(None, PLAN, ()) == {}


def test_a_change_is_logged_once_and_a_folder_that_fails_keeps_what_was_seen(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    folder = Folder("a")
    watch = InputWatch((WatchedInput("lines", STAGE, folder),))
    watch.look()
    assert not watch.seen, "nothing is known before the first attempt"

    watch.begin({STAGE: frozenset({SplitId("a")})})
    watch.look()
    assert list(watch.seen) == [InputSeen("in", 1, step="lines")]
    assert not caplog.records

    folder.names = ("a", "b")
    for _ in range(3):
        watch.look()
    assert [r.message.split(" ")[0] for r in caplog.records] == ["event=input_not_read"]
    for folder.fails in (OSError("stale handle"), ConfigError("s3: AccessDenied: correct the keys")):
        watch.look()
        assert watch.seen[0].unread_names == ("b",)
