"""Columns and partitions of Iceberg: how rows are staged, where they go, and what is refused."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from penstock.base.errors import ConfigError
from penstock.connectors.iceberg.iceberg_columns import IcebergColumns, holds
from penstock.connectors.iceberg.partition_fields import PartitionFields, record_of, values_in

SCHEMA = Schema(
    NestedField(1, "word", StringType()),
    NestedField(2, "number", LongType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "at", TimestamptzType()),
    NestedField(5, "price", DoubleType()),
)
AT = pa.timestamp("us", "UTC")


def spec(*fields: tuple[str, str]) -> PartitionSpec:
    made = [
        PartitionField(SCHEMA.find_field(column).field_id, 1000 + n, parse_transform(transform), f"p{n}")
        for n, (column, transform) in enumerate(fields)
    ]
    return PartitionSpec(*made)


def folders(column: str, transform: str, values: pa.Array) -> list[Any]:
    """Return the value of the partition field for each row."""
    fields = PartitionFields.of(spec((column, transform)), SCHEMA, SCHEMA.column_names, "here")
    rows = pa.record_batch({column: values, "row": pa.array(range(len(values)), pa.int64())})
    found = {row: values_in(folder)[1000] for folder, part in fields.split(rows) for row in part["row"].to_pylist()}
    return [found[row] for row in range(len(values))]


@pytest.mark.parametrize(
    ("column", "transform", "values", "expected"),
    [  # the hashes of buckets are those of the format's specification
        ("word", "identity", pa.array(["a/b=c", None, "", "é%"]), ["a/b=c", None, "", "é%"]),
        ("word", "truncate[2]", pa.array(["straße", "", None]), ["st", "", None]),
        ("word", "bucket[16]", pa.array(["iceberg", None]), [1210000089 % 16, None]),
        ("number", "bucket[1000]", pa.array([34, 0, None], pa.int64()), [2017239379 % 1000, 1669671676 % 1000, None]),
        ("number", "truncate[10]", pa.array([12, -1, None], pa.int64()), [10, -10, None]),
        ("number", "void", pa.array([12], pa.int64()), [None]),
        ("day", "identity", pa.array([dt.date(1970, 1, 2), None]), [1, None]),
        ("day", "month", pa.array([dt.date(1969, 12, 31), dt.date(2026, 11, 27)]), [-1, 682]),
        ("at", "year", pa.array([-1, None], AT), [-1, None]),
        ("at", "day", pa.array([-1, 86_400_000_000, None], AT), [-1, 1, None]),
        ("at", "hour", pa.array([-1, 3_600_000_000], AT), [-1, 1]),
    ],
)
def test_rows_go_to_the_partition_that_the_format_says(
    column: str, transform: str, values: pa.Array, expected: list[Any]
) -> None:
    assert folders(column, transform, values) == expected


def test_a_folder_gives_the_record_of_its_spec_and_no_other() -> None:
    two = spec(("word", "identity"), ("day", "day"))
    fields = PartitionFields.of(two, SCHEMA, SCHEMA.column_names, "here")
    rows = pa.record_batch({"word": ["x"], "day": [dt.date(1970, 1, 3)]})
    ((folder, _),) = fields.split(rows)
    record = record_of(two, values_in(folder))
    assert [record[0], record[1]] == ["x", 2]
    with pytest.raises(KeyError):
        record_of(spec(("word", "identity")), values_in(folder))
    with pytest.raises(KeyError):
        record_of(PartitionSpec(), values_in(folder))


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (("price", "identity"), "column 'price' is double: it takes boolean"),
        (("word", "zorder"), "does not know the transform"),
    ],
)
def test_a_partition_field_that_the_sink_does_not_write_is_refused(field: tuple[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=f"here: partition field 'p0': .*{said}"):
        PartitionFields.of(spec(field), SCHEMA, SCHEMA.column_names, "here")


@pytest.mark.parametrize(
    ("kind", "iceberg"),
    [
        (pa.int16(), "int"),
        (pa.int64(), "long"),
        (pa.large_string(), "string"),
        (pa.timestamp("s", "Europe/Berlin"), "timestamptz"),
        (pa.timestamp("ns"), "timestamp"),
        (pa.decimal128(10, 2), "decimal(10, 2)"),
    ],
)
def test_a_column_has_one_type_of_iceberg(kind: pa.DataType, iceberg: str) -> None:
    assert IcebergColumns.of(pa.schema([("x", kind)]), "here").types == {"x": iceberg}


@pytest.mark.parametrize("kind", [pa.uint8(), pa.list_(pa.int64()), pa.decimal256(40, 2)])
def test_a_type_that_has_no_like_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match=r"here: column 'x' is .*: it takes booleans"):
        IcebergColumns.of(pa.schema([("x", kind)]), "here")


def test_a_version_of_the_format_that_the_client_does_not_write_is_refused() -> None:
    columns = IcebergColumns.of(pa.schema([("number", pa.int64())]), "here")
    assert columns.refusal(SCHEMA, 2) is None
    assert "its format-version is 3" in (columns.refusal(SCHEMA, 3) or "")


def test_a_wider_column_holds_what_was_staged_before() -> None:
    assert holds("long", "int")
    assert holds("decimal(12, 2)", "decimal(10, 2)")
    assert not holds("int", "long")
    assert not holds("decimal(12, 3)", "decimal(10, 2)")
    assert str(IntegerType()) == "int"
