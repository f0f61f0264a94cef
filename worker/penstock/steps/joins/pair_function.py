"""Calls a user function with the pairs of a join.

A batch of pairs has the columns of both sides. Their names begin with the side, so that equal names may be there and an
error shows the whole pair. A missing row has null in all columns, and no row that was joined has: it has a time.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.base.errors import Where
from penstock.contract.graph import LEFT, RIGHT, Call, Per
from penstock.steps.base import Emit
from penstock.steps.stateless import MapStep


class PairFunction:
    """Emits one row for each pair: what ``function(left, right)`` returns.

    ``pairs`` is the schema of the batches that :meth:`on_batch` takes.
    """

    def __init__(
        self,
        step: str,
        call: Call,
        function: Callable[[Any, Any], Any],
        schemas: tuple[pa.Schema, pa.Schema, pa.Schema],
    ) -> None:
        """Call with rows of ``schemas[0]`` and ``schemas[1]``. The function returns rows of ``schemas[2]``."""
        left, right, output = schemas
        self._left, self._right = left, right
        self.pairs = pa.schema(
            [f.with_name(f"{side}.{f.name}") for side, s in ((LEFT, left), (RIGHT, right)) for f in s]
        )
        of_records = call.per is Per.RECORD
        self._map = MapStep(
            step, call, self._of_records(function) if of_records else self._of_batches(function), output
        )
        self._map.where = lambda _: Where(step)  # a pair is made from two rows

    def bind(self, emit: Emit) -> None:
        """Set what receives the results."""
        self._map.bind({"main": emit})

    def on_batch(self, pairs: pa.RecordBatch) -> None:
        """Call the function with pairs, and emit what it returns. Raises UserCodeError with the pair."""
        self._map.on_batch(pairs)

    def _of_batches(self, function: Callable[[Any, Any], Any]) -> Callable[[pa.RecordBatch], Any]:
        width = len(self._left)

        def call(pairs: pa.RecordBatch) -> Any:
            left = pa.RecordBatch.from_arrays(pairs.columns[:width], schema=self._left)
            right = pa.RecordBatch.from_arrays(pairs.columns[width:], schema=self._right)
            return function(left, right)

        return call

    def _of_records(self, function: Callable[[Any, Any], Any]) -> Callable[[dict[str, Any]], Any]:
        left, right = (tuple((name, f"{side}.{name}") for name in s.names) for side, s in self._sides())

        def call(pair: dict[str, Any]) -> Any:
            return function(_row(pair, left), _row(pair, right))

        return call

    def _sides(self) -> tuple[tuple[str, pa.Schema], tuple[str, pa.Schema]]:
        return (LEFT, self._left), (RIGHT, self._right)


def _row(pair: dict[str, Any], names: tuple[tuple[str, str], ...]) -> dict[str, Any] | None:
    """Return the row of one side; None if the pair has none, as no row has null in all columns."""
    row = {name: pair[there] for name, there in names}
    return row if any(value is not None for value in row.values()) else None
