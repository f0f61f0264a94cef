"""Steps without memory: split, map, flat map, filter.

User functions never see hidden columns: a row made from one row keeps its bound, rows made from a
batch take the least one.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import Where
from penstock.contract.graph import Call, Per
from penstock.model.columns import Int32s
from penstock.model.text import split_words
from penstock.steps.base import PlainStep, least_bound, split_hidden, with_hidden
from penstock.steps.calls import Caller, Done, Refused, as_batch

Function = Callable[[Any], Any]


class Split(PlainStep):
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

    def __init__(self, name: str, call: Call, run: Callable[[pa.RecordBatch], Any]) -> None:
        super().__init__(name)
        self._caller: Caller[Any] = Caller(self._place, call, run)
        self._giving: Done[Any] | None = None
        self._dead_letters = 0

    def _place(self, row: int) -> Where:
        return self.where(row)  # which the chain sets after the step was made

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Call the function and emit what it gives, in order."""
        rows, bounds = split_hidden(batch)
        refused: list[Refused] = []
        for answer in self._caller.answers(rows):
            if isinstance(answer, Refused):
                refused.append(answer)
            else:
                self._giving = answer
                self._give(rows, bounds, answer)
        if refused:
            self._dead_letters += len(refused)
            places = pa.array([r.start for r in refused], pa.int64())
            kept = None if bounds is None else bounds.take(places)
            letters = self._caller.letters(rows, refused)
            self._outputs["dead-letter"](with_hidden(letters, kept))

    def _give(self, rows: pa.RecordBatch, bounds: pa.Array | None, answer: Done[Any]) -> None:
        raise NotImplementedError

    def parent(self, row: int) -> int | None:
        """Return the row of which the answer's row was made; None when only its function knows."""
        assert self._giving is not None, "asked while rows are being emitted"
        inside = self._parent_in(self._giving, row)
        return None if inside is None else self._giving.start + inside

    def _parent_in(self, answer: Done[Any], row: int) -> int | None:
        """Do it within the rows of an answer; what was made of a single row was made of it."""
        return 0 if answer.rows == 1 else None

    def counters(self) -> dict[str, int]:
        """Count dead letters."""
        return {"dead_letters": self._dead_letters}


class Map(Calling):
    """One row out for each row in."""

    def __init__(self, name: str, call: Call, function: Function, output: pa.Schema) -> None:
        """Call ``function`` with batches or records; it gives rows of ``output``."""

        def batches(part: pa.RecordBatch) -> pa.RecordBatch:
            given = as_batch(function(part), output)
            if given.num_rows != part.num_rows:
                raise ValueError(f"a map gave {given.num_rows} rows for {part.num_rows}")
            return given

        def records(part: pa.RecordBatch) -> pa.RecordBatch:
            return from_records([function(r) for r in part.to_pylist()], output)

        super().__init__(name, call, batches if call.per is Per.BATCH else records)

    def _give(self, rows: pa.RecordBatch, bounds: pa.Array | None, answer: Done[Any]) -> None:
        kept = None if bounds is None else bounds.slice(answer.start, answer.rows)
        self._emit(with_hidden(answer.given, kept))

    def _parent_in(self, answer: Done[Any], row: int) -> int | None:
        return row


class FlatMap(Calling):
    """Any number of rows out for each row in, in order."""

    def __init__(self, name: str, call: Call, function: Function, output: pa.Schema) -> None:
        """Call ``function`` with batches, or with records (it gives an iterable of records)."""

        def batches(part: pa.RecordBatch) -> tuple[pa.RecordBatch, None]:
            return as_batch(function(part), output), None

        def records(part: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
            made: list[list[dict[str, Any]]] = [list(function(r)) for r in part.to_pylist()]
            parents = [i for i, rows in enumerate(made) for _ in rows]
            return from_records((r for rows in made for r in rows), output), parents

        super().__init__(name, call, batches if call.per is Per.BATCH else records)

    def _give(self, rows: pa.RecordBatch, bounds: pa.Array | None, answer: Done[Any]) -> None:
        given, parents = answer.given
        if not given.num_rows:
            return
        kept = None if bounds is None else bounds.slice(answer.start, answer.rows)
        if kept is not None and parents is not None:
            kept = kept.take(pa.array(parents, pa.int64()))
        elif kept is not None:
            kept = least_bound(kept, given.num_rows)
        self._emit(with_hidden(given, kept))

    def _parent_in(self, answer: Done[Any], row: int) -> int | None:
        parents = answer.given[1]
        return super()._parent_in(answer, row) if parents is None else parents[row]


class Filter(Calling):
    """Keeps the rows for which the function says true; null is not true."""

    def __init__(self, name: str, call: Call, function: Function) -> None:
        """Call ``function`` with batches (it gives one bool per row) or records."""

        def batches(part: pa.RecordBatch) -> pa.Array:
            given = function(part)
            if isinstance(given, pa.ChunkedArray):
                given = given.combine_chunks()
            mask = given if isinstance(given, pa.Array) else pa.array(np.asarray(given))
            if not pa.types.is_boolean(mask.type) or len(mask) != part.num_rows:
                raise TypeError(
                    f"a filter gives {part.num_rows} booleans, not {len(mask)} of {mask.type}"
                )
            return mask

        def records(part: pa.RecordBatch) -> pa.Array:
            return pa.array([bool(function(r)) for r in part.to_pylist()], pa.bool_())

        super().__init__(name, call, batches if call.per is Per.BATCH else records)

    def _give(self, rows: pa.RecordBatch, bounds: pa.Array | None, answer: Done[Any]) -> None:
        part = with_hidden(rows, bounds).slice(answer.start, answer.rows)
        kept = part.filter(answer.given)
        if kept.num_rows:
            self._emit(kept)

    def _parent_in(self, answer: Done[Any], row: int) -> int | None:
        return int(np.flatnonzero(answer.given.fill_null(False))[row])


def from_records(records: Iterable[Any], schema: pa.Schema) -> pa.RecordBatch:
    """Make a batch of dicts; a record with a missing or unknown field is refused."""
    rows = list(records)
    names = set(schema.names)
    for row in rows:
        if not isinstance(row, dict) or row.keys() != names:
            shown = sorted(row) if isinstance(row, dict) else type(row).__name__
            raise TypeError(f"it gave a record with {shown}, declared are {schema.names}")
    return pa.RecordBatch.from_pylist(rows, schema)
