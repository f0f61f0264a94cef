"""Rows of a table as a step keeps them: tuples of values, and columns of them again."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.ports import Found

TableRow = tuple[Any, ...]
NO_ROW: TableRow = ()  # the answer that the table has no row with a key


class TableRows:
    """Makes tuples of columns, and columns of tuples."""

    def __init__(self, schema: pa.Schema) -> None:
        """Take and make columns of ``schema``."""
        self._schema = schema
        self._stored = [_stored(kind) for kind in schema.types]

    def by_key(self, found: Found, keys: int) -> list[TableRow | None]:
        """Return the row of each of so many keys, NO_ROW where there is none, None where there are several."""
        stored = (column.view(kind) for column, kind in zip(found.rows.columns, self._stored, strict=True))
        rows: list[TableRow | None] = [NO_ROW] * keys
        values = zip(*(column.to_pylist() for column in stored), strict=True)
        for key, row in zip(found.keys, values, strict=True):
            rows[key] = row if rows[key] == NO_ROW else None
        return rows

    def columns(self, rows: Sequence[TableRow]) -> list[pa.Array]:
        """Return the columns of rows, with nulls for NO_ROW."""
        nothing = (None,) * len(self._stored)
        values = zip(*(row or nothing for row in rows), strict=True) if rows else [()] * len(self._stored)
        kinds = zip(values, self._stored, self._schema.types, strict=True)
        return [pa.array(each, stored).view(kind) for each, stored, kind in kinds]


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the type whose values are kept: times as whole numbers, because Python knows fewer of them."""
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind
