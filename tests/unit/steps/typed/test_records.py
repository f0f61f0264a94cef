"""Records from Arrow batches and back: which columns fit, what is an error of one row, what emit refuses."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.graph.arrow import arrow_type
from penstock.model.declared.record_types import RecordType, record_type
from penstock.steps.typed.enum_text import EnumText
from penstock.steps.typed.record_reader import RecordReader
from penstock.steps.typed.record_writer import RecordWriter


@ps.record
class Place:
    x: int
    at: ps.Time = 0
    names: dict[str, int | None] | None = None


@ps.record
class Everything:
    n: int
    small: ps.int8
    big: ps.uint64
    f: float
    half: ps.float32
    yes: bool
    text: str
    raw: bytes
    at: ps.Time
    kind: ps.Enum["NEW", "OLD"]  # noqa: F821
    money: ps.Decimal[12, 2]  # type: ignore[valid-type]
    pair: tuple[int, str | None]
    where: Place
    items: list[int | None]
    names: dict[str, float]
    deep: list[dict[str, tuple[int, Place | None]]]
    maybe: float | None = None
    other: str | None = None
    maybe_place: Place | None = None
    maybe_kind: ps.Enum["NEW", "OLD"] | None = None  # noqa: F821


def of(cls: type) -> RecordType:
    found = record_type(cls)
    assert found is not None
    return found


def schema_of(cls: type) -> pa.Schema:
    return pa.schema([(name, arrow_type(text)) for name, text in of(cls).columns])


INT64S = st.integers(-(2**63), 2**63 - 1)
TIMES = st.integers(-(2**63) + 1, 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
FLOATS = st.floats(allow_nan=False)
PLACES = st.builds(Place, INT64S, TIMES, st.none() | st.dictionaries(TEXTS, st.none() | INT64S, max_size=2))
KINDS = st.sampled_from(["NEW", "OLD"])
DEEP = st.lists(st.dictionaries(TEXTS, st.tuples(INT64S, st.none() | PLACES), max_size=2), max_size=2)
RECORDS = st.builds(
    Everything,
    INT64S,
    st.integers(-128, 127),
    st.integers(0, 2**64 - 1),
    FLOATS,
    st.floats(allow_nan=False, width=32),
    st.booleans(),
    TEXTS,
    st.binary(max_size=3),
    TIMES,
    KINDS,
    st.decimals(-1000, 1000, places=2),
    st.tuples(INT64S, st.none() | TEXTS),
    PLACES,
    st.lists(st.none() | INT64S, max_size=3),
    st.dictionaries(TEXTS, FLOATS, max_size=2),
    DEEP,
    st.none() | FLOATS,
    st.none() | TEXTS,
    st.none() | PLACES,
    st.none() | KINDS,
)


@given(st.lists(RECORDS, max_size=4), st.integers(0, 4))
def test_records_are_read_back_as_they_were_written_from_any_slice(records: list[Everything], start: int) -> None:
    writer, reader = (
        RecordWriter(of(Everything), schema_of(Everything)),
        RecordReader(of(Everything), schema_of(Everything)),
    )
    batch = writer.batch([writer.values(record) for record in records])
    assert batch.schema == schema_of(Everything)
    found = reader.read(batch.slice(start))
    assert [found.record(row) for row in range(len(found))] == records[start:]
    assert all(type(found.record(row).kind) is EnumText for row in range(len(found)))


@ps.record
class Txn:
    entity: str
    state: ps.Enum["LNL", "LNN"]  # noqa: F821
    amount: float | None
    at: ps.Time = 0

    def __post_init__(self) -> None:
        if self.entity == "bad":
            raise ValueError("entity is bad")


def rows(**columns: Any) -> pa.RecordBatch:
    given = {
        "entity": ["A", "B"],
        "state": ["LNL", "LNN"],
        "amount": [1.5, None],
        "at": pa.array([1, 2], pa.timestamp("us")),
    }
    return pa.RecordBatch.from_pydict({**given, **columns})


def read(batch: pa.RecordBatch) -> list[Any]:
    """Return the record of each row, or the text of its error."""
    found = RecordReader(of(Txn), batch.schema).read(batch)

    def one(row: int) -> Any:
        try:
            return found.record(row)
        except ValueError as error:
            return str(error)

    return [one(row) for row in range(len(found))]


def test_other_types_fit_when_no_value_can_be_lost() -> None:
    seconds = pa.array([1, 2], pa.timestamp("s", "Europe/Berlin"))
    words = pa.array(["A", "B"]).dictionary_encode()
    batch = rows(
        entity=words,
        state=pa.array(["LNL", "LNN"], pa.large_string()),
        amount=pa.array([3, None], pa.int32()),
        at=seconds,
    )
    assert read(batch.append_column("more", pa.array([1, 2]))) == [
        Txn("A", "LNL", 3.0, 1_000_000),
        Txn("B", "LNN", None, 2_000_000),
    ]
    assert type(read(batch)[0].amount) is float


@pytest.mark.parametrize(
    ("name", "column", "found"),
    [
        ("entity", pa.array([1, 2]), "int64"),
        ("state", pa.array([0, 1]), "int64"),
        ("amount", pa.array([1, 2]), "int64"),
        ("amount", pa.array(["1", "2"]), "string"),
        ("at", pa.array([1, 2]), "int64"),
        ("at", pa.array([1, 2], pa.timestamp("ns")), r"timestamp\[ns\]"),
    ],
)
def test_a_type_that_does_not_fit_is_refused_with_the_place_of_the_record(
    name: str, column: pa.Array, found: str
) -> None:
    with pytest.raises(
        ConfigError, match=rf"test_records.py:\d+: record Txn: column '{name}' has type {found}, and Txn.{name} is "
    ):
        RecordReader(of(Txn), rows(**{name: column}).schema)


def test_a_missing_column_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"record Txn has 'amount', and the rows have entity, state, at"):
        RecordReader(of(Txn), rows().drop_columns(["amount"]).schema)


def test_a_value_that_does_not_fit_is_an_error_of_its_row_alone() -> None:
    assert read(rows(entity=["A", None])) == [
        Txn("A", "LNL", 1.5, 1),
        "Txn.entity: the value is null, and string allows no None",
    ]
    assert read(rows(state=["OLD", "LNN"])) == [
        "Txn.state: 'OLD' is none of the texts of the Enum",
        Txn("B", "LNN", None, 2),
    ]
    late = pa.array([2**62, 1], pa.timestamp("s"))
    assert read(rows(at=late))[0].startswith("Txn.at: the time leaves 64 bits of microseconds")
    assert read(rows(at=late))[1] == Txn("B", "LNN", None, 1_000_000)
    assert read(rows(entity=["bad", "B"])) == ["entity is bad", Txn("B", "LNN", None, 2)]


def test_the_first_column_that_does_not_fit_names_the_error() -> None:
    both = rows(entity=[None, "B"], state=["x", "LNN"])
    assert read(both)[0] == "Txn.entity: the value is null, and string allows no None"


@ps.record
class Narrow:
    n: ps.int8
    f: float = 0.0
    kind: ps.Enum["NEW", "OLD"] = "NEW"  # noqa: F821
    at: ps.Time = 0
    items: list[int] | None = None
    money: Decimal | None = None


@pytest.mark.parametrize(
    ("record", "error", "text"),
    [
        (None, TypeError, "None is no record of Narrow"),
        ({"n": 1}, TypeError, "dict is no record of Narrow"),
        (Narrow(128), ValueError, "Narrow.n cannot hold 128 as int8: it is outside of -128 .. 127"),
        (Narrow("x"), TypeError, "Narrow.n cannot hold 'x' as int8: it is no number but str"),  # type: ignore[arg-type]
        (Narrow(None), TypeError, "Narrow.n cannot hold None as int8: it is no number but NoneType"),  # type: ignore[arg-type]
        (Narrow(1, f=2**53 + 1), ValueError, "Narrow.f cannot hold 9007199254740993 as double: it has more digits"),
        (Narrow(1, kind="?"), ValueError, "cannot hold '\\?' as Enum\\[NEW, OLD\\]: it is none of the texts"),  # type: ignore[arg-type]
        (Narrow(1, at=-(2**63)), ValueError, "as Time: it is before the first time of 64 bits"),
        (Narrow(1, items=[1.5]), ValueError, r"cannot hold \[1.5\] as list\[int64\] \| None: it is no whole number"),  # type: ignore[list-item]
        (Narrow(1, money=1.5), TypeError, "Narrow.money cannot hold 1.5"),  # type: ignore[arg-type]
    ],
)
def test_emit_refuses_a_record_with_the_field_and_the_value(record: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        RecordWriter(of(Narrow), schema_of(Narrow)).values(record)


def test_a_whole_number_takes_the_code_of_an_enum() -> None:
    (old,) = (r.state for r in read(rows())[1:])
    writer = RecordWriter(of(Narrow), schema_of(Narrow))
    assert writer.values(Narrow(old, f=3))[:2] == [1, 3.0]
