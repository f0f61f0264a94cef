"""Records of Kafka to rows, by column.

The declared columns are those of the value and those of the record: key, timestamp, headers, partition,
offset, value as it came, reason. A record without a value has nulls in the columns of the value.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import ConfigError, StateError
from penstock.base.suggest import unknown
from penstock.connectors.kafka.avro import AvroDecoder
from penstock.connectors.text_formats import (
    Decode,
    check_types,
    csv_decoder,
    decode,
    decode_each,
    json_decoder,
    with_ends,
    with_times_checked,
)
from penstock.connectors.text_lines import as_text
from penstock.contract.bad_records import OnBadRecord
from penstock.contract.event_time import EventTime
from penstock.contract.kafka_options import KafkaInput, RecordFormat
from penstock.steps.undecoded import with_letters

VALUE_SHOWN_BYTES = 120
Fill = Callable[[Sequence[Any]], pa.Array]


@dataclass(frozen=True, slots=True)
class RecordPart:
    """A column that a record itself fills: its name and what makes it of records."""

    name: str
    fill: Fill


class RowDecoder:
    """Makes rows of records, in the columns of ``schema``."""

    def __init__(self, options: KafkaInput, schema: pa.Schema, event_time: EventTime | None = None) -> None:
        """Raises ConfigError when a column is not declared, or has a type that cannot be filled.

        A record whose value has no ``event_time`` that a timestamp holds does not decode, where something takes those.
        """
        self._schema = schema
        self._topic = options.topic
        self._parts = _parts(options, schema)
        self._error = options.error_column
        self.has_letters = options.on_error is OnBadRecord.DEAD_LETTER
        if self.has_letters and self._error is not None:
            raise ConfigError("kafka source: give errorColumn or onError: dead-letter, not both")
        _declared(self._error, "errorColumn", schema, (pa.string(), pa.large_string()))
        filled = {part.name for part in self._parts} | {self._error}
        self._value = pa.schema([f for f in schema if f.name not in filled])
        self._decode = _decoder(options, self._value)
        taken = self.has_letters or self._error is not None
        if taken and event_time is not None and event_time.column in self._value.names:
            self._decode = with_times_checked(self._decode, event_time)

    def rows(self, messages: Sequence[Any]) -> pa.RecordBatch:
        """Return one row for each record, with the hidden columns of dead letters if the source has them.

        Raises StateError with partition and offset when a record does not decode and neither a column nor a dead letter
        takes the reason.
        """
        values = pa.array([m.value() for m in messages], pa.large_binary())
        decoded, reasons = self._decoded(values)
        columns = {field.name: decoded.column(index) for index, field in enumerate(self._value)}
        for part in self._parts:
            columns[part.name] = self._part(part, messages, reasons)
        if reasons and self._error is None and not self.has_letters:
            raise StateError(self._bad(messages[min(reasons)], reasons[min(reasons)]))
        if self._error is not None:
            texts = [reasons.get(n) for n in range(len(messages))] if reasons else [None] * len(messages)
            columns[self._error] = pa.array(texts, self._schema.field(self._error).type)
        rows = pa.RecordBatch.from_arrays([columns[f.name] for f in self._schema], schema=self._schema)
        return self._with_letters(rows, messages, reasons) if self.has_letters else rows

    def _part(self, part: RecordPart, messages: Sequence[Any], reasons: dict[int, str]) -> pa.Array:
        """Fill a column from the records themselves. A key that is no text is a null, and a reason."""
        kind, values = self._schema.field(part.name).type, part.fill(messages)
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:
            pieces = [values.slice(n, 1) for n in range(len(values))]
        for number, piece in enumerate(pieces):
            try:
                pieces[number] = piece.cast(kind)
            except pa.ArrowInvalid as error:
                reasons.setdefault(number, f"column {part.name!r}: {error}")
                pieces[number] = pa.nulls(1, kind)
        return pa.concat_arrays(pieces)

    def _with_letters(self, rows: pa.RecordBatch, messages: Sequence[Any], reasons: dict[int, str]) -> pa.RecordBatch:
        """Append the hidden columns, which say of each record that did not decode what it was and where."""
        letters: dict[int, tuple[object, ...]] = {}
        for number, why in reasons.items():
            bad = messages[number]
            letters[number] = why, bad.key(), bad.value(), f"{self._topic}-{bad.partition()}", bad.offset()
        return with_letters(rows, letters)

    def _decoded(self, values: pa.Array) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Decode values; a null, and a value that does not decode, is a row of nulls. Returns the reasons as well."""
        if not values.null_count:
            found = decode(values, self._decode)
            if isinstance(found, pa.RecordBatch):
                return found, {}
        places = pc.indices_nonzero(values.is_valid()).to_pylist()
        found_each = decode_each(values.take(pa.array(places, pa.int64())), self._value, self._decode)
        index: list[int | None] = [None] * len(values)
        for row, place in enumerate(found_each.good):
            index[places[place]] = row
        rows = found_each.rows.take(pa.array(index, pa.int64()))
        return rows, {places[place]: why for place, why in found_each.bad.items()}

    def _bad(self, message: Any, why: str) -> str:
        shown = (message.value() or b"")[:VALUE_SHOWN_BYTES].decode(errors="backslashreplace")
        return (
            f"kafka source: topic {self._topic}, partition {message.partition()}, offset {message.offset()}: {why}; the"
            f" value is {shown!r}: give the source onError: dead-letter to keep such records apart, or begin behind it"
        )


def _decoder(options: KafkaInput, schema: pa.Schema) -> Decode:
    if not schema.names:
        raise ConfigError("kafka source: no column is left for the value: declare one")
    if options.format in (RecordFormat.JSON, RecordFormat.CSV):
        check_types(options.format, schema, "kafka source")
    match RecordFormat(options.format):
        case RecordFormat.AVRO:
            return AvroDecoder(options, schema)
        case RecordFormat.JSON:
            return _one_line(json_decoder(schema), "\t")  # space between values; within a text the decoder refuses it
        case RecordFormat.CSV:
            return _one_line(csv_decoder(schema, schema.names, options.delimiter), None)
        case RecordFormat.RAW:
            return _raw_decoder(schema)


def _one_line(decoder: Decode, instead: str | None) -> Decode:
    """Let a decoder of lines decode values, which may have line ends in them: ``instead`` takes their place."""

    def decoded(values: pa.Array) -> pa.RecordBatch:
        texts = as_text(values)
        if pc.any(pc.or_(pc.match_substring(texts, "\n"), pc.match_substring(texts, "\r"))).as_py():
            if instead is None:
                raise pa.ArrowInvalid("a value has a line break in it")
            for sign in "\r\n":
                texts = pc.replace_substring(texts, sign, instead)
        return decoder(with_ends(texts.cast(pa.large_binary())))

    return decoded


def _raw_decoder(schema: pa.Schema) -> Decode:
    if len(schema) != 1 or schema.field(0).type not in BYTES:
        raise ConfigError(
            f"kafka source: format raw fills one column of binary or string, declared are {', '.join(schema.names)}"
        )
    kind = schema.field(0).type

    def decoded(values: pa.Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([values.cast(kind)], schema=schema)

    return decoded


BYTES = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string())


def _parts(options: KafkaInput, schema: pa.Schema) -> tuple[RecordPart, ...]:
    texts, numbers = (pa.string(), pa.large_string()), (pa.int32(), pa.int64())
    wanted: list[tuple[str | None, str, tuple[pa.DataType, ...], Fill]] = [
        (options.key_column, "keyColumn", BYTES, _keys),
        (options.timestamp_column, "timestampColumn", (pa.timestamp("us"), pa.timestamp("us", "UTC")), _times),
        (options.headers_column, "headersColumn", texts, _headers),
        (options.partition_column, "partitionColumn", numbers, lambda ms: pa.array([m.partition() for m in ms])),
        (options.offset_column, "offsetColumn", (pa.int64(),), lambda ms: pa.array([m.offset() for m in ms])),
        (options.raw_column, "rawColumn", BYTES[:2], lambda ms: pa.array([m.value() for m in ms], pa.large_binary())),
    ]
    for name, option, kinds, _ in wanted:
        _declared(name, option, schema, kinds)
    parts = tuple(RecordPart(name, fill) for name, _, _, fill in wanted if name is not None)
    names = [part.name for part in parts] + [name for name in (options.error_column,) if name]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"kafka source: column {twice[0]!r} is to be filled by two parts of a record")
    return parts


def _declared(name: str | None, option: str, schema: pa.Schema, kinds: Sequence[pa.DataType]) -> None:
    if name is None:
        return
    if name not in schema.names:
        raise ConfigError(f"kafka source: {option}: {unknown('column', name, schema.names)}")
    if schema.field(name).type not in kinds:
        is_ = schema.field(name).type
        raise ConfigError(f"kafka source: {option}: column {name!r} is {is_}, due is {' or '.join(map(str, kinds))}")


def _keys(messages: Sequence[Any]) -> pa.Array:
    return pa.array([m.key() for m in messages], pa.large_binary())


def _times(messages: Sequence[Any]) -> pa.Array:
    stamps = [m.timestamp() for m in messages]
    return pa.array([ms if kind else None for kind, ms in stamps], pa.timestamp("ms"))


def _headers(messages: Sequence[Any]) -> pa.Array:
    return pa.array([_headers_text(m.headers()) for m in messages], pa.large_string())


def _headers_text(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    if not headers:
        return None
    found: dict[str, list[str | None]] = {}
    for name, value in headers:
        found.setdefault(name, []).append(None if value is None else value.decode(errors="backslashreplace"))
    return json.dumps({name: values if len(values) > 1 else values[0] for name, values in found.items()})
