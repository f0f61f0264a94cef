"""Pushed input: senders open a Flight stream per partition, and this worker takes the rows it owns.

    handler thread: stream --IngestPartition decides--> queue (bounded) --IngestReader--> task

Backpressure is a handler that does not read on: a full queue stops the sender. Workers announce
themselves in a folder that senders can read; a partition may be asked for at any of them.
"""

import threading
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from penstock.base import limits
from penstock.base.addresses import join_address
from penstock.base.errors import ConfigError, PeerError, StateError
from penstock.connectors.announce import Announcement, announce, finished_note, read_owners
from penstock.connectors.bounded import head
from penstock.connectors.event_time import Stamper, with_stamp
from penstock.connectors.parquet_source import to_schema
from penstock.contract import codec
from penstock.contract.columns import Columns
from penstock.contract.graph import EventTime
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.contract.trust import ON_LOOPBACK, IngestPlace, scheme
from penstock.graph.arrow import arrow_type
from penstock.model.flight import RenewableServer
from penstock.model.ingest import Answer, End, Reply, Rows, decode_hello, decode_push
from penstock.ports import Read
from penstock.protocol import ingest as core

Serve = Callable[[bytes, Any, Any], None]
STREAM_ERRORS = (pa.ArrowException, OSError, StopIteration)


class IngestSource:
    """Partitions that are pushed; bounded, because each sender says where its partition ends."""

    bounded = True

    def __init__(
        self, partitions: int, folder: str, columns: Columns, event_time: EventTime | None = None
    ) -> None:
        """Take rows of ``columns``. Raises ConfigError when none are declared."""
        self._plain = ingest_schema(columns)
        self.schema = with_stamp(self._plain, event_time)
        self._event_time = event_time
        self._partitions = partitions
        self._folder = Path(folder)
        self._hub: IngestHub | None = None
        self._want_checkpoint: Callable[[], None] = _nobody_asked
        self._place = ON_LOOPBACK

    def listen(self, want_checkpoint: Callable[[], None], place: IngestPlace) -> None:
        """Call ``want_checkpoint`` when a sender waits for its end; hear senders at ``place``."""
        self._want_checkpoint = want_checkpoint
        self._place = place

    def renew(self) -> None:
        """Show the certificates of now to senders that dial from now on."""
        if self._hub is not None:
            self._hub.renew()

    def splits(self) -> list[SplitState]:
        """List the partitions; one not yet seen is an unfinished split."""
        return [
            SplitState(SplitId(f"partition-{index:05d}"), str(index), 0)
            for index in range(self._partitions)
        ]

    def open(self, state: SplitState) -> "IngestReader":
        """Own a partition from its offset on; the first one starts the server of this worker."""
        if self._hub is None:
            self._hub = IngestHub(
                self._partitions,
                self._folder,
                self._plain,
                self._want_checkpoint,
                place=self._place,
            )
        queue = self._hub.queue(int(state.spec))
        stamper = Stamper(self._event_time, state.max_ts) if self._event_time else None
        return IngestReader(queue, state, stamper)


def _nobody_asked() -> None:
    """The periodic checkpoint will do: nobody listens in a source that runs by itself."""


def ingest_schema(columns: Columns) -> pa.Schema:
    """Return the declared columns as a schema. Raises ConfigError when there are none."""
    if not columns:
        raise ConfigError("ingest source: declare its columns, nothing tells them beforehand")
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in columns])


class PartitionQueue:
    """Rows of one partition between handler threads and the task; decisions by the core."""

    def __init__(self, index: int, hub: "IngestHub") -> None:
        """Begin closed."""
        self.index = index
        self._hub = hub
        self._core = core.IngestPartition()
        self._changed = threading.Condition()
        self._rows: deque[tuple[int, pa.RecordBatch]] = deque()
        self._bytes = 0
        self._says: dict[int, list[core.Say]] = {}

    # --- From the task ------------------------------------------------------------------------

    def open(self, offset: int, finished: bool) -> None:
        """Own the partition; what was queued under an older owner is dropped.

        Raises StateError when its sender was let go: the job is back before the end.
        """
        if not finished:
            self._hub.unfinished(self.index, offset)
        with self._changed:
            self._rows.clear()
            self._bytes = 0
            self._step(core.Opened(offset, finished))
        self._hub.announce()

    def close(self) -> None:
        """Own it no longer."""
        with self._changed:
            self._rows.clear()
            self._bytes = 0
            self._step(core.Closed())
        self._hub.announce()

    def take(self, max_rows: int) -> tuple[int, pa.RecordBatch] | None:
        """Return the next rows with their offset, or None when nothing is there."""
        with self._changed:
            if not self._rows:
                return None
            offset, batch = self._rows.popleft()
            whole, batch = batch, head(batch, max_rows)
            if batch.num_rows < whole.num_rows:
                rest = whole.slice(batch.num_rows)
                self._rows.appendleft((offset + batch.num_rows, rest))
                self._bytes += rest.nbytes
            self._bytes -= whole.nbytes
            self._changed.notify_all()
            return offset, batch

    def end(self) -> int | None:
        """Return the number of rows of the partition, once its sender has said it."""
        with self._changed:
            return self._core.end

    def committed(self, offset: int, finished: bool) -> None:
        """Tell what a committed checkpoint says of this partition."""
        with self._changed:
            self._step(core.Committed(offset, finished))
        if finished:
            self._hub.finished(self.index, offset)

    @property
    def is_open(self) -> bool:
        """Say whether this worker owns the partition."""
        with self._changed:
            return self._core.is_open

    # --- From the handler of a stream ---------------------------------------------------------

    def greet(self, stream: int, sender: int) -> core.Say:
        """Let a stream in, or say why not."""
        with self._changed:
            self._says[stream] = []
            self._step(core.Greeted(stream, sender))
            return self._says[stream].pop(0)

    def push(self, stream: int, offset: int, batch: pa.RecordBatch) -> core.Say:
        """Queue rows when there is room, and answer. Raises PeerError on a contradiction."""
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
                    self._bytes += kept.nbytes
            return self._says[stream].pop(0)

    def finish(self, stream: int, offset: int) -> core.Say:
        """Wait until the end is committed, or the stream is dismissed."""
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
            if isinstance(action, core.Say) and action.stream in self._says:
                self._says[action.stream].append(action)
        self._changed.notify_all()
        return actions


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
        """Return rows that have come, or None."""
        taken = self._queue.take(max_rows)
        if taken is None:
            self._finished = self._finished or self._queue.end() == self._offset
            return None
        offset, batch = taken
        assert offset == self._offset, f"rows {offset} came where {self._offset} were due"
        self._offset += batch.num_rows
        return Read(self._stamper.stamp(batch) if self._stamper else batch, offset)

    def state(self) -> SplitState:
        """Return where the next read begins; finished once the end was read."""
        max_ts = self._stamper.max_ts if self._stamper else None
        return SplitState(self._state.split, self._state.spec, self._offset, self._finished, max_ts)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Let a sender go whose end is committed."""
        self._queue.committed(state.offset, state.finished)

    def close(self) -> None:
        """Give the partition up: its sender dials anew."""
        self._queue.close()


class IngestHub:
    """What one worker hears of pushed rows, and the Flight server that it hears them by."""

    def __init__(
        self,
        partitions: int,
        folder: Path,
        schema: pa.Schema,
        want_checkpoint: Callable[[], None],
        *,
        place: IngestPlace,
    ) -> None:
        """Listen at ``place`` and announce it in ``folder``. Raises ConfigError if it is taken."""
        self._server = RenewableServer(
            lambda port: _listen(place, port, self._serve_call), place.port
        )
        found = join_address(place.host, self._server.port)
        self.address = f"{scheme(place.credentials())}://{found}"
        self._folder = folder
        self._life = uuid.uuid4().hex
        self._schema = schema
        self._queues = [PartitionQueue(index, self) for index in range(partitions)]
        self._streams = 0
        self._lock = threading.Lock()
        self.want_checkpoint = want_checkpoint
        self.announce()

    def queue(self, index: int) -> PartitionQueue:
        """Return the queue of a partition."""
        return self._queues[index]

    def announce(self) -> None:
        """Write where this worker listens and what it owns."""
        owned = tuple(q.index for q in getattr(self, "_queues", ()) if q.is_open)
        with self._lock:
            announce(self._folder, self._life, Announcement(self.address, len(self._queues), owned))

    def finished(self, partition: int, offset: int) -> None:
        """Leave a note for a sender that loses its stream when the job ends."""
        finished_note(self._folder, partition).write_text(str(offset))

    def unfinished(self, partition: int, offset: int) -> None:
        """Remove the note of an earlier job, before any sender is let in.

        A job that begins removes all notes. So one beside a partition that has begun was written
        since: the partition has ended, and the job was taken back. Raises StateError.
        """
        note = finished_note(self._folder, partition)
        if offset > 0 and note.exists():
            raise StateError(
                f"ingest source: partition {partition} ended at row {note.read_text()} and its "
                f"sender was told to go; the checkpoint is of row {offset}, and nobody sends what "
                f"follows. Restore the newest checkpoint; or push it once more: remove {note}, run "
                "the job again and start the sender anew"
            )
        note.unlink(missing_ok=True)

    def renew(self) -> None:
        """Show the certificates of now to senders that dial; streams that are open go on."""
        self._server.renew()

    def _serve_call(self, command: bytes, reader: Any, writer: Any) -> None:
        """Serve one stream to its end."""
        try:
            hello = decode_hello(command)
            if not 0 <= hello.partition < len(self._queues) == hello.partitions:
                raise PeerError(f"partition {hello.partition} of {hello.partitions} is not known")
        except PeerError as error:
            _answer(writer, Reply(Answer.REFUSED, text=str(error)))
            return
        queue = self._queues[hello.partition]
        with self._lock:
            self._streams += 1
            stream = self._streams
        try:
            self._serve(queue, (stream, hello.sender), reader, writer)
        except PeerError as error:
            _answer(writer, Reply(Answer.REFUSED, text=str(error)))
        except STREAM_ERRORS:
            return  # the sender is gone; it dials anew and hears where to go on
        finally:
            queue.leave(stream)

    def _serve(self, queue: PartitionQueue, who: tuple[int, int], reader: Any, writer: Any) -> None:
        stream, sender = who
        say = queue.greet(stream, sender)
        _answer(writer, self._reply(say, queue.index))
        while not say.last:
            chunk = reader.read_chunk()
            push = decode_push(chunk.app_metadata.to_pybytes() if chunk.app_metadata else b"")
            match push:
                case Rows(offset):
                    say = queue.push(stream, offset, self._checked(chunk.data))
                case End(offset):
                    say = queue.finish(stream, offset)
            _answer(writer, self._reply(say, queue.index))

    def _checked(self, batch: pa.RecordBatch | None) -> pa.RecordBatch:
        if batch is None or any(n not in batch.schema.names for n in self._schema.names):
            has = "no batch" if batch is None else ", ".join(batch.schema.names)
            raise PeerError(f"rows with {', '.join(self._schema.names)} are taken, got {has}")
        batch.validate()
        return to_schema(batch, self._schema)

    def _reply(self, say: core.Say, partition: int) -> Reply:
        owner = ""
        answer = say.answer
        if answer is Answer.RETRY:
            owner = read_owners(self._folder).get(partition, "")
            answer = Answer.MOVED if owner not in {"", self.address} else answer
        return Reply(answer, say.next, say.committed, owner)


class _Server(fl.FlightServerBase):  # type: ignore[misc]
    """Listens as soon as it is made; only DoExchange is served."""

    def __init__(self, location: str, serve: Serve, asked: dict[str, Any]) -> None:
        super().__init__(location, **asked)
        self._serve = serve

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Hand one stream over."""
        self._serve(descriptor.command or b"", reader, writer)


def _listen(place: IngestPlace, port: int, serve: Serve) -> _Server:
    """Listen with the certificates of now. Raises ConfigError when the address is taken."""
    address = join_address(place.host, port)
    shown = place.credentials()
    asked = {} if shown is None else shown.server_options()
    try:
        return _Server(f"{scheme(shown)}://{address}", serve, asked)
    except pa.ArrowException as error:
        raise ConfigError(
            f"ingest source: cannot listen on {address}; in a cluster a job has one"
        ) from error


def _answer(writer: Any, reply: Reply) -> None:
    writer.write_metadata(codec.encode(reply))
