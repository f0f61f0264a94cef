"""User functions over keyed batches, with values of their own for every key.

A function per batch gets ``(batch, state)``: see :class:`BatchState`. A function per record gets
``(record, values)`` and gives records; ``values`` is a dict of the key's state that it may change:
see :class:`RecordState`. What a function changes is stored when it has returned: a call that raises
leaves no trace.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.contract.graph import Call
from penstock.model.columns import Int32s
from penstock.steps.base import StateSchema, least_bound, with_hidden
from penstock.steps.calls import Done, as_batch, of_rows, records_of
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.refusals import Refusals, parted
from penstock.steps.stateless import Calling, caller_of, from_records, given_records
from penstock.steps.values import BatchState, RecordRules, record_rules, state_field


class ProcessStep(Calling):
    """A user function over batches of keyed rows."""

    def __init__(
        self,
        name: str,
        keys: KeyColumns,
        call: Call,
        function: Callable[..., Any],
        schemas: tuple[pa.Schema, pa.Schema],
    ) -> None:
        """Call ``function``; its state columns are ``schemas[0]``, it gives rows of ``schemas[1]``.

        Raises ConfigError for a state column of a type that cannot be kept.
        """
        super().__init__(name, caller_of(call, self._batches, self._records))
        self._keys = keys
        self._function = function
        self._output = schemas[1]
        self._fields = {f.name: state_field(name, f) for f in schemas[0]}
        self._rules = record_rules(self._fields)
        values = tuple(field.value for field in self._fields.values())
        self._schema = StateSchema(name, keys.fields, values)

    def open(self, state: OpenState) -> None:
        """Open the state; called once, before anything else."""
        self._state = state(self._schema)

    def _shown(self, part: pa.RecordBatch) -> BatchState:
        rows = self._state.rows(self._keys.codec.keys(self._keys.of(part)))
        return BatchState(self._state, self._fields, rows)

    def _batches(self, part: pa.RecordBatch) -> tuple[pa.RecordBatch, Refusals]:
        shown = self._shown(part)
        told, refusals = parted(self._function(part, shown), part.num_rows)
        given = as_batch(of_rows(told), self._output)
        shown.store()
        return given, refusals

    def _records(self, part: pa.RecordBatch, undo: bool) -> "KeyedTurn":
        shown = self._shown(part), self._rules
        return KeyedTurn(self._function, part, shown, self._together, undo=undo)

    def _together(self, given: Sequence[list[Any]]) -> pa.RecordBatch:
        return from_records((row for rows in given for row in rows), self._output)

    def _given(
        self, rows: pa.RecordBatch, bounds: pa.Array | None, done: Done[Any]
    ) -> pa.RecordBatch:
        if bounds is None:
            return done.given
        return with_hidden(done.given, least_bound(done.taken(bounds), done.given.num_rows))

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of state rows and their state columns."""
        keys = self._keys.codec.columns(self._state.keys_of(rows))
        names = [name for name, _ in self._keys.fields]
        for name, field in self._fields.items():
            names.append(name)
            keys.append(pa.array(field.read(self._state, rows), field.type))
        return pa.RecordBatch.from_arrays(keys, names=names)

    def counters(self) -> dict[str, int]:
        """Count keys and dead letters."""
        return {**super().counters(), "keys": self._state.about_keys()}


class KeyedTurn:
    """A turn (see :mod:`penstock.steps.calls`) whose calls change the state of their keys.

    What the newest call has changed can be taken back, and what is stored is what they all left.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        part: pa.RecordBatch,
        shown: tuple[BatchState, RecordRules],
        together: Callable[[Sequence[Any]], Any],
        *,
        undo: bool,
    ) -> None:
        """Show the state of the rows of ``part`` as dicts; ``undo``: changes may be taken back."""
        self.together = together
        self._function = function
        self._shown, self._rules = shown
        self._values = self._shown.records(self._rules)
        self._records = records_of(part)
        self._keys: list[int] = self._shown.index.tolist()
        self._left = zip(self._records, self._keys, strict=True)
        self._before: list[dict[str, Any]] | None = [] if undo else None  # what each row found

    def run(self, append: Callable[[Any], None]) -> None:
        """Call for one record after the other."""
        function, values, before = self._function, self._values, self._before
        if before is None:
            for record, key in self._left:
                append(list(given_records(function(record, values[key]))))
            return
        for record, key in self._left:
            before.append(dict(values[key]))
            append(list(given_records(function(record, values[key]))))

    def undo(self, row: int) -> None:
        """Give the row's key back what the row found."""
        assert self._before is not None, "a row that cannot be undone fails the job"
        self._values[self._keys[row]].set_back(self._before[row])

    def spoiled(self, rows: list[int]) -> list[int]:
        """Return the rows behind the first of these of each key, which is undone."""
        first: dict[int, int] = {}
        for row in rows:
            first.setdefault(self._keys[row], row)
        for row in first.values():
            self.undo(row)
        return [row for row, key in enumerate(self._keys) if row > first.get(key, row)]

    def again(self, row: int) -> list[Any]:
        """Call once more, with what the key has now."""
        assert self._before is not None, "a row that cannot be undone fails the job"
        values = self._values[self._keys[row]]
        self._before[row] = dict(values)
        return list(given_records(self._function(self._records[row], values)))

    def keep(self) -> None:
        """Store the state of all keys."""
        self._shown.take_records(self._values, self._rules.first)
        self._shown.store()
