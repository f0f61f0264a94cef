"""Runs a node that sends rows only while few are outstanding (``send_next_if``), and sheds the others.

::

    batch ──> slice ──> how many rows are outstanding? ──> consume* ──> main, shed ──> next slice

The answer is found once for each slice of a batch, and each row that is sent since then counts. So it is never too
generous: a receiver may have taken rows meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from penstock.base.errors import Where
from penstock.base.limits import SHED_SLICE_ROWS_MAX
from penstock.contract.graph import SHED, Call
from penstock.steps.base import OutstandingRows
from penstock.steps.seq_node import SendLimit, SeqNode, SeqNodeStep
from penstock.steps.stateless import RecordFunction, flattened, with_bounds_of
from penstock.steps.user_calls import CallAnswer, CallResult, RecordCaller

_NEVER_FULL = -(2**62)  # outstanding rows of a node that has no channel behind it

Rows = tuple[pa.RecordBatch, list[int]]
"""Rows of one output, and the call that gave each."""

Given = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""What one call gave: the rows that were sent, and those that were shed."""


class SheddingNodeStep(SeqNodeStep):
    """Runs a node that calls ``send_next_if``. Rows that it does not send go to the output ``shed``."""

    def __init__(self, name: str, call: Call, node: SeqNode, output: pa.Schema, edges: frozenset[int]) -> None:
        """Run an instance of ``node``. ``edges`` take its rows; without any, it sends all."""
        super().__init__(name, call, node, output)
        self._edges = edges
        self._outstanding: OutstandingRows = _nothing
        self._limit = SendLimit()
        self._node.limit_by(self._limit)
        self._first = 0  # the row of the batch with which the slice begins
        self._shed = 0

        def combine(results: Sequence[Given]) -> tuple[Rows, Rows]:
            sent, shed = ([given[output] for given in results] for output in (0, 1))
            return flattened(sent, output), flattened(shed, output)

        records = RecordFunction(self._consume, _call_all, combine)
        self._caller = RecordCaller(self._place, call, records)  # in place of one that knows no second output

    def shed_by(self, outstanding: OutstandingRows) -> None:
        """Ask ``outstanding`` before each slice."""
        self._outstanding = outstanding

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Let the node consume the rows in order, slice by slice."""
        limit, first = self._limit, 0
        while first < batch.num_rows:
            self._first = first
            limit.outstanding = self._outstanding(self._edges, limit.queue_min) if self._edges else _NEVER_FULL
            rows = min(SHED_SLICE_ROWS_MAX, limit.queue_min)
            super().on_batch(batch.slice(first, rows))
            first += rows

    def _consume(self, record: dict[str, Any]) -> Given:
        limit = self._limit
        limit.shed = []
        sent = self._node(record)
        limit.outstanding += len(sent)
        return sent, limit.shed

    def _emit_answer(self, rows: pa.RecordBatch, bounds: pa.Array | None, answer: CallAnswer[Any]) -> None:
        super()._emit_answer(rows, bounds, answer)
        for result in answer.results:
            shed, parents = result.value[1]
            if shed.num_rows:
                self._shed += shed.num_rows
                kept = shed if bounds is None else with_bounds_of(shed, parents, result.accepted(bounds))
                self._outputs[SHED](kept)

    def _emitted(self, rows: pa.RecordBatch, bounds: pa.Array | None, result: CallResult[Any]) -> pa.RecordBatch:
        sent, parents = result.value[0]
        return sent if bounds is None else with_bounds_of(sent, parents, result.accepted(bounds))

    def _parent_in(self, result: CallResult[Any], row: int) -> int | None:
        parent: int = result.value[0][1][row]
        return parent

    def parent(self, row: int) -> int | None:
        """Return the input row of an emitted row."""
        parent = super().parent(row)
        return None if parent is None else self._first + parent

    def _place(self, row: int) -> Where:
        return super()._place(self._first + row)

    def counters(self) -> dict[str, int]:
        """Count rows that were shed, and dead letters."""
        return {**super().counters(), "shed": self._shed}


def _call_all(function: Callable[[Any], Given], records: Iterator[Any], append: Callable[[Any], None]) -> None:
    for record in records:
        append(function(record))


def _nothing(edges: object, queue: int) -> int:
    return 0
