"""Values of Avro with a registry: every value is a row or a reason, by the schemas of its writer and of its reader."""

import datetime as dt
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.kafka.avro import HEADER, AvroDecoder
from penstock.connectors.kafka.avro_encoding import AvroEncoder
from penstock.connectors.kafka.decoding import RowDecoder
from penstock.connectors.kafka.encoding import RecordEncoder
from penstock.connectors.kafka.topics import TopicRules
from penstock.contract.bad_records import OnBadRecord
from penstock.contract.kafka_options import KafkaInput, KafkaOutput, OutputFormat, RecordFormat
from penstock.steps.undecoded import REASON
from tests.support.schema_registry import Registry, running
from tests.unit.connectors.test_kafka_decoding import Message

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "word", "type": "string"}],
}
NEWER = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": ["null", "double"], "default": None}]}
INSTANT = dt.datetime(2026, 11, 26, 12, 0, 1, 500_000, tzinfo=dt.UTC)
COLUMNS = pa.schema([("id", pa.int64()), ("word", pa.string()), ("price", pa.float64())])


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as found:
        yield found


def value(number: int, schema: Any, row: Any) -> bytes:
    """Write a value as a client of a registry does."""
    out = io.BytesIO(HEADER.pack(0, number))
    out.seek(HEADER.size)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def source(registry: Registry, **more: Any) -> KafkaInput:
    return KafkaInput("broker:9092", "orders", format=RecordFormat.AVRO, registry=registry.url, **more)


def sink(registry: Registry, **more: Any) -> KafkaOutput:
    return KafkaOutput("broker:9092", "orders", format=OutputFormat.AVRO, registry=registry.url, **more)


def decoded(options: KafkaInput, values: list[bytes | None], columns: pa.Schema = COLUMNS) -> pa.RecordBatch:
    return RowDecoder(options, columns).rows([Message(n, v) for n, v in enumerate(values)])


def test_values_of_several_versions_are_rows_in_their_order_and_each_schema_is_asked_for_once(
    registry: Registry,
) -> None:
    old, new = registry.add("orders-value", ORDER), registry.add("orders-value", NEWER)
    values: list[bytes | None] = []
    for n in range(6):
        priced = {"id": n, "word": f"w{n}", "price": n / 2}
        values += [value(old, ORDER, priced), None, value(new, NEWER, priced)]
    found = decoded(source(registry), values)
    due = [[(n, f"w{n}", None), (None, None, None), (n, f"w{n}", n / 2)] for n in range(6)]
    assert [tuple(row.values()) for row in found.to_pylist()] == [row for three in due for row in three]
    assert registry.asked == [f"GET /schemas/ids/{old}", f"GET /schemas/ids/{new}"]


def test_times_of_two_versions_are_read_in_their_own_units(registry: Registry) -> None:
    def at(unit: str) -> dict[str, Any]:
        field = {"name": "at", "type": {"type": "long", "logicalType": f"timestamp-{unit}"}}
        return {"type": "record", "name": "Seen", "fields": [field]}

    values: list[bytes | None] = [
        value(registry.add(f"{unit}-value", at(unit)), at(unit), {"at": INSTANT}) for unit in ("millis", "micros")
    ]
    found = decoded(source(registry), values, pa.schema([("at", pa.timestamp("us", "UTC"))]))
    assert found.column("at").to_pylist() == [INSTANT, INSTANT]


def test_a_uuid_is_read_as_its_text(registry: Registry) -> None:
    kind = {"type": "string", "logicalType": "uuid"}
    fields = [{"name": "id", "type": kind}, {"name": "parent", "type": ["null", kind]}]
    schema = {"type": "record", "name": "Node", "fields": fields}
    number, one = registry.add("orders-value", schema), UUID(int=5)
    values: list[bytes | None] = [value(number, schema, {"id": one, "parent": each}) for each in (one, None)]
    found = decoded(source(registry), values, pa.schema([("id", pa.string()), ("parent", pa.large_string())]))
    assert found.to_pylist() == [{"id": str(one), "parent": str(one)}, {"id": str(one), "parent": None}]


def test_a_readers_schema_fills_defaults_and_finds_renamed_fields(registry: Registry) -> None:
    number = registry.add("orders-value", ORDER)
    fields = [
        {"name": "id", "type": "long"},
        {"name": "text", "type": "string", "aliases": ["word"]},
        {"name": "price", "type": "double", "default": 9.5},
    ]
    reader = json.dumps({"type": "record", "name": "Order", "fields": fields})
    columns = pa.schema([("id", pa.int64()), ("text", pa.string()), ("price", pa.float64())])
    found = decoded(source(registry, reader_schema=reader), [value(number, ORDER, {"id": 1, "word": "a"})], columns)
    assert found.to_pylist() == [{"id": 1, "text": "a", "price": 9.5}]


def reasons(registry: Registry, values: list[bytes | None], **more: Any) -> list[str | None]:
    letters = source(registry, on_error=OnBadRecord.DEAD_LETTER, **more)
    told: list[str | None] = decoded(letters, values).column(REASON).to_pylist()
    return told


def test_what_does_not_decode_is_a_dead_letter_that_says_why(registry: Registry) -> None:
    number = registry.add("orders-value", ORDER)
    text = registry.add("texts-value", "string")
    proto = registry.add("proto-value", {}, schemaType="PROTOBUF")
    good = value(number, ORDER, {"id": 1, "word": "word"})
    bad = [b"", b'{"id": 1}', good[:-1], good + b"x", good[:5], HEADER.pack(0, 77) + b"x"]
    bad += [value(text, "string", "x"), HEADER.pack(0, proto) + b"x"]
    told = reasons(registry, [good, *bad, good])
    assert (told[0], told[-1]) == (None, None)
    due = [
        "does not begin with a zero byte",
        "does not begin with a zero byte",
        f"no value of schema {number}",
        f"1 bytes more than a value of schema {number}",
        f"no value of schema {number}",
        f"the registry {registry.url} has no schema 77",
        f"schema {text} is no record",
        f"schema {proto} of the registry is of type PROTOBUF, due is AVRO",
    ]
    assert [(word, why) for word, why in zip(due, told[1:-1], strict=True) if word not in str(why)] == []
    assert registry.asked.count("GET /schemas/ids/77") == 1


def test_a_readers_schema_that_does_not_fit_is_the_reason_and_not_another_value(registry: Registry) -> None:
    number = registry.add("orders-value", ORDER)
    fields = [{"name": "id", "type": "long"}, {"name": "word", "type": "string"}, {"name": "price", "type": "double"}]
    reader = json.dumps({"type": "record", "name": "Order", "fields": fields})
    (why,) = reasons(registry, [value(number, ORDER, {"id": 1, "word": "a"})], reader_schema=reader)
    assert "SchemaResolutionError" in str(why)
    (why,) = reasons(registry, [value(number, ORDER, {"id": 1, "word": "a"})])
    assert why is None


def test_a_column_of_another_type_is_named(registry: Registry) -> None:
    number = registry.add("orders-value", ORDER)
    columns = pa.schema([("word", pa.int64())])
    with pytest.raises(StateError, match=r"topic orders, partition 3, offset 0: column 'word' is int64.*onError"):
        decoded(source(registry), [value(number, ORDER, {"id": 1, "word": "a"})], columns)


PRICES = {"type": "record", "name": "P", "fields": [{"name": "p", "type": "double"}]}
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ITEMS = pa.list_(pa.struct([("p", pa.int64())]))
DOUBLES = {"type": "array", "items": "double"}
FLOATS_BY_NAME = pa.map_(pa.string(), pa.float32())


@pytest.mark.parametrize(
    ("written", "bad", "good", "kind", "due"),
    [
        ("double", 1.5, 2.0, pa.int64(), 2),
        (["null", "double"], -0.5, None, pa.int32(), None),
        (["boolean", "double"], True, 2.5, pa.float64(), 2.5),
        ({"type": "array", "items": ["boolean", "double"]}, [False], [2.5], pa.list_(pa.float32()), [2.5]),
        (CENTS, Decimal("1.23"), Decimal("2.00"), pa.int64(), 2),
        ("double", 1e39, 2.5, pa.float32(), 2.5),
        ("double", 1.5, 2.0, pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 0, 2, dt.UTC)),
        ({"type": "array", "items": PRICES}, [{"p": 2.0}, {"p": 1.5}], [{"p": 2.0}], ITEMS, [{"p": 2}]),
        ({"type": "map", "values": "double"}, {"a": 1.5}, {"a": 2.0}, pa.map_(pa.string(), pa.int64()), [("a", 2)]),
        (DOUBLES, [0.5, 1e39], [0.5, 2.0], pa.list_(pa.float32()), [0.5, 2.0]),
        (DOUBLES, [0.5, 1e39], [0.5, 2.0], pa.large_list(pa.float32()), [0.5, 2.0]),
        (DOUBLES, [0.5, 1e39], [0.5, 2.0], pa.list_(pa.float32(), 2), [0.5, 2.0]),
        ({"type": "map", "values": "double"}, {"a": 1e39}, {"a": 2.5}, FLOATS_BY_NAME, [("a", 2.5)]),
        (PRICES, {"p": 1e39}, {"p": 2.5}, pa.struct([("p", pa.float32())]), {"p": 2.5}),
    ],
)
def test_a_number_does_not_decode_as_another_one(
    registry: Registry, written: Any, bad: Any, good: Any, kind: pa.DataType, due: Any
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": written}]}
    number = registry.add("orders-value", schema)
    values: list[bytes | None] = [value(number, schema, {"x": each}) for each in (good, bad, good)]
    letters = source(registry, on_error=OnBadRecord.DEAD_LETTER)
    found = decoded(letters, values, pa.schema([("x", kind)]))
    assert found.column("x").to_pylist() == [due, None, due]
    assert "column 'x' is" in found.column(REASON).to_pylist()[1]


@pytest.mark.parametrize(
    ("answer", "due"),
    [
        ((401, {}), "refuses the user or the password: check registryUser and registryPassword"),
        ((403, {}), "the user may not do this: grant reading of schemas"),
        ((500, {"message": "leader unknown"}), "answers 500 to /schemas/ids/1: leader unknown"),
        ((200, "<html>"), "the answer is no JSON: '<html>': check registry"),
        ((200, "[]"), "no object: check registry"),
        ((404, "<html>default backend - 404</html>"), "answers 404 to /schemas/ids/1: <html>default backend"),
        ((404, {"error_code": 404, "message": "HTTP 404 Not Found"}), "HTTP 404 Not Found: check registry"),
        ((404, "[404]"), "answers 404 to /schemas/ids/1"),
        ((200, {"message": "sign in"}), "answers /schemas/ids/1 without schema: check registry"),
    ],
)
def test_a_registry_that_fails_makes_no_dead_letters(registry: Registry, answer: Any, due: str) -> None:
    number = registry.add("orders-value", ORDER)
    registry.answer = answer
    good: list[bytes | None] = [value(number, ORDER, {"id": 1, "word": "a"})]
    with pytest.raises(StorageError) as error:
        reasons(registry, good)
    assert due in str(error.value)
    registry.answer = None
    assert reasons(registry, good) == [None]


@pytest.mark.parametrize("answer", [(200, {}), (200, {"id": "seven"}), (404, "no such page")])
def test_a_sink_waits_for_an_answer_that_is_one_of_a_registry(registry: Registry, answer: Any) -> None:
    encoder = AvroEncoder(sink(registry), pa.schema([("word", pa.string())]))
    registry.answer = answer
    with pytest.raises(StorageError, match="check registry"):
        encoder.claim()
    registry.answer = None
    encoder.claim()


def test_a_registry_that_is_gone_makes_no_dead_letters() -> None:
    with running() as gone:
        number = gone.add("orders-value", ORDER)
    with pytest.raises(StorageError, match=r"does not answer: .*: check registry, and that it runs"):
        reasons(gone, [value(number, ORDER, {"id": 1, "word": "a"})])


def test_a_password_is_read_for_each_connection_and_in_no_message(registry: Registry, tmp_path: Path) -> None:
    number, place = registry.add("orders-value", ORDER), tmp_path / "password"
    registry.user = "me:correct"
    place.write_text("wrong-canary\n")
    options = source(registry, registry_user="me", registry_password=f"file:{place}")
    decoder = AvroDecoder(options, COLUMNS)
    values = pa.array([value(number, ORDER, {"id": 1, "word": "a"})], pa.large_binary())
    with pytest.raises(StorageError) as error:
        decoder(values)
    assert "canary" not in str(error.value)
    place.write_text("correct\n")
    assert decoder(values).num_rows == 1


def test_schemas_that_a_schema_refers_to_are_read(registry: Registry) -> None:
    money = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
    registry.add("money", money)
    paid = {"type": "record", "name": "Paid", "fields": [{"name": "sum", "type": "Money"}]}
    number = registry.add("paid-value", paid, references=[{"name": "Money", "subject": "money", "version": 1}])
    whole = {**paid, "fields": [{"name": "sum", "type": money}]}
    columns = pa.schema([("sum", pa.struct([("cents", pa.int64())]))])
    found = decoded(source(registry), [value(number, whole, {"sum": {"cents": 7}})], columns)
    assert found.to_pylist() == [{"sum": {"cents": 7}}]


NOON = INSTANT.replace(tzinfo=None)
EVERYTHING: list[tuple[pa.DataType, Any]] = [
    (pa.int8(), -3),
    (pa.int64(), 2**60),
    (pa.uint32(), 2**31),
    (pa.float32(), 0.5),
    (pa.float64(), 1e300),
    (pa.bool_(), True),
    (pa.string(), "grüße\n"),
    (pa.binary(), b"\x00\xff"),
    (pa.binary(3), b"abc"),
    (pa.date32(), NOON.date()),
    (pa.time32("ms"), NOON.time()),
    (pa.time64("us"), NOON.time()),
    (pa.timestamp("ms"), NOON),
    (pa.timestamp("us"), NOON),
    (pa.timestamp("us", "UTC"), INSTANT),
    (pa.decimal128(9, 2), Decimal("-12.34")),
    (pa.list_(pa.int64()), [1, None, 3]),
    (pa.struct([("a", pa.string()), ("at", pa.timestamp("us"))]), {"a": "x", "at": NOON}),
    (pa.null(), None),
]


def test_a_row_that_is_written_is_read_again(registry: Registry) -> None:
    schema = pa.schema([(f"c{n}", kind) for n, (kind, _) in enumerate(EVERYTHING)])
    full, empty = [v for _, v in EVERYTHING], [None] * len(EVERYTHING)
    columns = [pa.array([one, two], kind) for one, two, kind in zip(full, empty, schema.types, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    records = RecordEncoder(sink(registry), schema).records(rows)
    values = records.column("value").to_pylist()
    assert decoded(source(registry), values, schema).equals(rows)
    assert registry.subjects == {"orders-value": [1]}
    read: Any = fastavro.schemaless_reader(io.BytesIO(values[0][5:]), json.loads(registry.schemas[1]["schema"]))
    assert (read["c1"], read["c9"], read["c14"], read["c15"]) == (
        2**60,
        NOON.date(),
        INSTANT,
        Decimal("-12.34"),
    )


def test_the_name_of_a_schema_is_one_of_avro_whatever_the_name_of_the_topic(registry: Registry) -> None:
    for topic in ("orders", "2026-orders", "_orders.new"):
        options = KafkaOutput("broker:9092", topic, format=OutputFormat.AVRO, registry=registry.url)
        RecordEncoder(options, pa.schema([("id", pa.int64())])).claim(TopicRules())
    names = [json.loads(each["schema"])["name"] for each in registry.schemas.values()]
    assert names == ["orders_value", "_2026_orders_value", "_orders_new_value"]


def test_a_time_that_python_has_not_is_refused_as_a_row_of_the_user(registry: Registry) -> None:
    schema = pa.schema([("seen", pa.struct([("at", pa.timestamp("us"))]))])
    rows = pa.RecordBatch.from_arrays([pa.array([{"at": 2**60}], schema.field(0).type)], schema=schema)
    with pytest.raises(ConfigError, match="kafka sink: a row cannot be written as Avro: date value out of range"):
        RecordEncoder(sink(registry), schema).records(rows)


def test_a_schema_is_registered_once_or_has_to_be_there(registry: Registry) -> None:
    rows = pa.record_batch({"id": [1, 2]})
    for _ in range(2):
        RecordEncoder(sink(registry, subject="mine"), rows.schema).records(rows)
    assert registry.subjects == {"mine": [1]}
    strict = RecordEncoder(sink(registry, subject="mine", register_schema=False), rows.schema)
    strict.claim(TopicRules())
    other = pa.record_batch({"other": [1]})
    strict = RecordEncoder(sink(registry, subject="mine", register_schema=False), other.schema)
    with pytest.raises(ConfigError, match="does not have the schema of the rows under subject 'mine': register it"):
        strict.claim(TopicRules())


def test_a_schema_that_does_not_fit_the_subject_is_refused_with_its_reason(registry: Registry) -> None:
    registry.add("orders-value", ORDER)
    field = pa.field("new", pa.int64(), nullable=False)
    with pytest.raises(
        ConfigError, match=r"refuses the schema .*orders-value.*field new has no default.*another subject"
    ):
        RecordEncoder(sink(registry), pa.schema([field])).claim(TopicRules())


@pytest.mark.parametrize(
    ("field", "due"),
    [
        (pa.field("a-b", pa.int64()), "column 'a-b': a name has letters"),
        (pa.field("a", pa.uint64()), "column 'a' is uint64, which Avro cannot hold"),
        (pa.field("a", pa.timestamp("ns")), "column 'a' is timestamp"),
    ],
)
def test_columns_that_avro_cannot_hold_are_refused(registry: Registry, field: pa.Field, due: str) -> None:
    with pytest.raises(ConfigError) as error:
        AvroEncoder(sink(registry), pa.schema([field]))
    assert due in str(error.value)


def test_options_that_do_not_fit_together_are_refused(registry: Registry) -> None:
    plain = KafkaInput("broker:9092", "orders", format=RecordFormat.AVRO)
    bad: list[tuple[Any, str]] = [
        (plain, "format avro needs registry"),
        (source(registry, registry_user="me"), "registryUser and registryPassword, or neither"),
        (source(registry, reader_schema="{"), "readerSchema is no JSON"),
        (source(registry, reader_schema='"string"'), "readerSchema has to be a record"),
        (source(registry, reader_schema=json.dumps(ORDER)), "readerSchema: unknown field 'price'"),
    ]
    for options, due in bad:
        with pytest.raises(ConfigError) as error:
            RowDecoder(options, COLUMNS)
        assert due in str(error.value)
    assert registry.asked == []
