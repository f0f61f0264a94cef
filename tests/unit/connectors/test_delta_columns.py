"""Columns of Delta Lake: how rows are staged, what is refused, and what a file says of itself."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.errors import ConfigError
from penstock.connectors.delta.delta_columns import DeltaColumns
from penstock.connectors.delta.file_statistics import statistics_of


def columns(kind: pa.DataType) -> DeltaColumns:
    return DeltaColumns.of(pa.schema([("x", kind)]), "delta sink: table t")


@pytest.mark.parametrize(
    ("kind", "delta"),
    [
        (pa.int64(), "long"),
        (pa.large_string(), "string"),
        (pa.timestamp("s", "Europe/Berlin"), "timestamp"),
        (pa.timestamp("ns"), "timestamp_ntz"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
    ],
)
def test_a_column_has_one_type_of_delta(kind: pa.DataType, delta: str) -> None:
    field = {"name": "x", "type": delta, "nullable": True, "metadata": {}}
    assert columns(kind).refusal({"fields": [field]}, {}, ()) is None
    assert "make them equal" in (columns(kind).refusal({"fields": [{**field, "type": "binary"}]}, {}, ()) or "")


@pytest.mark.parametrize("kind", [pa.uint8(), pa.list_(pa.int64()), pa.time64("us")])
def test_a_type_that_has_no_like_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match=r"delta sink: table t: column 'x' is .*: it takes booleans"):
        columns(kind)


def test_times_are_staged_in_microseconds_and_what_is_finer_is_refused() -> None:
    kind = pa.timestamp("ns", "UTC")
    found = columns(kind).encode(pa.record_batch({"x": pa.array([1_000_000], kind)}), ())
    assert found.schema.field("x").type == pa.timestamp("us", "UTC")
    with pytest.raises(ConfigError, match=r"does not take a row: column 'x': .*would lose data"):
        columns(kind).encode(pa.record_batch({"x": pa.array([1], kind)}), ())


@pytest.mark.parametrize(
    ("settings", "features", "said"),
    [
        ({"delta.columnMapping.mode": "name"}, (), "it maps names of columns"),
        ({}, ("appendOnly", "rowTracking"), "its writers have to know rowTracking"),
    ],
)
def test_a_table_that_needs_more_of_its_writers_is_refused(
    settings: dict[str, str], features: tuple[str, ...], said: str
) -> None:
    field = {"name": "x", "type": "long", "nullable": True, "metadata": {}}
    assert said in (columns(pa.int64()).refusal({"fields": [field]}, settings, features) or "")
    generated = {**field, "metadata": {"delta.generationExpression": "1"}}
    assert "generated" in (columns(pa.int64()).refusal({"fields": [generated]}, {}, ()) or "")


def test_a_file_says_what_is_exact() -> None:
    rows = pa.table(
        {
            "n": pa.array([3, None, 1], pa.int32()),
            "text": ["b", "a", "c"],
            "long": ["x" * 40, "", "y"],
            "day": [date(2026, 1, 2), date(2026, 1, 1), None],
            "f": [1.0, float("nan"), 2.0],
            "at": [datetime(2026, 1, 1, tzinfo=UTC)] * 3,
            "price": [Decimal("1.5")] * 3,
        }
    )
    out = BytesIO()
    pq.write_table(rows, out, row_group_size=2)
    found = json.loads(statistics_of(pq.read_metadata(out)))
    assert found["numRecords"] == 3
    assert found["minValues"] == {"n": 1, "text": "a", "day": "2026-01-01"}
    assert found["maxValues"] == {"n": 3, "text": "c", "day": "2026-01-02"}
    assert found["nullCount"] == {"n": 1, "text": 0, "long": 0, "day": 1, "f": 0, "at": 0, "price": 0}
