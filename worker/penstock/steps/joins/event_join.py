"""Joins the rows of two inputs that have equal keys, in the order of event time.

Two joins are made of it. In an interval join a left and a right row are a pair if ``lower <= right time - left time <=
upper``. In a table join a left row and the newest version of its key at its time are a pair: ``partners`` finds both.
Events happen in the order of event
time. A row *arrives* at its time: it pairs with the rows of the other side that came before. A row is *missed* at the
last time at which a partner could come: it is emitted alone, if it had no partner and its side asks for that. An
event happens when the watermark of both inputs, less the allowed lateness, has passed its time. Of two rows with equal
times, the left one comes before. Events of one time are in the order of the units' hashes, and those of one unit in
the order of arrivals and misses, then of bytes. So the output is the same for every interleaving of the inputs, and
pair number n of a time is the same pair after a restore.

    rows ── late ─────────────> output late, or late-right
         ── null in the key ──> dropped, unless the side is emitted without a partner
         ── others ───────────> kept ── arrival ──> pairs ── miss ──> row alone ── no later event needs it ──> deleted

A row is late exactly if ``time + lateness < bound``. The source has stored this bound with the row. A row of an idle
split may come when the events of its time have happened. It is also late.

A unit (``bucket_rows``) has the rows of one key, side and bucket of time. Its timer is the time of its next event. When
the units that are taken have more pairs than a slice, the events stop at a time T: all units keep what
happens from T on, and one of them notes how many rows of output at T were emitted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import numpy as np
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX, JOIN_SIDE_ROWS_MAX, JOIN_WINDOWS_MAX
from penstock.base.values import replace
from penstock.contract.keygroups import Share
from penstock.model.arrays import Bytes, Int32s, Int64s, fixed, fixed_array, flat, pack_validity
from penstock.model.kernels import intervals, joins, windows
from penstock.steps.base import NO_BOUND, Emit, PlainStep, split_hidden
from penstock.steps.joins.bucket_rows import NEVER, NO_BUCKET, Buckets, DueUnits, StoredRows, TimedUnits, Units
from penstock.steps.joins.events import Happening, events_of, happening
from penstock.steps.joins.pairs import PairBatches, Picks, nullable
from penstock.steps.joins.partners import Partners
from penstock.steps.joins.sides import SIDES, JoinSide, UnjoinedRows, bounds_of
from penstock.steps.keyed import OpenState

_TIME = pa.timestamp("us")
_LEAST = -(1 << 62)


@dataclass(frozen=True, slots=True)
class _Slice:
    """What a call emits: the events before number ``stop`` whole, and ``part`` rows of output of event ``stop``."""

    stop: int
    part: int


class EventJoinStep(PlainStep):
    """Emits a row for each pair of a left and a right row: the key columns, then the other columns of both."""

    def __init__(self, name: str, partners: Partners, sides: Sequence[JoinSide], pairs: PairBatches) -> None:
        """Join rows of ``sides`` with their ``partners``. ``pairs`` makes and emits the output."""
        super().__init__(name)
        self._partners = partners
        self._sides = tuple(sides)
        self._times = partners.times
        self._pairs = pairs
        self._reached: Int64s = np.full(sides[0].keys.codec.max_key_groups, NO_BOUND, np.int64)
        self._late = UnjoinedRows()
        self._units_most = JOIN_WINDOWS_MAX // 8

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        super().bind(outputs)
        self._pairs.bind(outputs["main"])
        self._late.bind(outputs)

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        keys = self._sides[0].keys
        names = tuple(name for name, _ in keys.fields)
        advice = "make the interval smaller, or filter such keys before the join"
        buckets = Buckets(self._partners.bucket_us, JOIN_SIDE_ROWS_MAX, advice)
        self._kept = TimedUnits(self.name, keys.codec, names, buckets, state)
        self._partners.bind(self._kept)

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
        times = flat(rows.column(side.time))
        verdicts = np.empty(rows.num_rows, np.uint8)
        given = fixed(times, np.int64), bounds_of(bounds, rows.num_rows)
        late = intervals.judge(self._partners.lateness_us, given, (hashed[1], self._reached), verdicts)
        if times.null_count:
            verdicts[np.asarray(times.is_null().to_numpy(zero_copy_only=False))] = windows.WITHOUT_TIME
        if late or times.null_count:
            self._late.emit(side, batch, verdicts)
        wanted = self._late.without_null_keys(side, keys, verdicts == windows.ON_TIME)
        if not wanted.all():
            rows, hashed = rows.filter(pa.array(wanted)), (hashed[0][wanted], hashed[1][wanted])
        if rows.num_rows:
            at = fixed(flat(rows.column(side.time)), np.int64)
            self._partners.keep(side, rows, at, (side.keys.of(rows), hashed))

    # --- Events that happen -------------------------------------------------------------------

    def on_watermark(self, time_us: int) -> int:
        """Let events happen whose time plus lateness the watermark has passed, at most one slice of pairs.

        Returns the time reached.
        """
        np.maximum(self._reached, time_us, out=self._reached)
        until = max(time_us - self._partners.lateness_us, _LEAST)
        if self._kept.next_due() < until:
            self._happen(until)
        first = min(self._kept.next_due(), until)
        self._partners.settle(first)
        return time_us if first == until else first + self._partners.lateness_us

    def _happen(self, until: int) -> None:
        due = self._kept.take_due(until - 1, self._units_most)
        first, rest = int(due.times[0]), self._kept.next_due()
        settled = until = min(until, rest)
        if until == first:  # more units are due at one time than are taken
            settled, until = first, first + 1
        self._kept.put_back(due.only(due.times >= until))
        due = due.only(due.times < until)
        units = self._kept.units(due.rows)
        own, following = self._own_rows(units, due, until)
        events, later = events_of(self._times, (own, following), units.sides, due.times, until)
        events, partners = self._partners.find(units, events)
        happen = happening(events, partners, (due.hashes, due.emitted))
        part = self._slice(happen)
        self._adapt(own, partners, happen)
        self._send(units, own, partners, _whole(happen, part))
        self._go_on(units, due, (happen, part, later), settled)

    def _own_rows(self, units: Units, due: DueUnits, until: int) -> tuple[StoredRows, Int64s]:
        """Return the rows of units that have an event from the units' timers on and came before ``until``.

        And the time of the first row of each unit that came later.
        """
        misses = np.where(self._times.alone, self._times.miss, 0)
        last = np.full(len(due.times), until - 1, np.int64)
        return self._kept.read_with_next(units, np.arange(len(due.times)), due.times - misses[units.sides], last)

    def _slice(self, happen: Happening) -> _Slice:
        ends = np.cumsum(happen.count - happen.skipped)
        stop = int(np.searchsorted(ends, FIRED_ROWS_MAX, side="right"))
        if stop == len(ends):
            return _Slice(stop, 0)
        return _Slice(stop, FIRED_ROWS_MAX - (int(ends[stop - 1]) if stop else 0))

    def _adapt(self, own: StoredRows, partners: StoredRows, happen: Happening) -> None:
        """Take so many units next time that about one slice is read and emitted. The output does not depend on it."""
        size = max(len(own.times), len(partners.times), int((happen.count - happen.skipped).sum()), 1)
        factor = min(2.0, FIRED_ROWS_MAX / size)
        self._units_most = int(min(max(self._units_most * factor, 1), JOIN_WINDOWS_MAX))

    def _send(self, units: Units, own: StoredRows, partners: StoredRows, events: Happening) -> None:
        taken = events.count - events.skipped
        total = int(taken.sum())
        if not total:
            return
        of, mine, others = (np.empty(total, np.int32) for _ in range(3))
        intervals.pair_up((events.units, events.rows), (events.first, events.skipped, taken), (of, mine, others))
        others[others != joins.NO_ROW] += len(own.times)
        is_left = units.sides[of] == 0
        data = np.concatenate([own.data, partners.data])
        starts = np.concatenate([own.starts, partners.starts + len(own.data)])
        left, lefts = _decoded(self._sides[0], data, starts, np.where(is_left, mine, others))
        right, rights = _decoded(self._sides[1], data, starts, np.where(is_left, others, mine))
        picked = Picks(pa.array(of), nullable(lefts), nullable(rights))
        self._pairs.send(units.keys, picked, (left, right), own.times[mine])  # own rows are the later ones

    def _go_on(self, units: Units, due: DueUnits, happened: tuple[Happening, _Slice, Int64s], settled: int) -> None:
        """Set when units come due again, and delete those whose rows are not needed any more.

        All events before ``settled`` have happened, or wait in these units.
        """
        happen, part, following = happened
        emitted = np.zeros(len(due.times), np.int64)
        waiting = slice(part.stop, None)
        np.minimum.at(following, happen.units[waiting], happen.times[waiting])
        if part.stop < len(happen.times):
            unit, time = happen.units[part.stop], happen.times[part.stop]
            settled = min(settled, int(time))
            before = (happen.units == unit) & (happen.times == time)
            before[waiting] = False
            emitted[unit] = happen.count[before].sum() + happen.skipped[part.stop] + part.part
        unneeded = (units.buckets + 1) * self._partners.bucket_us + self._times.kept[units.sides]
        gone = (following == NEVER) & (unneeded <= settled)
        times = np.where(following == NEVER, unneeded, following)
        self._kept.put_back(replace(due, times=times, emitted=emitted).only(~gone))
        if gone.any():
            self._kept.delete(units.only(np.flatnonzero(gone)))

    # --- What is kept -------------------------------------------------------------------------

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of what is kept, with side, the times of its bucket, and the number of rows."""
        units = self._kept.units(self._kept.first_parts(rows))
        size = self._partners.bucket_us
        timed = units.buckets != NO_BUCKET
        starts, bitmap = np.where(timed, units.buckets, 0) * size, pack_validity(timed)
        columns = {
            "side": pa.array([SIDES[side] for side in units.sides.tolist()], pa.string()),
            "bucket_start": fixed_array(_TIME, starts, bitmap),
            "bucket_end": fixed_array(_TIME, starts + size, bitmap),
            "rows": pa.array(units.counts),
        }
        names = [name for name, _ in self._sides[0].keys.fields]
        return pa.RecordBatch.from_arrays([*units.keys, *columns.values()], [*names, *columns])

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that events of these groups up to this time less the lateness may have happened.

        Others may not have: they still ask for all that is kept.
        """
        self._partners.settle(_LEAST)
        for groups in share:
            mine = self._reached[groups.start : groups.stop]
            np.maximum(mine, fired_us, out=mine)

    def counters(self) -> dict[str, int]:
        """Return the number of parts that are kept, of late rows by their cause, and of rows dropped for a null key."""
        return {"keys": self._kept.about_keys(), **self._late.counters()}


def _whole(happen: Happening, part: _Slice) -> Happening:
    """Return the events of a slice. Of the last one, ``part.part`` rows of output are left."""
    stop = part.stop + (part.part > 0)
    count = happen.count[:stop].copy()
    if part.part:
        count[-1] = happen.skipped[stop - 1] + part.part
    some = slice(stop)
    return Happening(
        happen.units[some], happen.rows[some], happen.times[some], happen.first[some], count, happen.skipped[some]
    )


def _decoded(side: JoinSide, data: Bytes, starts: Int64s, numbers: Int32s) -> tuple[Sequence[pa.Array], Int32s]:
    """Return the columns of the rows that are listed in ``numbers``, and which of them each number is."""
    listed = np.zeros(len(starts) + 1, np.bool_)  # the last one is for NO_ROW
    listed[numbers] = True
    listed[-1] = False
    places = np.cumsum(listed, dtype=np.int32) - 1
    places[-1] = joins.NO_ROW
    return side.decoded(data, starts[listed[:-1]]), places[numbers]
