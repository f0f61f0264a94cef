"""Joins the rows of two inputs that have equal keys and lie in the same tumbling window of event time.

A window emits once, when the watermark of both inputs reaches ``end + lateness``. Windows emit in the order of end, key
group, hash and key, and rows of a window in the order of time and bytes, so the output does not depend on how the
inputs interleave. A row with a null in its key matches no row.

A row is late exactly if a window step would call it late: ``end + lateness <= bound``. The source has stored this
bound with the row. A row of an idle split may come when its window has emitted. It is also late.

    rows ── late ─────────────> output late, or late-right
         ── null in the key ──> dropped, unless the side is emitted without a partner
         ── others ───────────> kept ── the window ends ──> pairs, one slice at a time
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX, JOIN_WINDOWS_MAX
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, Int64s, fixed, fixed_array, flat
from penstock.model.kernels import windows
from penstock.steps.base import NO_BOUND, Emit, PlainStep, reached, split_hidden
from penstock.steps.joins.kept_rows import LAST_DUE, KeptRows, Windows
from penstock.steps.joins.pairs import Matching, OrderedRows, PairBatches, in_order, matching, picks
from penstock.steps.joins.sides import SIDES, JoinSide, UnjoinedRows, bounds_of, null_keys
from penstock.steps.keyed import OpenState

_TIME = pa.timestamp("us")


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """Length, offset from 1970-01-01 and allowed lateness of the windows of a join, in microseconds."""

    size_us: int
    offset_us: int
    lateness_us: int


@dataclass(frozen=True, slots=True)
class _HalfEmitted:
    """A window with more pairs than a slice: its key, and its rows in order. Kept between slices only to save work."""

    key: bytes
    rows: tuple[OrderedRows, OrderedRows]


class WindowJoinStep(PlainStep):
    """Emits a row for each pair of a left and a right row: the key columns, then the other columns of both."""

    def __init__(self, name: str, shape: JoinWindows, sides: Sequence[JoinSide], pairs: PairBatches) -> None:
        """Join rows of ``sides``. ``pairs`` makes and emits the output."""
        super().__init__(name)
        self._shape = shape
        self._sides = tuple(sides)
        self._pairs = pairs
        self._fired: Int64s = np.full(sides[0].keys.codec.max_key_groups, NO_BOUND, np.int64)
        self._late = UnjoinedRows()
        self._half: _HalfEmitted | None = None

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        super().bind(outputs)
        self._pairs.bind(outputs["main"])
        self._late.bind(outputs)

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        keys = self._sides[0].keys
        self._kept = KeptRows(self.name, keys.codec, tuple(name for name, _ in keys.fields), state)

    # --- Rows that come -----------------------------------------------------------------------

    def side(self, name: str) -> Emit:
        """Return what takes the rows of the left or the right input."""
        return partial(self._take, self._sides[SIDES.index(name)])

    def on_batch(self, batch: pa.RecordBatch) -> NoReturn:
        """Refuse rows: each row of a join belongs to a side."""
        raise AssertionError(f"step {self.name!r} takes rows by side")

    def _take(self, side: JoinSide, batch: pa.RecordBatch) -> None:
        rows, bounds = split_hidden(batch)
        keys = side.keys.of(rows)
        hashed = side.keys.codec.hashed(keys)
        ends, verdicts = np.empty(rows.num_rows, np.int64), np.empty(rows.num_rows, np.uint8)
        late = self._assign(side, rows, bounds, hashed[1], (ends, verdicts))
        if late:
            self._late.emit(side, batch, verdicts)
        wanted = self._late.without_null_keys(side, keys, verdicts == windows.ON_TIME)
        if not wanted.all():
            batch, ends, hashed = batch.filter(pa.array(wanted)), ends[wanted], (hashed[0][wanted], hashed[1][wanted])
        if len(ends):
            self._keep(side, batch, ends, hashed)

    def _assign(
        self,
        side: JoinSide,
        rows: pa.RecordBatch,
        bounds: pa.Array | None,
        groups: Int32s,
        result: tuple[Int64s, npt.NDArray[np.uint8]],
    ) -> bool:
        """Write the window end and the verdict of each row. Returns whether a row is late."""
        times = flat(rows.column(side.time))
        shape = (self._shape.size_us, self._shape.offset_us, self._shape.lateness_us)
        given = (fixed(times, np.int64), bounds_of(bounds, len(times)))
        late = windows.assign(shape, given, (groups, self._fired), *result)
        if times.null_count:
            result[1][np.asarray(times.is_null().to_numpy(zero_copy_only=False))] = windows.WITHOUT_TIME
        return bool(late or times.null_count)

    def _keep(
        self, side: JoinSide, batch: pa.RecordBatch, ends: Int64s, hashed: tuple[npt.NDArray[np.uint64], Int32s]
    ) -> None:
        rows = split_hidden(batch)[0]
        found = self._kept.find(side.keys.of(rows), ends, hashed)
        closed = self._kept.has_emitted(found)
        if closed.any():  # only behind an idle split, after a restore between two slices
            self._late.emit(side, batch, np.where(closed, windows.LATE_AFTER_IDLE, windows.ON_TIME).astype(np.uint8))
            rows, found, ends = rows.filter(pa.array(~closed)), found[~closed], ends[~closed]
            hashed = hashed[0][~closed], hashed[1][~closed]
        self._kept.add(side, rows, (side.keys.of(rows), ends, hashed), found)

    # --- Windows that end ---------------------------------------------------------------------

    def on_watermark(self, time_us: int) -> int:
        """Emit windows whose end plus lateness the watermark has reached, at most one slice of pairs.

        Returns the time reached.
        """
        np.maximum(self._fired, time_us, out=self._fired)
        bound = min(time_us, LAST_DUE) - self._shape.lateness_us
        if self._kept.next_due() > bound:
            return time_us
        due = self._kept.take_due(bound, JOIN_WINDOWS_MAX)
        if len(due.rows):
            self._fire(due)
        first = self._kept.next_due()
        return time_us if first > bound else reached(time_us, first, self._shape.lateness_us)

    def _fire(self, due: Windows) -> None:
        """Emit as many windows as fit in a slice, or one slice of the first window. The others are queued again."""
        keys = self._kept.keys(due)
        match = self._matching(due, keys)
        left = match.pairs - due.emitted
        fit = int(np.searchsorted(np.cumsum(left), FIRED_ROWS_MAX, side="right"))
        if fit < len(left):
            self._kept.put_back(due.only(slice(max(fit, 1), None)))
        if fit == 0:
            self._fire_part(due.only(slice(1)), [k[:1] for k in keys])
        else:
            self._fire_whole(due.only(slice(fit)), [k[:fit] for k in keys])

    def _matching(self, due: Windows, keys: list[pa.Array]) -> Matching:
        missing = null_keys(keys)
        return matching(self._sides, due.counts, np.zeros(len(due.rows), np.bool_) if missing is None else missing)

    def _fire_whole(self, due: Windows, keys: list[pa.Array]) -> None:
        """Emit all pairs of windows that are left, and delete the windows."""
        emits = self._matching(due, keys).pairs > 0
        places, parts = self._kept.parts(due, keys)
        if emits.any():
            due, keys = due.only(emits), [column.filter(pa.array(emits)) for column in keys]
            match = self._matching(due, keys)
            rows = self._read(due, places[np.repeat(emits, parts)])
            self._send((keys, due.ends), match, rows, (due.emitted, match.pairs - due.emitted))
        self._kept.delete(places)
        self._half = None

    def _fire_part(self, one: Windows, keys: list[pa.Array]) -> None:
        """Emit one slice of the pairs of a window."""
        key = self._kept.encoded_keys(one).data.tobytes()
        if self._half is None or self._half.key != key:
            self._half = None
            places, _ = self._kept.parts(one, keys)
            self._half = _HalfEmitted(key, self._read(one, places))
            one = self._kept.windows(places[:1])
        slice_of_pairs = np.array([FIRED_ROWS_MAX], np.int64)
        self._send((keys, one.ends), self._matching(one, keys), self._half.rows, (one.emitted, slice_of_pairs))
        self._kept.put_back(one, one.emitted + slice_of_pairs)

    def _read(self, due: Windows, places: Int32s) -> tuple[OrderedRows, OrderedRows]:
        """Return the rows of both sides in order. ``places`` are all parts of the windows, window by window."""
        left, right = (
            in_order(side, self._kept.read(side.number, places, int(counts.sum())), counts)
            for side, counts in zip(self._sides, due.counts, strict=True)
        )
        return left, right

    def _send(
        self,
        of_windows: tuple[list[pa.Array], Int64s],
        match: Matching,
        rows: tuple[OrderedRows, OrderedRows],
        pairs: tuple[Int64s, Int64s],
    ) -> None:
        """Emit pairs: of each window (keys and ends) those from ``pairs[0]`` on, ``pairs[1]`` of them."""
        keys, ends = of_windows
        picked = picks(match, rows, *pairs)
        if not len(picked.windows):
            return
        self._pairs.send(keys, picked, (rows[0].columns, rows[1].columns), ends[np.asarray(picked.windows)] - 1)

    # --- What is kept -------------------------------------------------------------------------

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of open windows, their times, and how many rows of each side they keep."""
        found = self._kept.windows(self._kept.first_parts(rows))
        fields = self._sides[0].keys.fields
        times = [fixed_array(_TIME, found.ends - self._shape.size_us), fixed_array(_TIME, found.ends)]
        counts = [pa.array(count) for count in found.counts]
        names = [*(name for name, _ in fields), "window_start", "window_end", *(f"{side}_rows" for side in SIDES)]
        return pa.RecordBatch.from_arrays([*self._kept.keys(found), *times, *counts], names)

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that windows of these groups up to this time may have emitted."""
        self._half = None
        for groups in share:
            mine = self._fired[groups.start : groups.stop]
            np.maximum(mine, fired_us, out=mine)

    def counters(self) -> dict[str, int]:
        """Return the number of open windows, of late rows by their cause, and of rows dropped for a null key."""
        return {"keys": self._kept.about_keys(), **self._late.counters()}
