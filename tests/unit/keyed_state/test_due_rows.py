"""The queue of rows that come due: ties, moved times, memory, and files that are merged."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.limits import STATE_FILES_PER_TASK_MAX
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.hot import HotTable
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.keyed_state.memory import NEVER
from penstock.keyed_state.tiered import TieredTable
from penstock.model.keys import KeyCodec, Keys
from penstock.model.table_columns import Value
from penstock.steps.base import StateSchema
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 4
CODEC = KeyCodec((pa.string(),), GROUPS)
SCHEMA = StateSchema("w", (("k", pa.string()),), (Value("n", "int64"),), timed=True)


def put(table: Any, names: list[str], end: int) -> Any:
    ends = np.full(len(names), end, np.int64)
    column = pa.array(names, pa.string())
    rows = table.rows(CODEC.window_keys([column], ends, CODEC.hashed([column])))
    table.set_due(rows, ends)
    return rows


def take(table: Any, bound: int, most: int = 1000) -> list[tuple[int, str]]:
    rows = table.take_due(bound, most)
    ends = table.column("end")[rows].tolist()
    names = CODEC.window_columns(table.keys_of(rows))[0].to_pylist()
    table.delete(rows)
    return list(zip(ends, names, strict=True))


@pytest.mark.parametrize("alike", [3, 200])
def test_keys_with_equal_hashes_come_in_the_order_of_their_bytes(alike: int) -> None:
    names = [f"{'b' * (i % 5)}{i}" for i in range(alike)]
    made = KeyCodec((pa.string(),), 1).keys([pa.array(names)])
    table = HotTable(SCHEMA)
    same = np.full(alike, 7 << 40, np.uint64)
    rows = table.rows(Keys(made.text, same, made.groups))
    table.set_due(rows, np.zeros(alike, np.int64))
    found = table.keys_of(table.take_due(0, 1000))
    assert [n.decode() for n in _texts(found)] == sorted(names)


def _texts(keys: Any) -> list[bytes]:
    data = keys.data.tobytes()
    return [data[a:b] for a, b in zip(keys.ends[:-1], keys.ends[1:], strict=True)]


def test_a_time_may_be_set_anew_and_the_last_one_holds() -> None:
    table = HotTable(SCHEMA)
    rows = put(table, ["a", "b", "c"], 10)
    table.set_due(rows, np.array([30, 20, 10], np.int64))
    table.set_due(rows[[0, 0]], np.array([5, 25], np.int64))
    assert table.next_due() == 10
    assert table.column("end")[table.take_due(22, 9)].tolist() == [10, 20]
    assert table.next_due() == 25
    taken = table.take_due(25, 9)
    assert taken.tolist() == rows[:1].tolist()
    assert table.next_due() == NEVER
    table.set_due(taken, np.array([25], np.int64))
    assert table.next_due() == 25, "what was taken may come due again"


def test_a_row_that_comes_while_its_end_is_fired_in_slices_takes_its_place() -> None:
    names = [f"k{i}" for i in range(100)]
    in_order = [name for _, name in _fired(names)]
    table = HotTable(SCHEMA)
    later = in_order[60]
    put(table, [n for n in names if n != later], 10)
    found = [name for _, name in take(table, 10, 30)]
    put(table, [later], 10)
    while table.next_due() != NEVER:
        found += [name for _, name in take(table, 10, 30)]
    assert found == in_order


def _fired(names: list[str]) -> list[tuple[int, str]]:
    table = HotTable(SCHEMA)
    put(table, names, 10)
    return take(table, 10)


def test_many_times_that_are_set_moved_and_deleted_come_in_order() -> None:
    chance = np.random.default_rng(3)
    table = HotTable(SCHEMA)
    rows = put(table, [f"k{i}" for i in range(3000)], 0)
    for _ in range(4):
        moved = chance.choice(rows, 2000)  # some of them twice: the last time holds
        table.set_due(moved, chance.integers(-(10**9), 10**9, 2000))
    gone = chance.permutation(rows)[:1500]
    table.delete(gone)
    left = np.setdiff1d(rows, gone)
    found = table.take_due(2**62, 5000)
    assert sorted(found.tolist()) == left.tolist()
    times = table.column("end")[found]
    assert (np.diff(times) >= 0).all()


def test_at_most_the_requested_number_of_rows_comes_from_disk(tmp_path: Path) -> None:
    names = [f"k{i}" for i in range(4000)]
    table = TieredTable(SCHEMA, 1, lambda: tmp_path / "cold")
    for end in (10, 20, 30):
        put(table, names, end)
    in_memory = table.used
    assert in_memory < 2 * len(names), "most of them are on disk"
    assert len(take(table, 25, 1500)) == 1500, "more than one bucket"
    assert table.used <= in_memory + 1500
    table.close()


def test_windows_that_open_and_close_for_ever_take_no_more_memory() -> None:
    table = HotTable(SCHEMA)
    names = [f"k{i}" for i in range(200)]
    sizes = []
    for turn in range(40):
        put(table, names, 10 * turn)
        put(table, names[:50], 10**6 + turn)  # deleted before they are due
        table.delete(put(table, names[:50], 10**6 + turn))
        assert len(take(table, 10 * turn)) == len(names)
        table.settle(table.cut()[0])
        sizes.append(table.size_bytes)
    assert sizes[-1] == sizes[4]


def test_the_queue_counts_in_the_memory_of_the_state() -> None:
    timed, plain = HotTable(SCHEMA), HotTable(StateSchema("p", SCHEMA.keys, SCHEMA.values))
    names = [f"k{i}" for i in range(5000)]
    put(timed, names, 10)
    ends = np.full(len(names), 10, np.int64)
    column = pa.array(names, pa.string())
    plain.rows(CODEC.window_keys([column], ends, CODEC.hashed([column])))
    assert timed.size_bytes - plain.size_bytes >= len(names) * (8 + 8), "the end, and its links"


def test_what_is_open_fires_after_files_were_merged_and_restored(tmp_path: Path) -> None:
    everything = (Range(0, GROUPS),)
    blobs, numbers = DirectoryBlobStore(tmp_path / "blobs"), iter(range(1000))
    state = KeyedStateBackend(StateSettings(), everything, GROUPS)
    table = state.open(SCHEMA)
    put(table, [f"k{i}" for i in range(400)], 10**6)
    files: Any = ()
    for epoch in range(1, STATE_FILES_PER_TASK_MAX + 6):
        put(table, [f"k{i}" for i in range(9)], 10 * epoch)
        if epoch % 3:
            assert len(take(table, 10 * epoch)) == 9 + (9 if epoch % 3 == 1 and epoch > 1 else 0)
        cut = state.flip(Epoch(epoch))
        while not state.copy_on():
            pass
        files = cut.write(lambda end: BlobName(f"{next(numbers)}{end}"), blobs)
        state.committed(Epoch(epoch))
    assert len(files) <= STATE_FILES_PER_TASK_MAX, "some were merged"
    again = KeyedStateBackend(StateSettings(), everything, GROUPS)
    restored = again.open(SCHEMA)
    again.load(files, blobs)
    assert restored.next_due() == table.next_due() == 210
    assert take(restored, 2**62) == take(table, 2**62)
    again.close()
    state.close()
