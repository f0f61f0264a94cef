"""Lookups against plain Python: any order of answers, servers that are away, cuts, and key groups that move.

A cut may find any query unanswered.
"""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import StorageError
from penstock.contract.asynchronous import Cache
from penstock.contract.graph import LookupHow
from penstock.steps.base import BOUND_COLUMN
from tests.support.asking_tasks import BEFORE_ALL, GROUPS
from tests.support.lookup_tasks import ADDED, LookupTasks, Shop, row_of, rows

SOLD = "abcd"
ITEMS = st.lists(st.sampled_from([*SOLD, "gone", None]), min_size=1, max_size=8)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), ITEMS),
        st.tuples(st.just("rows"), ITEMS),
        st.tuples(st.just("answer"), st.integers(0, 50)),
        st.tuples(st.just("answer"), st.integers(0, 50)),
        st.tuples(st.just("away"), st.integers(1, 3)),
        st.tuples(st.just("watermark"), st.integers(0, 100)),
        st.tuples(st.just("move"), st.integers(0, GROUPS - 1)),
        st.tuples(st.just("restore"), st.integers(1, 3)),
    ),
    max_size=30,
)
CACHES = (None, Cache(1), Cache(3), Cache(100, 60_000_000))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(LookupHow),
    st.sampled_from(CACHES),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    ACTIONS,
)
def test_each_row_leaves_once_with_its_row_of_the_table(
    how: LookupHow, cache: Cache | None, sizes: tuple[int, int], todo: list[Any]
) -> None:
    shop, heard = Shop(*SOLD), BEFORE_ALL
    items: list[str | None] = []
    came: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        tasks = LookupTasks(shop, Path(folder), 2, how=how, cache=cache, capacity=sizes[0], batch=sizes[1])
        for action, value in todo:
            before = len(tasks.main)
            match action:
                case "rows":
                    came += [heard] * len(value)
                    tasks.push(rows(value, len(items)))
                    items += value
                case "answer":
                    if calls := tasks.calls.open:
                        tasks.answer(value % len(calls))
                case "away":
                    shop.errors.extend([StorageError("away")] * value)
                    shop.refusals.extend([StorageError("away")] * (value - 1))
                case "watermark":
                    heard = max(heard, value)
                    tasks.watermark(heard)
                case "move":
                    tasks.move_group(value)
                case "restore":
                    tasks.restore(value)
                    tasks.watermark(heard)
            for left in tasks.main[before:]:
                assert all(tasks.said <= came[n] for n in left.column("n").to_pylist()), "its time was said before"
        tasks.answer_all()
        _check(tasks.rows(), items, how)
        assert all(task.step.on_watermark(1000) == 1000 for task in tasks.tasks), "no row waits"
        assert tasks.live_rows() == 0
        tasks.close()


def _check(found: list[dict[str, Any]], items: list[str | None], how: LookupHow) -> None:
    wanted: Counter[Any] = Counter()
    for n, item in enumerate(items):
        sold = item is not None and item in SOLD
        row = row_of(item) if sold and item is not None else dict.fromkeys(ADDED.names)
        if sold or how is LookupHow.LEFT:
            wanted[n, item, row["price"], str(row["tags"]), n] += 1
    assert Counter((r["n"], r["item"], r["price"], str(r["tags"]), r[BOUND_COLUMN]) for r in found) == wanted
    for item in SOLD:
        numbers = [row["n"] for row in found if row["item"] == item]
        assert numbers == sorted(numbers), "rows of one key leave in their order"
