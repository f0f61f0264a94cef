"""Rows as a test or a notebook sees them: dicts of Python values, whatever a column holds."""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.python_values import python_values, refuse_cut


def shown_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Return n rows as dicts, and never raise.

    A time that no class of Python holds is a ``numpy.datetime64``, of a zone in UTC, or a ``numpy.timedelta64``: a
    duration, or the time since midnight. Any other such value is a text that says so.
    """
    if isinstance(rows, pa.Table):
        return [row for batch in rows.to_batches() for row in shown_rows(batch)]
    try:
        for column in rows.columns:
            refuse_cut(column)
        shown: list[dict[str, Any]] = rows.to_pylist()
    except (ValueError, OverflowError):
        values = zip(*map(_shown_values, rows.columns), strict=True)
        return [dict(zip(rows.schema.names, row, strict=True)) for row in values]
    return shown


def _shown_values(column: pa.Array) -> list[Any]:
    try:
        return python_values(column)
    except ValueError:
        return [_shown_value(column.slice(row, 1)) for row in range(len(column))]


def _shown_value(one: pa.Array) -> Any:
    try:
        return python_values(one)[0]
    except ValueError:
        t, kind = pa.types, one.type
        if not t.is_temporal(kind) or t.is_interval(kind):
            return f"<a {kind} that Python cannot represent>"
        number = one.view(pa.int32() if kind.bit_width == 32 else pa.int64())[0].as_py()
        if t.is_date(kind):
            return np.datetime64(number, "D" if t.is_date32(kind) else "ms")
        return (np.datetime64 if t.is_timestamp(kind) else np.timedelta64)(number, kind.unit)
