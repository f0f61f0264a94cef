"""Chains of steps: order, side outputs, counters, and a stage without steps."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.base.errors import UserCodeError
from penstock.contract.graph import Call, OnError, Per
from penstock.steps.base import Emit, Step
from penstock.steps.chain import Chain, WiredStep
from penstock.steps.stateless import FilterStep, FlatMapStep, MapStep, SplitStep

SCHEMA = pa.schema([("n", pa.int64())])
BATCH = pa.record_batch({"n": [1, 2, 3]})


def refuse_two(batch: pa.RecordBatch) -> pa.RecordBatch:
    if 2 in batch.column("n").to_pylist():
        raise ValueError("two")
    return batch


def test_rows_go_through_steps_to_edges_and_side_outputs() -> None:
    out: list[pa.RecordBatch] = []
    dead: list[pa.RecordBatch] = []
    check = MapStep("check", Call("f", on_error=OnError.DEAD_LETTER), refuse_two, SCHEMA)
    keep = FilterStep("keep", Call("f"), lambda b: [n > 1 for n in b.column("n").to_pylist()])
    chain = Chain(
        [
            WiredStep(check, {"main": (1,)}, {"dead-letter": (dead.append,)}),
            WiredStep(keep, {}, {"main": (out.append,)}),
        ],
        entry=[0],
        outside=[],
    )
    chain.on_batch(BATCH)
    assert [n for b in out for n in b.column("n").to_pylist()] == [3]
    assert [b.column("n").to_pylist() for b in dead] == [[2]]
    assert chain.counters() == {
        "check": {"rows_in": 3, "rows_out": 2, "dead_letters": 1},
        "keep": {"rows_in": 2, "rows_out": 1, "dead_letters": 0},
    }


def twice(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"n": [n for n in batch.column("n").to_pylist() for _ in range(2)]})


def words_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"n": record["n"]}] * record["n"]


def trail(*steps: Step) -> tuple[Chain, list[pa.RecordBatch]]:
    """Chain steps after a source whose newest batch began at offset 100. Returns the dead letters."""
    dead: list[pa.RecordBatch] = []
    outer = {"main": (lambda _: None,), "dead-letter": (dead.append,)}
    last = len(steps) - 1
    wired = [
        WiredStep(step, {"main": (i + 1,)} if i < last else {}, outer if i == last else {})
        for i, step in enumerate(steps)
    ]
    chain = Chain(wired, entry=[0], outside=[])
    chain.read_by(lambda: ("numbers", "part-0", 100))
    return chain, dead


BEFORE: list[tuple[str, Step, int | None]] = [
    ("nothing but a map", MapStep("m", Call("f", batch_rows=1), lambda b: b, SCHEMA), 101),
    (
        "a filter",
        FilterStep("f", Call("f"), lambda b: [n > 1 for n in b.column("n").to_pylist()]),
        101,
    ),
    ("records", FlatMapStep("r", Call("f", per=Per.RECORD), words_of, SCHEMA), 101),
    ("batches of one", FlatMapStep("b", Call("f", batch_rows=1), twice, SCHEMA), 101),
    (
        "a batch that only its function understands",
        FlatMapStep("u", Call("f"), twice, SCHEMA),
        None,
    ),
]


@pytest.mark.parametrize(("name", "step", "offset"), BEFORE, ids=[b[0] for b in BEFORE])
def test_the_offset_of_a_refused_row_is_found(name: str, step: Step, offset: int | None) -> None:
    check = MapStep("check", Call("f", on_error=OnError.DEAD_LETTER), refuse_two, SCHEMA)
    chain, dead = trail(step, check)
    chain.on_batch(BATCH)
    found = {
        (r["error_step"], r["error_source"], r["error_partition"], r["error_offset"])
        for b in dead
        for r in b.to_pylist()
    }
    assert found == {("check", "numbers", "part-0", offset)}, name


def test_the_line_of_a_refused_word_is_found() -> None:
    words = pa.schema([("word", pa.string())])
    check = FlatMapStep("check", Call("f", per=Per.RECORD), lambda r: [{"n": int(r["word"])}], SCHEMA)
    chain, _ = trail(SplitStep("words", "line", words), check)
    with pytest.raises(UserCodeError) as raised:
        chain.on_batch(pa.record_batch({"line": ["1 2", "", "3", "4 five 6"]}))
    where = raised.value.where
    assert (where.source, where.partition, where.offset) == ("numbers", "part-0", 103)


def test_a_stage_without_steps_passes_rows_on() -> None:
    out: list[pa.RecordBatch] = []
    chain = Chain([], entry=[], outside=[out.append])
    chain.on_batch(BATCH)
    chain.on_watermark(5)
    assert out == [BATCH]


class Sides(FilterStep):
    """Notes which side each batch came from."""

    def __init__(self) -> None:
        super().__init__("both", Call("f"), lambda _: True)
        self.seen: list[tuple[str, list[int]]] = []

    def side(self, name: str) -> Emit:
        return lambda batch: self.seen.append((name, batch.column("n").to_pylist()))


def test_the_edge_that_brings_rows_says_on_which_side_they_are() -> None:
    step = Sides()
    chain = Chain([WiredStep(step, {}, {"main": ()})], entry=[0], outside=[], sides={3: "left", 4: "right", 5: "left"})
    for edge in (4, 3, 5):
        chain.entry(edge)(BATCH.slice(0, edge - 2))
    assert step.seen == [("right", [1, 2]), ("left", [1]), ("left", [1, 2, 3])]
    assert chain.counters()["both"]["rows_in"] == 6


def test_a_step_with_one_side_takes_the_rows_of_all_edges() -> None:
    out: list[pa.RecordBatch] = []
    chain = Chain([], entry=[], outside=[out.append])
    for edge in (0, 7):
        chain.entry(edge)(BATCH)
    assert [b.num_rows for b in out] == [3, 3]
