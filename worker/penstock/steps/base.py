"""The contract of a step: it gets a batch and emits batches; keyed state comes by a handle.

A step is made by its constructor, bound once to its outputs, and then driven by one thread:

    bind -> (on_batch | on_watermark | on_groups_gained)*

At a barrier a step has nothing to do: what it must remember is in its keyed state, which the task
cuts by itself. Steps are deterministic functions of their input and state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import Where
from penstock.contract.keygroups import Share

if TYPE_CHECKING:
    from penstock.model.columns import Int32s, Int64s
    from penstock.model.keys import EncodedKeys, Keys

Emit = Callable[[pa.RecordBatch], None]
Locate = Callable[[int], Where]

BOUND_COLUMN = "__bound"
"""Hidden int64 column (us): the largest earlier event time of the row's split less its bound."""

NO_BOUND = np.iinfo(np.int64).min
"""Where nothing bounds a row: it is never late."""


@dataclass(frozen=True, slots=True)
class Value:
    """A state column. ``dtype`` is a numpy name (``int64``), or ``bytes`` for any length or null.

    ``width`` above 1 makes it an array of that length per key. A new key begins with zeros (null
    for bytes).
    """

    name: str
    dtype: str
    width: int = 1


@dataclass(frozen=True, slots=True)
class StateSchema:
    """What a step keeps per key. A restore with another one is refused.

    ``name`` is unique in the job. ``keys`` are the key columns with their types; with ``timed``
    every key also has a window end, and the column ``end`` (int64) is there.
    """

    name: str
    keys: tuple[tuple[str, pa.DataType], ...]
    values: tuple[Value, ...]
    timed: bool = False


class KeyedState(Protocol):
    """The state of one step in one task. Row numbers hold until the next call of ``rows``."""

    def rows(self, keys: "Keys") -> "Int32s":
        """Find or make the row of each of n keys (int32, length n), and mark it changed."""
        ...

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a live, writable view by row of a fixed-width column; longer than the rows."""
        ...

    def read_bytes(self, name: str, rows: "Int32s") -> pa.Array:
        """Return a bytes column of the listed rows (binary, null where nothing was stored)."""
        ...

    def write_bytes(self, name: str, rows: "Int32s", values: pa.Array) -> None:
        """Store binary values in the listed rows, in order; a null clears."""
        ...

    def keys_of(self, rows: "Int32s") -> "EncodedKeys":
        """Return the encoded keys of rows."""
        ...

    def delete(self, rows: "Int32s") -> None:
        """Delete rows (each listed once): the key is gone, its values begin anew."""
        ...

    def set_due(self, rows: "Int32s", times: "Int64s") -> None:
        """Set when rows that ``rows`` gave come due: their column ``end`` (timed state).

        A row whose time is not set never comes due.
        """
        ...

    def take_due(self, bound: int, most: int) -> "Int32s":
        """Return up to ``most`` live rows with ``end <= bound``, and queue them no more.

        By end, then key group, hash and key: never by how they came. Whoever takes rows deletes
        them, or sets when they come due again; until then a cut has them as they are.
        """
        ...

    def next_due(self) -> int:
        """Return the earliest end of all rows that are queued; the largest int64 without any."""
        ...

    def about_keys(self) -> int:
        """Return how many keys there are, give or take deleted ones. Cheap; from any thread."""
        ...


@runtime_checkable
class KeepingStep(Protocol):
    """A step that keeps something for each key."""

    name: str

    def contents(self, rows: "Int32s") -> pa.RecordBatch:
        """Return the keys of live state rows and what is kept of them, in the user's columns."""
        ...


class Step(Protocol):
    """One node of a stage.

    ``where`` is set by the chain: it tells the place of a row of the batch that is being taken.
    """

    name: str
    where: Locate

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Learn where the named outputs go; called once, before anything else."""
        ...

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Take rows in order; emit before returning."""
        ...

    def on_watermark(self, time_us: int) -> bool:
        """Hear that event time has reached ``time_us``; never goes back.

        What is due is emitted in slices: true when there is more, then it is called again.
        """
        ...

    def on_groups_gained(self, share: Share, watermark_us: int | None) -> None:
        """Hear that state of these groups was loaded, and until when windows were emitted of it."""
        ...

    def parent(self, row: int) -> int | None:
        """Return the row of the batch being taken of which ``row`` of the emitted one was made.

        None when only user code could tell. Called while that batch is being emitted.
        """
        ...

    def counters(self) -> dict[str, int]:
        """Return what it counted since it was made, by name."""
        ...


class PlainStep:
    """What most steps share: no use for watermarks, and one main output."""

    def __init__(self, name: str) -> None:
        """Name the step as the user did; errors and metrics speak of it so."""
        self.name = name
        self.where: Locate = lambda _: Where(name)
        self._outputs: Mapping[str, Emit] = {}
        self._emit: Emit = _unbound

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Keep the outputs; ``main`` is called directly."""
        self._outputs = outputs
        self._emit = outputs["main"]

    def on_watermark(self, time_us: int) -> bool:
        """Do nothing: this step does not look at time."""
        return False

    def on_groups_gained(self, share: Share, watermark_us: int | None) -> None:
        """Do nothing: the state itself was loaded by the task."""

    def parent(self, row: int) -> int | None:
        """Know nothing: rows are made of many."""
        return None

    def counters(self) -> dict[str, int]:
        """Count nothing."""
        return {}


def _unbound(batch: pa.RecordBatch) -> None:
    raise AssertionError("a step must be bound before it gets rows")


def split_hidden(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Take the hidden bound column off; None when the rows have none."""
    place = batch.schema.get_field_index(BOUND_COLUMN)
    if place < 0:
        return batch, None
    return batch.remove_column(place), batch.column(place)


def with_hidden(batch: pa.RecordBatch, bounds: pa.Array | None) -> pa.RecordBatch:
    """Put the hidden bound column back as the last one."""
    return batch if bounds is None else batch.append_column(BOUND_FIELD, bounds)


BOUND_FIELD = pa.field(BOUND_COLUMN, pa.int64())


def least_bound(bounds: pa.Array | None, rows: int) -> pa.Array | None:
    """Return ``rows`` times the least bound: what derived rows of unknown parents take."""
    if bounds is None:
        return None
    values = np.asarray(bounds.fill_null(NO_BOUND))
    least = values.min() if len(values) else NO_BOUND
    return pa.array(np.full(rows, least, np.int64))
