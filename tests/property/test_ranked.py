"""The best rows of keys against sorted lists: any order of the rows gives the same ones, through moves of the state."""

import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.graph import OP
from penstock.steps.keyed import KeyColumns, order_words
from penstock.steps.ranked import DELETE, UPSERT, RankedStep, Ranking
from tests.support.window_tasks import NAME, PLAIN, Tasks, batch, kept

FLOATS = st.sampled_from([0.0, -0.0, 1.5, -3.0, float("inf"), float("-inf"), float("nan")])
ROW = st.tuples(st.none() | st.integers(0, 2), st.integers(0, 20), st.none() | FLOATS, st.none() | st.integers(-9, 9))
ROWS = st.lists(ROW, max_size=40)
RANKING = st.builds(
    Ranking, st.sampled_from(["value", "whole", "big", "ts", "mote"]), st.sampled_from([1, 3, 50]), st.just(True)
)
CHANGES = pa.schema([pa.field(OP, pa.string()), *PLAIN])


def table_of(ranking: Ranking, rows: list[Any], seed: int) -> Counter[str]:
    """Push the rows in some order and batches; return the table that the changes make."""
    random = np.random.default_rng(seed)

    def step(keys: KeyColumns) -> RankedStep:
        return RankedStep(NAME, ranking, keys, (PLAIN, CHANGES))

    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(step, Path(folder))
        mixed = [rows[i] for i in random.permutation(len(rows))]
        while mixed:
            size = int(random.integers(1, 9))
            tasks.push(batch(mixed[:size], [0] * len(mixed[:size])))
            mixed = mixed[size:]
            if not random.integers(3):
                tasks.rescale(int(random.integers(1, 4)), 0)
        table: Counter[str] = Counter()
        for each in tasks.main:
            for row in each.drop_columns([each.schema.names[-1]]).to_pylist():
                op = row.pop(OP)
                assert op in (UPSERT, DELETE)
                table[str(row)] += 1 if op == UPSERT else -1
                assert table[str(row)] >= 0, "no row leaves that is not there"
        table = +table
        assert table == Counter(map(str, kept(tasks))), "the changes make what is kept"
        for task in tasks.tasks:
            task.state.close()
        return table


@given(RANKING, ROWS, st.integers(0, 99))
def test_the_best_rows_are_kept_whatever_their_order(ranking: Ranking, rows: list[Any], seed: int) -> None:
    table = table_of(ranking, rows, seed)
    assert table == table_of(ranking, rows, seed + 1000)
    given_rows = batch(rows, [0] * len(rows)) if rows else batch([(0, 0, 0.0, 0)], [0]).slice(0, 0)
    column = given_rows.column(ranking.by)
    words = [w if v else None for w, v in zip(order_words(column).tolist(), column.is_valid().to_pylist(), strict=True)]
    by_row: dict[str, Any] = {}
    of_key: dict[Any, list[Any]] = {}
    for row, word in zip(given_rows.select(PLAIN.names).to_pylist(), words, strict=True):
        by_row[str(row)] = (row["mote"], word)
        of_key.setdefault(row["mote"], []).append(word)
    best = Counter(
        (key, word)
        for key, of_this in of_key.items()
        for word in sorted(of_this, key=lambda w: (w is not None, w or 0), reverse=True)[: ranking.most]
    )
    found: Counter[Any] = Counter()
    for text, times in table.items():
        found[by_row[text]] += times
    assert found == best


@given(st.lists(st.floats(), min_size=2, max_size=20))
def test_numbers_to_rank_by_have_the_order_of_floats(values: list[float]) -> None:
    words = order_words(pa.array(values, pa.float64())).tolist()
    for one, word in zip(values, words, strict=True):
        for other, of_other in zip(values, words, strict=True):
            key, of_other_key = (math.isnan(one), one), (math.isnan(other), other)
            if key[0] and of_other_key[0]:
                assert word == of_other
            else:
                assert (word < of_other, word == of_other) == (key < of_other_key, key == of_other_key)


def test_the_latest_row_is_emitted_when_it_changes_and_never_deleted() -> None:
    def step(keys: KeyColumns) -> RankedStep:
        return RankedStep(NAME, Ranking("ts", 1, leaving=False), keys, (PLAIN, CHANGES))

    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(step, Path(folder))
        tasks.push(batch([(1, 5, 1.0, 1), (1, 3, 2.0, 2), (1, 5, 1.0, 1), (2, 0, None, 3), (1, 6, None, 4)], [0] * 5))
        rows = [(r[OP], r["mote"], r["whole"]) for each in tasks.main for r in each.to_pylist()]
        assert sorted(rows) == [(UPSERT, 1, 1), (UPSERT, 1, 4), (UPSERT, 2, 3)]
        for task in tasks.tasks:
            task.state.close()
