"""The turns of splits, and when a source task may sleep."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.limits import SOURCE_POLL_S, SOURCE_REST_MAX_S
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.engine.coalesce import Coalescer
from penstock.engine.source_task import SourceTask
from penstock.ports import Read
from penstock.protocol.task_events import RowsRead, SplitEmpty, SplitEnded


class Reader:
    """Gives one row for each 1 of a script, nothing for a 0, and has ended behind it."""

    def __init__(self, split: str, script: list[int]) -> None:
        self._split = SplitId(split)
        self._script = script

    def read(self, max_rows: int) -> Read | None:
        if not self._script or not self._script.pop(0):
            return None
        return Read(pa.record_batch({"x": [1]}), 0)

    def state(self) -> SplitState:
        return SplitState(self._split, "", 0, finished=not self._script)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Nothing to acknowledge."""

    def close(self) -> None:
        """Nothing to release."""


class Paced(Reader):
    """Knows how long it will have nothing."""

    def __init__(self, split: str, script: list[int], wait_s: float) -> None:
        super().__init__(split, script)
        self._wait_s = wait_s

    def wait_s(self) -> float:
        return self._wait_s


@dataclass
class Readers:
    """A source whose splits are made before."""

    readers: dict[str, Any]
    bounded = True
    schema = pa.schema([("x", pa.int64())])

    def splits(self) -> list[SplitState]:
        return [reader.state() for reader in self.readers.values()]

    def open(self, state: SplitState) -> Any:
        return self.readers[state.split]


def opened(**readers: Any) -> SourceTask:
    task = SourceTask("in", Readers(readers), Coalescer(10))
    task.open([SplitState(SplitId(name), "", 0) for name in readers])
    return task


def events(task: SourceTask, count: int) -> list[type]:
    return [type(task.next(lambda _: True)) for _ in range(count)]


def test_it_is_dry_only_when_every_split_had_nothing() -> None:
    task = opened(a=Reader("a", [0, 1, 0]), b=Reader("b", [1, 0, 0, 1]))
    assert events(task, 1) == [SplitEmpty]
    assert not task.dry
    assert events(task, 4) == [RowsRead, RowsRead, SplitEmpty, SplitEnded]
    assert task.dry


def test_after_a_rest_all_are_asked_again() -> None:
    task = opened(a=Reader("a", [0, 0, 0, 0]), b=Reader("b", [0, 1, 1]))
    events(task, 2)
    task.rest_s()
    assert events(task, 1) == [SplitEmpty]
    assert not task.dry
    assert events(task, 1) == [RowsRead]


@pytest.mark.parametrize(
    ("readers", "rest_s"),
    [
        ({"a": Paced("a", [0, 1], 0.007), "b": Paced("b", [0, 1], 0.004)}, 0.004),
        ({"a": Paced("a", [0, 1], 60.0)}, SOURCE_REST_MAX_S),
        ({"a": Paced("a", [0, 1], 0.02), "b": Reader("b", [0, 1])}, SOURCE_POLL_S),
        ({"a": Paced("a", [0, 1], 0.02), "b": Reader("b", [])}, 0.02),
    ],
)
def test_it_rests_until_rows_are_due(readers: dict[str, Any], rest_s: float) -> None:
    task = opened(**readers)
    events(task, len(readers))
    assert task.rest_s() == rest_s


def test_it_rests_when_every_split_that_goes_on_knows_that_it_has_nothing_for_a_while() -> None:
    now, later, ended = Paced("now", [1], 0.0), Paced("later", [1], 0.004), Paced("end", [], 0.0)
    assert opened(a=later).resting
    assert not opened(a=later, b=now).resting
    assert not opened(a=later, b=Reader("b", [1])).resting
    task = opened(a=later, b=ended)
    assert events(task, 2) == [RowsRead, SplitEnded]
    assert task.resting


def test_a_split_that_cannot_say_how_long_is_asked_again_soon() -> None:
    assert opened(a=Paced("a", [0], 0.0)).rest_s() == SOURCE_POLL_S
