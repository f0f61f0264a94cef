"""The lookup alone: what it asks a table for, what it remembers, which rows leave, and what a checkpoint has."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.contract.asynchronous import Cache
from penstock.contract.graph import LookupHow
from penstock.steps.base import BOUND_COLUMN
from tests.support.asking_tasks import GROUPS
from tests.support.lookup_tasks import ADDED, HOME, LookupTasks, Shop, row_of, rows

REMEMBER = Cache(100, 60_000_000)
AWAY = StorageError("no connection to shop")


def asked_items(shop: Shop) -> list[list[str]]:
    return [[item for item, _ in query] for query in shop.asked]


# --- Queries --------------------------------------------------------------------------------------


def test_a_query_asks_once_for_each_key_of_a_batch_of_rows(tmp_path: Path) -> None:
    shop = Shop("a", "b", "c")
    tasks = LookupTasks(shop, tmp_path, batch=3)
    tasks.push(rows(["a", "b", "a", "c", "c"]))
    tasks.answer_all()
    assert asked_items(shop) == [["a", "b"], ["c"]]
    assert tasks.numbers() == [0, 1, 2, 3, 4]
    tasks.close()


def test_as_many_queries_are_made_at_once_as_the_capacity_says(tmp_path: Path) -> None:
    shop = Shop("a", "b", "c")
    tasks = LookupTasks(shop, tmp_path, batch=1, capacity=2)
    tasks.push(rows(["a"]))
    assert not tasks.step.full
    tasks.push(rows(["b", "c"], 1))
    assert (len(tasks.calls.open), tasks.step.full) == (2, True)
    tasks.answer(1)
    assert tasks.numbers() == [1]
    assert len(tasks.calls.open) == 2, "the answer made room for the next query"
    tasks.answer_all()
    assert asked_items(shop) == [["b"], ["a"], ["c"]]
    assert tasks.step.waiting == tasks.live_rows() == 0
    tasks.close()


def test_rows_leave_with_all_values_of_their_row_and_their_bound(tmp_path: Path) -> None:
    items = ["a", "b", "gone", "c", "d", None]
    shop = Shop("a", "b", "c", "d")
    tasks = LookupTasks(shop, tmp_path)
    tasks.push(rows(items))
    tasks.answer_all()
    none: dict[str, Any] = dict.fromkeys(ADDED.names)
    found = {batch["n"][row].as_py(): batch.slice(row, 1) for batch in tasks.main for row in range(batch.num_rows)}
    for n, item in enumerate(items):
        due = none if item in ("gone", None) else row_of(str(item))
        assert found[n].select(ADDED.names).equals(pa.RecordBatch.from_pylist([due], ADDED))
        assert (found[n]["item"][0].as_py(), found[n][BOUND_COLUMN][0].as_py()) == (item, n)
    tasks.close()


def test_of_an_inner_lookup_only_rows_leave_that_have_a_row_of_the_table(tmp_path: Path) -> None:
    for cache in (None, REMEMBER):
        shop = Shop("a", "b")
        tasks = LookupTasks(shop, tmp_path, how=LookupHow.INNER, cache=cache)
        tasks.push(rows(["gone", "a", None, "b", "gone"]))
        tasks.answer_all()
        tasks.push(rows(["gone", "a", None], 5))
        tasks.answer_all()
        assert tasks.numbers() == [1, 3, 6]
        assert tasks.step.waiting == tasks.live_rows() == 0, "the others are gone, too"
        tasks.close()


def test_a_key_with_a_null_has_no_row_and_is_not_asked_for(tmp_path: Path) -> None:
    shop = Shop("a")
    tasks = LookupTasks(shop, tmp_path)
    tasks.push(rows([None, "a"]))
    tasks.push(rows(["a", None], 2, city=None))
    assert tasks.numbers() == [0, 2, 3], "they need not wait"
    tasks.answer_all()
    assert shop.asked == [[("a", HOME)]]
    assert [row["tags"] for row in tasks.rows()] == [None, None, None, ["a", None]]
    tasks.close()


def test_a_table_with_several_rows_of_a_key_is_told_with_the_key(tmp_path: Path) -> None:
    shop = Shop("a", "b")
    shop.rows["b", HOME] *= 2
    tasks = LookupTasks(shop, tmp_path)
    tasks.push(rows(["a", "b"]))
    with pytest.raises(
        StateError, match="step 'prices': the table has several rows with sku = 'b', town = 'here': nam"
    ):
        tasks.answer()
    tasks.close()


# --- What is remembered ---------------------------------------------------------------------------


def test_a_row_whose_answer_is_remembered_leaves_at_once_and_is_not_stored(tmp_path: Path) -> None:
    shop = Shop("a")
    tasks = LookupTasks(shop, tmp_path, cache=REMEMBER)
    tasks.push(rows(["a", "gone"]))
    tasks.answer_all()
    tasks.push(rows(["gone", "a", "new"], 2))
    assert tasks.numbers() == [0, 1, 2, 3]
    assert tasks.live_rows() == tasks.step.waiting == 1
    tasks.answer_all()
    assert asked_items(shop) == [["a", "gone"], ["new"]], "that there is no row is remembered, too"
    assert [row["price"] for row in tasks.rows()] == [ord("a"), None, None, ord("a"), None]
    tasks.close()


def test_without_a_cache_each_batch_of_rows_is_asked_for(tmp_path: Path) -> None:
    shop = Shop("a")
    tasks = LookupTasks(shop, tmp_path)
    for number in range(3):
        tasks.push(rows(["a"], number))
        tasks.answer_all()
    assert asked_items(shop) == [["a"]] * 3
    tasks.close()


def test_a_row_that_waits_for_its_query_takes_an_answer_that_comes_before(tmp_path: Path) -> None:
    shop = Shop("a", "b")
    tasks = LookupTasks(shop, tmp_path, capacity=1, batch=2, cache=REMEMBER)
    tasks.push(rows(["a", "a", "a", "b", "a", "a"]))
    tasks.answer()
    assert tasks.numbers() == [0, 1, 2]
    tasks.answer_all()
    assert asked_items(shop) == [["a"], ["b"]]
    assert tasks.numbers() == [0, 1, 2, 3, 4, 5]
    tasks.close()


def test_rows_of_a_key_leave_in_their_order_though_the_answer_of_a_later_one_is_known(tmp_path: Path) -> None:
    shop = Shop("a")
    tasks = LookupTasks(shop, tmp_path, capacity=2, batch=1, cache=REMEMBER)
    tasks.push(rows(["a", "a"]))
    tasks.answer(1)
    tasks.push(rows(["a", "a"], 2))
    assert tasks.numbers() == [], "the first row of the key has no answer yet"
    tasks.answer(0)
    assert tasks.numbers() == [0, 1, 2, 3]
    assert asked_items(shop) == [["a"], ["a"]]
    tasks.close()


@pytest.mark.parametrize(("older_s", "queries"), [(59.0, 1), (61.0, 2)])
def test_an_answer_is_as_old_as_its_query_and_is_forgotten_with_its_time(
    tmp_path: Path, older_s: float, queries: int
) -> None:
    shop = Shop("a")
    tasks = LookupTasks(shop, tmp_path, cache=REMEMBER)
    tasks.push(rows(["a"]))
    tasks.answer(older_s=older_s)
    shop.rows.clear()
    tasks.push(rows(["a"], 1))
    tasks.answer_all()
    assert asked_items(shop) == [["a"]] * queries
    gone = queries == 2
    assert [row["tags"] for row in tasks.rows()] == [["a", None], None if gone else ["a", None]]
    tasks.close()


def test_an_older_answer_does_not_take_the_place_of_a_newer_one(tmp_path: Path) -> None:
    shop = Shop("a")
    tasks = LookupTasks(shop, tmp_path, capacity=2, batch=1, cache=REMEMBER)
    tasks.push(rows(["a", "a"]))
    shop.rows["a", HOME] = [{**row_of("a"), "price": 2}]
    tasks.answer(1)
    shop.rows["a", HOME] = [{**row_of("a"), "price": 1}]
    tasks.answer(older_s=30.0)  # it was made first
    tasks.push(rows(["a"], 2))
    assert [row["price"] for row in tasks.rows()] == [1, 2, 2]
    tasks.close()


def test_the_answer_that_was_not_used_for_longest_makes_room(tmp_path: Path) -> None:
    shop = Shop("a", "b", "c")
    tasks = LookupTasks(shop, tmp_path, cache=Cache(2))
    for number, item in enumerate(("a", "b", "a", "c", "a", "b", "b", "c")):
        tasks.push(rows([item], number))
        tasks.answer_all()
    assert asked_items(shop) == [["a"], ["b"], ["c"], ["b"], ["c"]]
    tasks.close()


# --- Rows that wait -------------------------------------------------------------------------------


def test_a_step_waits_until_the_table_has_been_looked_at(tmp_path: Path) -> None:
    tasks = LookupTasks(Shop(), tmp_path, ready=False)
    assert tasks.step.waiting == 1
    tasks.answer()
    assert tasks.step.waiting == 0
    tasks.close()


def test_no_time_is_told_up_to_which_rows_wait(tmp_path: Path) -> None:
    tasks = LookupTasks(Shop("a", "b"), tmp_path, batch=1)
    tasks.watermark(10)
    tasks.push(rows(["a"]))
    tasks.watermark(20)
    tasks.push(rows(["b"], 1))
    tasks.watermark(30)
    assert tasks.said == 10
    tasks.answer(0)
    tasks.watermark(30)
    assert tasks.said == 20
    tasks.answer(0)
    tasks.watermark(30)
    assert tasks.said == 30
    tasks.close()


def test_a_checkpoint_has_the_rows_that_wait_and_a_restore_asks_for_them_once_more(tmp_path: Path) -> None:
    shop = Shop("a", "b")
    tasks = LookupTasks(shop, tmp_path, tasks=2, batch=2, cache=REMEMBER)
    tasks.push(rows(["a", "b", "a", "gone", "b", "a", "a", "b"]))
    tasks.answer(0)
    left = tasks.numbers()
    assert 0 < len(left) < 8
    for workers in (3, 1):
        tasks.restore(workers)
        assert tasks.live_rows() == 8 - len(left)
        tasks.look()
    tasks.push(rows(["a", "b"], 8))
    tasks.answer_all()
    assert sorted(tasks.numbers()) == list(range(10))
    for item in "ab":
        numbers = [row["n"] for row in tasks.rows() if row["item"] == item]
        assert numbers == sorted(numbers), "rows of one key leave in their order"
    assert tasks.live_rows() == tasks.step.waiting == 0
    tasks.close()


def test_the_state_shows_the_rows_that_wait_and_counters_count_them(tmp_path: Path) -> None:
    tasks = LookupTasks(Shop("a"), tmp_path)
    tasks.push(rows(["a", "b"]))
    shown = tasks.step.contents(tasks.tasks[0].state.live_rows("prices"))
    assert shown.schema.names == ["item", "city", "n"]
    assert sorted(map(tuple, (row.values() for row in shown.to_pylist()))) == [("a", HOME, 0), ("b", HOME, 1)]
    assert tasks.step.counters() == {"keys": 2}
    tasks.close()


# --- Key groups that move -------------------------------------------------------------------------


def test_rows_of_groups_that_move_leave_at_their_new_task_alone_and_the_others_by_the_old_query(tmp_path: Path) -> None:
    shop = Shop(*"abcdefgh")
    tasks = LookupTasks(shop, tmp_path, tasks=2, capacity=1, batch=100)
    tasks.push(rows(list("abcdefgh")))
    old, new = tasks.tasks
    (share,) = old.share
    assert len(old.step.contents(old.state.live_rows("prices"))) > 1
    moved = [group for group in range(share.start, share.stop) if group % 2]
    for group in moved:
        tasks.move_group(group)
    assert len(tasks.calls.open) == 2, "of the new task all that its capacity allows"
    waits = {task: task.step.waiting for task in tasks.tasks}
    assert sum(waits.values()) == tasks.live_rows() == 8
    tasks.answer(0)
    assert len(tasks.numbers()) == 8 - waits[new], "what stayed"
    tasks.answer_all()
    assert sorted(tasks.numbers()) == list(range(8))
    assert tasks.live_rows() == 0
    tasks.close()


def test_groups_that_come_back_before_the_first_query_is_answered_are_asked_for_again(tmp_path: Path) -> None:
    shop = Shop("a")
    tasks = LookupTasks(shop, tmp_path, tasks=2, batch=1, cache=REMEMBER)
    tasks.push(rows(["a"]))
    for _ in range(2):
        for group in range(GROUPS):
            tasks.move_group(group)
    assert len(tasks.calls.open) == 3, "of the first owner, of the other one, and of the first owner again"
    tasks.answer(0)
    assert tasks.numbers() == [], "its row is another one now"
    tasks.answer_all()
    assert tasks.numbers() == [0]
    tasks.push(rows(["a"], 1))
    assert tasks.numbers() == [0, 1], "what the first query has found is remembered"
    tasks.close()


def test_several_rows_are_told_of_a_key_that_has_moved_meanwhile(tmp_path: Path) -> None:
    shop = Shop("a")
    shop.rows["a", HOME] *= 2
    tasks = LookupTasks(shop, tmp_path, tasks=2)
    tasks.push(rows(["a"]))
    for group in range(GROUPS):
        tasks.move_group(group)
    with pytest.raises(StateError, match="the table has several rows with sku = 'a'"):
        tasks.answer(0)
    tasks.close()


# --- Servers that are away ------------------------------------------------------------------------


def test_rows_wait_while_the_server_is_away_and_leave_once(tmp_path: Path) -> None:
    shop = Shop("a")
    shop.refusals.extend([AWAY] * 3)
    tasks = LookupTasks(shop, tmp_path)
    tasks.push(rows(["a", "b"]))
    shop.errors.extend([AWAY] * 8)
    shop.refusals.extend([AWAY] * 2)
    tasks.answer_all()
    assert tasks.numbers() == [0, 1]
    assert not shop.errors
    assert not shop.refusals
    assert len(shop.open) == 1, "connections that were lost are closed"
    assert tasks.step.waits is None
    tasks.close()
    assert not shop.open


def test_a_table_that_is_not_as_declared_at_the_start_ends_the_step(tmp_path: Path) -> None:
    shop = Shop()
    shop.refusals.append(ConfigError("column 'price' is text"))
    tasks = LookupTasks(shop, tmp_path, ready=False)
    with pytest.raises(ConfigError, match="column 'price' is text"):
        tasks.answer()
    tasks.close()


def test_a_table_that_is_made_anew_later_is_waited_for(tmp_path: Path) -> None:
    shop = Shop("a")
    tasks = LookupTasks(shop, tmp_path)
    tasks.push(rows(["a"]))
    shop.errors.append(AWAY)
    shop.refusals.extend([ConfigError("there is none"), ConfigError("a right is missing")])
    tasks.answer()
    assert tasks.numbers() == [0]
    tasks.close()


def test_a_value_that_cannot_be_read_ends_the_step_and_the_row_stays_in_the_state(tmp_path: Path) -> None:
    shop = Shop("a")
    tasks = LookupTasks(shop, tmp_path)
    tasks.push(rows(["a"]))
    shop.errors.append(StateError("a value cannot be read"))
    with pytest.raises(StateError, match="a value cannot be read"):
        tasks.answer()
    assert not shop.open
    assert tasks.live_rows() == 1
    tasks.close()
