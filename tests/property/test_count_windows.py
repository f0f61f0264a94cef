"""Windows of a number of rows against a naive model that cuts the rows of each key, through moves of the state."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.steps.keyed import Aggregates
from penstock.steps.windows.counted import CountStep
from tests.support.window_tasks import (
    COMPUTE,
    NAME,
    OUTPUT,
    PLAIN,
    ROW,
    Tasks,
    all_deleted,
    batch,
    computed,
    kept,
    plain,
)  # fmt: skip

COUNTED = pa.schema([OUTPUT.field(0), *list(OUTPUT)[3:]])
TURNS = st.lists(st.tuples(st.lists(ROW, max_size=20), st.sampled_from([0, 0, 2, 3])), min_size=1, max_size=8)


def stepped(size: int) -> Any:
    return lambda keys: CountStep(NAME, size, Aggregates(NAME, COMPUTE, PLAIN), keys, COUNTED, timed=True)


def values(rows: list[Any]) -> tuple[Any, ...]:
    *others, _ = computed([(ts, value, whole) for _, ts, value, whole in rows], 1)
    return *others, rows[-1][1]


@given(TURNS, st.integers(1, 7))
def test_windows_of_rows_agree_with_a_naive_model(turns: Any, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(stepped(size), Path(folder))
        by_key: dict[Any, list[Any]] = defaultdict(list)
        for rows, workers in turns:
            if rows:
                tasks.push(batch(rows, [-(10**6)] * len(rows)))
            for row in rows:
                by_key[row[0]].append(row)
            tasks.watermark(100)
            full = [
                (mote, *values(of_key[at : at + size]))
                for mote, of_key in by_key.items()
                for at in range(0, len(of_key) - size + 1, size)
            ]
            assert sorted(plain(tasks.main), key=str) == sorted(full, key=str)
            begun = sum(len(of_key) % size > 0 for of_key in by_key.values())
            assert len(kept(tasks)) == begun, "a key whose windows are full keeps nothing"
            if workers:
                tasks.rescale(workers, 100)
        tasks.watermark(2**63 - 1)
        every = [
            (mote, *values(of_key[at : at + size]))
            for mote, of_key in by_key.items()
            for at in range(0, len(of_key), size)
        ]
        assert sorted(plain(tasks.main), key=str) == sorted(every, key=str)
        assert all(task.state.keys == 0 or all_deleted(task) for task in tasks.tasks)
        for task in tasks.tasks:
            task.state.close()


def test_windows_emit_in_the_order_of_their_last_rows(tmp_path: Path) -> None:
    tasks = Tasks(stepped(2), tmp_path)
    tasks.tasks[1:] = []
    tasks.tasks[0].step.on_batch(batch([(m, 1, 1, 1) for m in (1, 2, 3, 2, 1, 2, 2, 3)], [0] * 8))
    assert [row[0] for row in plain(tasks.main)] == [2, 1, 2, 3]


def test_a_batch_of_one_key_fills_many_windows(tmp_path: Path) -> None:
    tasks = Tasks(stepped(1), tmp_path)
    tasks.push(batch([(1, ts, ts, 1) for ts in range(1000)], [0] * 1000))
    assert [row[3] for row in plain(tasks.main)] == [float(ts) for ts in range(1000)]
    assert kept(tasks) == []
