"""Child tables: their order in a tree, what goes with a parent, and what is refused."""

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import StateError
from penstock.base.limits import STATE_TABLE_ROWS_MIN
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.keyed_state.stored_schema import described
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import Value
from penstock.steps.base import ChildSchema, StateSchema
from penstock.storage.blobs import DirectoryBlobStore

KEYS = (("k", pa.string()),)
SEEN = ChildSchema("seen", pa.int64(), (Value("n", "int64"),))
SCHEMA = StateSchema("s", KEYS, (Value("n", "int64"),), children=(SEEN,))
CODEC = KeyCodec((pa.string(),), 4)
ALL = (Range(0, 4),)


def backend(folder: Path, schema: StateSchema = SCHEMA) -> tuple[KeyedStateBackend, Any]:
    state = KeyedStateBackend(StateSettings(), ALL, 4, folder)
    return state, state.open(schema)


def parents(table: Any, *names: str) -> Any:
    return table.rows(CODEC.keys([pa.array(names)]))


def numbers(child: Any, above: Any) -> list[int]:
    found: list[int] = child.subkeys_of(child.entries(above)[1]).to_pylist()
    return found


def depth(links: Any, row: int) -> int:
    """Return how many rows there are on the longest way down from a row."""
    if row == 0:
        return 0
    return 1 + max(depth(links, int(links["left"][row - 1])), depth(links, int(links["right"][row - 1])))


@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_a_tree_stays_in_order_and_flat(tmp_path: Path, order: str) -> None:
    _, table = backend(tmp_path)
    child = table.child("seen")
    (above,) = parents(table, "a").tolist()
    wanted = list(range(4000))
    given = {"rising": wanted, "falling": wanted[::-1], "mixed": np.random.default_rng(1).permutation(wanted).tolist()}
    for at in range(0, 4000, 500):
        some = given[order][at : at + 500]
        child.rows(np.full(len(some), above, np.int32), pa.array(some))
    assert numbers(child, np.array([above], np.int32)) == wanted
    heads, links = child.links.trees
    assert depth(links, int(heads["root"][above])) < 60  # of 4,000 rows; a list would be 4,000
    gone = child.find(np.full(2000, above, np.int32), pa.array(wanted[::2]))
    child.delete(gone)
    assert numbers(child, np.array([above], np.int32)) == wanted[1::2]


def test_deleting_a_key_deletes_its_entries_only(tmp_path: Path) -> None:
    _, table = backend(tmp_path)
    child = table.child("seen")
    one, two = parents(table, "one", "two").tolist()
    child.rows(np.array([one, two, one], np.int32), pa.array([7, 7, 8]))
    table.delete(np.array([one], np.int32))
    (again,) = parents(table, "one").tolist()
    assert numbers(child, np.array([again], np.int32)) == []
    assert numbers(child, np.array([two], np.int32)) == [7]


def test_an_entry_begins_with_zeros_again_after_its_deletion(tmp_path: Path) -> None:
    _, table = backend(tmp_path)
    child = table.child("seen")
    above = parents(table, "a")
    rows = child.rows(above, pa.array([1]))
    child.column("n")[rows] = 5
    child.delete(rows)
    assert child.find(above, pa.array([1])).tolist() == [-1]
    assert child.column("n")[child.rows(above, pa.array([1]))].tolist() == [0]


def test_a_delta_has_only_the_entries_that_changed(tmp_path: Path) -> None:
    state, table = backend(tmp_path)
    child = table.child("seen")
    store = DirectoryBlobStore(tmp_path / "blobs")
    above = np.repeat(parents(table, "a"), 1000)
    child.rows(above, pa.array(range(1000)))
    assert commit(state, store, 1) == {"s": 1, "s.seen": 1000}
    child.rows(above[:3], pa.array([5, 6, 5000]))
    assert commit(state, store, 2) == {"s": 1, "s.seen": 1003}


def commit(state: KeyedStateBackend, store: DirectoryBlobStore, epoch: int) -> dict[str, int]:
    """Cut and commit; return how many rows the listed files of each state have."""
    cut = state.flip(Epoch(epoch))
    while not state.copy_on():
        pass
    numbers = count()
    files = cut.write(lambda end: BlobName(f"{epoch}-{next(numbers)}{end}"), store)
    state.committed(Epoch(epoch))
    return {name: sum(f.rows for f in files if f.state == name) for name in dict.fromkeys(f.state for f in files)}


def test_files_of_a_state_do_not_know_of_child_tables() -> None:
    assert described(SCHEMA, 4) == described(StateSchema("s", KEYS, SCHEMA.values), 4)


def test_entries_of_no_key_are_refused(tmp_path: Path) -> None:
    state, table = backend(tmp_path)
    table.child("seen").rows(parents(table, "a"), pa.array([1]))
    store = DirectoryBlobStore(tmp_path / "blobs")
    cut = state.flip(Epoch(1))
    numbers = count()
    files = cut.write(lambda end: BlobName(f"{next(numbers)}{end}"), store)
    again, _ = backend(tmp_path)
    with pytest.raises(StateError, match=r"state 's.seen': 1 entries belong to no key of 's'"):
        again.load([f for f in files if f.state == "s.seen"], store)


def test_entries_count_as_memory_and_share_the_budget_of_their_state(tmp_path: Path) -> None:
    state, table = backend(tmp_path)
    child = table.child("seen")
    before = state.size_bytes
    above = np.repeat(parents(table, "a"), 100_000)
    child.rows(above, pa.array(range(100_000)))
    each = (state.size_bytes - before) / 100_000
    assert 60 < each < 200
    state.limit(1)
    parents(table, "b")
    assert child.table.used <= STATE_TABLE_ROWS_MIN
    rows = child.find(np.repeat(parents(table, "a"), 100_000), pa.array(range(100_000)))
    assert (rows >= 0).all()
    assert numbers(child, parents(table, "a")) == list(range(100_000))


def test_entries_are_found_after_a_restore_with_little_memory_and_after_they_and_their_keys_move(
    tmp_path: Path,
) -> None:
    state, table = backend(tmp_path)
    names = [f"k{i}" for i in range(3 * STATE_TABLE_ROWS_MIN)]
    store = DirectoryBlobStore(tmp_path / "blobs")
    places = count()
    for first in range(3):  # a file each: entries of the first ones are on disk when those of the last are loaded
        table.child("seen").rows(parents(table, *names), pa.array(range(first, first + len(names))))
        made = state.flip(Epoch(first + 1))
        while not state.copy_on():
            pass
        files = made.write(lambda end: BlobName(f"{next(places)}{end}"), store)
        state.committed(Epoch(first + 1))
    again, table = backend(tmp_path)
    again.limit(1)
    again.load(files, store)
    for first in range(3):
        for at in reversed(range(0, len(names), 256)):  # the last keys are in memory
            rows = parents(table, *names[at : at + 256])
            found = table.child("seen").find(rows, pa.array(range(at + first, at + first + 256)))
            assert (found >= 0).all()
            assert numbers(table.child("seen"), rows[:1]) == [at, at + 1, at + 2]


def test_child_tables_have_no_budget_of_their_own(tmp_path: Path) -> None:
    state, table = backend(tmp_path)
    state.limit(1000)
    assert table.budget_bytes == 1000


def test_a_missing_subkey_is_not_looked_for_on_disk_if_nothing_of_its_key_is_there(tmp_path: Path) -> None:
    state, table = backend(tmp_path)
    child = table.child("seen")
    above = np.repeat(parents(table, "a"), 4 * STATE_TABLE_ROWS_MIN)
    child.rows(above, pa.array(range(4 * STATE_TABLE_ROWS_MIN)))
    state.limit(1)
    (new,) = parents(table, "new").tolist()
    assert child.table.on_disk
    assert not child.links.on_disk(np.array([new], np.int32)).any()
    assert child.links.on_disk(parents(table, "a")).all()
