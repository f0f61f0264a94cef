"""Records of user code as they were when they were given: the function may go on to change them."""

from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

_UNCHANGING = frozenset({type(None), bool, int, float, str, bytes, date, datetime, time, timedelta, Decimal})
_SEQUENCES = (list, tuple)
_COPIED = (np.ndarray, bytearray, set)


def kept_record(record: Any) -> Any:
    """Return a copy of a record that no later change reaches, at any depth. What is no dict is returned as it is."""
    if not isinstance(record, dict):
        return record
    if _UNCHANGING.issuperset(map(type, record.values())):
        return record.copy()
    return {name: kept_value(value) for name, value in record.items()}


def kept_records(records: Iterable[Any]) -> list[Any]:
    """Copy each record as soon as it is there: a generator may change the one before, and yield it again."""
    return [kept_record(record) for record in records]


def kept_value(value: Any) -> Any:
    """Return a copy of a value, if it is one of the kinds that can change and that a column takes."""
    kind = type(value)
    if kind in _UNCHANGING:
        return value
    if kind is list:
        return [kept_value(each) for each in value]
    if isinstance(value, dict):
        return kept_record(value)
    if isinstance(value, _SEQUENCES):
        return tuple(kept_value(each) for each in value)
    if isinstance(value, _COPIED):
        return value.copy()
    return value
