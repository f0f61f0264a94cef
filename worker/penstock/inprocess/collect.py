"""A sink that keeps its rows in memory, and shows them when their checkpoint is committed."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.base.errors import StateError
from penstock.contract.codec import parsed
from penstock.contract.ids import Attempt, Epoch, TaskId
from penstock.contract.manifest import SinkHandle
from penstock.inprocess.shown_rows import shown_rows
from penstock.ports import Pending, SinkPublisher, SinkWriter

EXACTLY_ONCE = "exactly-once"
Shown = dict[str, tuple[pa.RecordBatch, ...]]


class Rows(list[dict[str, Any]]):
    """Rows as dicts, which are also there as an Arrow table. For times that Python does not have see ``shown_rows``."""

    def __init__(self, batches: Sequence[pa.RecordBatch], schema: pa.Schema | None = None) -> None:
        """Show ``batches``; of no batch, ``schema`` has the columns."""
        none = pa.schema([]) if schema is None else schema
        self._table = pa.Table.from_batches(batches, batches[0].schema if batches else none)
        super().__init__(shown_rows(self._table))

    def to_arrow(self) -> pa.Table:
        """Return the rows as they were collected."""
        return self._table


class CollectSink:
    """Keeps rows in the memory of this process: for :func:`penstock.run` and tests only.

    ``rows`` shows those of committed checkpoints, by checkpoint, task and order of arrival, each
    once, as the files of an exactly-once sink would.
    """

    guarantee = EXACTLY_ONCE

    def __init__(self) -> None:
        self.step = ""  # set when the job is made ready: a handle names its step
        self._staged: Shown = {}
        self._shown: Shown = {}

    @property
    def rows(self) -> Rows:
        """Return the rows that are visible now."""
        return Rows(self.batches)

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """Return the visible rows as they came."""
        return [batch for batches in self._shown.values() for batch in batches]

    def keep(self) -> Shown:
        """Return what is visible, for :meth:`show`."""
        return dict(self._shown)

    def show(self, shown: Shown) -> None:
        """Show what was visible when :meth:`keep` was called."""
        self._staged.clear()
        self._shown = dict(shown)

    # --- What penstock.Sink asks for ------------------------------------------------------------

    @property
    def publisher(self) -> SinkPublisher:
        """Return what shows rows."""
        return self

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Begin empty with a job that begins."""
        if fresh:
            self.show({})

    def sweep(self, attempt: Attempt) -> None:
        """Drop what was prepared and never committed."""
        self._staged.clear()

    def writer(self, task: TaskId, attempt: Attempt) -> SinkWriter:
        """Make the writer of a task."""
        return _Writer(self, task)

    def close(self) -> None:
        """Hold nothing but rows."""

    def stage(self, task: TaskId, epoch: Epoch, name: str, batches: list[pa.RecordBatch]) -> SinkHandle:
        """Keep rows until they are published."""
        self._staged[name] = tuple(batches)
        rows, size = sum(b.num_rows for b in batches), sum(b.nbytes for b in batches)
        return SinkHandle(self.step, task, epoch, json.dumps(name), rows, size)

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Show the rows of a handle. Raises StateError where they are in another process."""
        name = parsed(handle.data)
        if name in self._shown:
            return
        if name not in self._staged:
            raise StateError(
                f"sink {self.step!r}: CollectSink keeps rows in the memory of one process: "
                "run the job with ps.run, or give it another sink"
            )
        self._shown[name] = self._staged.pop(name)

    def discard(self, handle: SinkHandle) -> None:
        """Drop rows that will never be committed."""
        self._staged.pop(parsed(handle.data), None)

    def forget(self, handle: SinkHandle) -> None:
        """Have nothing staged of what is visible."""


class _Writer:
    """The rows of one task since the last cut."""

    guarantee = EXACTLY_ONCE

    def __init__(self, sink: CollectSink, task: TaskId) -> None:
        self._sink = sink
        self._task = task
        self._rows: list[pa.RecordBatch] = []

    def room(self) -> bool:
        return True

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.append(batch)

    def seal(self, epoch: Epoch, name: str) -> Pending:
        batches, self._rows = self._rows, []
        return _Cut(self._sink, self._task, epoch, (name, batches))

    def close(self) -> None:
        self._rows = []


class _Cut:
    """The rows of one epoch of one task."""

    def __init__(
        self,
        sink: CollectSink,
        task: TaskId,
        epoch: Epoch,
        staged: tuple[str, list[pa.RecordBatch]],
    ) -> None:
        self._sink = sink
        self._of = (task, epoch)
        self._staged = staged

    def finish(self) -> SinkHandle | None:
        name, batches = self._staged
        return self._sink.stage(*self._of, name, batches) if batches else None
