"""The queue of one pushed partition, between the handlers of streams and the task."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from penstock.base import limits
from penstock.base.errors import StorageError
from penstock.base.threads import Condition
from penstock.connectors.source_rows import head
from penstock.protocol.channel import ingest_partition as core

log = logging.getLogger(__name__)


class Hub(Protocol):
    """What a queue needs of :class:`penstock.connectors.ingest_hub.IngestHub`."""

    want_checkpoint: Callable[[], None]

    def announce(self) -> None:
        """Announce which partitions this worker owns."""
        ...

    def unfinished(self, partition: int, offset: int) -> None:
        """Remove the note of an earlier job. Raises StateError if this job has already dismissed the sender."""
        ...

    def finished(self, partition: int, offset: int) -> None:
        """Write a note that a partition is committed to its end."""
        ...


class PartitionQueue:
    """The queue of one partition. ``protocol.channel.ingest_partition`` makes the decisions."""

    def __init__(self, index: int, hub: Hub) -> None:
        """Begin closed."""
        self.index = index
        self._hub = hub
        self._core = core.IngestPartition()
        self._changed = Condition()
        self._rows: deque[tuple[int, pa.RecordBatch]] = deque()
        self._bytes = 0
        self._says: dict[int, list[core.Reply]] = {}

    # --- From the task ------------------------------------------------------------------------

    def open(self, offset: int, finished: bool) -> None:
        """Own the partition, and drop rows that were queued for an earlier owner.

        Raises StateError when its sender was dismissed: the job was restored to before the end. Raises StorageError
        when a retry may help; then the partition is closed.
        """
        if not finished:
            self._hub.unfinished(self.index, offset)
        with self._changed:
            self._rows.clear()
            self._bytes = 0
            self._step(core.Opened(offset, finished))
        try:
            self._hub.announce()
        except BaseException:
            with self._changed:
                self._step(core.Closed())  # no reader will close it, and its sender would stay here for ever
            raise

    def close(self) -> None:
        """Own the partition no longer. It does no harm if that cannot be announced: the next owner announces itself."""
        with self._changed:
            self._rows.clear()
            self._bytes = 0
            self._step(core.Closed())
        try:
            self._hub.announce()
        except StorageError as error:
            log.warning("event=ingest_not_announced partition=%d reason=%s", self.index, error)

    def take(self, max_rows: int) -> tuple[int, pa.RecordBatch] | None:
        """Return the next rows with their offset, or None when the queue is empty."""
        with self._changed:
            if not self._rows:
                return None
            offset, batch = self._rows.popleft()
            whole, batch = batch, head(batch, max_rows)
            if batch.num_rows < whole.num_rows:
                rest = whole.slice(batch.num_rows)
                self._rows.appendleft((offset + batch.num_rows, rest))
                self._bytes += _charge(rest)
            self._bytes -= _charge(whole)
            self._changed.notify_all()
            return offset, batch

    def end(self) -> int | None:
        """Return the partition's number of rows, once its sender has reported it."""
        with self._changed:
            return self._core.end

    def committed(self, offset: int, finished: bool) -> None:
        """Note the offset of this partition in a committed checkpoint."""
        with self._changed:
            self._step(core.CommittedSenders(offset, finished))
        if finished:
            self._hub.finished(self.index, offset)

    @property
    def is_open(self) -> bool:
        """Whether this worker owns the partition."""
        with self._changed:
            return self._core.is_open

    # --- From the handler of a stream ---------------------------------------------------------

    def greet(self, stream: int, sender: int) -> core.Reply:
        """Accept or refuse a stream; return the answer."""
        with self._changed:
            self._says[stream] = []
            self._step(core.Greeted(stream, sender))
            return self._says[stream].pop(0)

    def push(self, stream: int, offset: int, batch: pa.RecordBatch) -> core.Reply:
        """Wait for room, queue rows, return the answer. Raises PeerError when the sender contradicts itself."""
        with self._changed:
            while self._bytes >= limits.INGEST_QUEUE_BYTES_MAX and self._core.stream == stream:
                self._changed.wait(limits.INGEST_WAIT_S)
            if self._says[stream]:
                return self._says[stream].pop(0)
            actions = self._step(core.RowsCame(stream, offset, batch.num_rows))
            for action in actions:
                if isinstance(action, core.Take):
                    kept = batch.slice(action.skip)
                    self._rows.append((offset + action.skip, kept))
                    self._bytes += _charge(kept)
            return self._says[stream].pop(0)

    def finish(self, stream: int, offset: int) -> core.Reply:
        """Wait until the end is committed or the stream is dismissed; return the answer."""
        with self._changed:
            actions = self._step(core.EndCame(stream, offset))
            if any(isinstance(a, core.WantCheckpoint) for a in actions):
                self._hub.want_checkpoint()
            while not self._says[stream]:
                self._changed.wait(limits.INGEST_WAIT_S)
            return self._says[stream].pop(0)

    def leave(self, stream: int) -> None:
        """Forget a stream that has ended."""
        with self._changed:
            self._says.pop(stream, None)

    def _step(self, event: core.Event) -> tuple[core.Action, ...]:
        actions = self._core.step(event)
        for action in actions:
            if isinstance(action, core.Reply) and action.stream in self._says:
                self._says[action.stream].append(action)
        self._changed.notify_all()
        return actions


def _charge(batch: pa.RecordBatch) -> int:
    """Return the bytes that a batch counts for; a small one counts for its Python objects too."""
    return max(int(batch.nbytes), limits.INGEST_CHARGE_BYTES_MIN)
