"""The values of an array as Python has them; a value that Python would cut is refused.

The times of ``datetime`` have microseconds. Arrow refuses to read a finer one, or, where pandas is there, gives a class
of pandas that has nanoseconds. But pandas has no time of the day: its nanoseconds would be cut without a word.
"""

from typing import Any

import numpy as np
import pyarrow as pa

_NS_OF_US = 1_000


def python_values(array: pa.Array) -> list[Any]:
    """Return n values as Python has them; null is None. Raises ValueError for one that no class of Python holds."""
    refuse_cut(array)
    try:
        values: list[Any] = array.to_pylist()
    except (ValueError, OverflowError) as error:
        found = _finer(array, day_only=False)
        raise ValueError(str(error) if found is None else _refusal(found)) from None
    return values


def refuse_cut(array: pa.Array) -> None:
    """Raise ValueError for a time of the day, at any depth, that ``array.to_pylist()`` would cut."""
    if may_be_cut(array.type) and (found := _finer(array, day_only=True)) is not None:
        raise ValueError(_refusal(found))


def _refusal(value: str) -> str:
    return f"{value} is finer than us, as no time of Python is"


def may_be_cut(kind: pa.DataType) -> bool:
    """Return whether a type has times of the day in nanoseconds."""
    t = pa.types
    if t.is_time64(kind):
        return bool(kind.unit == "ns")
    if t.is_dictionary(kind):
        return may_be_cut(kind.value_type)
    return t.is_nested(kind) and any(may_be_cut(kind.field(i).type) for i in range(kind.num_fields))


def first_finer(array: pa.Array, step_ns: int) -> str | None:
    """Return the first of n times in nanoseconds that is no multiple of ``step_ns``, as text; None if all are."""
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(numbers % step_ns)
    if not len(places):
        return None
    text = array.slice(int(places[0]), 1).cast(pa.string())[0].as_py()
    return f"{text} ns" if pa.types.is_duration(array.type) else str(text)


def _finer(array: pa.Array, *, day_only: bool) -> str | None:
    """Return the first time, at any depth, that is finer than a microsecond: of the day only, or of any type."""
    t = pa.types
    if t.is_dictionary(array.type):
        return _finer(array.dictionary_decode(), day_only=day_only)
    if t.is_struct(array.type):
        found = (_finer(part, day_only=day_only) for part in array.flatten())
        return next((text for text in found if text is not None), None)
    if t.is_map(array.type):
        entry = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
        return _finer(array.cast(pa.list_(entry)), day_only=day_only)  # Arrow flattens no map
    if t.is_nested(array.type) and not t.is_union(array.type):
        return _finer(array.flatten(), day_only=day_only)
    timed = t.is_time64(array.type) or (not day_only and (t.is_timestamp(array.type) or t.is_duration(array.type)))
    return first_finer(array, _NS_OF_US) if timed and array.type.unit == "ns" else None
