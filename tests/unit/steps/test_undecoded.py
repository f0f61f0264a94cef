"""What a source has read is divided into rows and dead letters: each record is in one of them."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.graph import DEAD_LETTER, MAIN
from penstock.steps.base import BOUND_FIELD, with_hidden
from penstock.steps.dead_letters import ERROR_FIELDS
from penstock.steps.undecoded import RECORD_FIELDS, UndecodedStep

ROWS = pa.schema([("n", pa.int64())])
LETTERS = pa.schema([("key", pa.binary()), ("value", pa.binary()), *ERROR_FIELDS])


def read(bad: list[bool], bounds: pa.Array | None) -> pa.RecordBatch:
    """Return what a source gives: record n is the row n, or has the value n."""
    texts = [str(n) if is_bad else None for n, is_bad in enumerate(bad)]
    bytes_ = pa.array([t and t.encode() for t in texts], pa.binary())
    numbers = pa.array([None if is_bad else n for n, is_bad in enumerate(bad)], pa.int64())
    places = pa.array([n if is_bad else None for n, is_bad in enumerate(bad)], pa.int64())
    hidden = [pa.array(texts, pa.string()), bytes_, bytes_, pa.array(texts, pa.string()), places]
    rows = pa.RecordBatch.from_arrays([numbers, *hidden], schema=pa.schema([*ROWS, *RECORD_FIELDS]))
    return with_hidden(rows, bounds)


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.booleans())
def test_each_record_is_a_row_or_a_dead_letter_in_order(bad: list[bool], timed: bool) -> None:
    step, out = UndecodedStep("orders", ROWS, LETTERS), dict[str, list[pa.RecordBatch]]({MAIN: [], DEAD_LETTER: []})
    parents = list[int | None]()

    def emit(batch: pa.RecordBatch) -> None:
        out[MAIN].append(batch)
        parents.extend(step.parent(row) for row in range(len(batch)))

    step.bind({MAIN: emit, DEAD_LETTER: out[DEAD_LETTER].append})
    step.on_batch(read(bad, pa.array(range(len(bad)), pa.int64()) if timed else None))
    good = [n for n, is_bad in enumerate(bad) if not is_bad]
    assert parents == [row["n"] for batch in out[MAIN] for row in batch.to_pylist()] == good
    letters = [row for batch in out[DEAD_LETTER] for row in batch.to_pylist()]
    assert [int(row["value"]) for row in letters] == [n for n, is_bad in enumerate(bad) if is_bad]
    assert all(row["key"] == row["value"] and row["error_offset"] == int(row["value"]) for row in letters)
    assert {(row["error_step"], row["error_source"]) for row in letters} <= {("orders", "orders")}
    assert step.counters() == {"dead_letters": len(letters)}
    for batch in (*out[MAIN], *out[DEAD_LETTER]):
        assert (BOUND_FIELD.name in batch.schema.names) is timed


def test_rows_without_hidden_columns_go_on_as_they_are() -> None:
    step, out = UndecodedStep("orders", ROWS, LETTERS), list[pa.RecordBatch]()
    step.bind({MAIN: out.append, DEAD_LETTER: out.append})
    step.on_batch(pa.record_batch({"n": [1, 2]}))
    assert [batch.to_pylist() for batch in out] == [[{"n": 1}, {"n": 2}]]
    assert step.parent(1) == 1
