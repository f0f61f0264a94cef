"""The order of splits, and when a source task may sleep."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.limits import SOURCE_POLL_S, SOURCE_POLL_SHARE, SOURCE_REST_MAX_S, SOURCE_SPLITS_READ_MAX
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.contract.status import SplitStatus, StepStatus
from penstock.engine import source_reader
from penstock.engine.progress_reporter import with_pending
from penstock.engine.source_reader import ReadBatcher, SourceReader
from penstock.ports import Read
from penstock.protocol.task.task_messages import RowsRead, SplitEmpty, SplitEnded


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
    """A reader that knows how long it will have no rows."""

    def __init__(self, split: str, script: list[int], wait_s: float) -> None:
        super().__init__(split, script)
        self._wait_s = wait_s

    def wait_s(self) -> float:
        return self._wait_s


class Metered(Reader):
    """A reader that knows how many rows its script has left."""

    def pending(self) -> tuple[int | None, int | None]:
        return sum(self._script), None


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


def opened(**readers: Any) -> SourceReader:
    task = SourceReader("in", Readers(readers), ReadBatcher(10))
    task.open([SplitState(SplitId(name), "", 0) for name in readers])
    return task


def events(task: SourceReader, count: int) -> list[type]:
    return [type(task.next(lambda _: True)) for _ in range(count)]


def test_a_source_is_dry_only_when_no_split_had_rows() -> None:
    task = opened(a=Reader("a", [0, 1, 0]), b=Reader("b", [1, 0, 0, 1]))
    assert events(task, 1) == [SplitEmpty]
    assert not task.dry
    assert events(task, 4) == [RowsRead, RowsRead, SplitEmpty, SplitEnded]
    assert task.dry


def test_after_a_rest_every_split_is_read_again() -> None:
    task = opened(a=Reader("a", [0, 0, 0, 0]), b=Reader("b", [0, 1, 1]))
    events(task, 2)
    task.rest_s(all_splits)
    assert events(task, 1) == [SplitEmpty]
    assert not task.dry
    assert events(task, 1) == [RowsRead]


def all_splits(_split: SplitId) -> bool:
    return True


def test_rows_that_may_not_be_read_are_not_waited_for() -> None:
    task = opened(a=Paced("a", [1], 1e-6), b=Paced("b", [1], 0.004))
    assert task.rest_s(lambda split: split == "b") == 0.004
    assert task.rest_s(lambda split: False) == SOURCE_REST_MAX_S


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
    assert task.rest_s(all_splits) == rest_s


def test_it_rests_when_every_split_that_goes_on_knows_that_it_has_nothing_for_a_while() -> None:
    now, later, ended = Paced("now", [1], 0.0), Paced("later", [1], 0.004), Paced("end", [], 0.0)
    assert opened(a=later).resting
    assert not opened(a=later, b=now).resting
    assert not opened(a=later, b=Reader("b", [1])).resting
    task = opened(a=later, b=ended)
    assert events(task, 2) == [RowsRead, SplitEnded]
    assert task.resting


def test_a_split_that_cannot_say_how_long_is_asked_again_soon() -> None:
    assert opened(a=Paced("a", [0], 0.0)).rest_s(all_splits) == SOURCE_POLL_S


def test_rows_of_a_split_that_cannot_say_wait_for_a_share_of_the_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(source_reader, "monotonic", lambda: now[0])
    task = opened(a=Reader("a", [0, 0, 0, 1, 0, 1]))

    def rest_s(silence_s: float) -> float:
        now[0] = 100.0 + silence_s
        assert events(task, 1) == [SplitEmpty]
        return task.rest_s(all_splits)

    assert [rest_s(silence_s) for silence_s in (0.0, 0.4, 9.0)] == [
        SOURCE_POLL_S,
        pytest.approx(0.4 * SOURCE_POLL_SHARE),
        SOURCE_REST_MAX_S,
    ]
    assert events(task, 1) == [RowsRead]
    assert rest_s(9.0) == SOURCE_POLL_S, "after rows another silence begins"


class Releasing(Reader):
    """Holds memory from a read on, which it may give back where its script says ``True``."""

    def __init__(self, split: str, script: list[int], lets_go: list[bool]) -> None:
        super().__init__(split, script)
        self._lets_go = lets_go
        self.holds = False

    def read(self, max_rows: int) -> Read | None:
        self.holds = True
        return super().read(max_rows)

    def release(self) -> bool:
        if not self._lets_go or self._lets_go.pop(0):
            self.holds = False
        return not self.holds


def many(lets_go: list[bool]) -> dict[str, Releasing]:
    names = (f"s{number:02}" for number in range(SOURCE_SPLITS_READ_MAX + 2))
    return {name: Releasing(name, [1, 1, 1], list(lets_go)) for name in names}


def read_on(task: SourceReader, count: int, stopped: str = "") -> list[str]:
    """Return of which splits the next rows are; those that end, or whose name begins so, stop."""
    found: list[str] = []
    while len(found) < count:
        event = task.next(lambda split: not (stopped and split.startswith(stopped)))
        assert event is not None
        if isinstance(event, RowsRead):
            found.append(event.split)
    return found


def test_splits_that_hold_memory_wait_for_each_other() -> None:
    readers = many([False, True])
    task = opened(**readers)
    first = list(readers)[:SOURCE_SPLITS_READ_MAX]
    assert read_on(task, len(first)) == first
    assert sum(reader.holds for reader in readers.values()) == SOURCE_SPLITS_READ_MAX
    assert read_on(task, 1) == ["s00"]  # it lets go
    assert read_on(task, len(first)) == [*first[1:], "s16"]
    assert sum(reader.holds for reader in readers.values()) <= SOURCE_SPLITS_READ_MAX


def test_all_rows_are_read_though_few_splits_are_at_a_time() -> None:
    readers = many([True])
    task = opened(**readers)
    assert sorted(read_on(task, 3 * len(readers))) == sorted(3 * list(readers))
    assert task.next(lambda _: True) is not None
    while not task.dry:
        task.next(lambda _: True)
    assert not any(reader.holds for reader in readers.values())


def test_splits_that_move_leave_their_places_to_others_and_come_back() -> None:
    readers = many([False] * 9)
    task = opened(**readers)
    read_on(task, SOURCE_SPLITS_READ_MAX)
    assert set(read_on(task, 8, stopped="s0")) == {f"s1{number}" for number in range(8)}
    assert len(set(read_on(task, len(readers)))) == len(readers)


def test_a_split_says_its_end_before_it_waits_for_others() -> None:
    names = [f"s{number:02}" for number in range(SOURCE_SPLITS_READ_MAX + 2)]
    task = opened(**{name: Releasing(name, [1], [True] * 9) for name in names})
    full = SOURCE_SPLITS_READ_MAX
    assert events(task, full + 1) == [*[RowsRead] * full, SplitEnded]


def test_closed_splits_are_asked_no_more() -> None:
    readers = many([True])
    task = opened(**readers)
    read_on(task, 2)
    task.close([SplitId("s00"), SplitId("s17")])
    assert not {"s00", "s17"} & set(read_on(task, SOURCE_SPLITS_READ_MAX))


def test_a_split_that_had_ended_is_not_asked_and_not_waited_for() -> None:
    task = SourceReader("in", Readers({"a": Reader("a", [])}), ReadBatcher(10))
    task.open([SplitState(SplitId("a"), "", 0, finished=True)])
    assert task.dry
    assert task.next(lambda _: True) is None


class Counting(Reader):
    """Knows its offset, and keeps what it was told is committed."""

    def __init__(self, split: str, script: list[int]) -> None:
        super().__init__(split, script)
        self.offset = 0
        self.told: list[tuple[int, int]] = []

    def read(self, max_rows: int) -> Read | None:
        read = super().read(max_rows)
        self.offset += 0 if read is None else read.batch.num_rows
        return read

    def state(self) -> SplitState:
        return SplitState(self._split, "", self.offset, finished=not self._script)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        self.told.append((epoch, state.offset))


def test_a_reader_is_told_what_the_checkpoint_has_and_not_what_was_read_since() -> None:
    reader = Counting("a", [1, 1, 1, 1])
    task = opened(a=reader)
    for epoch in (1, 2):
        events(task, 1)
        task.states(Epoch(epoch))
    events(task, 1)
    task.committed(Epoch(1))
    task.committed(Epoch(2))
    assert reader.told == [(1, 1), (2, 2)], "three rows were read: the third is in no checkpoint"


def test_a_reader_hears_nothing_of_an_epoch_that_was_aborted_or_is_known_already() -> None:
    reader = Counting("a", [1, 1, 1])
    task = opened(a=reader)
    task.states(Epoch(1))
    events(task, 1)
    task.states(Epoch(2))
    for epoch in (2, 2, 3):
        task.committed(Epoch(epoch))
    assert reader.told == [(2, 1)]


class Closing(Counting):
    """Knows whether it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


def test_a_split_that_moves_closes_its_file_and_the_others_go_on() -> None:
    readers = {name: Closing(name, [1, 1, 1]) for name in ("a", "b")}
    task = opened(**readers)
    task.close([SplitId("a")])
    assert [reader.closed for reader in readers.values()] == [True, False]
    task.close()
    assert readers["b"].closed


class Failing(Counting):
    """Cannot close its file."""

    def close(self) -> None:
        raise OSError(f"{self._split} cannot be closed")


def test_a_split_that_cannot_be_closed_keeps_no_other_one_open() -> None:
    before, behind = Closing("a", [1]), Closing("c", [1])
    task = opened(a=before, b=Failing("b", [1]), c=behind)
    with pytest.raises(OSError, match="b cannot be closed"):
        task.close()
    assert before.closed
    assert behind.closed


def test_a_task_whose_epochs_all_fail_keeps_only_some_of_their_cuts() -> None:
    reader = Counting("a", [1] * 99)
    task = opened(a=reader)
    for epoch in range(1, 90):
        events(task, 1)
        task.states(Epoch(epoch))
    assert len(task._cuts) < 30
    task.committed(Epoch(89))
    assert reader.told == [(89, 89)]


def test_what_is_left_to_read_is_noted_by_the_task_and_an_unknown_number_is_none() -> None:
    task = opened(a=Metered("a", [1, 1, 1]), b=Reader("b", [1, 1]), c=Metered("c", [1]))
    assert (task.asked, task.pending) == (False, ())
    task.asked = True
    task.measure()
    told = {split.split: split.pending_rows for split in task.pending}
    assert (task.asked, told) == (False, {"a": 3, "b": None, "c": 1})
    events(task, 6)  # c ends
    task.measure()
    assert [(s.step, s.split, s.pending_rows) for s in task.pending] == [
        ("in", "a", 1),
        ("in", "b", None),
        ("in", "c", 0),
    ]
    task.close([SplitId("b")])
    task.measure()
    assert [split.split for split in task.pending] == ["a", "c"]


def test_a_source_step_has_the_sum_of_its_splits_if_each_of_them_knows() -> None:
    steps = [StepStatus("in", 1), StepStatus("more", 1), StepStatus("sums", 1)]
    splits = [
        SplitStatus("in", "a", 3),
        SplitStatus("in", "b"),
        SplitStatus("more", "a", 1, 9),
        SplitStatus("more", "b", 4, 0),
    ]
    told = [(step.splits, step.pending_rows, step.pending_bytes) for step in with_pending(steps, splits)]
    assert told == [(2, None, None), (2, 5, 9), (0, None, None)]
