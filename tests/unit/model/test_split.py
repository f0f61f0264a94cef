"""A batch is split by destination: every type, nulls, slices, in order, each part by itself."""

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.model.split import split_by

WORDS = pa.record_batch({"word": ["a", "b", None, "a", "", "c"], "n": [1, 2, 3, 4, 5, 6]})
ROWS = 100
PLACES = (np.arange(ROWS) * 7 % 5 % 3).astype(np.int32)


def test_split_keeps_the_order_of_rows_and_leaves_out_empty_parts() -> None:
    parts = split_by(WORDS, np.array([2, 0, 2, 2, 0, 2], np.int32), 4)
    assert [(d, rows.column("n").to_pylist()) for d, rows in parts] == [
        (0, [2, 5]),
        (2, [1, 3, 4, 6]),
    ]


def test_rows_that_stay_together_are_not_copied() -> None:
    assert split_by(WORDS, np.full(6, 1, np.int32), 2)[0][1] is WORDS
    assert split_by(WORDS.slice(0, 0), np.zeros(0, np.int32), 2) == []


def columns() -> list[pa.Array]:
    text = ["", "x" * 31, "y" * 32, "z" * 33, "w" * 200, "ä"]
    values: list[tuple[Any, pa.DataType]] = [
        *((text, kind) for kind in (pa.string(), pa.large_string())),
        ([t.encode() for t in text], pa.binary()),
        *((list(range(-3, 3)), kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
        ([0.5, -0.0, 1e300], pa.float64()),
        ([True, False, False], pa.bool_()),
        ([date(2024, 1, 1), date(1969, 1, 1)], pa.date32()),
        ([1, 2**40], pa.timestamp("us", "UTC")),
        ([Decimal("1.25"), Decimal("-3.50")], pa.decimal128(10, 2)),
        ([b"abc", b"xyz"], pa.binary(3)),
        ([[1, 2], [], None], pa.list_(pa.int64())),
        (["red", "green"], pa.dictionary(pa.int32(), pa.string())),
        ([None], pa.null()),
    ]
    return [pa.array([some[i % len(some)] for i in range(ROWS)], kind) for some, kind in values]


@pytest.mark.parametrize("array", columns(), ids=lambda a: str(a.type))
@pytest.mark.parametrize("layout", ["plain", "sliced", "nulls", "sliced nulls"])
def test_every_part_holds_the_values_of_its_rows(array: pa.Array, layout: str) -> None:
    if "nulls" in layout and not pa.types.is_nested(array.type):
        values = array.to_pylist()
        array = pa.array([None if i % 4 == 1 else v for i, v in enumerate(values)], array.type)
    if "sliced" in layout:
        padding = array.slice(0, 13)
        array = pa.concat_arrays([padding, array, padding]).slice(13, ROWS)
    batch = pa.record_batch({"value": array, "row": np.arange(ROWS)})
    parts = split_by(batch, PLACES, 3)
    assert [d for d, _ in parts] == [0, 1, 2]
    for destination, rows in parts:
        rows.validate(full=True)
        chosen = np.flatnonzero(destination == PLACES)
        assert rows.column("row").to_pylist() == chosen.tolist()
        assert rows.column("value").to_pylist() == array.take(pa.array(chosen)).to_pylist()


def test_a_part_pins_no_memory_but_its_own() -> None:
    batch = pa.record_batch({"value": pa.array(["x" * 100] * ROWS)})
    for _, rows in split_by(batch, PLACES, 3):
        assert rows.get_total_buffer_size() == 100 * rows.num_rows + 4 * (rows.num_rows + 1)
