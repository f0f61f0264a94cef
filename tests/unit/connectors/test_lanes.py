"""What all sources have in common whose files come while they are read."""

from collections import deque
from collections.abc import Sequence

import pyarrow as pa
import pytest

from penstock.base.errors import StorageError
from penstock.connectors.lanes import LaneReader
from penstock.connectors.rate_limit import RateLimit
from penstock.contract.ids import SplitId
from penstock.contract.manifest import SplitState


class Numbers:
    """A file of some rows."""

    def __init__(self, *numbers: int) -> None:
        self._rows = list(numbers)

    @property
    def ended(self) -> bool:
        return not self._rows

    def take(self, rows_max: int, /) -> pa.RecordBatch | None:
        rows, self._rows = self._rows[:rows_max], self._rows[rows_max:]
        return pa.record_batch({"number": rows}) if rows else None

    def close(self) -> None:
        pass


class Lane(LaneReader[int, Numbers]):
    """A lane whose storage fails at the first try of each file."""

    def __init__(self, files: Sequence[int]) -> None:
        super().__init__(SplitState(SplitId("lane-00"), "", 0), None, None)
        self._files.extend(files)
        self._tried: set[int] = set()
        self._look_at = float("inf")

    def state(self) -> SplitState:
        return self._begun

    def _look(self) -> None:
        raise AssertionError("it looks for no more files")

    def _open(self, file: int) -> Numbers | None:
        if file not in self._tried:
            self._tried.add(file)
            raise StorageError(f"file {file}: away")
        return Numbers(file) if file else None

    def _took(self, rows: Numbers, count: int) -> None:
        pass


def test_a_file_that_storage_does_not_give_is_asked_for_again() -> None:
    lane, found = Lane([1, 0, 2, 3]), []
    for file in (1, 0, 2, 3):
        with pytest.raises(StorageError, match=f"file {file}"):
            lane.read(7)
        if file and (read := lane.read(7)) is not None:
            found += read.batch["number"].to_pylist()
    assert found == [1, 2, 3]
    assert lane.read(7) is None


class Paced(Lane):
    """A lane of ten rows a second by a clock of the test. Its files come when ``waiting`` is filled."""

    def __init__(self) -> None:
        super().__init__([])
        self.now, self.waiting = 0.0, deque[int]()
        self._pace = RateLimit(10, lambda: self.now)
        self._look_at = 0.0

    def _look(self) -> None:
        self._files.extend(self.waiting)
        self.waiting.clear()

    def _open(self, file: int) -> Numbers:
        return Numbers(*range(file))


def test_rows_that_were_not_there_are_not_owed() -> None:
    """Else a file behind an hour without one would be read without a bound."""
    lane = Paced()
    assert lane.read(1000) is None
    lane.now = 3600.0
    lane.waiting.append(100)
    found = []
    for _ in range(10):
        found.append(0 if (read := lane.read(1000)) is None else read.batch.num_rows)
        lane.now += 0.5
    assert (found[0], found[1:]) == (0, [5] * 9)
