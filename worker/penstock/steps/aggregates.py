"""Built-in aggregates over the columns of a keyed state: what to keep, fold and give.

A fold keeps two state columns: what is accumulated, as int64 or float64, and how many values were
seen; without any the result is null. Whole numbers, bool, dates and times are kept as int64 in an
order-preserving form, floats as float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import ConfigError, UserCodeError, Where
from penstock.base.values import fleeting
from penstock.contract.graph import Compute, Function
from penstock.model.columns import (
    NO_BYTES,
    Int32s,
    Int64s,
    bits,
    fixed,
    fixed_array,
    flat,
    pack_validity,
    validity,
)
from penstock.model.kernels import aggregate
from penstock.steps.base import KeyedState, Value
from penstock.steps.calls import shown

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


@dataclass(frozen=True, slots=True)
class Fold:
    """One pass over a column (None: rows are counted): its kernel operation and state columns."""

    column: str | None
    operation: int
    floating: bool
    kept: str
    seen: str


@fleeting
class Folded:
    """Values and counts of a fold for n rows."""

    values: npt.NDArray[Any]
    seen: Int64s


class Aggregates:
    """The computed columns of one step. Folds that two columns share are done once."""

    def __init__(self, step: str, compute: Sequence[Compute], schema: pa.Schema) -> None:
        """Plan the folds over input columns of ``schema``. Raises ConfigError on a bad type."""
        self._step = step
        kinds = [_kind(step, c, schema) for c in compute]
        folds = [_fold(c, kind) for c, kind in zip(compute, kinds, strict=True)]
        self._folds = tuple(dict.fromkeys(folds))
        places = [self._folds.index(fold) for fold in folds]
        self._columns = tuple(zip((c.function for c in compute), kinds, places, strict=True))

    def values(self) -> tuple[Value, ...]:
        """List the state columns that are kept per key."""
        kept = [v for fold in self._folds for v in _values(fold)]
        return tuple(dict.fromkeys(kept))

    def fold(self, state: KeyedState, rows: Int32s, batch: pa.RecordBatch) -> list[Folded]:
        """Fold n input rows into their state rows; return each fold's state behind every row.

        Raises UserCodeError when a sum of whole numbers leaves 64 bits.
        """
        return [self._run(fold, state, rows, batch) for fold in self._folds]

    def _run(self, fold: Fold, state: KeyedState, rows: Int32s, batch: pa.RecordBatch) -> Folded:
        seen = np.empty(len(rows), np.int64)
        counts = state.column(fold.seen)
        if fold.column is None:
            aggregate.count_rows(rows, (NO_BYTES, 0), counts, seen)
            return Folded(seen, seen)
        column = flat(batch.column(fold.column))
        if fold.operation == 0:
            aggregate.count_rows(rows, validity(column), counts, seen)
            return Folded(seen, seen)
        given = (_numbers(column, fold.floating), *validity(column))
        after = np.empty(len(rows), np.float64 if fold.floating else np.int64)
        kernel = aggregate.fold_floats if fold.floating else aggregate.fold_integers
        kept = (state.column(fold.kept), counts)
        done = kernel(fold.operation, rows, given, kept, (after, seen))
        if done < len(rows):
            problem = OverflowError(f"the sum of column {fold.column!r} leaves 64 bits")
            where = Where(self._step, record=shown(batch.slice(int(done))))
            raise UserCodeError(where, problem)
        return Folded(after, seen)

    def running(self, folded: Sequence[Folded]) -> list[pa.Array]:
        """Return the computed columns behind each input row of :meth:`fold`."""
        return [_result(function, kind, folded[place]) for function, kind, place in self._columns]

    def results(self, state: KeyedState, rows: Int32s) -> list[pa.Array]:
        """Return the computed columns of state rows."""
        return self.running([_read(fold, state, rows) for fold in self._folds])


def _result(function: Function, kind: pa.DataType, folded: Folded) -> pa.Array:
    if function is Function.COUNT:
        return fixed_array(_COUNTS, folded.seen)
    bitmap = pack_validity(folded.seen > 0)
    if function is Function.MEAN:
        means = folded.values / np.maximum(folded.seen, 1)
        return fixed_array(pa.float64(), means, bitmap)
    if function is Function.SUM:
        result = pa.float64() if folded.values.dtype == np.float64 else pa.int64()
        return fixed_array(result, folded.values, bitmap)
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
        return Fold(column, 0, False, name, name)
    operation = _OPERATIONS[compute.function]
    # A mean of whole numbers adds them up as floats: no overflow, and what Spark does.
    floating = bool(pa.types.is_floating(kind) or compute.function is Function.MEAN)
    label = f"{operation}{'f' if floating else 'i'}:{column}"
    return Fold(column, operation, floating, label, f"seen:{label}")


def _values(fold: Fold) -> list[Value]:
    seen = Value(fold.seen, "int64")
    if fold.operation == 0:
        return [seen]
    return [Value(fold.kept, "float64" if fold.floating else "int64"), seen]


def _read(fold: Fold, state: KeyedState, rows: Int32s) -> Folded:
    seen = state.column(fold.seen)[rows]
    return Folded(seen if fold.operation == 0 else state.column(fold.kept)[rows], seen)


def _numbers(column: pa.Array, floating: bool) -> npt.NDArray[Any]:
    """Return the values of a column as float64 or as int64 of the same order."""
    kind = column.type
    if pa.types.is_boolean(kind):
        raw: npt.NDArray[Any] = bits(column)
    elif pa.types.is_temporal(kind):
        raw = fixed(column, f"i{kind.bit_width // 8}")
    else:
        raw = fixed(column, kind.to_pandas_dtype())
    if floating:
        return np.ascontiguousarray(raw, np.float64)
    if raw.dtype == np.uint64:
        return (raw ^ _SIGN).view(np.int64)
    return np.ascontiguousarray(raw, np.int64)


def _restored(kind: pa.DataType, values: npt.NDArray[Any], bitmap: pa.Buffer | None) -> pa.Array:
    """Turn accumulated values back to the type they came from."""
    if pa.types.is_boolean(kind):
        packed = pa.py_buffer(np.packbits(values != 0, bitorder="little"))
        return pa.Array.from_buffers(kind, len(values), [bitmap, packed])
    if pa.types.is_uint64(kind):
        return fixed_array(kind, values.view(np.uint64) ^ _SIGN, bitmap)
    if pa.types.is_temporal(kind):
        return fixed_array(kind, values.astype(f"i{kind.bit_width // 8}"), bitmap)
    return fixed_array(kind, values.astype(kind.to_pandas_dtype()), bitmap)
