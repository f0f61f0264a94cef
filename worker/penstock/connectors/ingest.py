"""Pushed input: senders open one Flight stream per partition, and each worker takes its partitions.

    handler thread: stream --IngestPartition decides--> queue (bounded) --IngestReader--> task

Backpressure: while the queue is full, the handler does not read, which stops the sender. Workers
announce themselves in a folder that senders can read. A sender may ask any worker for the owner of
its partition. :mod:`penstock.connectors.ingest_hub` listens and accepts streams.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.connectors.ingest_hub import IngestHub
from penstock.connectors.ingest_queue import PartitionQueue
from penstock.connectors.source_rows import Stamper, with_stamp
from penstock.contract.columns import Columns
from penstock.contract.event_time import EventTime
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.contract.trust import OF_ONE_USER, IngestPlace
from penstock.file_system import OS_FILES
from penstock.graph.arrow import arrow_type
from penstock.ports import FileSystem, Read


class IngestSource:
    """A source of pushed partitions. It is bounded: each sender says where its partition ends."""

    bounded = True

    def __init__(
        self,
        partitions: int,
        folder: str,
        columns: Columns,
        event_time: EventTime | None = None,
        files: FileSystem = OS_FILES,
    ) -> None:
        """Take rows of ``columns``. Raises ConfigError when none are declared."""
        self._files = files
        self._plain = ingest_schema(columns)
        self.schema = with_stamp(self._plain, event_time)
        self._event_time = event_time
        self._partitions = partitions
        self._folder = Path(folder)
        self._hub: IngestHub | None = None
        self._want_checkpoint: Callable[[], None] = _nobody_asked
        self._place = OF_ONE_USER

    def listen(self, want_checkpoint: Callable[[], None], place: IngestPlace) -> None:
        """Call ``want_checkpoint`` when a sender waits for its end; listen at ``place``."""
        self._want_checkpoint = want_checkpoint
        self._place = place

    def splits(self) -> list[SplitState]:
        """List the partitions. A partition that nobody has pushed yet is an unfinished split."""
        return [SplitState(SplitId(f"partition-{index:05d}"), str(index), 0) for index in range(self._partitions)]

    def open(self, state: SplitState) -> "IngestReader":
        """Own a partition from its offset on. The first call starts the server of this worker."""
        if self._hub is None:
            self._hub = IngestHub(
                self._partitions,
                self._folder,
                self._plain,
                self._want_checkpoint,
                place=self._place,
                files=self._files,
            )
        queue = self._hub.queue(int(state.spec))
        stamper = Stamper(self._event_time, state.max_ts) if self._event_time else None
        return IngestReader(queue, state, stamper)


def _nobody_asked() -> None:
    """Do nothing: without :meth:`IngestSource.listen` the periodic checkpoints are enough."""


def ingest_schema(columns: Columns) -> pa.Schema:
    """Return the declared columns as a schema. Raises ConfigError when there are none."""
    if not columns:
        raise ConfigError("ingest source: declare its columns, nothing tells them beforehand")
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in columns])


class IngestReader:
    """Reads one pushed partition; used by the task's thread."""

    def __init__(self, queue: PartitionQueue, state: SplitState, stamper: Stamper | None) -> None:
        """Own the partition from the state's offset on."""
        self._queue = queue
        self._state = state
        self._offset = state.offset
        self._finished = state.finished
        self._stamper = stamper
        queue.open(state.offset, state.finished)

    def read(self, max_rows: int) -> Read | None:
        """Return received rows, or None."""
        taken = self._queue.take(max_rows)
        if taken is None:
            self._finished = self._finished or self._queue.end() == self._offset
            return None
        offset, batch = taken
        assert offset == self._offset, f"rows {offset} came where {self._offset} were due"
        self._offset += batch.num_rows
        return Read(self._stamper.stamp(batch, self._state.split, offset) if self._stamper else batch, offset)

    def state(self) -> SplitState:
        """Return where the next read begins; ``finished`` once the end was read."""
        max_ts = self._stamper.max_ts if self._stamper else None
        return SplitState(self._state.split, self._state.spec, self._offset, self._finished, max_ts)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Dismiss the sender once its end is committed."""
        self._queue.committed(state.offset, state.finished)

    def close(self) -> None:
        """Give the partition up. Its sender connects again to find the new owner."""
        self._queue.close()
