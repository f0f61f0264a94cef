"""Steps with state for each key: the key columns of a step, and running aggregates.

A fold stores its accumulated value, as int64 or float64, and the number of values that it has seen.
If it has seen none, the result is null. The smallest, largest and last of whole numbers, bools,
dates and times are stored as int64 in a form that keeps their order. Floats are stored as float64.

Results are never approximate without notice. A sum of whole numbers is exact in 64 bits (uint64 for
uint64, otherwise int64), and a sum that does not fit is an error. The mean of whole numbers divides
their exact sum, which is stored in 128 bits. Floats are added in double precision in the order of
the rows, as IEEE 754 says; NaN and infinity are kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import ConfigError, UserCodeError, Where
from penstock.base.values import hot_dataclass, replace
from penstock.contract.graph import Compute, Function
from penstock.model.arrays import (
    NO_BYTES,
    Int32s,
    Int64s,
    as_type,
    bits,
    fixed,
    fixed_array,
    flat,
    pack_validity,
    validity,
)
from penstock.model.kernels import aggregate, session_parts, slices
from penstock.model.kernels.jit import Kernel
from penstock.model.keys import KeyCodec, check_key_columns
from penstock.model.table_columns import Value
from penstock.steps.base import FixedColumns, KeyedState, PlainStep, StateSchema, split_hidden, with_hidden
from penstock.steps.user_calls import record_text

ROW_COUNT = "rows"
_OPERATIONS = {
    Function.SUM: aggregate.SUM,
    Function.MEAN: aggregate.SUM,
    Function.MIN: aggregate.MIN,
    Function.MAX: aggregate.MAX,
    Function.LAST: aggregate.LAST,
}
_SIGN = np.uint64(1 << 63)
_COUNTS = pa.int64()
_ALL = (NO_BYTES, 0)  # validity: no row is null

Handed = tuple[Int32s, Int32s]
"""State rows of parts of sessions that are over, and of the parts that follow them: ``kernels.session_parts``."""

Pages = tuple[Int32s, int, int, int, int]
"""The state rows of the pages of sliding windows, and which of their places are covered: ``kernels.slices``."""

OpenState = Callable[[StateSchema], KeyedState]


class FoldMethod(Enum):
    """By which kernel values are folded, and in which form.

    The names are part of the names of stored columns: they must not change.
    """

    COUNT = auto()
    WHOLE = auto()  # int64 of the same order
    FLOAT = auto()
    UNSIGNED_SUM = auto()
    MEAN = auto()  # of whole numbers
    UNSIGNED_MEAN = auto()


@dataclass(frozen=True, slots=True)
class Fold:
    """One pass over a column, with its state columns. ``column`` is None if rows are counted.

    ``accumulator`` is the state column of the accumulated value. ``seen`` names the state column of
    the number of values that were seen. It is the same column if the accumulator has this number.
    """

    column: str | None
    method: FoldMethod
    operation: int
    accumulator: Value
    seen: str


_WIDE = 3  # int64 words of a mean's state: a sum of 128 bits, and the number of values
_MEANS = (FoldMethod.MEAN, FoldMethod.UNSIGNED_MEAN)


@hot_dataclass
class Folded:
    """The result of a fold for n rows: its values, and how many were seen. Both have length n."""

    values: npt.NDArray[Any]
    seen: Int64s


@dataclass(frozen=True, slots=True)
class Places:
    """Accumulators beside the state, by place. They look like the columns of a state."""

    columns: dict[str, npt.NDArray[Any]]

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a writable column, by place."""
        return self.columns[name]


class Aggregates:
    """The computed columns of one step. A fold that several columns need is done once.

    With ``places`` above 1 a state row has this many accumulators of each fold side by side. Place p of
    state row r is then named by ``r * places + p`` wherever a method takes state rows.
    """

    def __init__(self, step: str, compute: Sequence[Compute], schema: pa.Schema, places: int = 1) -> None:
        """Plan the folds over input columns of ``schema``. Raises ConfigError for a wrong type."""
        self._step = step
        self._places = places
        kinds = [_kind(step, c, schema) for c in compute]
        folds = [_fold(c, kind) for c, kind in zip(compute, kinds, strict=True)]
        self._folds = tuple(dict.fromkeys(folds))
        numbers = [self._folds.index(fold) for fold in folds]
        self._columns = tuple(zip((c.function for c in compute), kinds, numbers, strict=True))

    def values(self) -> tuple[Value, ...]:
        """List the state columns that are stored for each key."""
        stored = dict.fromkeys(v for fold in self._folds for v in _values(fold))
        return tuple(replace(v, width=v.width * self._places) for v in stored)

    def _column(self, state: FixedColumns, name: str) -> npt.NDArray[Any]:
        """Return a writable view of a state column by place: by row, where a row has one place."""
        column = state.column(name)
        if self._places == 1:
            return column
        words = column.shape[1] // self._places
        return column.reshape(-1) if words == 1 else column.reshape(-1, words)

    def places(self, count: int) -> "Places":
        """Return empty accumulators beside the state, ``count`` of each."""
        assert self._places == 1, "a state row has one place"
        return Places({v.name: np.zeros((count, v.width)[: 1 + (v.width > 1)], v.dtype) for v in self.values()})

    def fold(self, state: FixedColumns, rows: Int32s, batch: pa.RecordBatch) -> list[Folded]:
        """Fold n input rows into their state rows, given by ``rows`` (length n).

        Returns for each fold its state after each input row. Raises UserCodeError if a sum of whole
        numbers does not fit into 64 bits.
        """
        return [self._run(fold, state, rows, batch) for fold in self._folds]

    def _run(self, fold: Fold, state: FixedColumns, rows: Int32s, batch: pa.RecordBatch) -> Folded:
        kept = self._column(state, fold.accumulator.name)
        if fold.column is None or fold.method is FoldMethod.COUNT:
            seen = np.empty(len(rows), np.int64)
            valid = _ALL if fold.column is None else validity(flat(batch.column(fold.column)))
            aggregate.count_rows(rows, valid, kept, seen)
            return Folded(seen, seen)
        column = flat(batch.column(fold.column))
        numbers = (_numbers(column, fold.method), *validity(column))
        if fold.method in _MEANS:
            return _sums(fold, rows, numbers, kept)
        floating = fold.method is FoldMethod.FLOAT
        after: npt.NDArray[Any] = np.empty(len(rows), np.float64 if floating else np.int64)
        seen = np.empty(len(rows), np.int64)
        places = (kept, self._column(state, fold.seen)), (after, seen)
        if floating:
            done = aggregate.fold_floats(fold.operation, rows, numbers, *places)
        elif fold.method is FoldMethod.WHOLE:
            done = aggregate.fold_integers(fold.operation, rows, numbers, *places)
        else:
            done = aggregate.add_unsigned(rows, numbers, *places)
        if done < len(rows):
            raise self._overflow(fold, batch.slice(int(done), 1), kept[rows[done]])
        return Folded(after, seen)

    def _overflow(self, fold: Fold, row: pa.RecordBatch, sum_before: Any) -> UserCodeError:
        assert fold.column is not None, "rows are counted, not added up"
        unsigned = fold.method is FoldMethod.UNSIGNED_SUM
        before = int(sum_before.view(np.uint64) if unsigned else sum_before)
        added = f"{before} + {row.column(fold.column)[0].as_py()}"
        problem = OverflowError(f"{added}: the sum of column {fold.column!r} leaves 64 bits")
        return UserCodeError(Where(self._step, record=record_text(row)), problem)

    def running(self, folded: Sequence[Folded]) -> list[pa.Array]:
        """Return the computed columns after each input row of :meth:`fold`."""
        return [_result(function, kind, folded[place]) for function, kind, place in self._columns]

    def results(self, state: FixedColumns, rows: Int32s) -> list[pa.Array]:
        """Return the computed columns of state rows."""
        return self.running([self._read(fold, state, rows) for fold in self._folds])

    def _read(self, fold: Fold, state: FixedColumns, rows: Int32s) -> Folded:
        kept = self._column(state, fold.accumulator.name)[rows]
        if fold.method in _MEANS:
            low, high, seen = (np.ascontiguousarray(part) for part in kept.T)
            return Folded(_rounded(low, high), seen)
        return Folded(kept, kept if fold.method is FoldMethod.COUNT else self._column(state, fold.seen)[rows])

    def combined(self, state: KeyedState, pages: Pages, windows: int) -> list[pa.Array]:
        """Return the computed columns of n sliding windows, each from the slices that it covers.

        Raises UserCodeError if a sum of whole numbers does not fit into 64 bits.
        """
        return self.running([self._merge(fold, state, _COMBINE, pages, windows) for fold in self._folds])

    def handed_on(self, state: KeyedState, handed: Handed, last: npt.NDArray[np.int64]) -> list[pa.Array]:
        """Hand the accumulators of parts of sessions on, and return the computed columns of those at ``last``.

        Raises UserCodeError if a sum of whole numbers does not fit into 64 bits.
        """
        found = [self._merge(fold, state, _HAND_ON, handed, len(handed[0])) for fold in self._folds]
        return self.running([Folded(each.values[last], each.seen[last]) for each in found])

    def _merge(self, fold: Fold, state: KeyedState, by: "_Merging", given: Pages | Handed, count: int) -> Folded:
        """Return a fold of ``count`` results, each from the accumulators that ``given`` names."""
        kept = self._column(state, fold.accumulator.name)
        seen = np.empty(count, np.int64)
        if fold.method is FoldMethod.COUNT:
            by.counts(given, kept, seen)
            return Folded(seen, seen)
        if fold.method in _MEANS:
            low, high = np.empty(count, np.int64), np.empty(count, np.int64)
            wide = by.wide(given, kept, (low, high, seen))
            return Folded(_rounded(low, high) if wide else low, seen)
        stored = kept, self._column(state, fold.seen)
        floating = fold.method is FoldMethod.FLOAT
        values: npt.NDArray[Any] = np.empty(count, np.float64 if floating else np.int64)
        if floating:
            done = by.floats(fold.operation, given, stored, (values, seen))
        elif fold.method is FoldMethod.WHOLE:
            done = by.integers(fold.operation, given, stored, (values, seen))
        else:
            done = by.unsigned(given, stored, (values, seen))
        if done < count:
            problem = OverflowError(f"the sum of column {fold.column!r} over {by.what} leaves 64 bits")
            raise UserCodeError(Where(self._step), problem)
        return Folded(values, seen)


@dataclass(frozen=True, slots=True)
class _Merging:
    """How accumulators become one: a kernel for each kind of fold, and what they are of."""

    counts: Kernel
    wide: Kernel
    floats: Kernel
    integers: Kernel
    unsigned: Kernel
    what: str


_COMBINE = _Merging(
    slices.combine_counts,
    slices.combine_wide,
    slices.combine_floats,
    slices.combine_integers,
    slices.combine_unsigned,
    "the slices of a window",
)
_HAND_ON = _Merging(
    session_parts.hand_on_counts,
    session_parts.hand_on_wide,
    session_parts.hand_on_floats,
    session_parts.hand_on_integers,
    session_parts.hand_on_unsigned,
    "the rows of a session",
)


def _result(function: Function, kind: pa.DataType, folded: Folded) -> pa.Array:
    if function is Function.COUNT:
        return fixed_array(_COUNTS, folded.seen)
    bitmap = pack_validity(folded.seen > 0)
    if function is Function.MEAN:
        means = folded.values / np.maximum(folded.seen, 1)
        return fixed_array(pa.float64(), means, bitmap)
    if function is Function.SUM:
        return fixed_array(_sum_type(kind), folded.values, bitmap)
    return _restored(kind, folded.values, bitmap)


def _kind(step: str, compute: Compute, schema: pa.Schema) -> pa.DataType:
    if compute.column is None:
        return pa.int64()
    kind = schema.field(compute.column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if compute.function is not Function.COUNT and not _foldable(kind):
        raise ConfigError(
            f"step {step!r}: {compute.function} of column {compute.column!r} needs a number, "
            f"bool, date or time, not {kind}"
        )
    return kind


def _foldable(kind: pa.DataType) -> bool:
    t = pa.types
    number = t.is_integer(kind) or t.is_float32(kind) or t.is_float64(kind) or t.is_boolean(kind)
    return bool(number or (t.is_temporal(kind) and not t.is_interval(kind)))


def _fold(compute: Compute, kind: pa.DataType) -> Fold:
    column = compute.column
    if compute.function is Function.COUNT:
        name = ROW_COUNT if column is None else f"count:{column}"
        return Fold(column, FoldMethod.COUNT, 0, Value(name, "int64"), name)
    operation = _OPERATIONS[compute.function]
    method = _method(compute.function, kind)
    label = f"{method.name}:{operation}:{column}"
    if method in _MEANS:
        return Fold(column, method, operation, Value(label, "int64", _WIDE), label)
    kept = Value(label, "float64" if method is FoldMethod.FLOAT else "int64")
    return Fold(column, method, operation, kept, f"seen:{label}")


def _method(function: Function, kind: pa.DataType) -> FoldMethod:
    if pa.types.is_floating(kind):
        return FoldMethod.FLOAT
    unsigned = pa.types.is_uint64(kind)
    if function is Function.MEAN:
        return FoldMethod.UNSIGNED_MEAN if unsigned else FoldMethod.MEAN
    return FoldMethod.UNSIGNED_SUM if unsigned and function is Function.SUM else FoldMethod.WHOLE


def _values(fold: Fold) -> list[Value]:
    return [fold.accumulator] if fold.seen == fold.accumulator.name else [fold.accumulator, Value(fold.seen, "int64")]


def _sums(fold: Fold, rows: Int32s, numbers: Any, kept: npt.NDArray[Any]) -> Folded:
    """Add up whole numbers for their mean. The sum is exact; the result is rounded to doubles."""
    low, high, seen = (np.empty(len(rows), np.int64) for _ in range(_WIDE))
    signed = int(fold.method is FoldMethod.MEAN)
    wide = aggregate.add_wide(signed, rows, numbers, kept, (low, high, seen))
    return Folded(_rounded(low, high) if wide else low, seen)


def _rounded(low: Int64s, high: Int64s) -> npt.NDArray[Any]:
    rounded = np.empty(len(low), np.float64)
    aggregate.wide_sums((low, high), rounded)
    return rounded


def _sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.uint64() if pa.types.is_uint64(kind) else pa.int64()


def _numbers(column: pa.Array, method: FoldMethod) -> npt.NDArray[Any]:
    """Return the values of a column as float64, or as int64 with the same order or the same bits."""
    kind = column.type
    if pa.types.is_boolean(kind):
        raw: npt.NDArray[Any] = bits(column)
    elif pa.types.is_temporal(kind):
        raw = fixed(column, f"i{kind.bit_width // 8}")
    else:
        raw = fixed(column, kind.to_pandas_dtype())
    if method is FoldMethod.FLOAT:
        return np.ascontiguousarray(raw, np.float64)
    if raw.dtype == np.uint64:
        return (raw ^ _SIGN if method is FoldMethod.WHOLE else raw).view(np.int64)
    return np.ascontiguousarray(raw, np.int64)


def order_words(column: pa.Array) -> Int64s:
    """Return numbers (int64) in the order of the values of a column. NaN is the greatest. Nulls have any number."""
    column = flat(column)
    if not pa.types.is_floating(column.type):
        return _numbers(column, FoldMethod.WHOLE)
    values = _numbers(column, FoldMethod.FLOAT) + 0.0  # no negative zero
    values[np.isnan(values)] = np.nan
    words = values.view(np.int64)
    return np.where(words < 0, words ^ np.iinfo(np.int64).max, words)


def _restored(kind: pa.DataType, values: npt.NDArray[Any], bitmap: pa.Buffer | None) -> pa.Array:
    """Convert accumulated values back to the type of the column."""
    if pa.types.is_boolean(kind):
        packed = pa.py_buffer(np.packbits(values != 0, bitorder="little"))
        return pa.Array.from_buffers(kind, len(values), [bitmap, packed])
    if pa.types.is_uint64(kind):
        return fixed_array(kind, values.view(np.uint64) ^ _SIGN, bitmap)
    if pa.types.is_temporal(kind):
        return fixed_array(kind, values.astype(f"i{kind.bit_width // 8}"), bitmap)
    return fixed_array(kind, values.astype(kind.to_pandas_dtype()), bitmap)


class KeyColumns:
    """The key columns of a step's input, by their index in the schema."""

    def __init__(self, schema: pa.Schema, names: Sequence[str], max_key_groups: int) -> None:
        """Find the columns. Raises ConfigError if one does not exist or cannot be a key."""
        check_key_columns(schema, names)
        self.places = [schema.get_field_index(name) for name in names]
        self.fields = tuple((schema.field(p).name, schema.field(p).type) for p in self.places)
        self.codec = KeyCodec(tuple(kind for _, kind in self.fields), max_key_groups)

    def of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the key columns of a batch."""
        return [batch.column(place) for place in self.places]


class RunningAggregate(PlainStep):
    """Emits one row for each input row: its keys, and the values of the key so far."""

    def __init__(
        self,
        name: str,
        keys: KeyColumns,
        compute: Sequence[Compute],
        schemas: tuple[pa.Schema, pa.Schema],
        state: OpenState,
    ) -> None:
        """Take rows of ``schemas[0]`` and emit rows of ``schemas[1]``."""
        super().__init__(name)
        self._keys = keys
        self._aggregates = Aggregates(name, compute, schemas[0])
        self._output = schemas[1]
        self._state = state(StateSchema(name, keys.fields, self._aggregates.values()))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Fold all rows, and emit the values after each row, in input order."""
        rows, bounds = split_hidden(batch)
        keys = self._keys.of(rows)
        found = self._state.rows(self._keys.codec.keys(keys))
        computed = self._aggregates.running(self._aggregates.fold(self._state, found, rows))
        emitted = pa.RecordBatch.from_arrays([*keys, *computed], schema=self._output)
        self._emit(with_hidden(emitted, bounds))

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of state rows and their values so far."""
        keys = self._keys.codec.columns(self._state.keys_of(rows))
        columns = [*keys, *self._aggregates.results(self._state, rows)]
        cast = [as_type(c, f.type) for c, f in zip(columns, self._output, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=self._output)

    def counters(self) -> dict[str, int]:
        """Count keys."""
        return {"keys": self._state.about_keys()}
