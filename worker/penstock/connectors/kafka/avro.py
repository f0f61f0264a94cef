"""Values of records in Avro, with the wire format of Confluent: a zero byte, the id of the schema, the value.

    value ──id──> the writer's schema (registry, once) ──read by the reader's schema──> records ──> columns

A value of another version of the schema is read by the rules of Avro, by the reader's schema, if the job gives one.
Without it a declared column that the writer's schema lacks is null, and other fields are passed over.
"""

import io
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

import pyarrow as pa

from penstock.base.errors import ConfigError, PeerError
from penstock.base.suggest import unknown
from penstock.connectors import extras
from penstock.connectors.kafka.registry import SchemaRegistry, UnknownSchema
from penstock.connectors.text_formats import of_type, wide_type
from penstock.contract.codec import parsed
from penstock.contract.kafka_options import KafkaInput

HEADER = struct.Struct(">bI")
# Numbers with a meaning are read as numbers, and their whole column gets the type at once. So are UUIDs, as texts.
TIMES: Mapping[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
    ("string", "uuid"): pa.string(),
}
FRACTIONS = frozenset([float, Decimal])
# What a value that is not of its schema makes fastavro raise.
BROKEN = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


def avro_library() -> Any:
    """Return the library. Raises ConfigError that names the extra when it is not installed."""
    return extras.library("fastavro", of="kafka: format avro", extra="avro")


@dataclass(frozen=True, slots=True)
class ReadSchema:
    """How values of one id are read: the writer's schema, the reader's if it is another, and the types of its times."""

    writer: Any
    reader: Any
    times: Mapping[str, pa.DataType]


class AvroDecoder:
    """Decodes values to the columns of ``schema``. One thread uses it at a time."""

    def __init__(self, options: KafkaInput, schema: pa.Schema) -> None:
        """Ask no registry yet. Raises ConfigError when the options do not fit together."""
        self._schema = schema
        self._registry = SchemaRegistry(options)
        self._reader = None if options.reader_schema is None else _reader_schema(options.reader_schema, schema)
        self._known: dict[int, ReadSchema] = {}

    def __call__(self, values: pa.Array) -> pa.RecordBatch:
        """Return a row for each value. Raises ArrowInvalid for one that does not decode, StorageError."""
        pieces: list[pa.RecordBatch] = []
        rows: list[Mapping[str, Any]] = []
        current: int | None = None
        for value in values.to_pylist():
            number = _id_of(value)
            if number != current:
                pieces += self._columns(rows, current)
                rows, current = [], number
            rows.append(self._row(value, self._read_schema(number), number))
        pieces += self._columns(rows, current)
        return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)

    def _row(self, value: bytes, schema: ReadSchema, number: int) -> Mapping[str, Any]:
        import fastavro  # noqa: PLC0415 - an extra

        data = io.BytesIO(value)
        data.seek(HEADER.size)
        try:
            row: Any = fastavro.schemaless_reader(data, schema.writer, schema.reader)
        except (*BROKEN, fastavro.schema.SchemaParseException, fastavro.read.SchemaResolutionError) as error:
            raise pa.ArrowInvalid(f"it is no value of schema {number}: {type(error).__name__}: {error}") from error
        if data.tell() != len(value):
            raise pa.ArrowInvalid(f"it has {len(value) - data.tell()} bytes more than a value of schema {number}")
        if not isinstance(row, dict):
            raise pa.ArrowInvalid(f"schema {number} is no record, and columns are fields of a record")
        return row

    def _read_schema(self, number: int) -> ReadSchema:
        found = self._known.get(number)
        if found is None:
            import fastavro  # noqa: PLC0415 - an extra

            try:
                *named, plain = self._registry.schema(number)
                writer, own = _schema_of([*named, _without_times(plain)]), _times_of(plain)
                reader = None if self._reader is None else _schema_of([_without_times(self._reader)])
            except UnknownSchema as error:
                raise pa.ArrowInvalid(str(error)) from error
            except (*BROKEN, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
                raise pa.ArrowInvalid(f"schema {number} of the registry is no schema of Avro: {error}") from error
            times = own if self._reader is None else _times_of(self._reader)
            found = self._known[number] = ReadSchema(writer, reader, times)
        return found

    def _columns(self, rows: Sequence[Mapping[str, Any]], number: int | None) -> list[pa.RecordBatch]:
        """Make columns of records of one schema; nothing of no records."""
        if not rows or number is None:
            return []
        times = self._known[number].times
        columns = [_column([row.get(f.name) for row in rows], f, times.get(f.name)) for f in self._schema]
        return [pa.RecordBatch.from_arrays(columns, schema=self._schema)]


def _column(values: list[Any], field: pa.Field, time: pa.DataType | None) -> pa.Array:
    try:
        if time is not None:
            return pa.array(values, time).cast(field.type)
        column = of_type(pa.array(values, wide_type(field.type)), field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise pa.ArrowInvalid(f"column {field.name!r} is {field.type}: {error}") from error
    leaves = list(_leaves(values, field.type))
    if any(_has_truth(*leaf) for leaf in leaves):
        raise pa.ArrowInvalid(f"column {field.name!r} is {field.type}: the value has a boolean")
    if not all(_is_whole(*leaf) for leaf in leaves):
        raise pa.ArrowInvalid(f"column {field.name!r} is {field.type}: the value has a number with a fraction")
    return column


def _leaves(values: Sequence[Any], kind: pa.DataType) -> Iterator[tuple[Sequence[Any], pa.DataType]]:
    """Yield the values that are not nested, of each type by itself, with that type."""
    is_ = pa.types
    if not is_.is_nested(kind):
        yield values, kind
        return
    there = [value for value in values if value is not None]
    if is_.is_struct(kind):
        for field in kind:
            yield from _leaves([value.get(field.name) for value in there], field.type)
    elif is_.is_map(kind):
        yield from _leaves([item for value in there for item in value.values()], kind.item_type)
    else:
        yield from _leaves(list(chain.from_iterable(there)), kind.value_type)


def _has_truth(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Return whether a boolean becomes a number with a fraction. Arrow makes 1.0 and 0.0 of them without an error."""
    return pa.types.is_floating(kind) and bool in map(type, values)


def _is_whole(values: Sequence[Any], kind: pa.DataType) -> bool:
    """Return whether all that becomes whole numbers is whole. Arrow leaves out fractions without an error."""
    if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return True
    return FRACTIONS.isdisjoint(map(type, values)) or all(int(v) == v for v in values if type(v) in FRACTIONS)


def _id_of(value: bytes) -> int:
    if len(value) < HEADER.size or value[0]:
        raise pa.ArrowInvalid(
            "it does not begin with a zero byte and the id of a schema, as a registry's client writes"
        )
    return int(HEADER.unpack_from(value)[1])


def _schema_of(schemas: Sequence[Any]) -> Any:
    """Return the last of some schemas as the library wants it; the ones before are those that it refers to."""
    import fastavro  # noqa: PLC0415 - an extra

    named: dict[str, Any] = {}
    for schema in schemas[:-1]:
        fastavro.parse_schema(schema, named_schemas=named)
    return fastavro.parse_schema(schemas[-1], named_schemas=named)


def _fields(schema: Any) -> list[Any]:
    return list(schema["fields"]) if isinstance(schema, dict) and schema.get("type") == "record" else []


def _times_of(schema: Any) -> dict[str, pa.DataType]:
    """Return the types of the fields that are dates and times."""
    found = {field["name"]: _time_of(field["type"]) for field in _fields(schema)}
    return {name: kind for name, kind in found.items() if kind is not None}


def _time_of(kind: Any) -> pa.DataType | None:
    branches = [k for k in kind if k != "null"] if isinstance(kind, list) else [kind]
    known = branches[0] if len(branches) == 1 and isinstance(branches[0], dict) else {}
    return TIMES.get((str(known.get("type")), str(known.get("logicalType"))))


def _without_times(schema: Any) -> Any:
    """Return a schema whose fields of dates and times are plain numbers, which the library reads much faster."""
    if not _fields(schema):
        return schema
    return {**schema, "fields": [{**field, "type": _plain_number(field["type"])} for field in _fields(schema)]}


def _plain_number(kind: Any) -> Any:
    if _time_of(kind) is None:
        return kind
    return [_plain_number(k) for k in kind] if isinstance(kind, list) else kind if kind == "null" else kind["type"]


def _reader_schema(text: str, columns: pa.Schema) -> Any:
    """Read the reader's schema. Raises ConfigError when it is none, or lacks a declared column."""
    try:
        schema = parsed(text)
    except PeerError as error:
        raise ConfigError(f"kafka source: readerSchema is no JSON: {error}") from error
    names = [field["name"] for field in _fields(schema) if isinstance(field, dict) and "name" in field]
    if not names:
        raise ConfigError("kafka source: readerSchema has to be a record with fields")
    for name in columns.names:
        if name not in names:
            raise ConfigError(f"kafka source: readerSchema: {unknown('field', name, names)}")
    return schema
