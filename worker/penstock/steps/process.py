"""User functions over keyed batches, with values of their own for every key.

A function per batch gets ``(batch, state)``: see :class:`BatchState`. A function per record gets
``(record, values)`` and gives records; ``values`` is a dict of the key's state that it may change.
What a function changes is stored when it has returned: a call that raises leaves no trace.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.contract.graph import Call
from penstock.model.columns import Int32s
from penstock.steps.base import KeyedState, StateSchema, Value, least_bound, with_hidden
from penstock.steps.calls import Done, as_batch
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.stateless import Calling, caller_of, from_records

BYTES = "bytes"


class BatchState:
    """State of the keys of one batch. ``index[i]`` is the place of row i's key, 0 .. keys - 1.

    ``state[name]`` is a copy of a state column, one item per key: a numpy array (zeros for a new
    key), or a pyarrow array for strings and binary (null for a new key). ``state[name] = values``
    stores one item per key. ``delete(mask)`` forgets the keys where the mask is true.
    """

    def __init__(self, kept: KeyedState, fields: dict[str, pa.DataType], rows: Int32s) -> None:
        """Show the state of ``rows``, one for each row of the batch."""
        self._kept = kept
        self._fields = fields
        self._rows, index = np.unique(rows, return_inverse=True)
        self.index: Int32s = index.astype(np.int32)
        self.keys = len(self._rows)
        self._written: dict[str, Any] = {}
        self._gone: npt.NDArray[np.bool_] = np.zeros(self.keys, np.bool_)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the state columns."""
        return tuple(self._fields)

    def __getitem__(self, name: str) -> Any:
        """Return a column's values, one per key. Raises KeyError naming the nearest column."""
        if name in self._written:
            return self._written[name]
        kind = self._kind(name)
        if _dtype(kind) == BYTES:
            return self._kept.read_bytes(name, self._rows).cast(kind)
        values = self._kept.column(name)[self._rows]
        return values.astype(np.bool_) if pa.types.is_boolean(kind) else values

    def __setitem__(self, name: str, values: Any) -> None:
        """Store one value per key. Raises KeyError, ValueError."""
        kind = self._kind(name)
        if len(values) != self.keys:
            raise ValueError(f"state {name!r} takes {self.keys} values, not {len(values)}")
        if _dtype(kind) == BYTES and not isinstance(values, pa.Array):
            values = pa.array(values, kind)
        self._written[name] = values

    def delete(self, mask: Any) -> None:
        """Forget keys: their state begins anew with their next row."""
        self._gone |= np.asarray(mask, np.bool_)

    def _kind(self, name: str) -> pa.DataType:
        if name not in self._fields:
            raise KeyError(unknown("state column", name, self._fields))
        return self._fields[name]

    def store(self) -> None:
        """Write all changes; the step calls it when the function has returned."""
        for name, values in self._written.items():
            if _dtype(self._fields[name]) == BYTES:
                self._kept.write_bytes(name, self._rows, values.cast(pa.binary()))
            else:
                self._kept.column(name)[self._rows] = values
        if self._gone.any():
            self._kept.delete(self._rows[self._gone])


class Process(Calling):
    """A user function over batches of keyed rows."""

    def __init__(
        self,
        name: str,
        keys: KeyColumns,
        call: Call,
        function: Callable[..., Any],
        schemas: tuple[pa.Schema, pa.Schema],
    ) -> None:
        """Call ``function``; its state columns are ``schemas[0]``, it gives rows of ``schemas[1]``.

        Raises ConfigError for a state column of a type that cannot be kept.
        """
        super().__init__(name, caller_of(call, self._batches, self._records))
        self._keys = keys
        self._function = function
        self._output = schemas[1]
        self._fields = {f.name: f.type for f in schemas[0]}
        values = tuple(Value(f.name, _checked(name, f)) for f in schemas[0])
        self._schema = StateSchema(name, keys.fields, values)

    def open(self, state: OpenState) -> None:
        """Open the state; called once, before anything else."""
        self._state = state(self._schema)

    def _shown(self, part: pa.RecordBatch) -> BatchState:
        rows = self._state.rows(self._keys.codec.keys(self._keys.of(part)))
        return BatchState(self._state, self._fields, rows)

    def _batches(self, part: pa.RecordBatch) -> pa.RecordBatch:
        shown = self._shown(part)
        given = as_batch(self._function(part, shown), self._output)
        shown.store()
        return given

    def _records(self, part: pa.RecordBatch, undo: bool) -> "KeyedTurn":
        return KeyedTurn(self._function, part, self._shown(part), self._together, undo=undo)

    def _together(self, given: Sequence[list[Any]]) -> pa.RecordBatch:
        return from_records((row for rows in given for row in rows), self._output)

    def _given(
        self, rows: pa.RecordBatch, bounds: pa.Array | None, done: Done[Any]
    ) -> pa.RecordBatch:
        if bounds is None:
            return done.given
        return with_hidden(done.given, least_bound(done.taken(bounds), done.given.num_rows))

    def counters(self) -> dict[str, int]:
        """Count keys and dead letters."""
        return {**super().counters(), "keys": self._state.about_keys()}


class KeyedTurn:
    """A turn (see :mod:`penstock.steps.calls`) whose calls change the state of their keys.

    What the newest call has changed can be taken back, and what is stored is what they all left.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        part: pa.RecordBatch,
        shown: BatchState,
        together: Callable[[Sequence[Any]], Any],
        *,
        undo: bool,
    ) -> None:
        """Show the state of the rows of ``part`` as dicts; ``undo``: changes may be taken back."""
        self.together = together
        self._function = function
        self._shown = shown
        columns = {name: _listed(shown[name]) for name in shown.names}
        self._values = [{n: c[k] for n, c in columns.items()} for k in range(shown.keys)]
        self._records = part.to_pylist()
        self._keys: list[int] = shown.index.tolist()
        self._left = zip(self._records, self._keys, strict=True)
        self._before: list[dict[str, Any]] | None = [] if undo else None  # what each row found

    def run(self, append: Callable[[Any], None]) -> None:
        """Call for one record after the other."""
        function, values, before = self._function, self._values, self._before
        if before is None:
            for record, key in self._left:
                append(list(function(record, values[key])))
            return
        for record, key in self._left:
            before.append(values[key].copy())
            append(list(function(record, values[key])))

    def undo(self, row: int) -> None:
        """Give the row's key back what the row found."""
        assert self._before is not None, "a row that cannot be undone fails the job"
        self._values[self._keys[row]] = self._before[row].copy()

    def spoiled(self, rows: list[int]) -> list[int]:
        """Return the rows behind the first of these of each key, which is undone."""
        first: dict[int, int] = {}
        for row in rows:
            first.setdefault(self._keys[row], row)
        for row in first.values():
            self.undo(row)
        return [row for row, key in enumerate(self._keys) if row > first.get(key, row)]

    def again(self, row: int) -> list[Any]:
        """Call once more, with what the key has now."""
        assert self._before is not None, "a row that cannot be undone fails the job"
        values = self._values[self._keys[row]]
        self._before[row] = values.copy()
        return list(self._function(self._records[row], values))

    def keep(self) -> None:
        """Store the state of all keys."""
        for name in self._shown.names:
            self._shown[name] = [values[name] for values in self._values]
        self._shown.store()


def _listed(values: Any) -> list[Any]:
    listed: list[Any] = values.to_pylist() if isinstance(values, pa.Array) else values.tolist()
    return listed


def _dtype(kind: pa.DataType) -> str | None:
    """Return how a state column is kept; None when it cannot be."""
    t = pa.types
    if t.is_string(kind) or t.is_binary(kind) or t.is_large_string(kind) or t.is_large_binary(kind):
        return BYTES
    if t.is_boolean(kind):
        return "uint8"
    if t.is_integer(kind) or t.is_float32(kind) or t.is_float64(kind):
        return str(np.dtype(kind.to_pandas_dtype()))
    if t.is_temporal(kind) and not t.is_interval(kind):
        return f"int{kind.bit_width}"
    return None


def _checked(step: str, field: pa.Field) -> str:
    kept = _dtype(field.type)
    if kept is None:
        raise ConfigError(
            f"step {step!r}: state column {field.name!r} cannot be of type {field.type}; "
            "take a number, bool, date, time, string or binary"
        )
    return kept
