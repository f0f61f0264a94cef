"""Steps with state for each key: the key columns of a step, and running aggregates."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.contract.graph import Compute
from penstock.model.arrays import Int32s
from penstock.model.keyhash import check_key_columns
from penstock.model.keys import KeyCodec
from penstock.steps.aggregates import Aggregates
from penstock.steps.base import (
    KeyedState,
    PlainStep,
    StateSchema,
    split_hidden,
    with_hidden,
)

OpenState = Callable[[StateSchema], KeyedState]


class KeyColumns:
    """The key columns of a step's input, by their index in the schema."""

    def __init__(self, schema: pa.Schema, names: Sequence[str], max_key_groups: int) -> None:
        """Find the columns. Raises ConfigError if one does not exist or cannot be a key."""
        check_key_columns(schema, names)
        self.places = [schema.get_field_index(name) for name in names]
        self.fields = tuple((schema.field(p).name, schema.field(p).type) for p in self.places)
        self.codec = KeyCodec(tuple(kind for _, kind in self.fields), max_key_groups)

    def of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Return the key columns of a batch."""
        return [batch.column(place) for place in self.places]


class RunningAggregate(PlainStep):
    """Emits one row for each input row: its keys, and the values of the key so far."""

    def __init__(
        self,
        name: str,
        keys: KeyColumns,
        compute: Sequence[Compute],
        schemas: tuple[pa.Schema, pa.Schema],
        state: OpenState,
    ) -> None:
        """Take rows of ``schemas[0]`` and emit rows of ``schemas[1]``."""
        super().__init__(name)
        self._keys = keys
        self._aggregates = Aggregates(name, compute, schemas[0])
        self._output = schemas[1]
        self._state = state(StateSchema(name, keys.fields, self._aggregates.values()))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Fold all rows, and emit the values after each row, in input order."""
        rows, bounds = split_hidden(batch)
        keys = self._keys.of(rows)
        found = self._state.rows(self._keys.codec.keys(keys))
        computed = self._aggregates.running(self._aggregates.fold(self._state, found, rows))
        emitted = pa.RecordBatch.from_arrays([*keys, *computed], schema=self._output)
        self._emit(with_hidden(emitted, bounds))

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of state rows and their values so far."""
        keys = self._keys.codec.columns(self._state.keys_of(rows))
        columns = [*keys, *self._aggregates.results(self._state, rows)]
        cast = [c.cast(f.type) for c, f in zip(columns, self._output, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=self._output)

    def counters(self) -> dict[str, int]:
        """Count keys."""
        return {"keys": self._state.about_keys()}
