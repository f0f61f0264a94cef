"""Whether Python would read the values of a field that machine code does not load.

Making a record reads all of its fields, so a value that is none of its field is an error of its row, whether or not
the function uses it. Machine code checks what it loads, and texts of Enums. Here are the other fields.
"""

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.arrays import flat
from penstock.model.declared.value_kinds import Choice, Instant, Item, Listed, Mapped, Struct, Tuple, ValueKind


def fits(item: Item, column: pa.Array) -> bool:
    """Return whether each value of a column of a type that fits is one of ``item``."""
    array = flat(column)
    if array.null_count:
        if not item.nullable:
            return False
        array = array.drop_null()
    return not len(array) or _fits(item.kind, array)


def _fits(kind: ValueKind, array: pa.Array) -> bool:
    match kind:
        case Choice(values):
            return set(pc.unique(array).to_pylist()) <= set(values)
        case Instant():
            return _is_in_64_bits(array)
        case Struct() | Tuple():
            if isinstance(kind, Struct) and hasattr(kind.python, "__post_init__"):
                return False  # it may raise
            parts = array.flatten()
            return all(fits(part, parts[array.type.get_field_index(name)]) for name, part in kind.parts)
        case Listed(item):
            return fits(item, array.flatten())
        case Mapped(key, item):
            entries = pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)]))
            keys, values = array.cast(entries).flatten().flatten()
            return fits(Item(key), keys) and fits(item, values)
        case _:
            return True


def _is_in_64_bits(times: pa.Array) -> bool:
    try:
        times.cast(pa.timestamp("us", times.type.tz))
    except pa.ArrowInvalid:
        return False
    return True
