"""Steps without memory: split, map, flat map, filter.

User functions never see hidden columns: a row made from one row keeps its bound, rows made from a
batch take the least one.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import Where
from penstock.contract.graph import Call, Per
from penstock.model.columns import Int32s
from penstock.model.exact import exact_array
from penstock.model.text import split_words
from penstock.steps.base import Locate, PlainStep, least_bound, split_hidden, with_hidden
from penstock.steps.calls import (
    CallAnswer,
    Caller,
    Done,
    RecordCaller,
    Run,
    Turn,
    as_batch,
    of_rows,
    records_of,
)
from penstock.steps.letters import Refused
from penstock.steps.refusals import Refusals, but, parted

Function = Callable[[Any], Any]
_DICT = frozenset((dict,))


class SplitStep(PlainStep):
    """Text into words at each single space; see :func:`penstock.model.text.split_words`."""

    def __init__(self, name: str, column: str, output: pa.Schema) -> None:
        """Split ``column``; ``output`` has the one column of words."""
        super().__init__(name)
        self._column = column
        self._schema = output
        self._parents: Int32s = np.empty(0, np.int32)

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Emit the words of all rows in order."""
        rows, bounds = split_hidden(batch)
        split = split_words(rows.column(self._column))
        self._parents = split.parents
        words = split.words
        if words.type != self._schema.field(0).type:
            words = words.cast(self._schema.field(0).type)
        if len(words):
            parents = None if bounds is None else bounds.take(pa.array(split.parents))
            self._emit(
                with_hidden(pa.RecordBatch.from_arrays([words], schema=self._schema), parents)
            )

    def parent(self, row: int) -> int | None:
        """Return the line of a word."""
        return int(self._parents[row])


class Calling(PlainStep):
    """A step that calls a user function and may have dead letters."""

    def __init__(self, name: str, caller: Callable[[Locate], Caller[Any]]) -> None:
        super().__init__(name)
        self._caller: Caller[Any] = caller(self._place)
        self._giving: tuple[Done[Any], ...] = ()
        self._ends: list[int] = []  # of what each of them gave, among the rows being emitted
        self._dead_letters = 0

    def _place(self, row: int) -> Where:
        return self.where(row)  # which the chain sets after the step was made

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Call the function and emit what it gives, in order."""
        rows, bounds = split_hidden(batch)
        refused: list[Refused] = []
        for answer in self._caller.answers(rows):
            self._give_all(rows, bounds, answer)
            refused += answer.refused
        if refused:
            self._dead_letters += len(refused)
            places = pa.array([r.start for r in refused], pa.int64())
            kept = None if bounds is None else bounds.take(places)
            letters = self._caller.letters(rows, refused)
            self._outputs["dead-letter"](with_hidden(letters, kept))

    def _give_all(
        self, rows: pa.RecordBatch, bounds: pa.Array | None, answer: CallAnswer[Any]
    ) -> None:
        """Emit one batch, in however many calls it was made: what follows costs per batch."""
        given = [self._given(rows, bounds, done) for done in answer.done]
        self._giving = answer.done
        self._ends = list(accumulate(batch.num_rows for batch in given))
        if not given or not self._ends[-1]:
            return
        self._emit(given[0] if len(given) == 1 else pa.concat_batches(given))

    def _given(
        self, rows: pa.RecordBatch, bounds: pa.Array | None, done: Done[Any]
    ) -> pa.RecordBatch:
        """Return the rows that one call gave, hidden columns included."""
        raise NotImplementedError

    def parent(self, row: int) -> int | None:
        """Return the row of which the answer's row was made; None when only its function knows."""
        assert self._giving, "asked while rows are being emitted"
        place = bisect_right(self._ends, row)
        done = self._giving[place]
        inside = self._parent_in(done, row - (self._ends[place - 1] if place else 0))
        return None if inside is None else done.row(inside)

    def _parent_in(self, done: Done[Any], row: int) -> int | None:
        """Do it among the rows that were taken; what was made of a single row was made of it."""
        return 0 if done.rows == 1 else None

    def counters(self) -> dict[str, int]:
        """Count dead letters."""
        return {"dead_letters": self._dead_letters}


def each(function: Function, records: Iterator[Any], append: Callable[[Any], None]) -> None:
    """Append what ``function`` gives for each record."""
    for record in records:
        append(function(record))


def each_list(function: Function, records: Iterator[Any], append: Callable[[Any], None]) -> None:
    """Append a list of what it gives, taken to its end: a generator raises on the way."""
    for record in records:
        append(list(given_records(function(record))))


def each_bool(function: Function, records: Iterator[Any], append: Callable[[Any], None]) -> None:
    """Append whether it is true."""
    for record in records:
        append(bool(function(record)))


Each = Callable[[Function, Iterator[Any], Callable[[Any], None]], None]


@dataclass(frozen=True, slots=True)
class Records:
    """Begins the turns of a function per record that has no state."""

    function: Function
    each: Each
    together: Callable[[Sequence[Any]], Any]

    def __call__(self, part: pa.RecordBatch, _undo: bool) -> "PlainTurn":
        """Begin with the records of ``part``."""
        return PlainTurn(self, iter(records_of(part)))


class PlainTurn:
    """A turn (see :mod:`penstock.steps.calls`) in which no call changes anything."""

    def __init__(self, records: Records, left: Iterator[Any]) -> None:
        """Call for what is ``left``."""
        self._records = records
        self._left = left
        self.together = records.together

    def run(self, append: Callable[[Any], None]) -> None:
        """Call for one record after the other."""
        self._records.each(self._records.function, self._left, append)

    def undo(self, row: int) -> None:
        """Do nothing."""

    def spoiled(self, rows: list[int]) -> list[int]:
        """Return none: no row sees what the call for another has changed."""
        return []

    def again(self, row: int) -> Any:
        """Refuse: nothing is ever spoiled."""
        raise AssertionError("no row of a function without state is called again")

    def keep(self) -> None:
        """Do nothing."""


class MapStep(Calling):
    """One row out for each row in."""

    def __init__(self, name: str, call: Call, function: Function, output: pa.Schema) -> None:
        """Call ``function`` with batches or records; it gives rows of ``output``."""

        def batches(part: pa.RecordBatch) -> tuple[pa.RecordBatch, Refusals]:
            told, refusals = parted(function(part), part.num_rows)
            given = of_rows(told)
            if given.num_rows != part.num_rows:
                raise ValueError(f"a map gave {given.num_rows} rows for {part.num_rows}")
            return as_batch(but(given, refusals.rows), output), refusals

        def together(given: Sequence[Any]) -> pa.RecordBatch:
            return from_records(given, output)

        super().__init__(name, caller_of(call, batches, Records(function, each, together)))

    def _given(
        self, rows: pa.RecordBatch, bounds: pa.Array | None, done: Done[Any]
    ) -> pa.RecordBatch:
        return with_hidden(done.given, None if bounds is None else done.taken(bounds))

    def _parent_in(self, done: Done[Any], row: int) -> int | None:
        return row


class FlatMapStep(Calling):
    """Any number of rows out for each row in, in order."""

    def __init__(self, name: str, call: Call, function: Function, output: pa.Schema) -> None:
        """Call ``function`` with batches, or with records (it gives an iterable of records)."""

        def batches(part: pa.RecordBatch) -> tuple[tuple[pa.RecordBatch, None], Refusals]:
            told, refusals = parted(function(part), part.num_rows)
            return (as_batch(of_rows(told), output), None), refusals

        def together(given: Sequence[list[Any]]) -> tuple[pa.RecordBatch, list[int]]:
            parents = [i for i, rows in enumerate(given) for _ in rows]
            return from_records((r for rows in given for r in rows), output), parents

        super().__init__(name, caller_of(call, batches, Records(function, each_list, together)))

    def _given(
        self, rows: pa.RecordBatch, bounds: pa.Array | None, done: Done[Any]
    ) -> pa.RecordBatch:
        given, parents = done.given
        if bounds is None:
            return given
        kept = done.taken(bounds)
        if parents is None:
            return with_hidden(given, least_bound(kept, given.num_rows))
        return with_hidden(given, kept.take(pa.array(parents, pa.int64())))

    def _parent_in(self, done: Done[Any], row: int) -> int | None:
        parents = done.given[1]
        return super()._parent_in(done, row) if parents is None else parents[row]


class FilterStep(Calling):
    """Keeps the rows for which the function says true; null is not true."""

    def __init__(self, name: str, call: Call, function: Function) -> None:
        """Call ``function`` with batches (it gives one bool per row) or records."""

        def batches(part: pa.RecordBatch) -> tuple[pa.Array, Refusals]:
            given, refusals = parted(function(part), part.num_rows)
            if isinstance(given, pa.ChunkedArray):
                given = given.combine_chunks()
            mask = given if isinstance(given, pa.Array) else pa.array(np.asarray(given))
            if not pa.types.is_boolean(mask.type) or len(mask) != part.num_rows:
                raise TypeError(
                    f"a filter gives {part.num_rows} booleans, not {len(mask)} of {mask.type}"
                )
            return but(mask, refusals.rows), refusals

        def together(given: Sequence[bool]) -> pa.Array:
            return pa.array(given, pa.bool_())

        super().__init__(name, caller_of(call, batches, Records(function, each_bool, together)))

    def _given(
        self, rows: pa.RecordBatch, bounds: pa.Array | None, done: Done[Any]
    ) -> pa.RecordBatch:
        return done.taken(with_hidden(rows, bounds)).filter(done.given)

    def _parent_in(self, done: Done[Any], row: int) -> int | None:
        return int(np.flatnonzero(done.given.fill_null(False))[row])


def caller_of(
    call: Call, batches: Run[Any], records: Callable[..., Turn[Any]]
) -> Callable[[Locate], Caller[Any]]:
    """Return what makes the caller of a function, once it is known who places its rows."""
    if call.per is Per.BATCH:
        return lambda place: Caller(place, call, batches)
    return lambda place: RecordCaller(place, call, records)


def given_records(given: Any) -> Iterable[Any]:
    """Pass on what a function per record gave, unless it is no iterable of records."""
    if given is None or isinstance(given, dict | str | bytes):
        shown = "None" if given is None else f"one {type(given).__name__}"
        raise TypeError(f"it gave {shown}; it must give an iterable of records, [] for none")
    found: Iterable[Any] = given
    return found


def from_records(records: Iterable[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Make a batch of dicts; a missing or unknown field, or a lossy value, is refused."""
    rows = list(records)
    names = set(schema.names)
    if not _DICT.issuperset(map(type, rows)) or any(names != set(s) for s in set(map(tuple, rows))):
        _complain_of_fields(rows, schema)
    columns = [
        exact_array([row[name] for row in rows], kind, f"column {name!r}")
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _complain_of_fields(rows: list[Any], schema: pa.Schema) -> None:
    """Name the first record that has not the declared fields; a kind of dict may have them."""
    names = set(schema.names)
    for row in rows:
        if not isinstance(row, dict):
            given = "None" if row is None else type(row).__name__
            raise TypeError(f"it gave {given}; it must give a dict with {schema.names}")
        if row.keys() != names:
            raise TypeError(f"it gave a record with {sorted(row)}, declared are {schema.names}")
