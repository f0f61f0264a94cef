"""Steps whose rows only ask for keys, of which not all fit in memory: they keep to the budget, too."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.contract.graph import LEFT, RIGHT
from penstock.keyed_state.copies import CutRows
from penstock.keyed_state.tiered import TieredTable
from penstock.steps.base import StateSchema
from penstock.steps.distinct import DistinctStep
from penstock.steps.joins.now_join import NowJoinStep
from penstock.steps.joins.pairs import PairBatches
from penstock.steps.joins.sides import untimed_side
from penstock.steps.keyed import KeyColumns

GROUPS = 16
KEYS, ASKED = 20_000, 500
BUDGET = 400_000  # a few thousand of the rows
ORDERS = pa.schema([("id", pa.int64()), ("item", pa.string())])
PRICES = pa.schema([("sku", pa.int64()), ("note", pa.string())])
JOINED = pa.schema([*ORDERS, ("note", pa.string())])


def test_rows_that_are_looked_up_leave_memory_again(tmp_path: Path) -> None:
    keys, table_keys = KeyColumns(ORDERS, ["id"], GROUPS), KeyColumns(PRICES, ["sku"], GROUPS)
    sides = untimed_side(0, keys, ORDERS, True), untimed_side(1, table_keys, PRICES, False)
    step = NowJoinStep("join", sides, PairBatches(sides, JOINED), PRICES, timed=False)
    tables: list[TieredTable] = []

    def opened(schema: StateSchema) -> TieredTable:
        tables.append(TieredTable(schema, BUDGET, lambda: tmp_path / "cold"))
        return tables[0]

    step.open(opened)
    found: list[Any] = []
    step.bind({"main": found.append})
    take, ask = step.side(RIGHT), step.side(LEFT)
    for first in range(0, KEYS, ASKED):
        take(batch(PRICES, first, "price"))
    (table,) = tables
    assert table.on_disk, "the budget was meant to be too small"
    most = 0
    for first in range(0, KEYS, ASKED):
        ask(batch(ORDERS, first, "item"))
        most = max(most, table.used)
    assert [note for rows in found for note in rows.column("note").to_pylist()] == [f"price {n}" for n in range(KEYS)]
    assert most < KEYS // 2
    table.close()


def test_the_next_checkpoint_has_no_rows_that_were_only_asked_for(tmp_path: Path) -> None:
    """Else a table that never changes would be stored anew with each checkpoint, as far as it is looked up."""
    tables: list[TieredTable] = []

    def opened(schema: StateSchema) -> TieredTable:
        tables.append(TieredTable(schema, BUDGET, lambda: tmp_path / "cold"))
        return tables[0]

    step = DistinctStep("once", KeyColumns(ORDERS, ["id"], GROUPS), None, None)
    step.open(opened)
    step.bind({"main": lambda _: None})
    for first in range(0, KEYS, ASKED):
        step.on_batch(batch(ORDERS, first, "item"))
    (table,) = tables
    assert table.on_disk, "the budget was meant to be too small"
    generation, rows = table.cut()
    assert cut_keys(table, rows) == set(range(KEYS))
    table.settle(generation)
    for first in range(0, KEYS, ASKED):  # all of them come from disk, and leave again
        step.on_batch(batch(ORDERS, first, "item"))
    changed = pa.RecordBatch.from_arrays([pa.array([KEYS, KEYS + 1]), pa.array(["", ""])], schema=ORDERS)
    step.on_batch(changed)
    step.on_batch(batch(ORDERS, 0, "item"))
    assert cut_keys(table, table.cut()[1]) == {KEYS, KEYS + 1}
    table.close()


def cut_keys(table: TieredTable, rows: CutRows) -> set[int]:
    """Return the keys of all rows that a cut has copied."""
    while not table.copy_on():
        pass
    codec = KeyColumns(ORDERS, ["id"], GROUPS).codec
    return {key for part in rows.parts() for key in codec.columns(part.keys)[0].to_pylist()}


def test_duplicates_leave_memory_again(tmp_path: Path) -> None:
    tables: list[TieredTable] = []

    def opened(schema: StateSchema) -> TieredTable:
        tables.append(TieredTable(schema, BUDGET, lambda: tmp_path / "cold"))
        return tables[0]

    step = DistinctStep("once", KeyColumns(ORDERS, ["id"], GROUPS), None, None)
    step.open(opened)
    found: list[Any] = []
    step.bind({"main": found.append})
    for first in range(0, KEYS, ASKED):
        step.on_batch(batch(ORDERS, first, "item"))
    (table,) = tables
    assert table.on_disk, "the budget was meant to be too small"
    most = 0
    for first in range(0, KEYS, ASKED):
        step.on_batch(batch(ORDERS, first, "item"))
        most = max(most, table.used)
    assert sum(rows.num_rows for rows in found) == KEYS
    assert most < KEYS // 2
    table.close()


def batch(schema: pa.Schema, first: int, text: str) -> pa.RecordBatch:
    numbers = range(first, first + ASKED)
    return pa.RecordBatch.from_arrays([pa.array(numbers), pa.array([f"{text} {n}" for n in numbers])], schema=schema)
