"""Composing steps: order, side outputs, what is counted, and a stage without steps."""

import pyarrow as pa

from penstock.contract.graph import Call, OnError
from penstock.steps.chain import Chain, Wired
from penstock.steps.stateless import Filter, Map

SCHEMA = pa.schema([("n", pa.int64())])
BATCH = pa.record_batch({"n": [1, 2, 3]})


def refuse_two(batch: pa.RecordBatch) -> pa.RecordBatch:
    if 2 in batch.column("n").to_pylist():
        raise ValueError("two")
    return batch


def test_rows_go_through_steps_to_edges_and_side_outputs() -> None:
    out: list[pa.RecordBatch] = []
    dead: list[pa.RecordBatch] = []
    check = Map("check", Call("f", on_error=OnError.DEAD_LETTER), refuse_two, SCHEMA)
    keep = Filter("keep", Call("f"), lambda b: [n > 1 for n in b.column("n").to_pylist()])
    chain = Chain(
        [
            Wired(check, {"main": (1,)}, {"dead-letter": (dead.append,)}),
            Wired(keep, {}, {"main": (out.append,)}),
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


def test_a_stage_without_steps_hands_rows_on() -> None:
    out: list[pa.RecordBatch] = []
    chain = Chain([], entry=[], outside=[out.append])
    chain.on_batch(BATCH)
    chain.on_watermark(5)
    assert out == [BATCH]
