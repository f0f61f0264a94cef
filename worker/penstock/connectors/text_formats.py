"""Rows as lines of text and back, by column: JSON lines and CSV.

``decode`` gets lines, each with its end, and gives as many rows, or says which line is at fault: a block that
does not decode is halved down to it. ``write_json`` and ``write_csv`` write a whole file.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from penstock.base.errors import ConfigError
from penstock.connectors.file_output import FileForm, HashingFile, clean_schema, plain
from penstock.connectors.published import SUFFIXES
from penstock.connectors.source_rows import as_times
from penstock.connectors.text_lines import as_text
from penstock.contract.event_time import EventTime

Decode = Callable[[pa.Array], pa.RecordBatch]  # of lines with their ends, as large_binary; raises ArrowInvalid
CONTROL = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
ESCAPED = {**{chr(n): f"\\u{n:04x}" for n in range(32)}, **CONTROL}
NEEDS_ESCAPE = r'[\x00-\x1f"\\]'


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that does not decode: its index among the lines, and why."""

    index: int
    why: str


def decode(lines: pa.Array, decoder: Decode) -> pa.RecordBatch | BadLine:
    """Decode lines to as many rows, or return the first line that does not decode."""
    found = _tried(lines, decoder)
    if isinstance(found, pa.RecordBatch):
        return found
    good, end, why = 0, len(lines), found
    while end - good > 1:  # all lines before ``good`` decode; one of those before ``end`` does not
        middle = (good + end) // 2
        found = _tried(lines.slice(good, middle - good), decoder)
        if isinstance(found, pa.RecordBatch):
            good = middle
        else:
            end, why = middle, found
    last = _tried(lines.slice(good, 1), decoder)
    return BadLine(good, last if isinstance(last, str) else why)


def with_times_checked(decoder: Decode, event_time: EventTime) -> Decode:
    """Return a decoder for which a line whose event time no timestamp[us] holds does not decode."""

    def checked(lines: pa.Array) -> pa.RecordBatch:
        rows = decoder(lines)
        try:
            as_times(rows.column(event_time.column), event_time.unit)
        except ConfigError as error:
            raise pa.ArrowInvalid(str(error)) from error
        return rows

    return checked


@dataclass(frozen=True, slots=True)
class Decoded:
    """Lines that were decoded: the places of the good ones, their rows, and why each other one is bad."""

    good: list[int]
    rows: pa.RecordBatch
    bad: dict[int, str]


def decode_each(lines: pa.Array, schema: pa.Schema, decoder: Decode) -> Decoded:
    """Decode every line that decodes. A block that does not is halved down to the bad lines."""
    good: list[int] = []
    pieces: list[pa.RecordBatch] = []
    bad: dict[int, str] = {}
    blocks = [(0, len(lines))] if len(lines) else []
    while blocks:
        first, count = blocks.pop()
        found = _tried(lines.slice(first, count), decoder)
        if isinstance(found, pa.RecordBatch):
            good += range(first, first + count)
            pieces.append(found)
        elif count == 1:
            bad[first] = found
        else:
            half = count // 2
            blocks += [(first + half, count - half), (first, half)]
    return Decoded(good, pa.concat_batches(pieces) if pieces else _no_rows(schema), bad)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _tried(lines: pa.Array, decoder: Decode) -> pa.RecordBatch | str:
    try:
        batch = decoder(lines)
        batch.validate(full=True)  # text that is no UTF-8 among it
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return str(error)
    if batch.num_rows != len(lines):
        return f"{len(lines)} lines give {batch.num_rows} rows: a line has to be one row"
    return batch


def json_decoder(schema: pa.Schema) -> Decode:
    """Return what decodes JSON objects, one a line. A field that is not in ``schema`` is passed over.

    A date or a time of the day is a text, as the sink writes it. Arrow's parser takes a number, of days for a date. A
    time in a zone other than UTC says its offset: Arrow's parser takes one without for UTC.
    """
    written = pa.schema([field.with_type(_written(field.type)) for field in schema])
    parse = pyarrow.json.ParseOptions(explicit_schema=written, unexpected_field_behavior="ignore")

    def decoder(lines: pa.Array) -> pa.RecordBatch:
        trimmed = pc.ascii_trim_whitespace(as_text(lines))
        if not pc.all(pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))).as_py():
            raise pa.ArrowInvalid("a line has to be one JSON object")  # so no object goes over a line's end
        text = _content(lines)
        read = pyarrow.json.ReadOptions(use_threads=False, block_size=text.size + 1)
        return _typed(_one(pyarrow.json.read_json(pa.BufferReader(text), read, parse), written), schema)

    return decoder


def _written(kind: pa.DataType) -> pa.DataType:
    """Return the type as which a value of JSON is parsed, before it is converted to ``kind``."""
    is_ = pa.types
    if is_.is_date(kind) or is_.is_time(kind) or (is_.is_timestamp(kind) and kind.tz not in (None, "UTC")):
        return pa.string()
    return pa.float64() if is_.is_float32(kind) else _of_values(kind, _written)


def wide_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with large floats in the place of small ones, also within it."""
    return pa.float64() if pa.types.is_float32(kind) else _of_values(kind, wide_type)


def _of_values(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a nested type with other types of the values in it, and any other type as it is."""
    is_ = pa.types
    if is_.is_struct(kind):
        return pa.struct([field.with_type(change(field.type)) for field in kind])
    if is_.is_map(kind):
        return pa.map_(kind.key_type, change(kind.item_type), kind.keys_sorted)
    if is_.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(change(kind.value_type)), kind.list_size)
    if is_.is_list(kind) or is_.is_large_list(kind):
        make = pa.list_ if is_.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(change(kind.value_type)))
    return kind


def _typed(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with dates and times of the day in place of their texts, and floats. Raises ArrowInvalid."""
    if rows.schema.equals(schema):
        return rows
    columns = [of_type(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def narrowed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return numbers as smaller floats. Raises ArrowInvalid for one that is too large: Arrow makes it infinite."""
    found = column.cast(kind)
    if pc.any(pc.and_(pc.is_inf(found), pc.is_finite(column))).as_py():
        raise pa.ArrowInvalid(f"a number is too large for {kind}")
    return found


def of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return what was parsed as :func:`wide_type` or as texts with its own type. Raises ArrowInvalid."""
    if column.type == kind:
        return column
    if pa.types.is_nested(kind):
        return _nested_of_type(column, kind)
    if pa.types.is_floating(kind):
        return narrowed(column, kind)
    if not pa.types.is_time(kind):
        return column.cast(kind)
    moments = pc.binary_join_element_wise(pa.scalar("1970-01-01 "), column, pa.scalar(""))
    return moments.cast(pa.timestamp(kind.unit)).cast(kind)


def _nested_of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert the values in a nested column, which is no slice of another one."""
    is_, mask = pa.types, column.is_null() if column.null_count else None
    if is_.is_struct(kind):
        parts = [of_type(column.field(n), field.type) for n, field in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if is_.is_map(kind):
        items = of_type(column.items, kind.item_type)
        return pa.MapArray.from_arrays(column.offsets, column.keys, items, type=kind, mask=mask)
    values = of_type(column.values, kind.value_type)
    if is_.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=mask)
    make = pa.ListArray if is_.is_list(kind) else pa.LargeListArray
    return make.from_arrays(column.offsets, values, type=kind, mask=mask)


def csv_decoder(schema: pa.Schema, header: Sequence[str], delimiter: str) -> Decode:
    """Return what decodes lines of CSV whose columns are ``header``. A value ends within its line."""
    written = pa.schema([field.with_type(wide_type(field.type)) for field in schema])
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=False)
    convert = pyarrow.csv.ConvertOptions(
        column_types={field.name: field.type for field in written}, include_columns=schema.names, null_values=[""]
    )

    def decoder(lines: pa.Array) -> pa.RecordBatch:
        text = _content(lines)
        if np.any(np.frombuffer(text, np.uint8) == ord('"')):
            open_quotes = pc.bit_wise_and(pc.count_substring(lines, '"'), 1)
            if pc.any(pc.equal(open_quotes, 1)).as_py():
                raise pa.ArrowInvalid("a quote is not closed: a value with a line break in it is not supported")
        read = pyarrow.csv.ReadOptions(use_threads=False, block_size=text.size + 1, column_names=list(header))
        rows = _one(pyarrow.csv.read_csv(pa.BufferReader(text), read, parse, convert), written)
        if infinite := [field.name for field, column in zip(written, rows.columns, strict=True) if _has_inf(column)]:
            texts = pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(infinite, pa.string()), include_columns=infinite, null_values=[""]
            )
            _refuse_too_large(pyarrow.csv.read_csv(pa.BufferReader(text), read, parse, texts), rows)
        return _typed(rows, schema)

    return decoder


def _has_inf(column: pa.Array) -> bool:
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_inf(column)).as_py())


def _refuse_too_large(texts: pa.Table, rows: pa.RecordBatch) -> None:
    """Raise ArrowInvalid for digits that became infinite: Arrow's parser does so without an error."""
    for name in texts.column_names:
        digits = pc.match_substring_regex(_whole(texts.column(name)), "[0-9]")
        if pc.any(pc.and_(digits, pc.is_inf(rows.column(name)))).as_py():
            raise pa.ArrowInvalid(f"column {name!r}: a number is too large for {rows.schema.field(name).type}")


def check_types(kind: str, schema: pa.Schema, where: str) -> None:
    """Raise ConfigError for a column of a type that no text of this ``kind`` ("json" or "csv") gives.

    ``where`` begins its text. Each line would be refused, or would be a dead letter.
    """
    for field in schema:
        alone = pa.schema([field])
        decoder = json_decoder(alone) if kind == "json" else csv_decoder(alone, alone.names, ",")
        try:
            decoder(pa.array([b"{}\n" if kind == "json" else b'""\n'], pa.large_binary()))
        except pa.ArrowNotImplementedError as error:
            raise ConfigError(
                f"{where}: column {field.name!r} is {field.type}, and no {kind.upper()} gives such values: declare"
                " another type, like string, and make this one of it in a step"
            ) from error


def with_ends(values: pa.Array) -> pa.Array:
    """Return values, as large_binary, with a line end behind each."""
    ends = pa.array([b"\n"], pa.large_binary()).take(pa.array([0] * len(values)))
    return pc.binary_join_element_wise(values, ends, pa.scalar(b"", pa.large_binary()))


def _content(values: pa.Array) -> pa.Buffer:
    """Return all values of a large_binary or large_string array, one behind the other."""
    offsets = pa.Array.from_buffers(pa.int64(), values.offset + len(values) + 1, [None, values.buffers()[1]])
    first, last = offsets[values.offset].as_py(), offsets[values.offset + len(values)].as_py()
    return values.buffers()[2].slice(first, last - first)


def _one(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_whole(table.column(field.name)) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


# --- Writing ------------------------------------------------------------------------------------


def json_form(schema: pa.Schema) -> FileForm:
    """Return the form of files of JSON lines. Raises ConfigError for a column that JSON cannot hold."""
    visible = clean_schema(schema)
    for field in visible:
        _json_value(pa.array([], field.type), field)
    return FileForm(visible, SUFFIXES["json"], write_json)


def csv_form(schema: pa.Schema) -> FileForm:
    """Return the form of CSV files with a header. Raises ConfigError for a column of lists, structs, maps or bytes."""
    visible = pa.schema([_without_views(field) for field in clean_schema(schema)])
    for field in visible:
        if pa.types.is_nested(field.type) or _is_bytes(field.type):
            raise ConfigError(f"csv sink: column {field.name!r} is {field.type}, CSV has no such values")
    return FileForm(visible, SUFFIXES["csv"], write_csv)


def _without_views(field: pa.Field) -> pa.Field:
    """Return a column of texts as Arrow's writer of CSV knows it."""
    return field.with_type(pa.large_string()) if pa.types.is_string_view(field.type) else field


def _is_bytes(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(
        is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind) or is_.is_fixed_size_binary(kind)
    )


def write_csv(out: HashingFile, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    """Write a header and one line for each row. A null is an empty value, an empty text is ``""``.

    So is a null that is a whole row: readers pass over empty lines.
    """
    table = pa.Table.from_batches([plain(batch, schema) for batch in batches], schema)
    if len(schema) == 1 and table[0].null_count:
        table = pa.table({schema.names[0]: pc.fill_null(table[0].cast(pa.large_string()), "")})
    pyarrow.csv.write_csv(table, pa.PythonFile(out, "w"))


def write_json(out: HashingFile, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    """Write one object for each row."""
    for batch in batches:
        if batch.num_rows:
            out.write(json_lines(plain(batch, schema)))


def json_lines(batch: pa.RecordBatch) -> bytes:
    """Return the rows as lines of JSON objects."""
    return bytes(_content(json_texts(batch, "}\n")))


def json_texts(batch: pa.RecordBatch, end: str = "}") -> pa.Array:
    """Return each row as a JSON object. Raises ConfigError for a type that has no JSON value here."""
    parts: list[pa.Array | pa.Scalar] = []
    for index, field in enumerate(batch.schema):
        parts += [_text(("{" if index == 0 else ", ") + json.dumps(field.name) + ": ")]
        parts += [_json_value(batch.column(index), field)]
    return pc.binary_join_element_wise(*parts, _text(end), _text(""))


def _json_value(values: pa.Array, field: pa.Field) -> pa.Array:
    """Return each value as JSON. Raises ConfigError for a type that has no JSON value here."""
    kind, is_ = values.type, pa.types
    if is_.is_boolean(kind) or is_.is_integer(kind):
        text = values.cast(pa.large_string())
    elif is_.is_floating(kind):
        finite = pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind))
        text = finite.cast(pa.large_string())
    elif is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind):
        text = _quoted(_escaped(values.cast(pa.large_string())))
    elif is_.is_timestamp(kind):
        end = "Z" if kind.tz else ""
        shown = values.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz else values
        text = _quoted(pc.strftime(shown, f"%Y-%m-%dT%H:%M:%S{end}").cast(pa.large_string()))
    elif is_.is_date(kind) or is_.is_time(kind) or is_.is_decimal(kind):
        text = _quoted(values.cast(pa.string()).cast(pa.large_string()))
    elif is_.is_null(kind):
        text = pa.nulls(len(values), pa.large_string())
    else:
        raise ConfigError(
            f"json sink: column {field.name!r} is {kind}: it takes numbers, booleans, texts, decimals, dates and"
            " times; make a text of it in a step before, or write Parquet"
        )
    return pc.fill_null(text, "null")


def _quoted(text: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(_text('"'), text, _text('"'), _text(""))


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _escaped(text: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(text, NEEDS_ESCAPE)).as_py():
        return text
    text = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    for sign, escaped in ESCAPED.items():
        text = pc.replace_substring(text, sign, escaped)
    return text
