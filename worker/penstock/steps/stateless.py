"""Steps without state: split, map, flat map, filter.

User functions never get the hidden bound column. A row that was made from one row has its bound.
Rows that were made from a batch have the smallest bound of the batch.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import ConfigError, Where
from penstock.contract.graph import Call, Per
from penstock.model.arrays import Int32s, flat, text, variable_array
from penstock.model.exact import exact_array
from penstock.model.kernels import strings
from penstock.steps.base import Locate, PlainStep, least_bound, split_hidden, with_hidden
from penstock.steps.dead_letters import Refused
from penstock.steps.kept_records import kept_record, kept_records
from penstock.steps.refusals import Refusals, bools_of, split_refusals, without_rows
from penstock.steps.user_calls import (
    CallAnswer,
    Caller,
    CallResult,
    RecordCaller,
    RecordCalls,
    Run,
    as_batch,
    one_batch,
    records_of,
)

Function = Callable[[Any], Any]
_DICT = frozenset((dict,))


class SplitStep(PlainStep):
    """Splits text into words at every single space; see :func:`split_words`."""

    def __init__(self, name: str, column: str, output: pa.Schema) -> None:
        """Split ``column``. ``output`` has one column, that of the words."""
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
            self._emit(with_hidden(pa.RecordBatch.from_arrays([words], schema=self._schema), parents))

    def parent(self, row: int) -> int | None:
        """Return the row of the text that had this word."""
        return int(self._parents[row])


class UserFunctionStep(PlainStep):
    """A step that calls a user function and may have dead letters."""

    def __init__(self, name: str, caller: Callable[[Locate], Caller[Any]]) -> None:
        super().__init__(name)
        self._caller: Caller[Any] = caller(self._place)
        self._results: tuple[CallResult[Any], ...] = ()  # of the batch that is being emitted
        self._ends: list[int] = []  # where the rows of each result end in this batch
        self._dead_letters = 0

    def _place(self, row: int) -> Where:
        return self.where(row)  # the chain sets ``where`` after this step was made

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Call the function and emit its results in order."""
        rows, bounds = split_hidden(batch)
        refused: list[Refused] = []
        for answer in self._caller.answers(rows):
            self._emit_answer(rows, bounds, answer)
            refused += answer.refused
        if refused:
            self._dead_letters += len(refused)
            places = pa.array([r.row for r in refused], pa.int64())
            kept = None if bounds is None else bounds.take(places)
            dead_letters = self._caller.dead_letters(rows, refused)
            self._outputs["dead-letter"](with_hidden(dead_letters, kept))

    def _emit_answer(self, rows: pa.RecordBatch, bounds: pa.Array | None, answer: CallAnswer[Any]) -> None:
        """Emit the results of all calls as one batch, because later steps cost time per batch."""
        emitted = [self._emitted(rows, bounds, result) for result in answer.results]
        self._results = answer.results
        self._ends = list(accumulate(batch.num_rows for batch in emitted))
        if not emitted or not self._ends[-1]:
            return
        self._emit(emitted[0] if len(emitted) == 1 else pa.concat_batches(emitted))

    def _emitted(self, rows: pa.RecordBatch, bounds: pa.Array | None, result: CallResult[Any]) -> pa.RecordBatch:
        """Return the rows to emit for one call, with the hidden bound column."""
        raise NotImplementedError

    def parent(self, row: int) -> int | None:
        """Return the input row of an emitted row, or None if only the function knows it."""
        assert self._results, "called while rows are being emitted"
        index = bisect_right(self._ends, row)
        result = self._results[index]
        parent = self._parent_in(result, row - (self._ends[index - 1] if index else 0))
        return None if parent is None else result.row(parent)

    def _parent_in(self, result: CallResult[Any], row: int) -> int | None:
        """Return the parent of a row of one result, counted among the accepted rows of the call."""
        return 0 if result.rows == 1 else None

    def counters(self) -> dict[str, int]:
        """Count dead letters."""
        return {"dead_letters": self._dead_letters}


CallAll = Callable[[Function, Iterator[Any], Callable[[Any], None]], None]


def call_all(function: Function, records: Iterator[Any], append: Callable[[Any], None]) -> None:
    """Call ``function`` for each record, and append a copy of the record that it returns."""
    for record in records:
        append(kept_record(function(record)))


def call_all_lists(function: Function, records: Iterator[Any], append: Callable[[Any], None]) -> None:
    """Call ``function`` for each record, and append a list of all records that it returns.

    A generator is read to its end, because it may raise on the way.
    """
    for record in records:
        append(kept_records(returned_records(function(record))))


def call_all_bools(function: Function, records: Iterator[Any], append: Callable[[Any], None]) -> None:
    """Call ``function`` for each record, and append whether its result is true."""
    for record in records:
        append(bool(function(record)))


@dataclass(frozen=True, slots=True)
class RecordFunction:
    """A function per record without state, and how its results are combined."""

    function: Function
    call_all: CallAll
    combine: Callable[[Sequence[Any]], Any]

    def __call__(self, part: pa.RecordBatch, _undo: bool) -> "PlainRecordCalls":
        """Begin the calls for the records of ``part``."""
        return PlainRecordCalls(self, iter(records_of(part)))


class PlainRecordCalls:
    """The :class:`RecordCalls` of a function without state, so there is nothing to undo."""

    def __init__(self, function: RecordFunction, left: Iterator[Any]) -> None:
        """Call ``function`` for the records ``left``."""
        self._function = function
        self._left = left
        self.combine = function.combine

    def run(self, results: list[Any]) -> None:
        """Call the function for one record after the other."""
        self._function.call_all(self._function.function, self._left, results.append)

    def undo(self, row: int) -> None:
        """Do nothing."""

    def undo_with_later(self, rows: list[int]) -> list[int]:
        """Return none: no call reads what another call has changed."""
        return []

    def call_again(self, row: int) -> Any:
        """Raise AssertionError: no call is ever undone."""
        raise AssertionError("no row of a function without state is called again")

    def store(self) -> None:
        """Do nothing."""


class MapStep(UserFunctionStep):
    """Emits one row for each input row."""

    def __init__(self, name: str, call: Call, function: Function, output: pa.Schema) -> None:
        """Call ``function`` with batches or records. It returns rows of ``output``."""

        def batches(part: pa.RecordBatch) -> tuple[pa.RecordBatch, Refusals]:
            returned, refusals = split_refusals(function(part), part.num_rows)
            rows = one_batch(returned)
            if rows.num_rows != part.num_rows:
                raise ValueError(f"a map returned {rows.num_rows} rows for {part.num_rows}")
            return as_batch(without_rows(rows, refusals.rows), output), refusals

        def combine(results: Sequence[Any]) -> pa.RecordBatch:
            return from_records(results, output)

        records = RecordFunction(function, call_all, combine)
        super().__init__(name, caller_of(call, batches, records))

    def _emitted(self, rows: pa.RecordBatch, bounds: pa.Array | None, result: CallResult[Any]) -> pa.RecordBatch:
        return with_hidden(result.value, None if bounds is None else result.accepted(bounds))

    def _parent_in(self, result: CallResult[Any], row: int) -> int | None:
        return row


class FlatMapStep(UserFunctionStep):
    """Emits any number of rows for each input row, in order."""

    def __init__(self, name: str, call: Call, function: Function, output: pa.Schema) -> None:
        """Call ``function`` with batches or records. For a record it returns an iterable."""

        def batches(part: pa.RecordBatch) -> tuple[tuple[pa.RecordBatch, None], Refusals]:
            returned, refusals = split_refusals(function(part), part.num_rows)
            return (as_batch(one_batch(returned), output), None), refusals

        def combine(results: Sequence[list[Any]]) -> tuple[pa.RecordBatch, list[int]]:
            return flattened(results, output)

        records = RecordFunction(function, call_all_lists, combine)
        super().__init__(name, caller_of(call, batches, records))

    def _emitted(self, rows: pa.RecordBatch, bounds: pa.Array | None, result: CallResult[Any]) -> pa.RecordBatch:
        emitted, parents = result.value
        if bounds is None:
            return emitted
        accepted = result.accepted(bounds)
        if parents is None:
            return with_hidden(emitted, least_bound(accepted, emitted.num_rows))
        return with_bounds_of(emitted, parents, accepted)

    def _parent_in(self, result: CallResult[Any], row: int) -> int | None:
        parents = result.value[1]
        return super()._parent_in(result, row) if parents is None else parents[row]


class FilterStep(UserFunctionStep):
    """Keeps the rows for which the function returns true. Null is not true."""

    def __init__(self, name: str, call: Call, function: Function) -> None:
        """Call ``function`` with batches or records. It returns one bool for each row."""

        def batches(part: pa.RecordBatch) -> tuple[pa.Array, Refusals]:
            returned, refusals = split_refusals(function(part), part.num_rows)
            mask = bools_of(returned)
            if not pa.types.is_boolean(mask.type) or len(mask) != part.num_rows:
                raise TypeError(f"a filter must return {part.num_rows} booleans, not {len(mask)} of {mask.type}")
            return without_rows(mask, refusals.rows), refusals

        def combine(results: Sequence[bool]) -> pa.Array:
            return pa.array(results, pa.bool_())

        records = RecordFunction(function, call_all_bools, combine)
        super().__init__(name, caller_of(call, batches, records))

    def _emitted(self, rows: pa.RecordBatch, bounds: pa.Array | None, result: CallResult[Any]) -> pa.RecordBatch:
        return result.accepted(with_hidden(rows, bounds)).filter(result.value)

    def _parent_in(self, result: CallResult[Any], row: int) -> int | None:
        return int(np.flatnonzero(result.value.fill_null(False))[row])


def with_bounds_of(emitted: pa.RecordBatch, parents: Sequence[int], bounds: pa.Array) -> pa.RecordBatch:
    """Give each emitted row the bound of its parent."""
    return with_hidden(emitted, bounds.take(pa.array(parents, pa.int64())))


def caller_of(
    call: Call, batches: Run[Any], records: Callable[..., RecordCalls[Any]]
) -> Callable[[Locate], Caller[Any]]:
    """Return a function that makes the caller of a step, given how to find the place of a row."""
    if call.per is Per.BATCH:
        return lambda place: Caller(place, call, batches)
    return lambda place: RecordCaller(place, call, records)


def flattened(results: Sequence[list[Any]], schema: pa.Schema) -> tuple[pa.RecordBatch, list[int]]:
    """Make one batch of the records that several calls gave, and return it with the call of each row."""
    calls = [call for call, records in enumerate(results) for _ in records]
    return from_records((each for records in results for each in records), schema), calls


def returned_records(returned: Any) -> Iterable[Any]:
    """Return the result of a function per record. Raises TypeError if it is not an iterable."""
    if returned is None or isinstance(returned, dict | str | bytes):
        kind = "None" if returned is None else f"one {type(returned).__name__}"
        raise TypeError(f"the function returned {kind}; it must return an iterable of records, or [] for none")
    records: Iterable[Any] = returned
    return records


def from_records(records: Iterable[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Make a batch from dicts.

    Raises TypeError or ValueError for a missing or unknown field, and for a value that its column
    cannot hold exactly.
    """
    rows = list(records)
    names = set(schema.names)
    if not _DICT.issuperset(map(type, rows)) or any(names != set(s) for s in set(map(tuple, rows))):
        _check_fields(rows, schema)
    columns = [
        exact_array([row[name] for row in rows], kind, f"column {name!r}")
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_fields(rows: list[Any], schema: pa.Schema) -> None:
    """Raise TypeError for the first record that does not have the declared fields.

    A record may be a subclass of dict.
    """
    names = set(schema.names)
    for row in rows:
        if not isinstance(row, dict):
            kind = "None" if row is None else type(row).__name__
            raise TypeError(f"the function returned {kind}; it must return a dict with {schema.names}")
        if row.keys() != names:
            raise TypeError(f"the function returned a record with {sorted(row)}, but {schema.names} are declared")


@dataclass(frozen=True, slots=True)
class Words:
    """All words of a batch in order: ``parents[i]`` is the row of word i.

    ``counts[r]`` is how many words row r has.
    """

    words: pa.Array
    counts: Int32s
    parents: Int32s


def split_words(lines: pa.Array | pa.ChunkedArray) -> Words:
    """Split n lines at every space.

    A null line and ``''`` give no word; between two adjacent spaces is an empty word. Takes string
    or large_string, sliced, chunked or dictionary, and gives a string array. Raises ConfigError for
    other types.
    """
    array = flat(lines)
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        raise ConfigError(f"only text can be split into words, not a column of type {array.type}")
    lines_in = text(array)
    counts = np.empty(len(array), np.int32)
    total = strings.count_words(lines_in, counts)
    ends = np.empty(total + 1, np.int32)
    parents = np.empty(total, np.int32)
    offsets = lines_in[0]
    letters = np.empty(int(offsets[-1] - offsets[0]) + strings.COPY_SLACK, np.uint8)
    strings.cut_words(lines_in, counts, ends, letters, parents)
    return Words(variable_array(pa.string(), ends, letters[: ends[-1]]), counts, parents)
