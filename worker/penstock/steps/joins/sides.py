"""The two inputs of a join: the columns of each, and what becomes of rows without a partner."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.contract.graph import LATE, LATE_RIGHT, LEFT, RIGHT
from penstock.model.arrays import Bytes, Int32s, Int64s, fixed, flat
from penstock.model.rows import RowCodec
from penstock.steps.base import NO_BOUND
from penstock.steps.keyed import KeyColumns

SIDES = (LEFT, RIGHT)
LATE_OUTPUTS = (LATE, LATE_RIGHT)


@dataclass(frozen=True, slots=True)
class JoinSide:
    """One input of a join.

    ``time`` is the column of event time. ``alone`` says whether a row without a partner is emitted. ``kept`` are
    the places of the columns that are no key columns, and ``codec`` encodes them. ``order`` is the place of the time
    among them; None if the time is a key column. With ``led``, the bytes of a row begin with the time nevertheless.
    """

    number: int
    keys: KeyColumns
    time: str
    alone: bool
    kept: tuple[int, ...]
    codec: RowCodec
    order: int | None
    led: bool = False

    def encoded(self, rows: pa.RecordBatch) -> tuple[Int32s, Bytes]:
        """Return offsets and bytes of rows without their keys."""
        columns = [rows.column(place) for place in self.kept]
        return self.codec.encode([rows.column(self.time), *columns] if self.led else columns, rows.num_rows)

    def decoded(self, data: Bytes, starts: Int64s) -> list[pa.Array]:
        """Return the columns that are no key columns of rows that begin at ``starts``."""
        return self.codec.decode(data, starts)[self.led :]


def join_side(number: int, keys: KeyColumns, schema: pa.Schema, time: str, alone: bool) -> JoinSide:
    """Describe an input with columns ``schema``: number 0 is the left one, 1 the right one."""
    kept = tuple(place for place in range(len(schema)) if place not in keys.places)
    codec = RowCodec(tuple(schema.field(place).type for place in kept))
    at = schema.get_field_index(time)
    return JoinSide(number, keys, time, alone, kept, codec, kept.index(at) if at in kept else None)


def timed_side(number: int, keys: KeyColumns, schema: pa.Schema, time: str, alone: bool) -> JoinSide:
    """Describe an input whose rows begin with their time, as bytes: see :func:`join_side`."""
    at = schema.get_field_index(time)
    others = tuple(place for place in range(len(schema)) if place not in keys.places and place != at)
    codec = RowCodec(tuple(schema.field(place).type for place in (at, *others)))
    led = at in keys.places
    return JoinSide(number, keys, time, alone, others if led else (at, *others), codec, None if led else 0, led)


def null_keys(keys: Sequence[pa.Array]) -> npt.NDArray[np.bool_] | None:
    """Return which rows have a null in a key column: they match no row. None if no row has."""
    if not any(column.null_count for column in keys):
        return None
    found = np.zeros(len(keys[0]), np.bool_)
    for column in keys:
        found |= np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    return found


def bounds_of(bounds: pa.Array | None, rows: int) -> Int64s:
    """Return the bounds of rows as numbers: NO_BOUND where there is none."""
    if bounds is None:
        return np.full(rows, NO_BOUND, np.int64)
    plain = flat(bounds)
    return fixed(plain.fill_null(NO_BOUND) if plain.null_count else plain, np.int64)
