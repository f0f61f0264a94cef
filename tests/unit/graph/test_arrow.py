"""Column types as text: the text of every Arrow type, also a nested one, is read as this type."""

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.graph.arrow import arrow_type, check_type, check_views

KINDS = [
    pa.list_(pa.int64()),
    pa.list_(pa.field("element", pa.int64(), nullable=False)),
    pa.large_list(pa.string()),
    pa.list_(pa.int8(), 3),
    pa.struct([]),
    pa.struct(
        [
            ("x", pa.int64()),
            pa.field("y", pa.struct([("a b", pa.list_(pa.decimal128(5, 2)))]), nullable=False),
        ]
    ),
    pa.map_(pa.string(), pa.list_(pa.int64())),
    pa.map_(pa.string(), pa.int64(), keys_sorted=True),
    pa.dictionary(pa.int8(), pa.timestamp("us", "UTC")),
    pa.timestamp("us", "Europe/Berlin"),
    pa.struct([("at", pa.timestamp("ns", "+02:00"))]),
    pa.decimal128(38, 2),
    pa.decimal256(50, 3),
    pa.binary(16),
    pa.float16(),
]
NOT_CARRIED = [
    pa.list_view(pa.int8()),
    pa.uuid(),
    pa.run_end_encoded(pa.int32(), pa.int8()),
    pa.struct([("y, z: int8", pa.string())]),  # its name cannot be told from a type
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_text_of_an_arrow_type_is_read_as_this_type(kind: pa.DataType) -> None:
    assert arrow_type(str(kind)) == kind
    check_type(kind)


def test_a_map_type_with_required_values_is_read_as_one_with_nulls() -> None:
    kind = pa.map_(pa.string(), pa.field("v", pa.int64(), nullable=False))
    check_type(kind)
    assert arrow_type(str(kind)) == pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize("kind", NOT_CARRIED, ids=str)
def test_a_type_that_cannot_pass_through_a_job_is_refused_with_advice(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match=r"cannot pass through a job: name those to read"):
        check_type(kind)


@pytest.mark.parametrize("text", ["strng", "list<", "list<>", "struct<x>", "map<string>", "map<>"])
def test_an_unknown_type_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="unknown column type"):
        arrow_type(text)


@pytest.mark.parametrize(
    ("kind", "instead"),
    [
        (pa.string_view(), "string"),
        (pa.binary_view(), "binary"),
        (pa.list_(pa.string_view()), "string"),
        (pa.struct([("x", pa.int64()), ("y", pa.map_(pa.string(), pa.binary_view()))]), "binary"),
        (pa.dictionary(pa.int32(), pa.string_view()), "string"),
    ],
    ids=str,
)
def test_a_view_is_refused_at_any_depth_with_what_to_declare(kind: pa.DataType, instead: str) -> None:
    for check in (check_type, check_views):
        with pytest.raises(ConfigError, match=rf"{instead}_view cannot pass through a job: declare {instead}$"):
            check(kind)
