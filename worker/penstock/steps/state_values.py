"""The state of keys as user functions get it: arrays for a batch, a dict for a record.

A value is converted to the declared type when the function stores it. The conversion is exact, or
the value is refused (``model.exact``). So a function reads the same value later in this batch and in
the next one. Results therefore do not depend on the sizes of batches or on recoveries.

A number or bool begins as zero. A text, decimal, date or time begins as null. The table stores a
date or time with its sign bit flipped. The stored zero, which would be the smallest number, stands
for null.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.model.arrays import Int32s, fixed, fixed_array, pack_validity
from penstock.model.exact import Take, exact_array, exact_cast, taken, taker
from penstock.model.python_values import python_values
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import KeyedState

_DECIMAL = pa.binary(16)


@dataclass(frozen=True, slots=True)
class StateField:
    """A state column: its declared type, and the type that the table stores.

    ``dtype`` is explained at ``base.Value``.
    """

    name: str
    type: pa.DataType
    dtype: str

    @property
    def label(self) -> str:
        """Return the beginning of an error message about one of its values."""
        return f"state column {self.name!r}"

    @property
    def is_array(self) -> bool:
        """Return whether a function per batch gets a numpy array: numbers and bools, never null."""
        return not (self.dtype == BYTES or pa.types.is_temporal(self.type))

    @property
    def value(self) -> Value:
        """Return the column of the table.

        The name of a date or time column has its type, so a restore with another unit is refused.
        """
        timed = pa.types.is_temporal(self.type)
        return Value(f"{self.name}:{self.type}" if timed else self.name, self.dtype)

    def read(self, kept: KeyedState, rows: Int32s) -> Any:
        """Return a copy of the values of rows: a numpy array, or an Arrow array of this type."""
        value = self.value
        if self.dtype == BYTES:
            found = kept.read_bytes(value.name, rows)
            return _as_decimal(found, self.type) if pa.types.is_decimal(self.type) else found.cast(self.type)
        words: npt.NDArray[Any] = kept.column(value.name)[rows]
        if not self.is_array:
            bitmap = pack_validity(words != 0)
            return fixed_array(self.type, words ^ _sign(words), bitmap)
        return words.astype(np.bool_) if pa.types.is_boolean(self.type) else words

    def write(self, kept: KeyedState, rows: Int32s, values: Any) -> None:
        """Store what :meth:`exact` or :meth:`of_list` returned, one value for each row."""
        value = self.value
        if pa.types.is_decimal(self.type):
            kept.write_bytes(value.name, rows, values.view(_DECIMAL).cast(pa.binary()))
        elif self.dtype == BYTES:
            kept.write_bytes(value.name, rows, values.cast(pa.binary()))
        elif self.is_array:
            kept.column(value.name)[rows] = values
        else:
            words = fixed(values, np.dtype(self.dtype))
            words = words ^ _sign(words)
            words[np.asarray(values.is_null())] = 0
            kept.column(value.name)[rows] = words

    def exact(self, values: Any) -> Any:
        """Return a copy of values, one per key, in the form that :meth:`read` returns.

        Raises ValueError or TypeError for a value that the column cannot hold exactly.
        """
        masked = isinstance(values, np.ma.MaskedArray)  # what is behind a mask is no value
        if isinstance(values, np.ndarray) and self.is_array and not masked and values.dtype == _of_numpy(self.type):
            return values.copy()
        if isinstance(values, np.ndarray) and values.dtype != np.object_:
            values = pa.array(values)
        elif not isinstance(values, pa.Array | pa.ChunkedArray):
            return self.of_list(list(values))
        return self._checked(exact_cast(values, self.type, self.label))

    def of_list(self, values: Sequence[Any]) -> Any:
        """Do the same as :meth:`exact` for Python values."""
        return self._checked(exact_array(values, self.type, self.label))

    def _checked(self, array: pa.Array) -> Any:
        if self.dtype != BYTES and not self.is_array and self._has_reserved(array):
            raise ValueError(f"{self.label} cannot hold the earliest time of {self.type}")
        if not self.is_array:
            return array
        if array.null_count:
            raise ValueError(f"{self.label} cannot hold null: it is {self.type}, and begins as 0")
        return np.array(array.to_numpy(zero_copy_only=False))

    def _has_reserved(self, array: pa.Array) -> bool:
        """Return whether a time is in the array that the table uses for null."""
        words = fixed(array, np.dtype(self.dtype))
        found = words == np.iinfo(words.dtype).min
        return bool((found & ~np.asarray(array.is_null())).any())

    def first_value(self) -> Any:
        """Return the value of a new key, as a function per record reads it."""
        if not self.is_array:
            return None
        return _of_numpy(self.type).type(0).item()


def state_field(step: str, field: pa.Field) -> StateField:
    """Return how a state column is stored. Raises ConfigError for a type that cannot be stored."""
    t, kind = pa.types, field.type
    dtype = None
    if _is_bytes(kind) or t.is_decimal128(kind):
        dtype = BYTES
    elif t.is_boolean(kind):
        dtype = "uint8"
    elif t.is_integer(kind) or t.is_float32(kind) or t.is_float64(kind):
        dtype = str(_of_numpy(kind))
    elif t.is_temporal(kind) and not t.is_interval(kind):
        dtype = f"int{kind.bit_width}"
    if dtype is None:
        raise ConfigError(
            f"step {step!r}: state column {field.name!r} cannot be of type {kind}; "
            "use a number, bool, decimal128, date, time, string or binary"
        )
    return StateField(field.name, kind, dtype)


def _is_bytes(kind: pa.DataType) -> bool:
    t = pa.types
    text = t.is_string(kind) or t.is_large_string(kind)
    return bool(text or t.is_binary(kind) or t.is_large_binary(kind))


def _of_numpy(kind: pa.DataType) -> np.dtype[Any]:
    return np.dtype(np.bool_) if pa.types.is_boolean(kind) else np.dtype(kind.to_pandas_dtype())


def _sign(words: npt.NDArray[Any]) -> Any:
    return words.dtype.type(np.iinfo(words.dtype).min)


def _as_decimal(found: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values of 16 bytes (binary; null if nothing was stored) to decimals."""
    return found.cast(_DECIMAL).view(kind)


class BatchState:
    """The state of the keys of one batch. Row i has key number ``index[i]``, from 0 to keys - 1.

    ``state[name]`` is a copy of a state column with one item per key. It is a numpy array for
    numbers and bools (zero for a new key), and a pyarrow array for other types (null for a new
    key). ``state[name] = values`` stores one item per key; a value that does not fit exactly raises
    an error. ``delete(mask)`` deletes the keys for which the mask is true, even if the same call
    also stores values for them.
    """

    def __init__(self, kept: KeyedState, fields: Mapping[str, StateField], rows: Int32s) -> None:
        """Show the state of ``rows``: the row number of the key of each row of the batch."""
        self._kept = kept
        self._fields = fields
        self._rows, index = np.unique(rows, return_inverse=True)
        self.index: Int32s = index.astype(np.int32)
        self.keys = len(self._rows)
        self._written: dict[str, Any] = {}
        self._deleted: npt.NDArray[np.bool_] = np.zeros(self.keys, np.bool_)

    def __getitem__(self, name: str) -> Any:
        """Return the values of a column, one per key.

        Raises KeyError, with similar names, for a column that is not declared.
        """
        field = self._field(name)
        if name not in self._written:
            found = field.read(self._kept, self._rows)
        elif field.is_array:
            found = self._written[name].copy()
        else:
            found = self._written[name]  # no copy: Arrow arrays are immutable
        return self._without_deleted(field, found) if self._deleted.any() else found

    def _without_deleted(self, field: StateField, found: Any) -> Any:
        if field.is_array:
            found[self._deleted] = field.first_value()
            return found
        return pa.compute.if_else(pa.array(self._deleted), pa.scalar(None, field.type), found)

    def __setitem__(self, name: str, values: Any) -> None:
        """Store one value per key.

        Raises KeyError, ValueError or TypeError, with the name of the column.
        """
        field = self._field(name)
        if len(values) != self.keys:
            raise ValueError(f"{field.label} takes {self.keys} values, not {len(values)}")
        self._written[name] = field.exact(values)

    def delete(self, mask: Any) -> None:
        """Delete the keys for which ``mask`` is true. Their state begins anew.

        ``mask`` has one bool per key.
        """
        self._deleted |= np.asarray(mask, np.bool_)

    def _field(self, name: str) -> StateField:
        if name not in self._fields:
            raise KeyError(unknown("state column", name, self._fields))
        return self._fields[name]

    def store(self) -> None:
        """Write all changes to the table. The step calls this when the function has returned."""
        for name, values in self._written.items():
            self._fields[name].write(self._kept, self._rows, values)
        if self._deleted.any():
            self._kept.delete(self._rows[self._deleted])

    # --- By record ----------------------------------------------------------------------------

    def records(self, rules: "RecordRules") -> "list[RecordState]":
        """Return the state of each key as a dict that the function may change."""
        columns = [_listed(self[name], field.label) for name, field in self._fields.items()]
        rows = zip(*columns, strict=True) if columns else ((),) * self.keys
        return [RecordState(rules, row) for row in rows]

    def take_records(self, states: "Sequence[RecordState]", first: Mapping[str, Any]) -> None:
        """Take over the changes of the dicts that :meth:`records` returned.

        A key is deleted if its dict was cleared and has the values ``first`` of a new key.
        """
        for name, field in self._fields.items():
            self._written[name] = field.of_list([s[name] for s in states])
        deleted = (s.cleared and s == first for s in states)
        self._deleted |= np.fromiter(deleted, np.bool_, self.keys)


def _listed(values: Any, what: str) -> list[Any]:
    if isinstance(values, pa.Array):
        try:
            return python_values(values)
        except ValueError as error:
            raise ValueError(f"{what} cannot be read as a Python value: {error}") from None
    listed: list[Any] = values.tolist()
    return listed


@dataclass(frozen=True, slots=True)
class RecordRules:
    """The state columns of a step: their types, conversions and first values by name."""

    fields: Mapping[str, StateField]
    takes: Mapping[str, Take]
    first: Mapping[str, Any]

    def taken(self, name: str, value: Any) -> Any:
        """Return a value converted for its column. Raises KeyError, ValueError or TypeError."""
        field = self.fields.get(name)
        if field is None:
            raise KeyError(unknown("state column", name, self.fields))
        if value is not None:
            return taken(self.takes[name], value, field.type, field.label)
        if field.is_array:
            raise ValueError(
                f"{field.label} cannot hold None: it is {field.type}; del state[{name!r}] sets it "
                "back to its first value"
            )
        return None


def record_rules(fields: Mapping[str, StateField]) -> RecordRules:
    """Return the rules of a step. Called once when the step is made."""
    takes = {name: taker(field.type) for name, field in fields.items()}
    return RecordRules(fields, takes, {name: f.first_value() for name, f in fields.items()})


_put = dict.__setitem__
_CONVERSION_ERRORS = (KeyError, TypeError, ValueError, OverflowError)


class RecordState(dict[str, Any]):
    """The state of one key: a dict that always has exactly the declared columns.

    ``state["x"] = value`` converts the value to the type of the column. It raises an error if this
    is not exact, so later reads return the value that was stored. ``del state["x"]`` and ``pop``
    set a column back to its first value. ``clear()`` does this for all columns and deletes the key.
    """

    __slots__ = ("_rules", "_takes", "cleared")

    def __init__(self, rules: RecordRules, values: Iterable[Any]) -> None:
        """Begin with ``values``, one for each column."""
        super().__init__(zip(rules.fields, values, strict=True))
        self._rules = rules
        self._takes = rules.takes
        self.cleared = False

    def __missing__(self, name: str) -> NoReturn:
        """Raise KeyError: the column is not declared."""
        raise KeyError(unknown("state column", name, self))

    def __setitem__(self, name: str, value: Any) -> None:
        """Store a value in the type of its column. Raises KeyError, ValueError or TypeError."""
        try:
            kept = self._takes[name](value)
        except _CONVERSION_ERRORS:
            kept = self._rules.taken(name, value)  # handles None, and raises with the column's name
        _put(self, name, kept)

    def __delitem__(self, name: str) -> None:
        """Set a column back to its first value."""
        super().__setitem__(name, self._first(name))

    def _first(self, name: str) -> Any:
        if name not in self:
            self.__missing__(name)
        return self._rules.first[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a column. Raises KeyError if the column is not declared."""
        return self[name]

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the value of a column. Raises KeyError if the column is not declared."""
        return self[name]

    def pop(self, name: str, *_: Any) -> Any:
        """Return the value of a column, and set it back to its first value."""
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> NoReturn:
        """Raise TypeError: columns cannot be removed."""
        raise TypeError("columns of a state cannot be removed: del state[name] sets one back to its first value")

    def clear(self) -> None:
        """Delete the key: all columns have the values of a new key."""
        super().update(self._rules.first)
        self.cleared = True

    def restore(self, values: Mapping[str, Any]) -> None:
        """Undo changes. ``values`` are the earlier values of all columns."""
        super().update(values)

    def update(self, *others: Any, **values: Any) -> None:
        """Store several values. If one of them is refused, none is stored."""
        kept = {n: self._rules.taken(n, v) for n, v in dict(*others, **values).items()}
        super().update(kept)

    def __ior__(self, other: Any) -> "RecordState":  # type: ignore[override,misc]
        """Store several values, as :meth:`update` does."""
        self.update(other)
        return self
