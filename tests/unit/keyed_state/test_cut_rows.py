"""A cut holds rows as they were when it was made, whatever happens before they are copied."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.keyed_state import copies, hot, state_files
from penstock.keyed_state.copies import CutRows, by_group, joined
from penstock.keyed_state.hot import HotTable
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import Value
from penstock.steps.base import StateSchema

CODEC = KeyCodec((pa.string(),), 8)
SCHEMA = StateSchema("counts", (("word", pa.string()),), (Value("n", "int64"),))
WORDS = ["a", "b", "c", "d"]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> HotTable:
    """Four words with their place as value; ``d`` is deleted. One row is copied at a time."""
    monkeypatch.setattr(hot, "COPIED_ROWS_MAX", 1)
    table = HotTable(SCHEMA)
    put(table, WORDS, range(1, 5))
    table.delete(known(table, ["d"]))
    return table


def rows(table: HotTable, words: list[str]) -> Any:
    return table.rows(CODEC.keys([pa.array(words, pa.string())]))


def known(table: HotTable, words: list[str]) -> Any:
    """Return rows without marking them changed, as what is due is found."""
    return table.found(CODEC.keys([pa.array(words, pa.string())]))


def group_of(word: str) -> int:
    return int(CODEC.keys([pa.array([word], pa.string())]).groups[0])


def put(table: HotTable, words: list[str], values: Any) -> None:
    table.column("n")[rows(table, words)] = list(values)


def held(table: HotTable, cut: CutRows) -> dict[str, int | None]:
    """Copy the rest; return what the cut has of each word, each once; None where it is deleted."""
    while not table.copy_on():
        pass
    copied = joined(list(cut.parts()))
    words = CODEC.columns(copied.keys)[0].to_pylist()
    values = zip(copied.values["n"].tolist(), copied.deleted.tolist(), strict=True)
    assert sorted(words) == sorted(set(words))
    return {w: None if gone else n for w, (n, gone) in zip(words, values, strict=True)}


def release(table: HotTable, words: list[str]) -> None:
    table.release(known(table, words))


def forget_and_make_again(table: HotTable) -> None:
    release(table, ["b"])
    put(table, ["new"], [9])  # in the place of the forgotten one


def change_twice(table: HotTable) -> None:
    put(table, ["c"], [8])
    put(table, ["c"], [9])


def void(_: object) -> None:
    """Drop a result."""


CHANGES: dict[str, Callable[[HotTable], None]] = {
    "nothing": lambda _: None,
    "changed": lambda t: put(t, ["b", "c"], [8, 9]),
    "changed twice": change_twice,
    "deleted": lambda t: t.delete(known(t, ["b"])),
    "made again": lambda t: put(t, ["d"], [9]),
    "forgotten": lambda t: release(t, ["a", "c"]),
    "forgotten and another in its place": forget_and_make_again,
    "another": lambda t: put(t, ["e"], [5]),
    "cut again": lambda t: void(t.cut()),
    "committed before": lambda t: t.settle(0),
}


def disturb(table: HotTable, change: str, copied: int) -> None:
    """Change something when so many rows of the cut are copied."""
    for _ in range(copied):
        table.copy_on()
    CHANGES[change](table)


@pytest.mark.parametrize("all_here", [True, False])
@pytest.mark.parametrize("copied", [0, 2, 4])
@pytest.mark.parametrize("change", CHANGES)
def test_a_cut_has_the_rows_as_they_were(table: HotTable, change: str, copied: int, all_here: bool) -> None:
    _, cut = table.cut(all_here=all_here)
    assert cut.whole is all_here
    disturb(table, change, copied)
    assert held(table, cut) == {"a": 1, "b": 2, "c": 3, "d": None}


@pytest.mark.parametrize("more", [[], ["new"]])
def test_rows_forgotten_before_the_cut_are_not_in_it(table: HotTable, more: list[str]) -> None:
    release(table, ["b"])
    _, cut = table.cut()
    put(table, more, [9] * len(more))
    assert held(table, cut) == {"a": 1, "c": 3, "d": None}


def test_a_committed_row_that_changes_during_a_cut_is_not_in_it(table: HotTable) -> None:
    generation, _ = table.cut()
    table.settle(generation)
    put(table, ["a"], [7])
    _, cut = table.cut()
    put(table, ["b"], [8])
    assert held(table, cut) == {"a": 7}


@pytest.mark.parametrize("copied", [0, 2, 4])
@pytest.mark.parametrize("change", CHANGES)
def test_a_cut_of_all_rows_holds_those_that_were_committed(table: HotTable, change: str, copied: int) -> None:
    generation, _ = table.cut()
    table.settle(generation)
    put(table, ["a", "b"], [5, 6])
    _, cut = table.cut()
    assert cut.whole
    disturb(table, change, copied)
    assert held(table, cut) == {"a": 5, "b": 6, "c": 3}


def test_a_cut_of_few_rows_or_with_others_elsewhere_holds_what_has_changed(
    table: HotTable,
) -> None:
    generation, first = table.cut(all_here=False)
    assert not first.whole
    table.settle(generation)
    put(table, ["a"], [5])
    _, cut = table.cut()
    assert held(table, cut) == {"a": 5}
    assert not cut.whole


def test_rows_of_a_cut_that_are_not_copied_cannot_be_written(table: HotTable) -> None:
    _, cut = table.cut()
    with pytest.raises(AssertionError, match="4 rows of a cut are not copied"):
        cut.parts()


def test_a_large_cut_is_written_in_parts_each_by_key_group(table: HotTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "PART_ROWS", 2)
    words = [f"w{i}" for i in range(20)]
    put(table, words, range(20))
    _, cut = table.cut()
    while not table.copy_on():
        pass
    groups = cut.groups()
    parts = [list(by_group(part, 2)) for part in cut.parts()]
    with pytest.raises(AssertionError, match="given away"):
        cut.parts()
    assert [sum(len(b.groups) for b in part) for part in parts] == [2] * 12
    assert groups == sorted({int(g) for part in parts for b in part for g in b.groups})
    for part in parts:
        found = joined(part)
        assert list(found.groups) == sorted(found.groups)
        written = CODEC.columns(found.keys)[0].to_pylist()
        assert [group_of(w) for w in written] == list(found.groups), "keys go with their groups"


def test_large_rows_are_copied_in_smaller_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "COPIED_BYTES_MAX", 100_000)
    table = HotTable(SCHEMA)
    put(table, [f"{n}{'x' * 10_000}" for n in range(50)], np.arange(50))
    _, cut = table.cut()
    table.copy_on()
    assert 40 <= cut.left < 50


def test_a_writer_rests_between_blocks_for_the_time_of_a_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(state_files, "monotonic", clock.monotonic)
    for took in state_files.at_half_speed([0.05, 0.01, 5.0, 0.02], clock):
        clock.now += took
    assert clock.rested == [0.05, 0.01, state_files.REST_MAX_S], "and not before the first"


class Clock(threading.Event):
    """Time, and an event that is never set."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 10.0
        self.rested: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.rested.append(round(timeout, 9))
        self.now += timeout
        return False


def test_large_rows_are_written_in_smaller_parts(table: HotTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "PART_BYTES_MAX", 1)
    _, cut = table.cut()
    while not table.copy_on():
        pass
    assert len([part for part in cut.parts() if len(part.groups)]) == len(WORDS)
