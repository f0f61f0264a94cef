"""The receiving side of pushed rows on one worker: where it listens, and which streams it accepts.

On one machine it listens at a Unix socket in the folder where it announces itself. It checks that
only its own user may enter the folder. So no other user of the machine can push rows, or listen at
the address of a worker. In a cluster it listens on a port, and both sides present certificates.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from penstock.base import limits
from penstock.base.addresses import join_address
from penstock.base.errors import ConfigError, PeerError, StateError
from penstock.base.os_errors import storage_error
from penstock.base.threads import Lock, uuid4
from penstock.connectors.announce import (
    SOCKET_SUFFIX,
    Announcement,
    announce,
    finished_note,
    read_note,
    read_owners,
    socket_address,
    write_note,
)
from penstock.connectors.arrivals import Arrivals
from penstock.connectors.flight_data import FlightData
from penstock.connectors.ingest_queue import PartitionQueue
from penstock.contract import codec
from penstock.contract.trust import IngestPlace, scheme
from penstock.file_system import OS_FILES
from penstock.folders import PrivateFolder
from penstock.model.ingest_messages import (
    Hello,
    IngestAnswer,
    IngestReply,
    PartitionEnd,
    Rows,
    decode_hello,
    decode_push,
)
from penstock.ports import FileSystem
from penstock.protocol.channel import ingest_partition as core

_SOCKET_PATH_BYTES_MAX = 100  # systems allow 104 to 108 bytes


class IngestHub:
    """All partition queues of one worker, and the Flight server that fills them."""

    def __init__(
        self,
        partitions: int,
        folder: Path,
        schema: pa.Schema,
        want_checkpoint: Callable[[], None],
        *,
        place: IngestPlace,
        files: FileSystem = OS_FILES,
    ) -> None:
        """Listen at ``place`` and announce it in ``folder``.

        Raises ConfigError when the address is in use, or when other users may enter the folder.
        """
        self._shown = folder
        self._files = files
        self._private = None if place.host else PrivateFolder(folder.absolute(), make=True)
        self._folder = folder if self._private is None else self._private.path
        self._life = uuid4().hex
        self._schema = schema
        self._queues = [PartitionQueue(index, self) for index in range(partitions)]
        self._streams = 0
        self._lock = Lock()
        self.want_checkpoint = want_checkpoint
        self.address = self._listen(place)
        self.announce()

    def queue(self, index: int) -> PartitionQueue:
        """Return the queue of a partition."""
        return self._queues[index]

    def announce(self) -> None:
        """Write the address of this worker and the partitions it owns.

        Raises ConfigError when this user may not write there; StorageError when a retry may help.
        """
        owned = tuple(q.index for q in self._queues if q.is_open)
        try:
            with self._lock:
                announce(self._folder, self._life, Announcement(self.address, len(self._queues), owned), self._files)
        except OSError as error:
            raise storage_error(f"ingest source: cannot announce this worker in {self._shown}", error) from error

    def finished(self, partition: int, offset: int) -> None:
        """Write a note that the partition has ended. A sender whose stream broke at the end reads it.

        Raises StorageError when a retry may help.
        """
        note = finished_note(self._folder, partition)
        try:
            write_note(note, self._life, offset, self._files)
        except OSError as error:
            raise storage_error(f"ingest source: cannot write {self._shown / note.name}", error) from error

    def unfinished(self, partition: int, offset: int) -> None:
        """Remove the note of an earlier job before the partition accepts a sender.

        A partition begins at offset 0 in a new job, and its old note is removed then. So a note at a
        later offset was written by this job: the partition had ended, and then the job was restored to
        an older checkpoint. Its sender has left and will not send the rows again. Raises StateError; StorageError
        when a retry may help.
        """
        note = finished_note(self._folder, partition)
        try:
            if offset > 0 and (end := read_note(note, self._files)):
                raise StateError(
                    f"ingest source: partition {partition} ended at row {end} and its "
                    f"sender was told to go; the checkpoint is of row {offset}, and nobody sends what "
                    f"follows. Restore the newest checkpoint; or push it once more: remove "
                    f"{self._shown / note.name}, run the job again and start the sender anew"
                )
            with suppress(FileNotFoundError):
                self._files.unlink(note)
        except OSError as error:
            raise storage_error(f"ingest source: cannot read or remove {self._shown / note.name}", error) from error

    def close(self) -> None:
        """End all streams and stop listening. Idempotent."""
        self._server.close()
        if self._private is not None:
            self._private.close()

    def _listen(self, place: IngestPlace) -> str:
        """Listen, and return the address that senders dial."""
        from penstock.connectors.ingest_server import IngestServer  # noqa: PLC0415 - loads gRPC

        where = join_address(place.host, place.port) if place.host else self._socket()
        streams_max = 2 * len(self._queues) + limits.INGEST_STREAMS_SPARE
        self._server = IngestServer(where, place.credentials, self._serve, streams_max)
        if not place.host:
            return socket_address(self._shown.absolute(), self._life)
        return f"{scheme(place.credentials())}://{join_address(place.host, self._server.port)}"

    def _socket(self) -> str:
        path = self._folder / f"{self._life}{SOCKET_SUFFIX}"
        if len(str(path).encode()) > _SOCKET_PATH_BYTES_MAX:
            raise ConfigError(
                f"ingest source: {path} is longer than the path of a socket may be "
                f"({_SOCKET_PATH_BYTES_MAX} bytes): announce in a folder with a shorter name"
            )
        return f"unix:{path}"

    # --- On the thread of a stream ------------------------------------------------------------

    def _serve(self, messages: Iterator[FlightData]) -> Iterator[bytes]:
        """Serve one stream to its end."""
        try:
            for reply in self._replies(messages):
                yield codec.encode(reply)
        except PeerError as error:
            yield codec.encode(IngestReply(IngestAnswer.REFUSED, text=str(error)))

    def _replies(self, messages: Iterator[FlightData]) -> Iterator[IngestReply]:
        first = next(messages, None)
        if first is None:
            return  # the sender has left; when it connects again it learns its offset
        hello = decode_hello(bytes(first.command))
        if not 0 <= hello.partition < len(self._queues) == hello.partitions:
            raise PeerError(f"partition {hello.partition} of {hello.partitions} is not known")
        queue = self._queues[hello.partition]
        with self._lock:
            self._streams += 1
            stream = self._streams
        try:
            yield from self._exchange(queue, stream, hello, messages)
        finally:
            queue.leave(stream)

    def _exchange(
        self, queue: PartitionQueue, stream: int, hello: Hello, messages: Iterator[FlightData]
    ) -> Iterator[IngestReply]:
        pushes = self._pushes(messages)
        say = queue.greet(stream, hello.sender)
        yield self._reply(say, queue.index)
        while not say.last and (came := next(pushes, None)) is not None:
            match came:
                case Rows(offset), pa.RecordBatch() as batch:
                    say = queue.push(stream, offset, batch)
                case PartitionEnd(offset), None:
                    say = queue.finish(stream, offset)
                case push, _:
                    raise PeerError(f"{type(push).__name__} with a batch, or without its own")
            yield self._reply(say, queue.index)

    def _pushes(self, messages: Iterator[FlightData]) -> Iterator[tuple[Rows | PartitionEnd, pa.RecordBatch | None]]:
        arrivals = Arrivals(self._schema)
        for message in messages:
            batch = arrivals.rows(message) if message.header else None
            if batch is not None or not message.header:  # other messages carry a schema or a dictionary
                yield decode_push(bytes(message.metadata)), batch

    def _reply(self, say: core.Reply, partition: int) -> IngestReply:
        owner = ""
        answer = say.answer
        if answer is IngestAnswer.RETRY:
            owner = read_owners(self._folder, self._files).get(partition, "")
            answer = IngestAnswer.MOVED if owner not in {"", self.address} else answer
        return IngestReply(answer, say.next, say.committed, owner)
