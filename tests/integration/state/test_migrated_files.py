"""Stored files of an earlier class are converted when they are loaded, and written in the new form by the next cut."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import penstock as ps
from penstock.base.errors import StateError
from penstock.base.values import replace
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model.declared.state_types import StateType, state_type
from penstock.model.table_columns import NO_TIMER
from penstock.protocol.state_entries import Files
from penstock.steps.base import StateSchema
from penstock.steps.keyed import KeyColumns
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.evolving_schema import evolving_schema
from penstock.steps.typed.lifetime import EXPIRES
from penstock.steps.typed.state_contents import StateContents, state_objects
from penstock.steps.typed.state_migration import StateMigration
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.undo_log import UndoLog
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 4
ALL: Share = (Range(0, GROUPS),)
KEYS = KeyColumns(pa.schema([pa.field("key", pa.string())]), ["key"], GROUPS)


@ps.state
class Old:
    total: ps.int32 = 3
    items: ps.List[int]
    kind: ps.Enum["NEW", "ODD"] = "NEW"  # noqa: F821
    mean: ps.Aggregate[ps.mean]  # type: ignore[valid-type]


@ps.state(ttl="1h")
class New:
    label: str = "none"
    items: ps.Map[str, int]
    last: ps.Ring[int, 2]  # type: ignore[valid-type]
    idle: ps.Timer
    mean: ps.Aggregate[ps.mean]  # type: ignore[valid-type]
    most: ps.Aggregate[ps.max]  # type: ignore[valid-type]


# Objects of states have lists and dicts where a row has rings, lists and maps.
PlainOld: Any = Old
PlainNew: Any = New


def convert(old: Old) -> New:
    plain: Any = old
    items = {f"{n}": value for n, value in enumerate(plain.items)}
    label, last = f"{old.total} {old.kind}", plain.items[-2:]
    return cast("New", PlainNew(label=label, items=items, last=last, idle=old.total, mean=plain.mean))


def typed(cls: type) -> StateType:
    found = state_type(cls)
    assert found is not None
    return found


def migrating(function: Callable[[Any], Any] = convert) -> StateSchema:
    schema = evolving_schema("look", KEYS.fields, typed(New))
    return replace(schema, migration=StateMigration("look", KEYS, (typed(Old), typed(New)), function))


class Task:
    """The state of one task in ``folder``, and the objects of its keys."""

    def __init__(self, folder: Path, cls: type, schema: StateSchema, share: Share = ALL) -> None:
        self.backend = KeyedStateBackend(StateSettings(), share, GROUPS, folder)
        self.table = self.backend.open(schema)
        self.state = typed(cls)
        self.rows = StateRows(self.state, UndoLog())
        self.contents = StateContents(self.state, self.rows)
        self.blobs, self.numbers = DirectoryBlobStore(folder / "blobs"), count()

    def put(self, **objects: Any) -> None:
        rows = self.table.rows(KEYS.codec.keys([pa.array(list(objects), pa.string())]))
        self.rows.bind(BoundTable(self.table, rows))
        for row, each in zip(rows.tolist(), objects.values(), strict=True):
            self.contents.put(row, each)
        self.rows.store()

    def delete(self, *keys: str) -> None:
        self.table.delete(self.table.rows(KEYS.codec.keys([pa.array(keys, pa.string())])))

    def cut(self, epoch: int) -> Files:
        """Write a cut without committing it."""
        snapshot = self.backend.flip(Epoch(epoch))
        while not self.backend.copy_on():
            pass
        return snapshot.write(lambda end: BlobName(f"{id(self)}-{next(self.numbers)}{end}"), self.blobs)

    def checkpoint(self, epoch: int) -> Files:
        files = self.cut(epoch)
        self.backend.committed(Epoch(epoch))
        return files

    def objects(self) -> dict[str, Any]:
        rows = self.backend.live_rows("look")
        self.rows.bind(BoundTable(self.table, rows))
        batch = pa.RecordBatch.from_arrays(self.contents.arrays(rows), schema=pa.schema(self.contents.fields))
        keys = KEYS.codec.columns(self.table.keys_of(rows))[0].to_pylist()
        return dict(zip(keys, state_objects(self.state, batch), strict=True))


def shown(objects: dict[str, Any]) -> dict[str, Any]:
    """Return what the function makes of objects, as a table shows it: with the value of an aggregate."""
    made: dict[str, Any] = {key: convert(old) for key, old in objects.items()}
    for new in made.values():
        new.mean = None if new.mean is None else new.mean[1] / new.mean[0]
    return made


class Stored:
    """Two cuts of keys of the earlier class, of which one is changed, one deleted, and one has only first values."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks: list[Task] = []
        task = self.task(Old, evolving_schema("look", KEYS.fields, typed(Old)))
        made = {
            f"k{n}": PlainOld(total=n, items=list(range(n % 5)), kind="ODD" if n % 2 else "NEW", mean=(n + 1, n / 2))
            for n in range(200)
        }
        task.put(**made)
        task.checkpoint(1)
        made |= {"k7": PlainOld(total=-7, items=[9, 8, 7]), "first": PlainOld(items=[])}
        task.put(k7=made["k7"], first=made["first"])
        task.delete("k8")
        del made["k8"]
        self.objects, self.files = made, task.checkpoint(2)
        assert len(self.files) == 4, "two cuts of two tables"

    def task(self, cls: type, schema: StateSchema) -> Task:
        self.tasks.append(Task(self.folder, cls, schema))
        return self.tasks[-1]

    def restored(self, function: Callable[[Any], Any] = convert) -> Task:
        """Begin a task from the files of the earlier class."""
        task = self.task(New, migrating(function))
        task.backend.load(self.files, task.blobs, ["look"])
        return task

    def again(self, files: Files) -> dict[str, Any]:
        """Begin a task from files of the present class, and return its objects. The function must not be called."""

        def never(_: Old) -> New:
            raise AssertionError

        task = self.task(New, migrating(never))
        task.backend.load(files, task.blobs)
        return task.objects()


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    found = Stored(tmp_path)
    yield found
    for task in found.tasks:
        task.backend.close()


def groups_of(keys: Iterable[str]) -> dict[str, int]:
    names = list(keys)
    return dict(zip(names, KEYS.codec.keys([pa.array(names, pa.string())]).groups.tolist(), strict=True))


def test_each_key_gets_what_the_function_returns(stored: Stored) -> None:
    assert stored.restored().objects() == shown(stored.objects)


def test_the_next_cut_lists_new_files_only(stored: Stored) -> None:
    task = stored.restored()
    changed = PlainNew(label="changed", items={"x": 1}, last=[5], idle=None)
    task.put(k1=changed)
    listed = task.checkpoint(3)
    assert not {f.blob.name for f in listed} & {f.blob.name for f in stored.files}
    assert stored.again(listed) == {**shown(stored.objects), "k1": changed}
    assert task.checkpoint(4) == listed, "nothing is written twice"


def test_a_cut_that_aborts_is_followed_by_one_with_all_keys(stored: Stored) -> None:
    task = stored.restored()
    task.cut(3)
    assert stored.again(task.checkpoint(4)) == shown(stored.objects)


def test_groups_that_leave_before_the_cut_are_in_no_file_of_it(stored: Stored) -> None:
    task = stored.restored()
    task.backend.drop_groups((Range(1, 3),))
    listed = task.checkpoint(3)
    assert {group for f in listed for r in f.groups for group in range(r.start, r.stop)} == {0, 3}
    groups = groups_of(stored.objects)
    left = {key: new for key, new in shown(stored.objects).items() if groups[key] in (0, 3)}
    assert 0 < len(left) < len(stored.objects)
    assert stored.again(listed) == left


def test_slabs_of_key_groups_are_converted_one_after_the_other(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.keyed_state.state_files.STATE_MERGE_BYTES_MAX", 1)
    task = stored.restored()
    assert len(task.checkpoint(3)) == 2 * GROUPS, "a file of each table for each key group"
    assert task.objects() == shown(stored.objects)
    assert set(groups_of(stored.objects).values()) == set(range(GROUPS))


def test_a_key_that_had_no_lifetime_lives_until_its_next_change(stored: Stored) -> None:
    task = stored.restored()
    table: Any = task.table
    assert set(table.column(EXPIRES)[task.backend.live_rows("look")].tolist()) == {NO_TIMER}


def failing(old: Old) -> New:
    if old.total == 5:
        raise ValueError("no fifth")
    return convert(old)


def wrong(_: Old) -> Any:
    return PlainNew(label=7, items={}, last=[], idle=None)


def other(old: Old) -> Any:
    return old


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (failing, "failing (tests/integration/state/test_migrated_files.py:"),
        (failing, "cannot migrate the state of the key (key='k5'): "),
        (failing, "(in failing): ValueError: no fifth"),
        (wrong, "New.label cannot hold 7 as string"),
        (other, "which is no New"),
    ],
)
def test_a_function_that_fails_is_named_with_its_key_and_line(
    stored: Stored, function: Callable[[Old], Any], said: str
) -> None:
    with pytest.raises(StateError) as failed:
        stored.restored(function)
    assert "step 'look': " in str(failed.value)
    assert said in str(failed.value)
