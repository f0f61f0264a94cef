"""State larger than its memory budget: RocksDB gives the same results, with snapshots and windows."""

import random
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import StorageError
from penstock.base.limits import STATE_TABLE_ROWS_MIN
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state import hot
from penstock.keyed_state.copies import CutRows, joined
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.keyed_state.tiered import TieredTable
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import NO_TIMER, Value
from penstock.protocol.state_entries import Files
from penstock.steps.base import NOTHING_DUE, StateSchema, TimerColumn
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 16
BUDGET = 250_000  # fewer rows than the tests make
LARGE_BYTES = 4096
CODEC = KeyCodec((pa.string(),), GROUPS)
SCHEMA = StateSchema("s", (("k", pa.string()),), (Value("n", "int64"), Value("v", "float32", 3), Value("b", "bytes")))


@pytest.fixture
def table(tmp_path: Path) -> Iterator[TieredTable]:
    made = TieredTable(SCHEMA, BUDGET, lambda: tmp_path / "cold")
    yield made
    made.close()


def keys(names: list[str | None]) -> Any:
    return CODEC.keys([pa.array(names, pa.string())])


def add(table: TieredTable, expected: dict[str | None, int], names: list[str | None]) -> None:
    rows = table.rows(keys(names))
    before = table.column("n")[rows].tolist()
    assert before == [expected.get(name, 0) for name in names]
    assert table.column("v")[rows].tolist() == [[b, -b, 2 * b] for b in before]
    assert table.read_bytes("b", rows).to_pylist() == [str(b).encode() if b else None for b in before]
    values = np.array(before, np.int64) + 1
    table.column("n")[rows] = values
    table.column("v")[rows] = np.stack([values, -values, 2 * values], axis=1)
    table.write_bytes("b", rows, pa.array([str(v).encode() for v in values.tolist()], pa.binary()))
    expected.update(zip(names, values.tolist(), strict=True))


def replay(files: dict[str | None, int], copied: Any) -> None:
    names = CODEC.columns(copied.keys)[0].to_pylist()
    gone = copied.deleted.tolist()
    for name, n, deleted in zip(names, copied.values["n"].tolist(), gone, strict=True):
        if deleted:
            files.pop(name, None)
        else:
            files[name] = n


def whole(table: TieredTable, cut: CutRows) -> Any:
    while not table.copy_on():
        pass
    return joined(list(cut.parts()))


def test_rows_come_back_from_disk_and_deltas_are_whole(table: TieredTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "COPIED_ROWS_MAX", 50)
    chance = random.Random(5)
    every: list[str | None] = [None, "", *(f"key number {i}" for i in range(3500))]
    expected: dict[str | None, int] = {}
    files: dict[str | None, int] = {}
    cut: Any = None
    for turn in range(26):
        add(table, expected, chance.sample(every, 300))
        if turn % 5 == 2:
            gone = chance.sample(sorted(expected, key=str), 100)
            table.delete(table.rows(keys(gone)))
            for name in gone:
                del expected[name]
        table.copy_on()
        if turn % 8 == 7:
            cut, then = table.cut(), dict(expected)
        elif turn % 8 == 1 and cut is not None:  # rows have moved to and from disk since
            seen = dict(files)
            replay(seen, whole(table, cut[1]))
            assert seen == then
            if turn % 16 == 1:  # the others abort
                table.settle(cut[0])
                files = seen
    assert table._cold is not None, "the budget was meant to be too small"
    assert table.size_bytes < 3 * BUDGET


def test_a_cut_behind_a_commit_has_only_what_changed_since_though_rows_are_on_disk(table: TieredTable) -> None:
    every: list[str | None] = [f"key number {n}" for n in range(3500)]
    expected: dict[str | None, int] = {}
    for first in range(0, len(every), 500):
        add(table, expected, every[first : first + 500])
    assert table._cold is not None, "the budget was meant to be too small"
    generation, cut = table.cut()
    assert len(whole(table, cut).groups) == len(every)
    table.settle(generation)
    add(table, expected, every[:300])
    _, later = table.cut()
    assert set(CODEC.columns(whole(table, later).keys)[0].to_pylist()) == set(every[:300])


def test_a_cut_keeps_changed_rows_on_disk_out_of_memory(tmp_path: Path) -> None:
    schema = StateSchema("s", (("k", pa.string()),), (Value("b", "bytes"),))
    table = TieredTable(schema, BUDGET, lambda: tmp_path / "cold")
    names: list[str | None] = [f"key number {n}" for n in range(8 * STATE_TABLE_ROWS_MIN)]
    for first in range(0, len(names), 512):
        some = names[first : first + 512]
        table.write_bytes("b", table.rows(keys(some)), pa.array([large(name) for name in some]))
    tracemalloc.start()
    _, cut = table.cut()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < LARGE_BYTES * STATE_TABLE_ROWS_MIN, "less than an eighth of the rows"
    table.write_bytes("b", table.rows(keys(names[:512])), pa.array([b"later"] * 512))
    while not table.copy_on():
        pass
    table.close()  # the task ends while its cut is stored
    assert cut.groups() == list(range(GROUPS))
    found: dict[str | None, bytes] = {}
    for part in cut.parts():
        ends, data, _ = part.values["b"]
        values = [data[a:b].tobytes() for a, b in pairwise(ends.tolist())]
        found.update(zip(CODEC.columns(part.keys)[0].to_pylist(), values, strict=True))
    assert found == {name: large(name) for name in names}


def large(name: str | None) -> bytes:
    return f"{name}.".encode() * (LARGE_BYTES // len(f"{name}."))


def test_a_cut_that_cannot_set_rows_aside_says_so(tmp_path: Path) -> None:
    table = TieredTable(SCHEMA, BUDGET, lambda: tmp_path / "there" / "cold")
    (tmp_path / "there").mkdir()
    for first in range(0, 8 * STATE_TABLE_ROWS_MIN, 512):
        table.rows(keys([f"key number {n}" for n in range(first, first + 512)]))
    (tmp_path / "there").rename(tmp_path / "gone")
    with pytest.raises(StorageError, match=r"changed rows of state 's' in .*there cannot be set aside .*No such file"):
        table.cut()
    (tmp_path / "gone").rename(tmp_path / "there")
    table.close()


def test_lost_groups_leave_the_disk_too(table: TieredTable) -> None:
    names: list[str | None] = [f"key number {i}" for i in range(3500)]
    expected: dict[str | None, int] = {}
    for start in range(0, 3500, 500):
        add(table, expected, names[start : start + 500])
    lost = np.zeros(GROUPS, np.uint8)
    lost[:8] = 1
    table.drop(lost)
    left = {n: 1 for n in names if keys([n]).groups[0] >= 8}
    _, cut = table.cut()
    files: dict[str | None, int] = {}
    replay(files, whole(table, cut))
    assert files == left


def test_windows_on_disk_come_due_in_order(tmp_path: Path) -> None:
    schema = StateSchema("w", (("k", pa.string()),), (Value("n", "int64"),), timed=True)
    table = TieredTable(schema, BUDGET, lambda: tmp_path / "cold")
    names = pa.array([f"key number {i}" for i in range(500)])
    for end in range(-5, 7):
        ends = np.full(len(names), end * 10, np.int64)
        found = table.rows(CODEC.window_keys([names], ends, CODEC.hashed([names])))
        table.set_due(found, ends)
        table.column("n")[found] += 1
    assert table._cold is not None
    assert table.next_due() == -50
    seen: list[int] = []
    while table.next_due() <= 30:
        rows = table.take_due(30, 200)
        seen += table.column("end")[rows].tolist()
        assert table.column("n")[rows].tolist() == [1] * len(rows)
        table.delete(rows)
    assert seen == sorted(seen)
    assert len(seen) == 9 * 500
    assert table.next_due() == 40
    table.close()


def test_timers_of_rows_on_disk_fire_in_order(tmp_path: Path) -> None:
    schema = StateSchema("t", (("k", pa.string()),), (), timers=(TimerColumn("idle"), TimerColumn("alarm")))
    table = TieredTable(schema, BUDGET, lambda: tmp_path / "cold")
    nothing_reached = np.full(GROUPS, NO_TIMER, np.int64)
    expected: list[int] = []
    for first in range(0, 6000, 500):
        rows = table.rows(CODEC.keys([pa.array([f"key number {i}" for i in range(first, first + 500)])]))
        times = np.arange(first, first + 500) * 7919 % 6000
        for field, name in enumerate(("idle", "alarm")):
            table.column(name)[rows] = times + field * 3000
            expected += (times + field * 3000).tolist()
        table.arm(rows, nothing_reached)
    assert table._cold is not None
    seen: list[int] = []
    while len(due := table.take_timers(8000, 700).times):
        seen += due.tolist()
    assert seen == sorted(time for time in expected if time <= 8000)
    assert table.next_timer() == 8001
    table.close()


def test_a_timer_that_was_taken_and_stays_in_its_row_does_not_come_again_from_disk(tmp_path: Path) -> None:
    schema = StateSchema("t", (("k", pa.string()),), (), timers=(TimerColumn("idle"),))
    table = TieredTable(schema, BUDGET, lambda: tmp_path / "cold")
    for first in range(0, 6000, 500):
        rows = table.rows(CODEC.keys([pa.array([f"key number {i}" for i in range(first, first + 500)])]))
        table.column("idle")[rows] = np.arange(first, first + 500)
        table.arm(rows, np.full(GROUPS, NO_TIMER, np.int64))
    assert table._cold is not None
    seen: list[int] = []
    while len(due := table.take_timers(8000, 700).times):
        seen += due.tolist()
        assert len(seen) <= 6000, "each fires once"
        table.make_room()
    assert seen == list(range(6000))
    assert table.next_timer() == NOTHING_DUE
    table.close()


def test_loading_more_than_fits_keeps_the_newest(tmp_path: Path) -> None:
    names = [f"key number {i}" for i in range(5000)]
    table = TieredTable(SCHEMA, BUDGET, lambda: tmp_path / "cold")
    with table.loading():
        for value in (1, 2):
            for start in range(0, 5000, 500):
                part: list[str | None] = [*names[start : start + 500]]
                given = {
                    "n": np.full(500, value),
                    "v": np.zeros((500, 3), np.float32),
                    "b": pa.array([b"x"] * 500),
                }
                deleted = np.full(500, value == 2 and start >= 2500)
                table.load(keys(part), deleted, given)
    assert table._cold is not None
    assert len(whole(table, table.cut()[1]).groups) == 0, "what was loaded is committed"
    rows = table.rows(keys([names[0], names[2499], names[2500], names[4999]]))
    assert table.column("n")[rows].tolist() == [2, 2, 0, 0]
    table.close()


def test_a_task_over_its_budget_is_restored_whole(tmp_path: Path) -> None:
    names = [f"key number {i}" for i in range(3500)]
    settings = StateSettings(memory_bytes=BUDGET)
    blobs = DirectoryBlobStore(tmp_path / "blobs")
    numbers = iter(range(100))

    def task() -> tuple[KeyedStateBackend, Any]:
        state = KeyedStateBackend(settings, (Range(0, GROUPS),), GROUPS, tmp_path)
        return state, state.open(SCHEMA)

    def add_all(table: Any, expected: dict[str | None, int], names: list[str]) -> None:
        for start in range(0, len(names), 500):
            add(table, expected, [*names[start : start + 500]])

    expected: dict[str | None, int] = {}
    first, table = task()
    files: Files = ()
    for epoch, changed in enumerate((names, names, names, names[:1500]), 1):
        add_all(table, expected, changed)
        cut = first.flip(Epoch(epoch))
        files = cut.write(lambda end: BlobName(f"{next(numbers)}{end}"), blobs)
        if epoch != 2:
            first.committed(Epoch(epoch))
    first.close()
    second, again = task()
    second.load(files, blobs)
    add_all(again, expected, names)
    assert set(expected.values()) == {4, 5}
    assert second.size_bytes < 3 * BUDGET
    second.close()
    assert [p.name for p in tmp_path.iterdir()] == ["blobs"], "local files go with the task"
