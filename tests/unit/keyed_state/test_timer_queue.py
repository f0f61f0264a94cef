"""Timers of a table: ties, times of the past, stale entries, growth, and files that know nothing of them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.contract.graph import TimeKind
from penstock.keyed_state import hot
from penstock.keyed_state.copies import joined
from penstock.keyed_state.hot import HotTable
from penstock.keyed_state.memory import NEVER
from penstock.keyed_state.stored_schema import described
from penstock.model.kernels import timers
from penstock.model.keys import KeyCodec, Keys
from penstock.model.table_columns import NO_TIMER, Value
from penstock.steps.base import StateSchema, TimerColumn, Ttl

CODEC = KeyCodec((pa.string(),), 4)
KEYS = (("k", pa.string()),)
SCHEMA = StateSchema("t", KEYS, (), timers=(TimerColumn("idle"), TimerColumn("alarm")))
NOTHING = np.full(4, NO_TIMER, np.int64)


def put(table: HotTable, names: list[str], time: int, *, field: str = "idle", reached: Any = NOTHING) -> Any:
    rows = table.rows(CODEC.keys([pa.array(names)]))
    table.column(field)[rows] = time
    table.arm(rows, reached)
    return rows


def take(table: HotTable, bound: int, most: int = 1000) -> list[tuple[int, int, str]]:
    taken = table.take_timers(bound, most)
    for row, field in zip(taken.rows.tolist(), taken.fields.tolist(), strict=True):
        table.column(("idle", "alarm")[field])[row] = NO_TIMER
    names = CODEC.columns(table.keys_of(taken.rows))[0].to_pylist()
    return list(zip(taken.times.tolist(), taken.fields.tolist(), names, strict=True))


@pytest.mark.parametrize("alike", [3, 200])
def test_keys_with_equal_hashes_fire_in_the_order_of_their_bytes(alike: int) -> None:
    names = [f"{'b' * (i % 5)}{i}" for i in range(alike)]
    made = CODEC.keys([pa.array(names)])
    table = HotTable(SCHEMA)
    rows = table.rows(Keys(made.text, np.full(alike, 7 << 40, np.uint64), made.groups))
    for field in ("alarm", "idle"):
        table.column(field)[rows] = 5
    table.arm(rows, NOTHING)
    assert [(name, field) for _, field, name in take(table, 5)] == [(n, f) for f in (0, 1) for n in sorted(names)]


def test_a_time_that_is_reached_counts_as_the_microsecond_after_it() -> None:
    table = HotTable(SCHEMA)
    reached = np.full(4, 100, np.int64)
    put(table, ["a"], 100, reached=reached)
    put(table, ["b"], -5, reached=reached)
    put(table, ["c"], 101, reached=reached)
    assert [time for time, _, _ in take(table, 1000)] == [101, 101, 101]


def test_a_timer_that_is_set_at_the_end_of_time_is_cleared() -> None:
    table = HotTable(SCHEMA)
    rows = put(table, ["a"], 100, reached=np.full(4, NEVER, np.int64))
    assert table.column("idle")[rows].tolist() == [NO_TIMER]
    assert (table.next_timer(), take(table, NEVER)) == (NEVER, [])


def test_a_later_time_costs_no_entry_and_a_cleared_timer_never_fires() -> None:
    table = HotTable(SCHEMA)
    for time in range(10, 1000):
        put(table, ["a", "b"], time)
    queue = table._timers[TimeKind.EVENT]
    assert queue._counters[timers.ENTRIES] == 2
    table.column("idle")[put(table, ["b"], 500)] = NO_TIMER
    assert (table.next_timer(), take(table, 998), take(table, 999)) == (999, [], [(999, 0, "a")])
    assert table.next_timer() == NEVER


def test_a_row_that_another_key_has_taken_over_fires_nothing_of_the_old_key() -> None:
    table = HotTable(SCHEMA)
    rows = put(table, ["a"], 10)
    table.release(rows)
    assert put(table, ["b"], 20).tolist() == rows.tolist(), "the number is used again"
    assert (table.next_timer(), take(table, 15), take(table, 25)) == (20, [], [(20, 0, "b")])


def test_stale_entries_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.keyed_state.timer_queue.STALE_MIN", 10)
    table = HotTable(SCHEMA)
    for time in range(1000, 0, -1):  # each entry is earlier than the one before
        put(table, ["a", "b", "c"], time)
    assert table._timers[TimeKind.EVENT]._counters[timers.ENTRIES] < 40
    fired = take(table, 1000)
    assert [time for time, _, _ in fired] == [1, 1, 1]
    assert sorted(name for _, _, name in fired) == ["a", "b", "c"]
    assert table.next_timer() == NEVER


def test_a_table_that_outgrows_its_reservation_keeps_its_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "ROWS_RESERVED", 8)
    table = HotTable(SCHEMA)
    names = [f"k{i}" for i in range(100)]
    for i, name in enumerate(names):
        put(table, [name], 1000 - i)
        put(table, [name], 2000 - i, field="alarm")
    fired = take(table, 3000)
    assert [time for time, _, _ in fired] == [*range(901, 1001), *range(1901, 2001)]
    assert [name for _, _, name in fired] == [*reversed(names), *reversed(names)]


def test_a_timer_that_has_fired_is_in_the_next_cut() -> None:
    """Without it a restore brings the timer back, and the timer fires a second time."""
    table = HotTable(SCHEMA)
    put(table, ["a", "b", "c"], 10)
    generation, _ = table.cut()
    table.settle(generation)
    assert [name for _, _, name in take(table, 10, 1)] == ["a"]
    _, cut = table.cut(all_here=False)
    while not table.copy_on():
        pass
    copied = joined(list(cut.parts()))
    assert CODEC.columns(copied.keys)[0].to_pylist() == ["a"]
    assert copied.values["idle"].tolist() == [NO_TIMER]


def test_the_description_of_a_state_without_timers_is_what_it_was() -> None:
    plain = described(StateSchema("s", KEYS, (Value("n", "int64"),), timed=True), 4)
    assert plain == (
        b'{"format": 1, "keys": [["k", "string"]], "max_key_groups": 4, "state": "s", "timed": true, '
        b'"values": [["n", "int64", 1], ["end", "int64", 1]]}'
    )


def test_a_ttl_may_change_and_its_column_stays() -> None:
    described_as = {described(StateSchema("s", KEYS, (), ttl=Ttl(us, kind)), 4) for us in (1, 2) for kind in TimeKind}
    assert len(described_as) == 1
