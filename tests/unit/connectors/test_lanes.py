"""What all sources have in common whose files come while they are read."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from penstock.base.errors import StorageError
from penstock.connectors.lanes import LaneReader
from penstock.contract.ids import SplitId
from penstock.contract.manifest import SplitState


class Numbers:
    """A file of one row."""

    def __init__(self, number: int) -> None:
        self._rows = [number]

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
