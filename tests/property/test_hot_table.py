"""The hot table compared with a dict: values, deletes, deltas, aborted epochs, growth, lost groups."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.keyed_state import hot
from penstock.keyed_state.copies import joined
from penstock.keyed_state.hot import HotTable
from penstock.model.kernels import aggregate
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import Value
from penstock.steps.base import StateSchema

GROUPS = 8
CODEC = KeyCodec((pa.string(),), GROUPS)
SCHEMA = StateSchema("counts", (("word", pa.string()),), (Value("n", "int64"), Value("last", "bytes")))
KEYS = st.sampled_from([None, "", *(f"{'k' * (i % 19)}{i}" for i in range(60))])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "delete", "cut", "copy", "commit", "lose"]),
        st.lists(KEYS, max_size=25),
    ),
    max_size=25,
)


@dataclass
class Model:
    """A dict of counts, and what a reader of the committed files would see."""

    counts: dict[str | None, int] = field(default_factory=dict)
    files: dict[str | None, int] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)


def keys(words: list[str | None]) -> Any:
    return CODEC.keys([pa.array(words, pa.string())])


def group(word: str | None) -> int:
    return int(keys([word]).groups[0])


def add(table: HotTable, model: Model, words: list[str | None]) -> None:
    words = [w for w in words if group(w) not in model.lost]
    rows = table.rows(keys(words))
    after = np.empty(len(words), np.int64)
    aggregate.count_rows(rows, (np.zeros(0, np.uint8), 0), table.column("n"), after)
    texts = pa.array([None if w is None else w.encode() * 3 for w in words], pa.binary())
    table.write_bytes("last", rows, texts)
    for word, count in zip(words, after.tolist(), strict=True):
        model.counts[word] = model.counts.get(word, 0) + 1
        assert count == model.counts[word]
    assert table.read_bytes("last", rows).to_pylist() == texts.to_pylist()


def delete(table: HotTable, model: Model, words: list[str | None]) -> None:
    known = sorted({w for w in words if w in model.counts}, key=str)
    table.delete(table.rows(keys(known)))
    for word in known:
        del model.counts[word]


def apply(files: dict[str | None, int], copied: Any) -> None:
    words = CODEC.columns(copied.keys)[0].to_pylist()
    counts = copied.values["n"].tolist()
    for word, count, deleted in zip(words, counts, copied.deleted.tolist(), strict=True):
        if deleted:
            files.pop(word, None)
        else:
            files[word] = count


def lose(table: HotTable, model: Model, lost: int) -> None:
    flags = np.zeros(GROUPS, np.uint8)
    flags[lost] = 1
    table.release(table.rows_of_groups(flags))
    model.lost.add(lost)
    for held in (model.counts, model.files):
        for word in [w for w in held if group(w) == lost]:
            del held[word]


class Cutting:
    """The cut that is being written, and what the table held at that moment."""

    def __init__(self, table: HotTable, model: Model) -> None:
        self.generation, self.rows = table.cut()
        self.counts = dict(model.counts)
        self.before = dict(model.files)

    def content(self, table: HotTable) -> dict[str | None, int]:
        while not table.copy_on():
            pass
        seen = {} if self.rows.whole else dict(self.before)
        apply(seen, joined(list(self.rows.parts())))
        assert seen == self.counts, "a cut holds all rows, or every change since the last commit"
        return seen


@given(STEPS, st.integers(1, 8))
def test_the_table_and_its_deltas_agree_with_a_dict(steps: Any, copied_at_once: int) -> None:
    table, model, cutting = HotTable(SCHEMA), Model(), None
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(hot, "COPIED_ROWS_MAX", copied_at_once)
        for step, words in steps:
            if step == "add":
                add(table, model, words)
            elif step == "delete":
                delete(table, model, words)
            elif step == "lose" and len(model.lost) < GROUPS - 2:
                lose(table, model, len(words) % GROUPS)
            elif step == "copy":
                table.copy_on()
            elif step == "cut":
                if cutting is not None:
                    cutting.content(table)  # its epoch is aborted
                cutting = Cutting(table, model)
            elif step == "commit" and cutting is not None:
                seen = cutting.content(table)
                model.files = {w: n for w, n in seen.items() if group(w) not in model.lost}
                table.settle(cutting.generation)
                cutting = None
        last = Cutting(table, model)
        last.content(table)
        table.settle(last.generation)
    assert table.changed == 0
    assert table.used == len(model.counts)


@given(st.integers(1, 5), st.integers(0, 2**32))
@settings(max_examples=10)
def test_growing_a_little_at_a_time_loses_nothing(batches: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    table = HotTable(SCHEMA)
    rows_of: dict[int, int] = {}
    for _ in range(batches * 4):
        numbers = random.integers(0, 6000, 700).tolist()
        rows = table.rows(keys([f"key {n}" for n in numbers])).tolist()
        for number, row in zip(numbers, rows, strict=True):
            assert rows_of.setdefault(number, row) == row
    assert table.used == len(rows_of) == len(set(rows_of.values()))
