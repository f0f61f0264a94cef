"""Copies of side tables: equal rows have equal digests, however they came, and each task has all of them."""

import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import StateError
from penstock.base.limits import SIDE_ROWS_MAX
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share
from penstock.contract.manifest import StateFile
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.steps.side_copies import SideCopy, SideView
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 8
SCHEMA = pa.schema([("id", pa.int64()), ("limit", pa.float64()), ("at", pa.timestamp("us"))])
FIRST, SECOND = (Range(0, 4),), (Range(4, 8),)
NAME = "rules.match"


def rows(*given_rows: tuple[int | None, float]) -> pa.RecordBatch:
    columns = [[key for key, _ in given_rows], [limit for _, limit in given_rows], [0] * len(given_rows)]
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


class CopyTask:
    """A task with a copy, which owns some key groups."""

    def __init__(self, folder: Path, share: Share = FIRST, *, first: bool = True) -> None:
        self.backend = KeyedStateBackend(StateSettings(), share, GROUPS, folder, stores_copies=first)
        self.copy = SideCopy(NAME, SCHEMA, ("id",), GROUPS)
        self.copy.open(self.backend.open)
        self.blobs = DirectoryBlobStore(folder / "blobs")
        self.numbers = count()

    def cut(self, epoch: int) -> tuple[StateFile, ...]:
        cut = self.backend.flip(Epoch(epoch))
        while not self.backend.copy_on():
            pass
        files = cut.write(lambda end: BlobName(f"{epoch}-{next(self.numbers)}{end}"), self.blobs)
        self.backend.committed(Epoch(epoch))
        return files

    def load(self, files: Any) -> None:
        self.backend.load(files, self.blobs)
        self.copy.on_loaded()

    def shown(self) -> dict[Any, float]:
        return {key: row["limit"] for key, row in self.copy.rows.items()}


@given(st.lists(st.tuples(st.none() | st.integers(0, 5), st.integers(0, 3)), max_size=30), st.integers(1, 7))
def test_digests_tell_what_a_copy_has_and_not_how_it_came(changes: Any, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one, two = CopyTask(Path(folder)), CopyTask(Path(folder), SECOND, first=False)
        one.copy.put(rows(*changes))
        for at in range(0, len(changes), size):
            two.copy.put(rows(*changes[at : at + size]))
        assert one.copy.digest() == two.copy.digest()
        assert one.shown() == two.shown() == {key: float(limit) for key, limit in changes}
        again = CopyTask(Path(folder), SECOND)
        again.load(one.cut(1))
        assert again.copy.digest() == one.copy.digest()
        assert again.shown() == one.shown()
        again.copy.put(rows((77, 1.0)))
        assert again.copy.digest() != one.copy.digest()
        for task in (one, two, again):
            task.backend.close()


def test_only_one_task_stores_its_copy_and_a_move_of_groups_leaves_it_whole(tmp_path: Path) -> None:
    first, other = CopyTask(tmp_path), CopyTask(tmp_path, SECOND, first=False)
    for task in (first, other):
        task.copy.put(rows(*((key, 1.0) for key in range(40))))
    assert other.cut(1) == ()
    stored = first.cut(2)
    first.copy.put(rows(*((key, 2.0) for key in range(10))))  # no cut has these when groups move
    first.backend.drop_groups((Range(1, 3),))
    first.copy.put(rows((3, 9.0)))
    assert len(first.shown()) == 40
    later = first.cut(3)
    assert {f.blob for f in stored} < {f.blob for f in later}, "files of a copy are not narrowed"
    joiner = CopyTask(tmp_path, (Range(1, 3),), first=False)
    joiner.load(later)
    assert joiner.shown() == first.shown()
    assert joiner.copy.digest() == first.copy.digest()
    assert joiner.cut(4) == (), "it does not list what another task stores"


def test_a_view_has_the_rows_as_mappings_that_cannot_be_changed(tmp_path: Path) -> None:
    task = CopyTask(tmp_path)
    task.copy.put(rows((1, 2.0)))
    view: Any = SideView({"rules": task.copy})
    assert view.rules.get(1)["limit"] == 2.0
    assert view.rules.get(2) is None
    assert (1 in view.rules, len(view.rules), list(view.rules)) == (True, 1, [1])
    with pytest.raises(TypeError):
        view.rules[1]["limit"] = 3.0
    with pytest.raises(TypeError):
        view.rules[2] = {}


def test_a_side_table_with_too_many_rows_is_named(tmp_path: Path) -> None:
    task = CopyTask(tmp_path)
    with pytest.raises(StateError, match="step 'rules': a side table has more than 100,000 rows: join it instead"):
        task.copy.put(rows(*((key, 1.0) for key in range(SIDE_ROWS_MAX + 1))))
