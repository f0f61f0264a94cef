"""State of keys as user functions see it: by batch as arrays, by record as a dict.

Whatever is stored has its declared type at once, exactly or refused (``model.exact``). So what a
function reads back in the same batch is what it would read in the next one, and results do not
depend on how rows fall into batches, nor on where a recovery began.

A number or bool begins as zero. A text, decimal, date or time begins as null; the table keeps a
date or time with its sign bit flipped, so that its zero, the smallest number, stands for null.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.model.columns import Int32s, fixed, fixed_array, pack_validity
from penstock.model.exact import Take, exact_array, exact_cast, taken, taker
from penstock.steps.base import KeyedState, Value

BYTES = "bytes"
_DECIMAL = pa.binary(16)


@dataclass(frozen=True, slots=True)
class StateField:
    """A state column as declared, and as the table keeps it (``dtype``, see ``base.Value``)."""

    name: str
    type: pa.DataType
    dtype: str

    @property
    def label(self) -> str:
        """Begin a complaint about one of its values."""
        return f"state column {self.name!r}"

    @property
    def is_array(self) -> bool:
        """Say whether a batch function gets it as a numpy array: numbers and bools, never null."""
        return not (self.dtype == BYTES or pa.types.is_temporal(self.type))

    @property
    def value(self) -> Value:
        """Return the column of the table. A time's name has its unit: other units do not fit."""
        timed = pa.types.is_temporal(self.type)
        return Value(f"{self.name}:{self.type}" if timed else self.name, self.dtype)

    def read(self, kept: KeyedState, rows: Int32s) -> Any:
        """Return a copy of the values of rows: a numpy array, or an Arrow array of the type."""
        value = self.value
        if self.dtype == BYTES:
            found = kept.read_bytes(value.name, rows)
            return (
                _as_decimal(found, self.type)
                if pa.types.is_decimal(self.type)
                else found.cast(self.type)
            )
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
        """Return a copy of values, one per key, as :meth:`read` would. Raises as ``exact`` does."""
        if (
            isinstance(values, np.ndarray)
            and self.is_array
            and values.dtype == _of_numpy(self.type)
        ):
            return values.copy()
        if isinstance(values, np.ndarray) and values.dtype != np.object_:
            values = pa.array(values)
        elif not isinstance(values, pa.Array | pa.ChunkedArray):
            return self.of_list(list(values))
        return self._plain(exact_cast(values, self.type, self.label))

    def of_list(self, values: Sequence[Any]) -> Any:
        """Do it for values of Python."""
        return self._plain(exact_array(values, self.type, self.label))

    def _plain(self, array: pa.Array) -> Any:
        if self.dtype != BYTES and not self.is_array and self._has_reserved(array):
            raise ValueError(f"{self.label} cannot hold the earliest time of {self.type}")
        if not self.is_array:
            return array
        if array.null_count:
            raise ValueError(f"{self.label} cannot hold null: it is {self.type}, and begins as 0")
        return np.array(array.to_numpy(zero_copy_only=False))

    def _has_reserved(self, array: pa.Array) -> bool:
        """Say whether there is a time that the table keeps for null."""
        words = fixed(array, np.dtype(self.dtype))
        found = words == np.iinfo(words.dtype).min
        return bool((found & ~np.asarray(array.is_null())).any())

    def begin(self) -> Any:
        """Return the value of a new key, as a function per record reads it."""
        if not self.is_array:
            return None
        return _of_numpy(self.type).type(0).item()


def state_field(step: str, field: pa.Field) -> StateField:
    """Say how a state column is kept. Raises ConfigError for a type that cannot be."""
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
            "take a number, bool, decimal128, date, time, string or binary"
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
    """Turn 16 bytes each (binary, null where nothing was stored) to decimals."""
    return found.cast(_DECIMAL).view(kind)


class BatchState:
    """State of the keys of one batch. ``index[i]`` is the place of row i's key, 0 .. keys - 1.

    ``state[name]`` is a copy of a state column, one item per key: a numpy array for numbers and
    bools (zeros for a new key), a pyarrow array for all else (null for a new key).
    ``state[name] = values`` stores one item per key, exactly or not at all. ``delete(mask)``
    forgets the keys where the mask is true, whatever else is stored for them in the same call.
    """

    def __init__(self, kept: KeyedState, fields: Mapping[str, StateField], rows: Int32s) -> None:
        """Show the state of ``rows``, one for each row of the batch."""
        self._kept = kept
        self._fields = fields
        self._rows, index = np.unique(rows, return_inverse=True)
        self.index: Int32s = index.astype(np.int32)
        self.keys = len(self._rows)
        self._written: dict[str, Any] = {}
        self._gone: npt.NDArray[np.bool_] = np.zeros(self.keys, np.bool_)

    def __getitem__(self, name: str) -> Any:
        """Return a column's values, one per key. Raises KeyError naming the nearest column."""
        field = self._field(name)
        if name not in self._written:
            found = field.read(self._kept, self._rows)
        elif field.is_array:
            found = self._written[name].copy()
        else:
            found = self._written[name]  # Arrow's arrays do not change
        return self._without_gone(field, found) if self._gone.any() else found

    def _without_gone(self, field: StateField, found: Any) -> Any:
        if field.is_array:
            found[self._gone] = field.begin()
            return found
        return pa.compute.if_else(pa.array(self._gone), pa.scalar(None, field.type), found)

    def __setitem__(self, name: str, values: Any) -> None:
        """Store one value per key. Raises KeyError, ValueError or TypeError with the column."""
        field = self._field(name)
        if len(values) != self.keys:
            raise ValueError(f"{field.label} takes {self.keys} values, not {len(values)}")
        self._written[name] = field.exact(values)

    def delete(self, mask: Any) -> None:
        """Forget keys: their state begins anew."""
        self._gone |= np.asarray(mask, np.bool_)

    def _field(self, name: str) -> StateField:
        if name not in self._fields:
            raise KeyError(unknown("state column", name, self._fields))
        return self._fields[name]

    def store(self) -> None:
        """Write all changes; the step calls it when the function has returned."""
        for name, values in self._written.items():
            self._fields[name].write(self._kept, self._rows, values)
        if self._gone.any():
            self._kept.delete(self._rows[self._gone])

    # --- By record ----------------------------------------------------------------------------

    def records(self, rules: "RecordRules") -> "list[RecordState]":
        """Return the state of each key as a dict that takes changes."""
        columns = [_listed(self[name]) for name in self._fields]
        rows = zip(*columns, strict=True) if columns else ((),) * self.keys
        return [RecordState(rules, row) for row in rows]

    def take_records(self, states: "Sequence[RecordState]", first: Mapping[str, Any]) -> None:
        """Note what became of the dicts that :meth:`records` made; one as at ``first`` may go."""
        for name, field in self._fields.items():
            self._written[name] = field.of_list([s[name] for s in states])
        forgotten = (s.cleared and s == first for s in states)
        self._gone |= np.fromiter(forgotten, np.bool_, self.keys)


def _listed(values: Any) -> list[Any]:
    listed: list[Any] = values.to_pylist() if isinstance(values, pa.Array) else values.tolist()
    return listed


@dataclass(frozen=True, slots=True)
class RecordRules:
    """The names, rules and first values of a step's state columns."""

    fields: Mapping[str, StateField]
    takes: Mapping[str, Take]
    first: Mapping[str, Any]

    def taken(self, name: str, value: Any) -> Any:
        """Return a value as its column keeps it. Raises KeyError, ValueError, TypeError."""
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
    """Make the rules of a step once."""
    takes = {name: taker(field.type) for name, field in fields.items()}
    return RecordRules(fields, takes, {name: f.begin() for name, f in fields.items()})


_put = dict.__setitem__
_REFUSED = (KeyError, TypeError, ValueError, OverflowError)


class RecordState(dict[str, Any]):
    """State of one key: a dict with all declared columns, no other, and values of their types.

    What is stored is what later reads give, in this batch or another: ``state["x"] = value`` keeps
    the value exactly in the column's type, or raises. ``del state["x"]`` and ``pop`` set a column
    back to its first value; ``clear()`` does so for all and forgets the key.
    """

    __slots__ = ("_rules", "_takes", "cleared")

    def __init__(self, rules: RecordRules, values: Iterable[Any]) -> None:
        """Show ``values``, one for each column."""
        super().__init__(zip(rules.fields, values, strict=True))
        self._rules = rules
        self._takes = rules.takes
        self.cleared = False

    def __missing__(self, name: str) -> NoReturn:
        """Refuse a column that is not declared."""
        raise KeyError(unknown("state column", name, self))

    def __setitem__(self, name: str, value: Any) -> None:
        """Keep a value in its column's type. Raises KeyError, ValueError or TypeError."""
        try:
            kept = self._takes[name](value)
        except _REFUSED:
            kept = self._rules.taken(name, value)  # None, or a complaint that names the column
        _put(self, name, kept)

    def __delitem__(self, name: str) -> None:
        """Set a column back to its first value."""
        super().__setitem__(name, self._first(name))

    def _first(self, name: str) -> Any:
        if name not in self:
            self.__missing__(name)
        return self._rules.first[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a column's value; it is always there. Raises KeyError when it is not declared."""
        return self[name]

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return a column's value; it is always there. Raises KeyError when it is not declared."""
        return self[name]

    def pop(self, name: str, *_: Any) -> Any:
        """Return a column's value and set it back to the first one."""
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> NoReturn:
        """Refuse: columns stay."""
        raise TypeError("the columns of a state stay: del state[name] sets one back")

    def clear(self) -> None:
        """Forget the key: all columns are as those of a new one."""
        super().update(self._rules.first)
        self.cleared = True

    def set_back(self, values: Mapping[str, Any]) -> None:
        """Take back changes: ``values`` are all columns as they were."""
        super().update(values)

    def update(self, *others: Any, **values: Any) -> None:
        """Keep several values; none when one of them is refused."""
        kept = {n: self._rules.taken(n, v) for n, v in dict(*others, **values).items()}
        super().update(kept)

    def __ior__(self, other: Any) -> "RecordState":  # type: ignore[override,misc]
        """Keep several values, as :meth:`update` does."""
        self.update(other)
        return self
