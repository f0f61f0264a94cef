"""Cuts become files, files become state: deltas, merging, narrowing, damage, other schemas."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import StateError
from penstock.base.limits import STATE_FILES_PER_TASK_MAX, STATE_FILES_UNMERGED_MAX
from penstock.base.settings import StateSettings
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share, groups_of
from penstock.contract.manifest import StateFile
from penstock.model.keys import KeyCodec
from penstock.state.budget import StateBudget
from penstock.state.task import TaskState
from penstock.steps.base import KeyedState, StateSchema, Value
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 16
ALL: Share = (Range(0, GROUPS),)
KEYS = (("word", pa.string()),)
SCHEMA = StateSchema("counts", KEYS, (Value("n", "int64"), Value("pair", "float64", 2)))
CODEC = KeyCodec((pa.string(),), GROUPS)


class Task:
    """A task state with one table, its files, and names that are used once."""

    numbers = iter(range(10**9))

    def __init__(
        self,
        folder: Path,
        share: Share = ALL,
        schema: StateSchema = SCHEMA,
        scratch: Path | None = None,
    ) -> None:
        self.state = TaskState(StateSettings(), share, GROUPS, scratch)
        self.table: KeyedState = self.state.open(schema)
        self.blobs = DirectoryBlobStore(folder)

    def put(self, words: dict[str, int]) -> None:
        rows = self.table.rows(CODEC.keys([pa.array(list(words), pa.string())]))
        values = np.array(list(words.values()), np.int64)
        self.table.column("n")[rows] = values
        self.table.column("pair")[rows] = np.stack([values, -values], axis=1)

    def delete(self, *words: str) -> None:
        self.table.delete(self.table.rows(CODEC.keys([pa.array(words, pa.string())])))

    def checkpoint(self, epoch: int) -> tuple[StateFile, ...]:
        files = self.cut(epoch)
        self.state.committed(Epoch(epoch))
        return files

    def compact(self) -> bool:
        """Merge at once if it is wanted; say whether it was."""
        work = self.state.compaction(self.blobs)
        if work is not None:
            work()
        return work is not None

    def cut(self, epoch: int) -> tuple[StateFile, ...]:
        return self.state.flip(Epoch(epoch)).write(self._name, self.blobs)

    def _name(self, suffix: str) -> BlobName:
        return BlobName(f"1-1-life-{next(self.numbers)}{suffix}")

    def content(self) -> dict[str, int]:
        table = self.state._tables["counts"].hot
        copied = table.copy_rows(table.all_rows(tombstones=False))
        assert (copied.values["pair"][:, 0] == copied.values["n"]).all()
        assert (copied.values["pair"][:, 1] == -copied.values["n"]).all()
        words = CODEC.columns(copied.keys)[0].to_pylist()
        return dict(zip(words, copied.values["n"].tolist(), strict=True))


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., Task]:
    return lambda **given: Task(tmp_path, **given)


def group_of(word: str) -> int:
    return int(CODEC.hashed([pa.array([word])])[1][0])


def test_state_comes_back_from_its_files(task: Callable[..., Task]) -> None:
    first = task()
    first.put({"a": 1, "b": 2, "c": 3})
    first.checkpoint(1)
    first.put({"b": 20})
    first.delete("c")
    files = first.checkpoint(2)
    again = task()
    again.state.load(files, again.blobs)
    assert again.content() == {"a": 1, "b": 20}
    assert len(files) == 2
    assert again.state.keys == 2, "tombstones are dropped after loading"


def test_what_was_loaded_is_in_no_delta(task: Callable[..., Task]) -> None:
    first = task()
    first.put({"a": 1, "b": 2})
    files = first.checkpoint(1)
    again = task()
    again.put({"z": 9})  # a change of its own that is not committed stays one
    again.state.load(files, again.blobs)
    delta = again.cut(2)[-1]
    assert delta.rows == 1


def test_an_aborted_epoch_loses_nothing(task: Callable[..., Task]) -> None:
    first = task()
    first.put({"a": 1})
    first.cut(1)  # written, never committed
    first.put({"b": 2})
    first.state.flip(Epoch(2))  # not even written
    first.delete("a")
    first.put({"c": 3})
    files = first.checkpoint(3)
    again = task()
    again.state.load(files, again.blobs)
    assert again.content() == {"b": 2, "c": 3}
    assert len(files) == 1


def test_an_epoch_number_may_come_again(task: Callable[..., Task]) -> None:
    first = task()
    first.put({"a": 1})
    first.cut(1)
    first.put({"b": 2})
    files = first.checkpoint(1)
    assert [f.rows for f in files] == [2]


def test_values_are_those_of_the_cut(task: Callable[..., Task]) -> None:
    first = task()
    first.put({"a": 1})
    cut = first.state.flip(Epoch(1))
    first.put({"a": 100, "b": 5})
    files = cut.write(first._name, first.blobs)
    again = task()
    again.state.load(files, again.blobs)
    assert again.content() == {"a": 1}


def change(task: Task, epoch: int) -> tuple[StateFile, ...]:
    """Change a key, make one and delete the one made before; take a checkpoint."""
    task.put({f"key {epoch % 50}": epoch, f"new {epoch}": epoch})
    task.delete(f"new {epoch - 1}")
    return task.checkpoint(epoch)


def check(files: tuple[StateFile, ...], kept: Task, again: Task) -> None:
    again.state.load(files, again.blobs)
    assert again.content() == kept.content()
    assert "new 3" not in again.content()


@pytest.mark.parametrize(
    ("compacts", "most"), [(True, STATE_FILES_PER_TASK_MAX), (False, STATE_FILES_UNMERGED_MAX)]
)
def test_files_stay_few_and_deleted_keys_stay_dead(
    task: Callable[..., Task], compacts: bool, most: int
) -> None:
    first, counts = task(), []
    files: tuple[StateFile, ...] = ()
    first.put({f"key {i}": i for i in range(50)})
    for epoch in range(1, most + 6):
        files = change(first, epoch)
        counts.append(len(files))
        if compacts:
            first.compact()
    assert max(counts) == most
    check(files, first, task())


def with_many_files(task: Task) -> Task:
    """Return a task that wants to merge, merged but not listed."""
    for epoch in range(1, STATE_FILES_PER_TASK_MAX + 1):
        change(task, epoch)
    assert task.compact()
    return task


def test_what_was_merged_is_listed_by_the_next_cut_that_is_committed(
    task: Callable[..., Task],
) -> None:
    first = with_many_files(task())
    assert not first.compact(), "one at a time, and this one is not listed yet"
    first.cut(50)  # aborted
    files = change(first, 51)
    assert len(files) < STATE_FILES_PER_TASK_MAX
    check(files, first, task())
    assert not first.compact(), "few files are left"


def test_what_was_merged_of_groups_that_moved_is_dropped(task: Callable[..., Task]) -> None:
    first = with_many_files(task())
    first.state.drop_groups((Range(0, 4),))
    left = next(f"w{i}" for i in range(100) if group_of(f"w{i}") >= 4)
    first.put({left: 1})
    assert len(first.checkpoint(50)) == STATE_FILES_PER_TASK_MAX + 1
    assert first.compact(), "it is begun again"
    first.put({left: 2})
    files = first.checkpoint(51)
    assert len(files) < STATE_FILES_PER_TASK_MAX
    assert {g for f in files for g in groups_of(f.groups)} == set(range(4, 16))
    check(files, first, task(share=(Range(4, 16),)))


def test_a_file_that_cannot_be_merged_costs_nothing_but_the_merge(
    task: Callable[..., Task], tmp_path: Path
) -> None:
    first = task()
    for epoch in range(1, STATE_FILES_PER_TASK_MAX + 1):
        files = change(first, epoch)
    path = tmp_path / files[-1].blob.name
    data = path.read_bytes()
    path.write_bytes(b"")
    assert first.compact()
    path.write_bytes(data)
    files = change(first, 50)
    assert len(files) == STATE_FILES_PER_TASK_MAX + 1
    assert first.compact()
    check(change(first, 51), first, task())


def test_a_merge_ends_with_its_attempt_and_leaves_no_file(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    first = Task(tmp_path, scratch=scratch)
    for epoch in range(1, STATE_FILES_PER_TASK_MAX + 1):
        change(first, epoch)
    work = first.state.compaction(first.blobs)
    assert work is not None
    assert list(scratch.iterdir())
    first.state.close()
    work()
    assert not list(scratch.iterdir())


def test_a_reader_sees_only_its_groups(task: Callable[..., Task]) -> None:
    first = task()
    words = {f"w{i}": i for i in range(100)}
    first.put(words)
    files = first.checkpoint(1)
    half: Share = (Range(3, 9),)
    narrow = tuple(StateFile(f.blob, f.state, half, f.order, f.epoch, f.rows) for f in files)
    other = task(share=half)
    other.state.load(narrow, other.blobs)
    assert other.content() == {w: n for w, n in words.items() if 3 <= group_of(w) < 9}


def test_lost_groups_leave_state_and_files(task: Callable[..., Task]) -> None:
    first = task()
    words = {f"w{i}": i for i in range(100)}
    first.put(words)
    first.checkpoint(1)
    first.state.drop_groups((Range(0, 8),))
    first.put({w: 7 for w in words if group_of(w) >= 8})
    files = first.checkpoint(2)
    assert {r for f in files for r in f.groups} == {Range(8, 16)}
    assert first.content() == {w: 7 for w in words if group_of(w) >= 8}


def test_one_altered_byte_names_file_and_epoch(task: Callable[..., Task], tmp_path: Path) -> None:
    first = task()
    first.put({"a": 1})
    (file,) = first.checkpoint(4)
    path = tmp_path / file.blob.name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    again = task()
    with pytest.raises(StateError, match=rf"{file.blob.name}.*'counts', epoch 4"):
        again.state.load((file,), again.blobs)


def test_another_number_of_key_groups_is_refused_with_both(
    task: Callable[..., Task], tmp_path: Path
) -> None:
    first = task()
    first.put({"a": 1})
    files = first.checkpoint(1)
    other = TaskState(StateSettings(), ALL, 32)
    other.open(SCHEMA)
    with pytest.raises(StateError, match=r'"max_key_groups": 16.*"max_key_groups": 32'):
        other.load(files, DirectoryBlobStore(tmp_path))


def test_another_schema_and_an_unknown_state_are_refused(task: Callable[..., Task]) -> None:
    first = task()
    first.put({"a": 1})
    files = first.checkpoint(1)
    changed = task(schema=StateSchema("counts", KEYS, (Value("n", "float64"),)))
    with pytest.raises(StateError, match=r"int64.*float64"):
        changed.state.load(files, changed.blobs)
    renamed = task(schema=StateSchema("count", KEYS, SCHEMA.values))
    with pytest.raises(StateError, match="did you mean 'count'"):
        renamed.state.load(files, renamed.blobs)


def test_the_tasks_of_a_worker_share_one_budget(tmp_path: Path) -> None:
    budget = StateBudget(900)
    first, second, third = (Task(tmp_path) for _ in range(3))
    budget.admit(first.state)
    budget.admit(second.state)
    assert [t.state._tables["counts"].budget_bytes for t in (first, second)] == [450, 450]
    second.state.close()  # its task was given to another worker
    budget.admit(third.state)
    assert [t.state._tables["counts"].budget_bytes for t in (first, third)] == [450, 450]
