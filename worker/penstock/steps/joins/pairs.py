"""Puts the kept rows of windows in order, and makes joined rows of them.

The rows of a side come in the order of time and then of their bytes. So the output depends only on which rows there
are, and not on how inputs have interleaved. Rows that are equal in all columns cannot be told apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.arrays import Bytes, Int32s, Int64s, as_type, fixed_array, variable_array
from penstock.model.kernels import joins
from penstock.steps.base import NO_BOUND, Emit, split_hidden, with_hidden
from penstock.steps.joins.pair_function import PairFunction
from penstock.steps.joins.sides import JoinSide

_ORDER = [("window", "ascending"), ("time", "ascending"), ("row", "ascending")]


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The rows of one side of n windows, window by window: columns, and the number of the first row of each window."""

    columns: Sequence[pa.Array]
    first: Int64s


def in_order(side: JoinSide, stored: tuple[Bytes, Int64s, Int64s], counts: Int64s) -> OrderedRows:
    """Return the rows of n windows in order. ``stored`` has bytes, starts and sizes; ``counts`` is by window."""
    data, starts, _ = stored
    columns = side.codec.decode(data, starts)
    if len(counts) and counts.max() > 1:
        order = _order(side, columns, stored, np.repeat(np.arange(len(counts)), counts))
        columns = [column.take(order) for column in columns]
    return OrderedRows(columns, np.cumsum(counts) - counts)


def _order(side: JoinSide, columns: list[pa.Array], stored: tuple[Bytes, Int64s, Int64s], windows: Int64s) -> pa.Array:
    data, starts, sizes = stored
    # The rows lie one after the other, each behind its length. A length in front of each next row does not matter.
    ends = np.append(starts, starts[-1] + sizes[-1] if len(starts) else 0)
    times = pa.nulls(len(starts), pa.int64()) if side.order is None else columns[side.order].cast(pa.int64())
    rows = variable_array(pa.large_binary(), ends, data)
    table = pa.RecordBatch.from_arrays([pa.array(windows), times, rows], ["window", "time", "row"])
    return pc.sort_indices(table, sort_keys=_ORDER)


@dataclass(frozen=True, slots=True)
class Matching:
    """What n windows emit: whether their rows match, and how many left and right rows go without a partner."""

    matched: npt.NDArray[np.bool_]
    alone: tuple[Int64s, Int64s]
    counts: tuple[Int64s, Int64s]

    @property
    def pairs(self) -> Int64s:
        """Return how many rows each window emits in total."""
        return np.where(self.matched, self.counts[0] * self.counts[1], self.alone[0] + self.alone[1])


def matching(sides: Sequence[JoinSide], counts: tuple[Int64s, Int64s], without_key: npt.NDArray[np.bool_]) -> Matching:
    """Say what windows emit. Rows whose key has a null (``without_key``) match no row."""
    left, right = counts
    matched = (left > 0) & (right > 0) & ~without_key
    alone = (left * sides[0].alone, right * sides[1].alone)
    return Matching(matched, alone, counts)


@dataclass(frozen=True, slots=True)
class Picks:
    """The pairs of some windows: window, left row and right row of each. A null means that there is no row."""

    windows: pa.Array
    left: pa.Array
    right: pa.Array

    @property
    def windows_by_side(self) -> tuple[pa.Array, pa.Array]:
        """Return the window of each pair, with null where the left row is missing, and where the right one is."""
        none = pa.scalar(None, self.windows.type)
        left, right = (pc.if_else(rows.is_valid(), self.windows, none) for rows in (self.left, self.right))
        return left, right


def picks(match: Matching, rows: tuple[OrderedRows, OrderedRows], first: Int64s, count: Int64s) -> Picks:
    """List ``count`` pairs of each window, from pair number ``first`` on."""
    total = int(count.sum())
    windows, lefts, rights = (np.empty(total, np.int32) for _ in range(3))
    sides = (rows[0].first, rows[1].first, *match.counts)
    joins.pair_up(sides, (match.matched.view(np.uint8), match.alone[0]), (first, count), (windows, lefts, rights))
    return Picks(pa.array(windows), nullable(lefts), nullable(rights))


def nullable(rows: Int32s) -> pa.Array:
    """Return row numbers, with null where there is no row."""
    missing = rows == joins.NO_ROW
    return pa.array(rows, mask=missing if missing.any() else None)


class PairBatches:
    """Makes batches of pairs and emits them: the key columns, then the other columns of both sides.

    With a function: what it returns for each pair. With ``time``, the event time of a result is its last column.
    """

    def __init__(
        self,
        sides: Sequence[JoinSide],
        output: pa.Schema,
        function: PairFunction | None = None,
        time: pa.Field | None = None,
    ) -> None:
        """Emit rows of ``output``, and the column ``time``."""
        self._output = output if function is None else function.pairs
        self._function = function
        self._picked = _places_of(sides, each=function is not None)
        self._time = time
        self._untimed: Int64s = np.empty(0, np.int64)  # the times of the pairs whose results have not come yet

    def bind(self, emit: Emit) -> None:
        """Set what receives the batches."""
        self._receiver = emit
        self._emit = emit if self._time is None else self._emit_timed
        if self._function is not None:
            self._function.bind(self._emit)
            self._emit = self._function.on_batch

    def _emit_timed(self, batch: pa.RecordBatch) -> None:
        """Emit the results of the next pairs with their times: a function may return them in several batches."""
        assert self._time is not None, "only results with a time come here"
        rows, bounds = split_hidden(batch)
        times, self._untimed = np.split(self._untimed, [batch.num_rows])
        self._receiver(with_hidden(rows.append_column(self._time, fixed_array(self._time.type, times)), bounds))

    def send(
        self,
        keys: Sequence[pa.Array],
        picked: Picks,
        rows: tuple[Sequence[pa.Array], Sequence[pa.Array]],
        times: Int64s,
    ) -> None:
        """Emit one batch. ``keys`` are by window, ``rows`` are the kept columns of both sides, ``times`` by pair."""
        self._untimed = times
        # A pair is made from two rows, so it has no bound, and later steps never find it late.
        self.send_bound(keys, picked, rows, pa.array(np.full(len(picked.windows), NO_BOUND, np.int64)))

    def send_bound(
        self,
        keys: Sequence[pa.Array],
        picked: Picks,
        rows: tuple[Sequence[pa.Array], Sequence[pa.Array]],
        bounds: pa.Array | None,
    ) -> None:
        """Emit one batch with the hidden column ``bounds``: see :meth:`send`."""
        sources = [(column, picked.windows) for column in keys]
        sources += [(column, picked.left) for column in rows[0]]
        sources += [(column, picked.right) for column in rows[1]]
        sources += [(column, of_side) for of_side in picked.windows_by_side for column in keys]
        columns = [sources[number][0].take(sources[number][1]) for number in self._picked]
        cast = [as_type(c, f.type) for c, f in zip(columns, self._output, strict=True)]
        batch = pa.RecordBatch.from_arrays(cast, schema=self._output)
        self._emit(with_hidden(batch, bounds))


def _places_of(sides: Sequence[JoinSide], *, each: bool) -> tuple[int, ...]:
    """Return where each output column is in: key columns, kept left columns, kept right columns.

    With ``each`` the output has all columns of each side. The key columns of the left side follow, then those of the
    right one.
    """
    left, right = sides
    keys = len(left.keys.places)
    if each:
        first, after = keys, keys + len(left.kept) + len(right.kept)
        places: list[int] = []
        for side in sides:
            there = {place: after + number for number, place in enumerate(side.keys.places)}
            there |= {place: first + number for number, place in enumerate(side.kept)}
            places += [there[place] for place in range(len(there))]
            first, after = first + len(side.kept), after + keys
        return tuple(places)
    of_left = {place: number for number, place in enumerate((*left.keys.places, *left.kept))}
    after = keys + len(left.kept)
    of_right = (after + right.kept.index(place) for place in sorted(right.kept))
    return (*(of_left[place] for place in range(after)), *of_right)
