"""Rows of a table come back from what a step keeps of them, bit by bit."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.ports import Found
from penstock.steps.lookup.table_rows import NO_ROW, TableRows

MOST = 2**63 - 1
DAY_NS = 86_400_000_000_000
KINDS: list[tuple[pa.DataType, list[Any], pa.DataType | None]] = [
    *((pa.timestamp(unit), [-MOST, 0, MOST], pa.int64()) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("us", "UTC"), [-MOST, 0, MOST], pa.int64()),
    *((pa.duration(unit), [-MOST, 0, MOST], pa.int64()) for unit in ("s", "ns")),
    (pa.time64("ns"), [0, 1, DAY_NS - 1], pa.int64()),
    (pa.time32("ms"), [0, 1, DAY_NS // 1_000_000 - 1], pa.int32()),
    (pa.date32(), [-(2**31), 0, 2**31 - 1], pa.int32()),
    (pa.date64(), [0, 86_400_000], pa.int64()),
    (pa.int64(), [-MOST, 0, MOST], None),
    (pa.uint64(), [0, 2**64 - 1], None),
    (pa.float32(), [0.1, -0.0, float("inf")], None),
    (pa.string(), ["", "a"], None),
    (pa.bool_(), [True, False], None),
]


@pytest.mark.parametrize(("kind", "values", "stored"), KINDS, ids=[str(kind) for kind, *_ in KINDS])
def test_values_come_back_bit_by_bit_in_the_order_of_the_keys(
    kind: pa.DataType, values: list[Any], stored: pa.DataType | None
) -> None:
    array = pa.array([*values, None], stored or kind).view(kind)
    schema = pa.schema([("x", kind), ("n", pa.int64())])
    count = len(array)
    numbers = list(reversed(range(count)))
    found = Found(pa.RecordBatch.from_arrays([array, pa.array(numbers, pa.int64())], schema=schema), numbers)
    rows = TableRows(schema)
    columns = rows.columns([row or NO_ROW for row in rows.by_key(found, count)])
    assert [column.type for column in columns] == schema.types
    assert columns[0].equals(array.take(pa.array(numbers)))
    assert columns[1].to_pylist() == list(range(count))


def test_keys_without_a_row_and_with_several_are_told_apart() -> None:
    schema = pa.schema([("x", pa.int64())])
    rows = TableRows(schema)
    found = Found(pa.record_batch({"x": pa.array([None, 1, 2, 3], pa.int64())}), [3, 1, 1, 1])
    assert rows.by_key(found, 5) == [NO_ROW, None, NO_ROW, (None,), NO_ROW]
    assert [column.to_pylist() for column in rows.columns([NO_ROW, (7,)])] == [[None, 7]]
    assert [len(column) for column in rows.columns([])] == [0]
