"""Rows to values of Avro, with the wire format of Confluent."""

import io
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.connectors.kafka.avro import BROKEN, HEADER, avro_library
from penstock.connectors.kafka.registry import SchemaRegistry
from penstock.contract.kafka_options import KafkaOutput

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A column type, its Avro type, and the type of the numbers that are written for it.
SIMPLE: dict[pa.DataType, tuple[Any, pa.DataType | None]] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), ("int", None)),
    **dict.fromkeys((pa.int64(), pa.uint32()), ("long", None)),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), ("string", None)),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), ("bytes", None)),
    pa.bool_(): ("boolean", None),
    pa.float32(): ("float", None),
    pa.float64(): ("double", None),
    pa.null(): ("null", None),
    pa.date32(): ({"type": "int", "logicalType": "date"}, pa.int32()),
    pa.time32("ms"): ({"type": "int", "logicalType": "time-millis"}, pa.int32()),
    pa.time64("us"): ({"type": "long", "logicalType": "time-micros"}, pa.int64()),
    pa.timestamp("ms"): ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.int64()),
    pa.timestamp("us"): ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.int64()),
}
INSTANTS = {"ms": "timestamp-millis", "us": "timestamp-micros"}  # with a time zone


class AvroEncoder:
    """Makes values of rows. The registry is asked once for the id of their schema."""

    def __init__(self, options: KafkaOutput, schema: pa.Schema) -> None:
        """Ask no registry yet. Raises ConfigError for a column that Avro cannot hold, or when options do not fit."""
        self._registry = SchemaRegistry(options)
        self._subject = options.subject or f"{options.topic}-value"
        self._register = options.register_schema
        self._numbers: list[pa.DataType | None] = []
        name = re.sub(r"[^A-Za-z0-9_]", "_", options.topic)
        name = name if NAME.fullmatch(name) else f"_{name}"
        fields = []
        for field in schema:
            kind, numbers = _avro_type(field, f"{name}_value")
            fields.append(_field(field, kind))
            self._numbers.append(numbers)
        self._schema = {"type": "record", "name": f"{name}_value", "fields": fields}
        self._header = b""
        self._write: Callable[[io.BytesIO, Any], None] | None = None

    def claim(self) -> None:
        """Ask the registry for the id of the schema. Blocking. Raises ConfigError when it refuses, StorageError."""
        if self._write is not None:
            return
        library = avro_library()
        number = self._registry.id_of(self._subject, self._schema, register=self._register)
        parsed = library.parse_schema(self._schema)
        self._header = HEADER.pack(0, number)
        self._write = lambda out, row: library.schemaless_writer(out, parsed, row)

    def values(self, rows: pa.RecordBatch) -> pa.Array:
        """Return each row as a value. Raises ConfigError for one that Avro cannot hold."""
        self.claim()
        assert self._write is not None, "claimed"
        columns = [
            column if numbers is None else column.cast(numbers)
            for column, numbers in zip(rows.columns, self._numbers, strict=True)
        ]
        plain = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
        values = []
        try:
            for row in plain.to_pylist():
                out = io.BytesIO(self._header)
                out.seek(HEADER.size)
                self._write(out, row)
                values.append(out.getvalue())
        except BROKEN as error:
            raise ConfigError(f"kafka sink: a row cannot be written as Avro: {error}") from error
        return pa.array(values, pa.large_binary())


def _field(field: pa.Field, kind: Any) -> dict[str, Any]:
    if not NAME.fullmatch(field.name):
        raise ConfigError(
            f"kafka sink: format avro: column {field.name!r}: a name has letters, digits and _: rename it before"
        )
    if kind == "null":
        return {"name": field.name, "type": "null", "default": None}
    if not field.nullable:
        return {"name": field.name, "type": kind}
    return {"name": field.name, "type": ["null", kind], "default": None}


def _avro_type(field: pa.Field, parent: str) -> tuple[Any, pa.DataType | None]:
    """Return the Avro type of a column, and the type of the numbers that are written for it."""
    kind, is_ = field.type, pa.types
    if (simple := SIMPLE.get(kind)) is not None:
        return simple
    if is_.is_timestamp(kind) and kind.tz and kind.unit in INSTANTS:
        return {"type": "long", "logicalType": INSTANTS[kind.unit]}, pa.int64()
    if is_.is_decimal128(kind) and kind.scale >= 0:
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}, None
    name = f"{parent}_{field.name}"
    if is_.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": name, "size": kind.byte_width}, None
    if is_.is_struct(kind):
        inner = [_field(f, _inner_type(f, name)) for f in kind]
        return {"type": "record", "name": name, "fields": inner}, None
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        items = _inner_type(kind.value_field, name)
        return {"type": "array", "items": items if items == "null" else ["null", items]}, None
    raise ConfigError(
        f"kafka sink: format avro: column {field.name!r} is {kind}, which Avro cannot hold: cast it in a step before"
    )


def _inner_type(field: pa.Field, parent: str) -> Any:
    """Return the Avro type of a field or item within a column; the library writes the dates and times there."""
    return _avro_type(field, parent)[0]
