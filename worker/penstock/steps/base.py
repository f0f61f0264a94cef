"""The contract of a step: it takes batches and emits batches. Its keyed state is a handle.

A step is constructed, bound once to its outputs, and then called by one thread:

    bind -> (on_batch | on_watermark | on_groups_gained)*

A step does nothing at a barrier: all that it must remember is in its keyed state, and the task takes
the snapshot of that. The output of a step depends only on its input and its state.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import Where
from penstock.contract.columns import HIDDEN_PREFIX
from penstock.contract.graph import TimeKind
from penstock.contract.keygroups import Share
from penstock.contract.manifest import child_state
from penstock.model.table_columns import Value

if TYPE_CHECKING:
    from penstock.model.arrays import Int32s, Int64s, UInt64s
    from penstock.model.keys import EncodedKeys, Keys

Emit = Callable[[pa.RecordBatch], None]
Locate = Callable[[int], Where]

BOUND_COLUMN = f"{HIDDEN_PREFIX}bound"
BOUND_FIELD = pa.field(BOUND_COLUMN, pa.int64(), nullable=False)
"""Hidden column (us): the largest event time before the row in its split, minus the bound.

The bound is the source's limit for rows that are out of order.
"""

NO_BOUND = np.iinfo(np.int64).min
"""The value of the bound column for a row that is never late."""

NOTHING_DUE = np.iinfo(np.int64).max
"""What :meth:`KeyedState.next_due` and :meth:`KeyedState.next_timer` return if nothing is queued."""

END = "end"
TOUCHED = f"{HIDDEN_PREFIX}touched"


@dataclass(frozen=True, slots=True)
class TimerColumn:
    """A timer of each key: a column (int64, microseconds), whose time ``NO_TIMER`` means that it is not set."""

    name: str
    time: TimeKind = TimeKind.EVENT


@dataclass(frozen=True, slots=True)
class Ttl:
    """How long a key is kept after it was last written."""

    us: int
    time: TimeKind = TimeKind.EVENT


@dataclass(frozen=True, slots=True)
class ChildSchema:
    """A table with several rows for each key of a state: lists, maps and sets.

    ``name`` is unique in the state. A row is found by its key and a subkey of the Arrow type ``subkey``, which is
    never null. The rows of one key are in the order of their subkeys. ``renamed`` is the name that it had before.
    """

    name: str
    subkey: pa.DataType
    values: tuple[Value, ...] = ()
    renamed: str | None = None


@dataclass(frozen=True, slots=True)
class StateSchema:
    """What a step stores for each key. A restore with other columns is refused, unless it ``evolves``.

    ``name`` is unique in the job. ``keys`` are the key columns with their types. With ``timed``,
    every key also has the end of a window, and there is a column ``end`` (int64). Each of ``timers``
    is a column, which ``values`` may list. With ``ttl``, the column ``__touched`` (int64) has the time of the last
    change.
    ``children`` are tables of their own: adding one leaves the stored state as it is.

    A state that ``evolves`` takes over rows that lack columns: these become ``Value.added``. Stored columns that it has
    not, and child tables, are left out. ``renamed`` has the earlier name of fields by name: the columns of a field are
    ``f`` and ``f.<part>``. ``was`` is an earlier name of the state itself. ``migration`` converts an earlier class.
    Of a state that is ``copied`` each task has all keys, whatever key groups it owns.
    """

    name: str
    keys: tuple[tuple[str, pa.DataType], ...]
    values: tuple[Value, ...]
    timed: bool = False
    timers: tuple[TimerColumn, ...] = ()
    ttl: Ttl | None = None
    children: tuple[ChildSchema, ...] = ()
    evolves: bool = False
    renamed: tuple[tuple[str, str], ...] = ()
    was: str | None = None
    migration: "Migration | None" = None
    copied: bool = False

    def of_child(self, child: ChildSchema) -> "StateSchema":
        """Return the schema of a child table as a state of its own, which its files have."""
        keys = (*self.keys, ("subkey", child.subkey))
        was = None if child.renamed is None else child_state(self.name, child.renamed)
        return StateSchema(child_state(self.name, child.name), keys, child.values, evolves=self.evolves, was=was)

    @property
    def stored(self) -> tuple[Value, ...]:
        """List all columns of a key: the values, then those that the engine needs."""
        extra = [END] if self.timed else []
        own = {value.name for value in self.values}
        extra += [timer.name for timer in self.timers if timer.name not in own]
        extra += [TOUCHED] if self.ttl is not None else []
        return (*self.values, *(Value(name, "int64") for name in extra))

    def timer_names(self, time: TimeKind) -> tuple[str, ...]:
        """List the timers of one kind of time. A field number of :class:`DueTimers` is a place in it."""
        return tuple(timer.name for timer in self.timers if timer.time is time)


@dataclass(frozen=True, slots=True)
class DueTimers:
    """Timers that were taken off the queue, in the order of time, hash, field and key."""

    rows: "Int32s"
    fields: "Int32s"
    times: "Int64s"
    hashes: "UInt64s"


class Migration(Protocol):
    """Converts the state of keys to that of another class."""

    @property
    def old(self) -> StateSchema:
        """Return the schema that stored rows have."""
        ...

    def convert(self, old: "KeyedState", rows: "Int32s", new: "KeyedState") -> None:
        """Give the keys of ``rows`` their state in ``new``. Raises StateError."""
        ...


class FixedColumns(Protocol):
    """Columns of fixed width, by name."""

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a writable view of a column of fixed width, by row. It may be longer than needed."""
        ...


class KeyedState(FixedColumns, Protocol):
    """The state of one step in one task. Row numbers are valid until the next call of ``rows``."""

    def rows(self, keys: "Keys") -> "Int32s":
        """Return the row of each of n keys (int32, length n), and mark it as changed.

        A key that has no row gets one.
        """
        ...

    def found(self, keys: "Keys") -> "Int32s":
        """Return the row of each of n keys (int32, length n), -1 where there is none.

        Rows that other methods returned stay valid. The rows are not marked as changed. A deleted key may
        still have its row, with the values of a new key.
        """
        ...

    def read_bytes(self, name: str, rows: "Int32s") -> pa.Array:
        """Return a bytes column for the given rows (binary; null if nothing was stored)."""
        ...

    def write_bytes(self, name: str, rows: "Int32s", values: pa.Array) -> None:
        """Store binary values in the given rows, in order. A null removes the value."""
        ...

    def keys_of(self, rows: "Int32s") -> "EncodedKeys":
        """Return the encoded keys of rows."""
        ...

    def mark(self, rows: "Int32s") -> None:
        """Mark rows as changed: their columns will be written."""
        ...

    def delete(self, rows: "Int32s") -> None:
        """Delete rows, each given once. If their keys come again, their values begin anew."""
        ...

    def set_due(self, rows: "Int32s", times: "Int64s") -> None:
        """Set the time at which rows come due: their column ``end``. Only for timed state.

        ``rows`` are row numbers that the method :meth:`rows` returned. A row whose time is not set
        never comes due.
        """
        ...

    def take_due(self, bound: int, most: int) -> "Int32s":
        """Return up to ``most`` rows with ``end <= bound``, and take them from the queue.

        They are ordered by end, key group, hash and key, so the order of arrival does not matter.
        The caller then deletes these rows or sets when they come due again. Until then a snapshot
        still has them.
        """
        ...

    def next_due(self) -> int:
        """Return the earliest end of all queued rows, or the largest int64 if there is none."""
        ...

    def arm(self, rows: "Int32s", reached: "Int64s", time: TimeKind = TimeKind.EVENT) -> None:
        """Queue the timers of rows whose timer columns may have been written since.

        ``reached`` is the time reached by key group. A timer at or before it becomes the microsecond
        after it, and is cleared at the end of time.
        A row may be listed more than once. To clear a timer, write NO_TIMER: no call is needed.
        """
        ...

    def take_timers(self, bound: int, most: int, time: TimeKind = TimeKind.EVENT) -> "DueTimers":
        """Take up to ``most`` timers that are due at ``bound`` off the queue, and mark their rows as changed.

        Only timers that are set now are taken. Their columns keep the time: the caller clears
        the column, or calls :meth:`arm` to queue the timer again.
        """
        ...

    def next_timer(self, time: TimeKind = TimeKind.EVENT) -> int:
        """Return the time of the timer that fires first, or the largest int64 if there is none."""
        ...

    def make_room(self) -> None:
        """Move rows to disk if memory is over the budget. Row numbers that were returned are no longer valid."""
        ...

    def child(self, name: str) -> "ChildState":
        """Return a child table. ``name`` is that in the schema. Deleting rows deletes their child rows."""
        ...

    def about_keys(self) -> int:
        """Return about how many keys there are; deleted ones may be counted. Any thread may call."""
        ...


class ChildState(Protocol):
    """The rows of a child table. Parent rows are row numbers of the state.

    Row numbers are valid as long as those of the parent rows are.
    """

    def find(self, parents: "Int32s", subkeys: pa.Array) -> "Int32s":
        """Return the row of each of n (parent row, subkey), -1 if there is none. Marks nothing as changed."""
        ...

    def rows(self, parents: "Int32s", subkeys: pa.Array) -> "Int32s":
        """Return the row of each of n (parent row, subkey), and mark it as changed. One that has no row gets one."""
        ...

    def entries(self, parents: "Int32s") -> "tuple[Int64s, Int32s]":
        """Return the rows of n parent rows, parent after parent, and where those of each parent end (n + 1).

        The rows of one parent are in the order of their subkeys.
        """
        ...

    def first(self, parent: int, most: int) -> "Int32s":
        """Return the first rows of a parent row in the order of their subkeys, at most so many."""
        ...

    def subkeys_of(self, rows: "Int32s") -> pa.Array:
        """Return the subkeys of rows."""
        ...

    def mark(self, rows: "Int32s") -> None:
        """Mark rows as changed: their columns will be written."""
        ...

    def delete(self, rows: "Int32s") -> None:
        """Delete rows, each given once."""
        ...

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a writable view of a column of fixed width, by row. It may be longer than needed."""
        ...

    def read_bytes(self, name: str, rows: "Int32s") -> pa.Array:
        """Return a bytes column for the given rows (binary; null if nothing was stored)."""
        ...

    def write_bytes(self, name: str, rows: "Int32s", values: pa.Array) -> None:
        """Store binary values in the given rows, in order. A null removes the value."""
        ...


@runtime_checkable
class KeepingStep(Protocol):
    """A step that keeps something for each key."""

    name: str

    def contents(self, rows: "Int32s") -> pa.RecordBatch:
        """Return the keys of live state rows and what is kept of them, in the user's columns."""
        ...


@runtime_checkable
class LoadingStep(Protocol):
    """A step whose state can be made from what it shows of it."""

    name: str
    contents_schema: pa.Schema

    def load_contents(self, rows: pa.RecordBatch) -> None:
        """Store rows of ``contents_schema``.

        Raises ValueError for a value that cannot be stored, and for a key that has a row already.
        """
        ...


class Step(Protocol):
    """One node of a stage.

    The chain sets ``where``. It returns the place, in the source, of a row of the current batch.
    """

    name: str
    where: Locate

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Set the receivers of the named outputs. Called once, before all other methods."""
        ...

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Process the rows of a batch in order, and emit the results before returning."""
        ...

    def on_watermark(self, time_us: int) -> int:
        """Advance event time to ``time_us``, and fire what is due: at most one slice of rows.

        Returns the time reached: all that is due up to it has fired. If it is less than ``time_us``, the task
        calls this method again. Between two calls it may take a snapshot, or rows. A later call may have an
        earlier time only after state was loaded of which less has fired.
        """
        ...

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that state of these key groups was loaded: what was due up to ``fired_us`` may have fired."""
        ...

    def parent(self, row: int) -> int | None:
        """Return the input row from which row ``row`` of the emitted batch was made.

        None if only user code knows it. May be called only while the batch is being emitted.
        """
        ...

    def counters(self) -> dict[str, int]:
        """Return the counters of this step by name. They begin at 0 when the step is made."""
        ...


@runtime_checkable
class StoppingStep(Protocol):
    """A step that holds something that must be released."""

    def stop(self) -> None:
        """Release it: the task is over, and no other method is called any more. Raises nothing."""
        ...


class OutstandingRows(Protocol):
    """Knows the channels of a task."""

    def __call__(self, edges: Collection[int], queue: int, /) -> int:
        """Send what was emitted. Return how many rows the receiver of the fullest channel of ``edges`` has not taken.

        It is very large for a channel to which the task could not send without waiting. A channel with ``queue``
        rows or more does not wait for others before it sends.
        """
        ...


@runtime_checkable
class SheddingStep(Protocol):
    """A step that sheds rows when too many are outstanding."""

    def shed_by(self, outstanding: OutstandingRows) -> None:
        """Ask ``outstanding`` from now on. Called once, before rows come."""
        ...


@runtime_checkable
class SidedStep(Protocol):
    """A step that reads several inputs, and treats the rows of each in its own way."""

    def side(self, name: str) -> Emit:
        """Return what takes the rows of the input ``name``, batch by batch."""
        ...


class PlainStep:
    """A base class for steps that ignore watermarks and have a main output."""

    def __init__(self, name: str) -> None:
        """Set the user's name of the step. Errors and metrics have this name."""
        self.name = name
        self.where: Locate = lambda _: Where(name)
        self._outputs: Mapping[str, Emit] = {}
        self._emit: Emit = _unbound

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        self._outputs = outputs
        self._emit = outputs["main"]

    def on_watermark(self, time_us: int) -> int:
        """Do nothing: this step does not use event time."""
        return time_us

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Do nothing: the task has loaded the state itself."""

    def parent(self, row: int) -> int | None:
        """Return None: a row is made from several input rows."""
        return None

    def counters(self) -> dict[str, int]:
        """Return no counters."""
        return {}


def _unbound(batch: pa.RecordBatch) -> None:
    raise AssertionError("a step must be bound before it gets rows")


def reached(time_us: int, first_us: int, lateness_us: int = 0) -> int:
    """Return the time that a step has reached which was told ``time_us``: all that is due up to it has fired.

    ``first_us`` is what :meth:`KeyedState.next_due` or :meth:`KeyedState.next_timer` says. It fires
    ``lateness_us`` later.
    """
    return time_us if first_us == NOTHING_DUE else min(time_us, first_us + lateness_us - 1)


def split_hidden(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Return the batch without its hidden bound column, and this column or None."""
    place = batch.schema.get_field_index(BOUND_COLUMN)
    if place < 0:
        return batch, None
    return batch.remove_column(place), batch.column(place)


def with_hidden(batch: pa.RecordBatch, bounds: pa.Array | None) -> pa.RecordBatch:
    """Return the batch with the hidden bound column as its last one."""
    return batch if bounds is None else batch.append_column(BOUND_FIELD, bounds)


def least_bound(bounds: pa.Array | None, rows: int) -> pa.Array | None:
    """Return an array of length ``rows`` with the smallest bound in each place.

    Output rows have it if their input rows are not known.
    """
    if bounds is None:
        return None
    values = np.asarray(bounds)
    least = values.min() if len(values) else NO_BOUND
    return pa.array(np.full(rows, least, np.int64))
