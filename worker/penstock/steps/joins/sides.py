"""The two inputs of a join: the columns of each, and what becomes of rows without a partner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.contract.graph import LATE, LATE_RIGHT, LEFT, RIGHT
from penstock.model.arrays import Bytes, Int32s, Int64s, fixed, flat
from penstock.model.kernels import windows
from penstock.model.rows import RowCodec
from penstock.steps.base import NO_BOUND, Emit
from penstock.steps.keyed import KeyColumns

SIDES = (LEFT, RIGHT)
RIGHT_NUMBER = 1


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


def untimed_side(number: int, keys: KeyColumns, schema: pa.Schema, alone: bool) -> JoinSide:
    """Describe an input whose rows need no time: see :func:`join_side`."""
    return join_side(number, keys, schema, "", alone)


def timed_side(number: int, keys: KeyColumns, schema: pa.Schema, time: str, alone: bool) -> JoinSide:
    """Describe an input whose rows begin with their time, as bytes: see :func:`join_side`."""
    at = schema.get_field_index(time)
    others = tuple(place for place in range(len(schema)) if place not in keys.places and place != at)
    codec = RowCodec(tuple(schema.field(place).type for place in (at, *others)))
    led = at in keys.places
    return JoinSide(number, keys, time, alone, others if led else (at, *others), codec, None if led else 0, led)


class UnjoinedRows:
    """Emits the late rows of both sides to their outputs, and counts the rows that are not joined."""

    def __init__(self) -> None:
        """Begin with no row."""
        self._late = {windows.LATE: 0, windows.LATE_AFTER_IDLE: 0, windows.WITHOUT_TIME: 0}
        self._null_keys = 0

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        self._outputs = tuple(outputs[name] for name in (LATE, LATE_RIGHT))

    def emit(self, side: JoinSide, batch: pa.RecordBatch, verdicts: npt.NDArray[np.uint8]) -> None:
        """Emit the rows of a side that are late by their verdicts (length n)."""
        for verdict in self._late:
            self._late[verdict] += int(np.count_nonzero(verdicts == verdict))
        late = np.flatnonzero(verdicts != windows.ON_TIME)
        self._outputs[side.number](batch.take(pa.array(late)))

    def without_null_keys(
        self, side: JoinSide, keys: Sequence[pa.Array], wanted: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Return which of the wanted rows can be in the result. A row that cannot has a null key, and is counted."""
        missing = None if side.alone else null_keys(keys)
        if missing is None:
            return wanted
        self._null_keys += int(np.count_nonzero(wanted & missing))
        return wanted & ~missing

    def counters(self) -> dict[str, int]:
        """Return the number of late rows by their cause, and of rows dropped for a null key."""
        return {
            "late": self._late[windows.LATE],
            "late_after_idle": self._late[windows.LATE_AFTER_IDLE],
            "without_time": self._late[windows.WITHOUT_TIME],
            "null_keys": self._null_keys,
        }


def null_keys(keys: Sequence[pa.Array]) -> npt.NDArray[np.bool_] | None:
    """Return which rows have a null in a key column: they match no row. None if no row has."""
    columns = [flat(column) for column in keys]  # a dictionary may have a null among its values
    if not any(column.null_count for column in columns):
        return None
    found = np.zeros(len(keys[0]), np.bool_)
    for column in columns:
        found |= np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    return found


def bounds_of(bounds: pa.Array | None, rows: int) -> Int64s:
    """Return the bounds of rows as numbers: NO_BOUND where there is none."""
    if bounds is None:
        return np.full(rows, NO_BOUND, np.int64)
    plain = flat(bounds)
    return fixed(plain.fill_null(NO_BOUND) if plain.null_count else plain, np.int64)
