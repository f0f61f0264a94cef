"""The partitions of a table of Iceberg: which rows go to which file, and what the table is told of it.

A staged file has rows of one value of each partition field. Its folder says them as JSON, by the numbers of the fields:
``1000=19780/1001=%22de%22``. These are the values after the transform, as the table keeps them: days since 1970, a
bucket, the first letters of a text.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.connectors.partitions import split_by
from penstock.contract.codec import parsed

SOURCES = ("boolean", "int", "long", "string", "date", "time", "timestamp", "timestamptz")
NAME_BYTES_MAX = 200  # file systems take 255, and a key of S3 has 1,024 in all
DAY_US, HOUR_US = 86_400_000_000, 3_600_000_000


@dataclass(frozen=True, slots=True)
class PartitionFields:
    """The partition fields of one table: number, column, type of the column, and transform of each."""

    fields: tuple[tuple[int, str, Any, Any], ...]

    @staticmethod
    def of(spec: Any, schema: Any, columns: Sequence[str], where: str) -> "PartitionFields":
        """Take the fields of a table for rows with ``columns``. Raises ConfigError for what this sink does not do."""
        fields = []
        for field in spec.fields:
            source = schema.find_field(field.source_id)
            about = f"{where}: partition field {field.name!r}"
            if source.name not in columns:
                raise ConfigError(f"{about}: the rows lack its column {source.name!r}: add it in a step before")
            if str(source.field_type) not in SOURCES:
                kinds = ", ".join(SOURCES)
                raise ConfigError(f"{about}: column {source.name!r} is {source.field_type}: it takes {kinds}")
            name = str(field.transform).partition("[")[0]
            if name not in ("identity", "void", "bucket", "truncate", "year", "month", "day", "hour"):
                raise ConfigError(f"{about}: this sink does not know the transform {field.transform}")
            fields.append((field.field_id, source.name, source.field_type, field.transform))
        return PartitionFields(tuple(fields))

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Give each folder with its rows, in their order."""
        if not self.fields:
            return iter((("", rows),))
        return split_by([_parts(n, _transformed(t, k, rows.column(c))) for n, c, k, t in self.fields], rows)


def values_in(folder: str) -> dict[int, Any]:
    """Return the values of a folder by the numbers of their fields."""
    parts = (part.partition("=") for part in folder.split("/") if part)
    return {int(number): parsed(unquote(value)) for number, _, value in parts}


def record_of(spec: Any, values: Mapping[int, Any]) -> Any:
    """Return values as the client has them. Raises KeyError when they are those of another spec."""
    from pyiceberg.typedef import Record  # noqa: PLC0415 - an extra

    if len(values) != len(spec.fields):
        raise KeyError(f"{len(values)} fields for {len(spec.fields)}")
    return Record(*(values[field.field_id] for field in spec.fields))


def path_of(table: Any, values: Mapping[int, Any]) -> str:
    """Return the folder of a file below the table's folder of data, for people: no reader goes by it.

    It is left out when a value is too long for a name.
    """
    try:
        path = table.spec().partition_to_path(record_of(table.spec(), values), table.schema())
    except KeyError:
        return ""  # the table has other fields by now; the commit says so
    fits = all(len(part.encode()) <= NAME_BYTES_MAX for part in path.split("/"))
    return f"{path}/" if path and fits else ""


def _parts(number: int, values: pa.Array) -> pa.Array:
    """Return the part of the folder's name for each row."""
    encoded = values.dictionary_encode("encode")
    texts = [f"{number}={quote(json.dumps(value), safe='')}" for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _transformed(transform: Any, kind: Any, values: pa.Array) -> pa.Array:
    """Return the values of a partition field: texts, numbers or booleans."""
    plain = _internal(values)
    match str(transform).partition("[")[0]:
        case "identity":
            return plain
        case "void":
            return pa.nulls(len(plain), pa.int64())
        case "bucket" | "truncate":
            encoded, change = plain.dictionary_encode("encode"), transform.transform(kind)
            changed = [change(value) for value in encoded.dictionary.to_pylist()]
            return pa.array(changed, pa.string() if any(isinstance(v, str) for v in changed) else pa.int64()).take(
                encoded.indices
            )
        case unit:
            return pa.array(_since_1970(unit, str(kind) == "date", plain), mask=plain.is_null().to_numpy(False))


def _internal(values: pa.Array) -> pa.Array:
    """Return values as Iceberg counts them: days of dates, microseconds of times."""
    kind = values.type
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    return values.cast(pa.int64()) if not (pa.types.is_string(kind) or pa.types.is_boolean(kind)) else values


def _since_1970(unit: str, of_days: bool, values: pa.Array) -> Any:
    """Return whole years, months, days or hours since 1970; before it they are negative."""
    counted = values.fill_null(0).to_numpy(zero_copy_only=False)
    if unit in ("year", "month"):
        times = counted.astype("datetime64[D]" if of_days else "datetime64[us]")
        return times.astype(f"datetime64[{'Y' if unit == 'year' else 'M'}]").astype(np.int64)
    return counted if of_days else counted // (DAY_US if unit == "day" else HOUR_US)
