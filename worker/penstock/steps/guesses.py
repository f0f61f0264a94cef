"""Guesses from an exception for which row a function raised. A search that begins there is short.

A guess costs one search through the values of the rows, and one more call if it is wrong. Only calls
decide which row is bad. The guess uses, in this order:

1. iterators over the rows, which are among the variables of comprehensions and generators;
2. values that the exception names: a missing key, quoted text in its message, a null, a zero;
3. values of the variables of the innermost functions, for example of a loop;
4. numbers in the message.
"""

import re
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.limits import GUESSED_FRAMES_MAX, GUESSED_VALUES_MAX, USER_MESSAGE_CHARS_MAX
from penstock.base.user_code import is_users, named

_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])")
_VALUES = frozenset((str, bytes, int, float, Decimal, date, datetime, time))
_LIST_ITERATOR: type = type(iter([]))


class ColumnValue(NamedTuple):
    """A value of a row, and the index of its column."""

    column: int
    value: Any


def named_value(error: BaseException, row: pa.RecordBatch) -> ColumnValue | None:
    """Return the value of a single row that its exception names, or None."""
    text = named(error)
    kinds = [_kind(column) for column in row.columns]
    for value in islice((*_named_by(error, text), *_numbers(text)), GUESSED_VALUES_MAX):
        if isinstance(value, str | bytes) and len(value) > USER_MESSAGE_CHARS_MAX:
            continue  # the value would stay in memory
        for number, kind in enumerate(kinds):
            if kind is type(value) and _index(value, row.column(number)) == 0:
                return ColumnValue(number, value)
    return None


def _kind(column: pa.Array) -> type | None:
    try:
        return type(column[0].as_py())
    except (ValueError, OverflowError):
        return None  # Python cannot represent the value, so no message names it


def rows_with(named: ColumnValue, rows: pa.RecordBatch) -> list[int]:
    """Return the rows that have this value in its column, in ascending order."""
    column = rows.column(named.column)
    try:
        if named.value is None:
            found = pc.is_null(column) if column.null_count else None
        else:
            found = pc.call_function("equal", [column, pa.scalar(named.value, column.type)])
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return []  # the column has values of another kind
    if found is None or not found.true_count:
        return []
    places: list[int] = pc.call_function("indices_nonzero", [found]).to_pylist()
    return places


def guess_row(error: BaseException, rows: pa.RecordBatch) -> int | None:
    """Return the row that is probably the first bad one. None if nothing points to a row."""
    frames = _innermost(error)
    for value in (v for frame in frames for v in frame.f_locals.values()):
        place = _iterator_position(value, rows.num_rows)
        if place is not None:
            return place
    for number, value in enumerate(_values(error, frames)):
        if number == GUESSED_VALUES_MAX:
            break
        place = _first_record(value, rows) if isinstance(value, dict) else _first(value, rows)
        if place is not None:
            return place
    return None


def _innermost(error: BaseException) -> list[FrameType]:
    """Return the user's frames of a traceback. The frame that raised is the first."""
    frames, at = [], error.__traceback__
    while at is not None:
        if is_users(at.tb_frame.f_code.co_filename):
            frames.append(at.tb_frame)
        at = at.tb_next
    return frames[::-1][:GUESSED_FRAMES_MAX]


def _iterator_position(value: Any, rows: int) -> int | None:
    """Return the position of an iterator over a list with ``rows`` values; None for others."""
    while type(value) in {zip, enumerate}:
        value = value.__reduce__()[1][0]
    if type(value) is not _LIST_ITERATOR:
        return None
    found: Any = value.__reduce__()  # (iter, (list,), position); no position at the end
    return found[2] - 1 if len(found) > 2 and found[2] and len(found[1][0]) == rows else None


def _values(error: BaseException, frames: list[FrameType]) -> Iterator[Any]:
    text = named(error)
    yield from _named_by(error, text)
    for frame in frames:
        yield from (v for v in frame.f_locals.values() if type(v) is dict or type(v) in _VALUES)
    yield from _numbers(text)


def _named_by(error: BaseException, text: str) -> Iterator[Any]:
    """Yield the values that an exception names. ``text`` is its message."""
    if isinstance(error, KeyError):
        yield from (v for v in error.args if type(v) in _VALUES)
    yield from (one or other for one, other in _QUOTED.findall(text))
    if "NoneType" in text:
        yield None
    if isinstance(error, ZeroDivisionError):
        yield 0


def _numbers(text: str) -> Iterator[Any]:
    yield from (float(n) if "." in n else int(n) for n in _NUMBER.findall(text))


def _first(value: Any, rows: pa.RecordBatch) -> int | None:
    """Return the first row that has this value in the first column that has it."""
    found = (_index(value, column) for column in rows.columns)
    return next((place for place in found if place >= 0), None)


def _first_record(record: dict[Any, Any], rows: pa.RecordBatch) -> int | None:
    """Return the first row that has all values of this record."""
    if not record or not set(rows.schema.names).issuperset(record):
        return None
    for name, value in record.items():
        if type(value) not in _VALUES:
            continue
        place = _index(value, rows.column(name))
        while place >= 0:
            if all(rows.column(k)[place].as_py() == v for k, v in record.items()):
                return place
            place = _index(value, rows.column(name), place + 1)
        return None
    return None


def _index(value: Any, column: pa.Array, start: int = 0) -> int:
    """Return the first row from ``start`` on that has a value in this column, or -1."""
    try:
        if value is None:
            found = pc.index(pc.is_null(column.slice(start)), True) if column.null_count else -1
        else:
            found = pc.index(column.slice(start), pa.scalar(value, column.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return -1  # the column has values of another kind
    place = found if isinstance(found, int) else int(found.as_py())
    return place + start if place >= 0 else -1
