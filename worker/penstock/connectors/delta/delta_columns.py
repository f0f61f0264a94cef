"""Which rows a table of Delta Lake takes. What it would refuse, or take and not keep, is refused before the commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.connectors.staged_columns import pyarrow_columns, staged_rows

WRITER_FEATURES = frozenset(  # what a sink that only adds files need not care about, or that is looked at below
    ["appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "domainMetadata",
     "generatedColumns", "identityColumns", "inCommitTimestamp", "invariants", "timestampNtz", "v2Checkpoint",
     "vacuumProtocolCheck"]
)  # fmt: skip
OWN_VALUES = ("delta.generationExpression", "delta.identity.start", "delta.invariants")  # of a column
SIMPLE: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}
TAKES = "booleans, signed whole numbers, floats, decimals, texts, bytes, dates and timestamps"


@dataclass(frozen=True, slots=True)
class DeltaColumns:
    """The columns of rows as they are staged, and as the table has them."""

    where: str
    staged: pa.Schema
    types: dict[str, str]

    @staticmethod
    def of(rows: pa.Schema, where: str) -> "DeltaColumns":
        """Take rows of a schema. ``where`` begins texts of errors. Raises ConfigError for a type that has no like."""
        types = {field.name: _delta_type(field, where) for field in rows}
        return DeltaColumns(where, pa.schema([pa.field(f.name, _staged_type(f.type)) for f in rows]), types)

    def statement(self, url: str) -> str:
        """Return what makes a table for such rows, in Python."""
        columns = pyarrow_columns(self.staged)
        return (
            "import pyarrow as pa; from deltalake import DeltaTable;"
            f' DeltaTable.create("{url}", pa.schema([{columns}]))'
        )

    def refusal(self, schema: dict[str, Any], settings: dict[str, str], features: Sequence[str]) -> str | None:
        """Return why the table does not take such rows; None when it does."""
        found = {field["name"]: field for field in schema["fields"]}
        for name, kind in self.types.items():
            if name not in found:
                return f"{unknown('column', name, found)}: leave it out in a step before, or add it to the table"
            if found[name]["type"] != kind:
                return f"column {name!r} is {found[name]['type']}, and the rows have {kind}: make them equal"
        for name, field in found.items():
            if any(key in field.get("metadata", {}) for key in OWN_VALUES):
                return f"column {name!r} is generated, numbered or checked by its writer, which this sink does not do"
            if name not in self.types and not field["nullable"]:
                return f"column {name!r} is NOT NULL, and the rows lack it: add it in a step before"
        checks = [key for key in settings if key.startswith("delta.constraints.")]
        if checks:
            return f"it has CHECK constraints, which this sink does not look at: drop {', '.join(checks)}"
        if settings.get("delta.columnMapping.mode", "none") != "none":
            return "it maps names of columns (delta.columnMapping.mode), which this sink does not do"
        others = sorted(set(features) - WRITER_FEATURES)
        return f"its writers have to know {', '.join(others)}, which this sink does not" if others else None

    def not_null(self, schema: dict[str, Any]) -> tuple[str, ...]:
        """Return the columns in which the table has no nulls."""
        return tuple(f["name"] for f in schema["fields"] if not f["nullable"] and f["name"] in self.types)

    def encode(self, batch: pa.RecordBatch, not_null: Sequence[str]) -> pa.RecordBatch:
        """Return rows as they are staged. Raises ConfigError for a value that the table would refuse."""
        return staged_rows(batch, self.staged, not_null, self.where)


def _staged_type(kind: pa.DataType) -> pa.DataType:
    return pa.timestamp("us", "UTC" if kind.tz else None) if pa.types.is_timestamp(kind) else kind


def _delta_type(field: pa.Field, where: str) -> str:
    kind = field.type
    if kind in SIMPLE:
        return SIMPLE[kind]
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    raise ConfigError(f"{where}: column {field.name!r} is {kind}: it takes {TAKES}; make one of these in a step before")
