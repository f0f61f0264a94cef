"""The Arrow types of the kinds of values."""

import pyarrow as pa

from penstock.model.declared.value_kinds import (
    DecimalNumber,
    Instant,
    Listed,
    Mapped,
    Struct,
    Tuple,
    ValueKind,
)


def arrow_of(kind: ValueKind) -> pa.DataType:
    """Return the type of a column with values of this kind. It is what the text ``kind.arrow`` names."""
    match kind:
        case Instant():
            return pa.timestamp("us")
        case DecimalNumber(digits, scale):
            return pa.decimal128(digits, scale)
        case Struct() | Tuple():
            return pa.struct([pa.field(name, arrow_of(part.kind)) for name, part in kind.parts])
        case Listed(item):
            return pa.list_(arrow_of(item.kind))
        case Mapped(key, item):
            return pa.map_(arrow_of(key), arrow_of(item.kind))
        case _:
            return pa.type_for_alias(kind.arrow)
