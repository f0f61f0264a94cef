"""Rows to records of Kafka, by column."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.connectors.file_output import clean_schema, plain
from penstock.connectors.kafka.avro_encoding import AvroEncoder
from penstock.connectors.kafka.topics import TopicRules
from penstock.connectors.text_formats import json_texts
from penstock.contract.kafka_options import KafkaOutput, OutputFormat

RECORDS = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])
PRODUCED_AT_ONCE = 5_000
RECORD_OVERHEAD_BYTES = 512  # of a batch with one record
KEYS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


class RecordEncoder:
    """Makes records of rows."""

    def __init__(self, options: KafkaOutput, schema: pa.Schema) -> None:
        """Raises ConfigError when a column is missing, or has a type that a record cannot hold."""
        self._schema = clean_schema(schema)
        self._topic = options.topic
        self._key = options.key_column
        if self._key is not None and self._key not in self._schema.names:
            raise ConfigError(f"kafka sink: keyColumn: {unknown('column', self._key, self._schema.names)}")
        if self._key is not None and not _is_key(self._schema.field(self._key).type):
            kind = self._schema.field(self._key).type
            raise ConfigError(
                f"kafka sink: keyColumn: column {self._key!r} is {kind}: a key is a text, bytes or integer"
            )
        self._raw = OutputFormat(options.format) is OutputFormat.RAW
        values = [f for f in self._schema if f.name != self._key]
        if self._raw and (len(values) != 1 or values[0].type not in KEYS):
            names = ", ".join(f.name for f in values)
            raise ConfigError(
                f"kafka sink: format raw takes one column of binary or string beside the key, not {names}"
            )
        self._value = values[0].name if self._raw else ""
        self._avro = AvroEncoder(options, self._schema) if options.format == OutputFormat.AVRO else None
        if not self._raw and self._avro is None:
            json_texts(_empty(self._schema))
        self._rules = TopicRules()

    def claim(self, rules: TopicRules) -> None:
        """Take the ``rules`` of the topic, and ask others for what they know: the schema's id. Blocking.

        Raises ConfigError, also when the topic needs keys and the rows have none; StorageError.
        """
        self._rules = rules
        if rules.needs_key and self._key is None:
            raise ConfigError(f"{self._keyless}: name the column of the key (keyColumn), or another topic")
        if self._avro is not None:
            self._avro.claim()

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return key and value of each row. Raises ConfigError for a record that the topic does not take."""
        rows = plain(batch.select(self._schema.names), self._schema)
        key = pa.nulls(len(rows), pa.large_binary()) if self._key is None else _bytes(rows.column(self._key))
        if self._rules.needs_key and key.null_count:
            raise ConfigError(
                f"{self._keyless}: column {self._key!r} has a null: leave such rows out, or give them a key, in a step"
                " before"
            )
        value = self._values(rows)
        sizes = pc.add(pc.fill_null(pc.binary_length(key), 0), pc.fill_null(pc.binary_length(value), 0))
        largest = pc.max(sizes).as_py() or 0
        if largest + RECORD_OVERHEAD_BYTES > (bytes_max := self._rules.bytes_max):
            raise ConfigError(
                f"kafka sink: a record has {largest:,} bytes, topic {self._topic} takes {bytes_max:,}: raise its"
                " max.message.bytes, or make the rows smaller in a step before"
            )
        return pa.RecordBatch.from_arrays([key, value], schema=RECORDS)

    @property
    def _keyless(self) -> str:
        return f"kafka sink: topic {self._topic} is compacted (cleanup.policy), so it takes no record without a key"

    def _values(self, rows: pa.RecordBatch) -> pa.Array:
        if self._avro is not None:
            return self._avro.values(rows)
        return _bytes(rows.column(self._value) if self._raw else json_texts(rows))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _is_key(kind: pa.DataType) -> bool:
    return kind in KEYS or bool(pa.types.is_integer(kind))


def _bytes(values: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type):
        values = values.cast(pa.large_string())
    return values.cast(pa.large_binary())


def pieces_of(records: pa.RecordBatch, bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Divide records into pieces of some thousand, and of at most so many bytes where a single one is not larger."""
    sizes = [pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False) for column in records.columns]
    ends = np.cumsum(np.sum(sizes, axis=0))
    first = before = 0
    while first < records.num_rows:
        fits = int(np.searchsorted(ends, before + bytes_max, side="right"))
        end = max(first + 1, min(fits, first + PRODUCED_AT_ONCE))
        yield records.slice(first, end - first)
        first, before = end, int(ends[end - 1])


def messages_of(records: pa.RecordBatch) -> list[dict[str, bytes | None]]:
    """Return records as the client takes them."""
    keys, values = records.column(0).to_pylist(), records.column(1).to_pylist()
    return [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
