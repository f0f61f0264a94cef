"""A source of rows in a list, with markers that say when the input ends, dies or waits."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.connectors.source_rows import as_times
from penstock.contract.event_time import EventTime
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.graph.arguments import ColumnsLike, columns_of
from penstock.graph.arrow import arrow_schema
from penstock.model.declared.record_types import record_type
from penstock.model.exact import exact_array, exact_cast
from penstock.ports import Read
from penstock.steps.typed.arrow_types import arrow_of
from penstock.steps.typed.record_writer import RecordWriter


class Marker(Enum):
    """What may stand between the rows of a list; see :class:`ListSource`."""

    EOF = "EOF"
    ABORT = "ABORT"
    PAUSE = "PAUSE"


EOF, ABORT, PAUSE = Marker.EOF, Marker.ABORT, Marker.PAUSE

_UNFIT = (pa.ArrowException, TypeError, ValueError, OverflowError)

Item: TypeAlias = "Mapping[str, Any] | pa.RecordBatch | Marker | object"


class ListSource:
    """Gives the rows of lists, each list a partition; read again from any row, as Kafka is.

    An item is a row (a dict, or an object of a ``ps.record``), a ``pyarrow.RecordBatch`` or a marker.
    The run goes on until each partition stands at a marker or has no more rows; all rows before have
    then been processed.

    - ``EOF`` ends the partition: what is behind it is not read. The end of the list ends it, too.
    - ``ABORT`` lets the job die there, once: what is not in a checkpoint is lost, and the job
      begins again from its newest checkpoint.
    - ``PAUSE`` stops there until the run is told to go on; ``ps.run`` takes a checkpoint and goes on.

    ``columns`` are the columns with their types; found from the rows when left out. A value that its column does not
    hold exactly is refused, as one that a function gives. A whole number is a time, in the unit of its column. With
    ``ends=False`` the source has no end, and more rows may be pushed to it.
    """

    def __init__(self, *partitions: Iterable[Item], columns: ColumnsLike = None, ends: bool = True) -> None:
        """Keep the rows. Raises ConfigError for a row that does not fit the columns, counted from 0 in its list."""
        items = [list(partition) for partition in partitions] or [[]]
        self.bounded = ends
        given = columns_of(columns)
        self.schema = arrow_schema(given) if given else _found(list(chain.from_iterable(items)))
        self._lists = [_Partition() for _ in items]
        for number, partition in enumerate(items):
            self.push(partition, number)

    def push(self, items: Iterable[Item], partition: int = 0) -> None:
        """Add items behind those that are there. Raises ConfigError where the partition has ended."""
        self._lists[partition].add(items, self.schema)

    def reach(self, time_us: int) -> None:
        """Say that the event time ``time_us`` is reached behind the rows that are there, without a row."""
        for partition in self._lists:
            partition.times.append((partition.rows, time_us))

    def latest(self, rule: EventTime) -> int | None:
        """Return the latest event time (us) of all rows and of :meth:`reach`; None if there is none."""
        pieces = [piece.column(rule.column) for partition in self._lists for piece in partition.pieces]
        found = [pc.max(as_times(piece, rule.unit).cast(pa.int64())).as_py() for piece in pieces]
        times = [time_us for partition in self._lists for _, time_us in partition.times]
        return max((time_us for time_us in (*found, *times) if time_us is not None), default=None)

    def begin(self) -> None:
        """Begin another run: every marker counts again."""
        for partition in self._lists:
            for mark in partition.marks:
                mark.passed = False

    def stopped_at(self) -> Marker | None:
        """Return the marker at which partitions stand: an ABORT before a PAUSE; None at neither.

        Valid when nothing is left to read.
        """
        marks = [m for p in self._lists if (m := p.mark(p.at)) is not None and m.offset == p.at]
        kinds = [m.kind for m in marks]
        return next((kind for kind in (Marker.ABORT, Marker.PAUSE) if kind in kinds), None)

    def resume(self) -> None:
        """Pass the markers at which the partitions stand."""
        for partition in self._lists:
            mark = partition.mark(partition.at)
            if mark is not None and mark.offset == partition.at and mark.kind is not Marker.EOF:
                mark.passed = True

    # --- What penstock.Source asks for ----------------------------------------------------------

    def splits(self) -> list[SplitState]:
        """List one split for each partition."""
        return [SplitState(SplitId(f"list-{i}"), str(i), 0) for i in range(len(self._lists))]

    def open(self, state: SplitState) -> "ListReader":
        """Open a partition at its offset."""
        return ListReader(self._lists[int(state.spec)], state, self.bounded)


@dataclass(slots=True)
class _Mark:
    """A marker that stands before row ``offset``."""

    offset: int
    kind: Marker
    passed: bool = False


@dataclass(slots=True)
class _Partition:
    """Rows in pieces, the offset behind each piece, and the markers between them.

    ``times`` are event times (us) that are reached at an offset without a row. Each stands between two pieces.
    """

    pieces: list[pa.RecordBatch] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    marks: list[_Mark] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    at: int = 0  # where its reader stands
    ended: bool = False

    @property
    def rows(self) -> int:
        return self.stops[-1] if self.stops else 0

    def add(self, items: Iterable[Item], schema: pa.Schema) -> None:
        given = list(items)
        if given and self.ended:
            raise ConfigError("the list has been read to its end: make it with ends=False")
        for kind, group in groupby(given, _kind):
            alike: list[Any] = list(group)
            if kind is dict:
                self._append(_batch(alike, schema, self.rows))
            elif kind is not None:
                self._append(_batch_of_records(alike, schema, self.rows))
            else:
                self._add_others(alike, schema)

    def _add_others(self, items: Sequence[Any], schema: pa.Schema) -> None:
        for item in items:
            if isinstance(item, Marker):
                self.marks.append(_Mark(self.rows, item))
            else:
                self._append(_checked(item, schema))

    def _append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self.stops.append(self.rows + batch.num_rows)
            self.pieces.append(batch)

    def mark(self, offset: int) -> _Mark | None:
        """Return the first marker at or behind an offset that still counts."""
        return next((m for m in self.marks if m.offset >= offset and not m.passed), None)

    def read(self, offset: int, most: int) -> pa.RecordBatch | None:
        """Return rows from ``offset`` on, up to the next marker; None when there are none."""
        mark = self.mark(offset)
        stop = self.rows if mark is None else mark.offset
        if offset >= stop:
            return None
        place = bisect_left(self.stops, offset + 1)
        piece = self.pieces[place]
        first = offset - (self.stops[place] - piece.num_rows)
        return piece.slice(first, min(most, stop - offset))

    def reached(self, offset: int) -> int | None:
        """Return the latest event time that is reached at an offset without a row."""
        return max((time_us for at, time_us in self.times if at <= offset), default=None)

    def over(self, offset: int, *, ends: bool) -> bool:
        """Return whether nothing follows: there is an EOF, or the end of a list that ends."""
        mark = self.mark(offset)
        if mark is not None:
            return mark.kind is Marker.EOF and mark.offset == offset
        return ends and offset == self.rows


class ListReader:
    """Reads one partition."""

    def __init__(self, partition: _Partition, state: SplitState, ends: bool) -> None:
        """Begin at the offset of ``state``."""
        self._partition = partition
        self._state = state
        self._ends = ends
        partition.at = state.offset

    def read(self, max_rows: int) -> Read | None:
        """Return the next rows before a marker; None at a marker and at the end."""
        partition = self._partition
        offset = partition.at
        batch = partition.read(offset, max_rows)
        if batch is None:
            return None
        partition.at += batch.num_rows
        return Read(batch, offset)

    def state(self) -> SplitState:
        """Return where the next read begins."""
        partition = self._partition
        ended = partition.over(partition.at, ends=self._ends)
        partition.ended = ended
        max_ts = partition.reached(partition.at)
        return SplitState(self._state.split, self._state.spec, partition.at, ended, max_ts)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Need no word: the list stays."""

    def close(self) -> None:
        """Hold nothing."""


def _kind(item: Item) -> type | None:
    """Return ``dict`` for any mapping, the class of a record, and None for anything else."""
    if isinstance(item, Mapping):
        return dict
    return None if record_type(type(item)) is None else type(item)


def _found(items: Sequence[Item]) -> pa.Schema:
    """Find the columns from the first batch, or from all rows."""
    for item in items:
        if isinstance(item, pa.RecordBatch):
            return item.schema
    rows = [item for item in items if isinstance(item, Mapping)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    fields = [pa.field(n, pa.array([row.get(n) for row in rows]).type) for n in names]
    if not fields or any(pa.types.is_null(f.type) for f in fields):
        raise ConfigError(
            "the columns of the list cannot be told from its rows: give them with their types, "
            'for example columns={"word": "string"}'
        )
    return pa.schema(fields)


def _batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, first: int) -> pa.RecordBatch:
    """Make a batch of dicts. The first one is row ``first`` of the list."""
    for row in rows:
        _check_names(row, dict(row), schema)

    def column(start: int, stop: int, field: pa.Field) -> pa.Array:
        values = [row.get(field.name) for row in rows[start:stop]]
        return _column(values, field.type, f"column {field.name!r}")

    return _exact(len(rows), schema, column, first)


def _column(values: list[Any], kind: pa.DataType, what: str) -> pa.Array:
    """Make a column as :func:`exact_array` does. A whole number is a time as well: it counts the unit of the column."""
    numbers = [value if isinstance(value, int | np.integer) else None for value in values]
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind) or not any(n is not None for n in numbers):
        return exact_array(values, kind, what)
    others = [value if number is None else None for value, number in zip(values, numbers, strict=True)]
    times = exact_array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64(), what).view(kind)
    return pc.coalesce(times, exact_array(others, kind, what))


def _batch_of_records(records: Sequence[object], schema: pa.Schema, first: int) -> pa.RecordBatch:
    """Make a batch of objects of one ``ps.record``. The first one is row ``first`` of the list."""
    record = record_type(type(records[0]))
    assert record is not None, "the caller asked"
    names = [field.name for field in record.fields]
    _check_names(names, records[0], schema)
    own = pa.schema([pa.field(field.name, arrow_of(field.kind)) for field in record.fields])
    writer = RecordWriter(record, own)
    given = writer.batch([_values(writer, each) for each in records])

    def column(start: int, stop: int, field: pa.Field) -> pa.Array:
        if field.name not in names:
            return pa.nulls(stop - start, field.type)
        values = given.column(field.name).slice(start, stop - start)
        return exact_cast(_as_time(values, field.type), field.type, f"column {field.name!r}")

    return _exact(len(records), schema, column, first)


def _check_names(names: Iterable[str], row: object, schema: pa.Schema) -> None:
    for name in names:
        if name not in schema.names:
            raise ConfigError(f"row {row}: {unknown('column', name, schema.names)}")


def _values(writer: RecordWriter, item: object) -> Sequence[Any]:
    """Return the fields of a record as Arrow takes them. Raises ConfigError for one that does not fit its hint."""
    try:
        return writer.values(item)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{item!r}: {error}") from error


def _as_time(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the times of a ``ps.Time``, which are microseconds of UTC, as a column without or with a zone has them."""
    if not pa.types.is_timestamp(values.type):
        return values
    numbers = values.cast(pa.int64())
    return numbers.view(pa.timestamp("us", kind.tz)) if pa.types.is_timestamp(kind) else numbers


def _exact(
    rows: int, schema: pa.Schema, column: Callable[[int, int, pa.Field], pa.Array], first: int
) -> pa.RecordBatch:
    """Make a batch of columns of so many rows. ``column`` makes one of rows of a range, exactly or with an error."""
    try:
        return pa.RecordBatch.from_arrays([column(0, rows, field) for field in schema], schema=schema)
    except _UNFIT as unfit:
        for row in range(rows):
            for field in schema:
                try:
                    column(row, row + 1, field)
                except _UNFIT as error:
                    raise ConfigError(f"row {first + row} does not fit the columns of the list: {error}") from None
        raise ConfigError(f"rows do not fit the columns of the list: {unfit}") from unfit


def _checked(item: Any, schema: pa.Schema) -> pa.RecordBatch:
    if not isinstance(item, pa.RecordBatch):
        raise ConfigError(f"{item!r} is no row (a dict or a ps.record), no RecordBatch and no marker")
    if not item.schema.equals(schema):
        raise ConfigError(f"a batch has the columns {item.schema.names}, the list {schema.names}")
    return item
