"""Snapshots are written to files and restored: deltas, merging, narrowing, damage, other schemas."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import StateError
from penstock.base.limits import STATE_FILES_PER_TASK_MAX
from penstock.base.values import replace
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share, intersect
from penstock.contract.manifest import StateFile
from penstock.contract.settings import StateSettings
from penstock.keyed_state import copies, hot, state_files
from penstock.keyed_state.keyed_backend import KeyedStateBackend, StateBudget
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import Value
from penstock.steps.base import KeyedState, StateSchema
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 16
ALL: Share = (Range(0, GROUPS),)
KEYS = (("word", pa.string()),)
SCHEMA = StateSchema("counts", KEYS, (Value("n", "int64"), Value("pair", "float64", 2)))
CODEC = KeyCodec((pa.string(),), GROUPS)
OTHERS = {f"other {i}": i for i in range(9)}  # of a state of which little changes


class Task:
    """A task state with one table, its files, and names that are used once."""

    numbers = iter(range(10**9))

    def __init__(self, folder: Path, share: Share = ALL, schema: StateSchema = SCHEMA) -> None:
        self.state = KeyedStateBackend(StateSettings(), share, GROUPS)
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

    def cut(self, epoch: int) -> tuple[StateFile, ...]:
        cut = self.state.flip(Epoch(epoch))
        while not self.state.copy_on():
            pass
        return cut.write(self._name, self.blobs)

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


def narrowed(files: tuple[StateFile, ...], share: Share) -> tuple[StateFile, ...]:
    """Return entries as a reader of ``share`` gets them from a manifest."""
    return tuple(replace(f, groups=intersect(f.groups, share)) for f in files)


def test_state_comes_back_from_its_files(task: Callable[..., Task]) -> None:
    first = task()
    first.put(OTHERS | {"a": 1, "b": 2, "c": 3})
    first.checkpoint(1)
    first.put({"b": 20})
    first.delete("c")
    files = first.checkpoint(2)
    again = task()
    again.state.load(files, again.blobs)
    assert again.content() == OTHERS | {"a": 1, "b": 20}
    assert [f.rows for f in files] == [len(OTHERS) + 3, 2]
    assert again.state.keys == len(OTHERS) + 2, "tombstones are dropped after loading"


def test_each_of_two_states_gets_the_rows_of_its_own_files(task: Callable[..., Task]) -> None:
    both = (SCHEMA, replace(SCHEMA, name="others"))
    first = task()
    first.state.open(both[1])
    first.put({"a": 1})
    files = first.checkpoint(1)
    first.table = first.state._tables["others"]
    first.put({"b": 2})
    files = first.checkpoint(2)
    assert {f.state for f in files} == {"counts", "others"}
    again = task()
    again.state.open(both[1])
    again.state.load(files, again.blobs)
    assert again.content() == {"a": 1}
    tables = [again.state._tables[schema.name].hot for schema in both]
    assert [len(table.all_rows(tombstones=False)) for table in tables] == [1, 1]


def test_a_state_of_which_half_has_changed_is_one_file(task: Callable[..., Task]) -> None:
    first = task()
    first.put({"a": 1, "b": 2, "c": 3, "d": 4})
    first.checkpoint(1)
    first.put({"a": 10})
    assert len(first.checkpoint(2)) == 2
    first.put({"b": 20})
    first.delete("c")
    files = first.checkpoint(3)
    again = task()
    again.state.load(files, again.blobs)
    assert again.content() == {"a": 10, "b": 20, "d": 4}
    assert len(files) == 1


def test_a_file_of_the_whole_state_that_is_not_committed_replaces_no_file(task: Callable[..., Task]) -> None:
    first = task()
    first.put({"a": 1, "b": 2})
    first.checkpoint(1)
    first.put({"a": 10})
    first.cut(2)
    files = first.checkpoint(3)
    again = task()
    again.state.load(files, again.blobs)
    assert again.content() == {"a": 10, "b": 2}


def test_a_file_of_the_whole_state_replaces_files_that_were_gained(task: Callable[..., Task]) -> None:
    other = task()
    other.put({"a": 1, "b": 2})
    first = task()
    first.state.load(other.checkpoint(1), other.blobs)
    first.put({"a": 10, "c": 3})
    (file,) = first.checkpoint(2)
    again = task()
    again.state.load((file,), again.blobs)
    assert again.content() == {"a": 10, "b": 2, "c": 3}


def test_a_state_that_lost_all_its_keys_has_no_file(task: Callable[..., Task]) -> None:
    first = task()
    first.put({"a": 1, "b": 2})
    first.checkpoint(1)
    first.delete("a", "b")
    first.checkpoint(2)
    assert first.checkpoint(3) == ()


def test_a_delta_has_no_rows_that_were_only_loaded(task: Callable[..., Task]) -> None:
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


def test_files_stay_few_and_deleted_keys_stay_dead(task: Callable[..., Task]) -> None:
    first = task()
    first.put({f"key {i}": i for i in range(50)})
    most = 0
    for epoch in range(1, STATE_FILES_PER_TASK_MAX + 6):
        first.put({f"key {epoch % 50}": epoch, f"new {epoch}": epoch})
        first.delete(f"new {epoch - 1}")
        files = first.checkpoint(epoch)
        most = max(most, len(files))
    assert most <= STATE_FILES_PER_TASK_MAX
    again = task()
    again.state.load(files, again.blobs)
    assert again.content() == first.content()
    assert "new 3" not in again.content()


def test_a_cut_that_somebody_waits_for_only_adds_a_file(task: Callable[..., Task]) -> None:
    first = task()
    first.put(OTHERS)
    for epoch in range(1, STATE_FILES_PER_TASK_MAX + 1):
        first.put({"a": epoch})
        files = first.checkpoint(epoch)
    first.put({"a": 0})
    cut = first.state.flip(Epoch(50), merges=False)
    assert cut.write(first._name, first.blobs)[:-1] == files
    first.state.committed(Epoch(50))
    assert len(first.checkpoint(51)) < STATE_FILES_PER_TASK_MAX


def test_a_merge_of_one_key_group_after_the_other_has_the_same_rows(
    task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_files, "STATE_MERGE_BYTES_MAX", 1)
    first = task()
    wanted = {f"w{i}": i for i in range(500)}
    first.put(wanted)
    first.checkpoint(1)
    for epoch in range(2, STATE_FILES_PER_TASK_MAX + 2):
        changed = {f"w{i}": 1000 * epoch + i for i in range(epoch, 200, 7)}
        first.put(changed)
        first.delete(f"w{epoch}", f"w{epoch + 200}")
        wanted = {w: n for w, n in (wanted | changed).items() if w not in (f"w{epoch}", f"w{epoch + 200}")}
        files = first.checkpoint(epoch)
    assert len(files) < STATE_FILES_PER_TASK_MAX
    other = task()
    other.state.load(files, other.blobs)
    assert other.content() == first.content() == wanted


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


def test_a_reader_of_many_blocks_sees_only_its_groups(
    task: Callable[..., Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "PART_ROWS", 150)
    monkeypatch.setattr(hot, "COPIED_ROWS_MAX", 50)
    monkeypatch.setattr(state_files, "BLOCK_ROWS", 20)
    first = task()
    words = {f"w{i}": i for i in range(1000)}
    first.put(words)
    first.checkpoint(1)
    first.delete("w7", "w8")
    first.put({f"w{i}": -i for i in range(600, 1000)})
    files = first.checkpoint(2)
    assert len(files) == 2
    wanted = words | {f"w{i}": -i for i in range(600, 1000)}
    del wanted["w7"], wanted["w8"]
    for half in ((Range(3, 9),), (Range(0, 3), Range(9, GROUPS))):
        other = task(share=half)
        narrow = tuple(replace(f, groups=half) for f in files)
        other.state.load(narrow, other.blobs)
        inside = {g for r in half for g in range(r.start, r.stop)}
        assert other.content() == {w: n for w, n in wanted.items() if group_of(w) in inside}


def test_a_file_of_another_kind_is_refused_by_its_name(task: Callable[..., Task]) -> None:
    first = task()
    first.put(OTHERS)
    (file,) = first.checkpoint(1)
    for number, content in enumerate((b"", b"rocksdb" * 100, first.blobs.get(file.blob)[:-1])):
        blob = first.blobs.put(BlobName(f"1-1-life-x{number}.state"), content)
        with pytest.raises(StateError, match=rf"x{number}.state .*no state file of this version"):
            task().state.load((replace(file, blob=blob),), first.blobs)


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


LOW: Share = (Range(0, GROUPS // 2),)


def test_lost_groups_are_in_no_entry_though_few_rows_change(task: Callable[..., Task]) -> None:
    first = task()
    first.put({f"w{i}": i for i in range(100)})
    first.checkpoint(1)
    first.state.drop_groups(LOW)
    first.put({next(w for w in first.content() if group_of(w) >= GROUPS // 2): 7})
    files = first.checkpoint(2)
    assert len(files) == 2, "the file of the first checkpoint is still listed"
    assert {r for f in files for r in f.groups} == {Range(GROUPS // 2, GROUPS)}


@pytest.mark.parametrize("more", [0, STATE_FILES_PER_TASK_MAX], ids=["few files", "merged"])
def test_a_key_that_another_task_deleted_stays_dead_when_its_group_comes_back(
    task: Callable[..., Task], more: int
) -> None:
    first, other = task(), task(share=LOW)
    first.put({f"w{i}": i for i in range(60)} | OTHERS)
    files = first.checkpoint(1)
    other.state.load(narrowed(files, LOW), other.blobs)
    first.state.drop_groups(LOW)
    gone = next(w for w in other.content() if w.startswith("w"))
    other.delete(gone)
    other.checkpoint(2)  # its commit ends the tombstone
    other.put(dict.fromkeys(other.content(), 5))
    files = other.checkpoint(3)
    assert len(files) == 1, "a whole table has no trace of the deleted key"
    first.state.load(files, first.blobs)
    for epoch in range(4, 5 + more):
        first.put({"other 0": epoch})
        files = first.checkpoint(epoch)
    again = task()
    again.state.load(files, again.blobs)
    assert again.content() == first.content()
    assert gone not in again.content()
    assert set(other.content()) < set(again.content())


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


def test_another_number_of_key_groups_is_refused_with_both(task: Callable[..., Task], tmp_path: Path) -> None:
    first = task()
    first.put({"a": 1})
    files = first.checkpoint(1)
    other = KeyedStateBackend(StateSettings(), ALL, 32)
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


EVOLVES = replace(SCHEMA, evolves=True)
ADDED = StateSchema("counts", KEYS, (*SCHEMA.values, Value("tag", "int8", added=7)), evolves=True)


def test_a_rescale_too_merges_files_of_an_older_schema(task: Callable[..., Task]) -> None:
    first = task(schema=EVOLVES)
    first.put(OTHERS | {"a": 1})
    first.checkpoint(1)
    first.put({"a": 2})
    files = first.checkpoint(2)
    assert len(files) == 2
    again = task(schema=ADDED)
    again.state.load(files, again.blobs)
    cut = again.state.flip(Epoch(3), merges=False)
    merged = cut.write(again._name, again.blobs)
    assert len(merged) == 1
    assert merged[0].blob not in [f.blob for f in files]
    later = task(schema=ADDED)
    later.state.load(merged, later.blobs)
    assert later.content() == OTHERS | {"a": 2}
    assert set(later.table.column("tag")[later.state.live_rows("counts")].tolist()) == {7}


def test_files_of_an_older_schema_are_merged_again_after_an_epoch_that_aborts(task: Callable[..., Task]) -> None:
    first = task(schema=EVOLVES)
    first.put({"a": 1})
    files = first.checkpoint(1)
    again = task(schema=ADDED)
    again.state.load(files, again.blobs)
    lost, kept = again.cut(2), again.checkpoint(3)
    assert {f.blob.name for f in files}.isdisjoint(f.blob.name for f in (*lost, *kept))
    assert again.checkpoint(4) == kept, "there is nothing left to merge"


@pytest.mark.parametrize(
    "values",
    [
        (Value("n", "int8"), SCHEMA.values[1]),
        (Value("n", "int64", 2), SCHEMA.values[1]),
        (Value("n", "bytes"), SCHEMA.values[1]),
    ],
)
def test_a_state_that_evolves_refuses_columns_of_another_kind(
    task: Callable[..., Task], values: tuple[Value, ...]
) -> None:
    first = task(schema=EVOLVES)
    first.put({"a": 1})
    files = first.checkpoint(1)
    changed = task(schema=StateSchema("counts", KEYS, values, evolves=True))
    with pytest.raises(StateError, match=r"stored state does not fit: stored .*int64.*the job has"):
        changed.state.load(files, changed.blobs)


def test_a_state_that_evolves_is_read_by_no_state_that_does_not(task: Callable[..., Task]) -> None:
    first = task(schema=ADDED)
    first.put({"a": 1})
    files = first.checkpoint(1)
    changed = task()
    with pytest.raises(StateError, match="does not fit"):
        changed.state.load(files, changed.blobs)


def test_the_tasks_of_a_worker_share_one_budget(tmp_path: Path) -> None:
    budget = StateBudget(900)
    first, second, third = (Task(tmp_path) for _ in range(3))
    budget.admit(first.state)
    budget.admit(second.state)
    assert [t.state._tables["counts"].budget_bytes for t in (first, second)] == [450, 450]
    second.state.close()  # its task was given to another worker
    budget.admit(third.state)
    assert [t.state._tables["counts"].budget_bytes for t in (first, third)] == [450, 450]


def test_commits_that_come_late_and_at_once_settle_every_cut(task: Callable[..., Task]) -> None:
    first = task()
    first.put(OTHERS)
    first.checkpoint(1)
    for epoch in (2, 3):
        first.put({f"new {epoch}": epoch})
        first.cut(epoch)
    for epoch in (2, 3):
        first.state.committed(Epoch(epoch))
    first.put({"a": 1})
    assert first.checkpoint(4)[-1].rows == 1, "what is committed is not written again"


def test_a_commit_that_comes_before_its_cut_was_written_forgets_no_file(task: Callable[..., Task]) -> None:
    first = task()
    first.put(OTHERS)
    first.checkpoint(1)
    first.put({"a": 1})
    first.state.flip(Epoch(2))
    first.state.committed(Epoch(2))
    files = first.checkpoint(3)
    again = task()
    again.state.load(files, again.blobs)
    assert again.content() == OTHERS | {"a": 1}


def test_a_deletion_is_kept_through_merges_as_long_as_an_older_file_has_the_key(task: Callable[..., Task]) -> None:
    first = task()
    first.put({f"key {i}": i for i in range(3000)})
    (large,) = first.checkpoint(1)
    first.delete("key 7")
    files = first.checkpoint(2)
    for epoch in range(3, STATE_FILES_PER_TASK_MAX + 4):
        first.put({"key 1": epoch})
        files = first.checkpoint(epoch)
    assert large.blob in [file.blob for file in files], "too large to be merged with the others"
    assert len(files) < STATE_FILES_PER_TASK_MAX
    again = task()
    again.state.load(files, again.blobs)
    assert "key 7" not in again.content()


def test_the_tables_of_a_task_share_its_budget(tmp_path: Path) -> None:
    made = Task(tmp_path)
    made.state.open(replace(SCHEMA, name="more"))
    made.state.limit(1000)
    assert [table.budget_bytes for table in made.state._tables.values()] == [500, 500]
