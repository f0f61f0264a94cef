"""Pushes one partition into a running job, through crashes, rescales and leader changes of the job.

    find a worker ─> dial ─> Hello ─> TAKEN(next) ─> rows from ``next`` on ─> PartitionEnd ─> FINISHED
         ^                                 |
         └── RETRY, MOVED, REWIND, a broken stream: connect again, continue at ``next``

The sender stores no offset. The offset always comes from the worker, so a crash on either side loses
and repeats nothing.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError, PeerError, StorageError
from penstock.base.limits import INGEST_BATCH_BYTES_MAX
from penstock.connectors.announce import (
    Proof,
    dialled,
    finished_note,
    opened,
    read_announcements,
    read_note,
    read_owners,
)
from penstock.connectors.parquet_source import Pieces
from penstock.connectors.rate_limit import RateLimit
from penstock.connectors.source_rows import head
from penstock.contract import codec
from penstock.file_system import OS_FILES
from penstock.model.ingest_messages import (
    WIRE_VERSION,
    Hello,
    IngestAnswer,
    IngestReply,
    PartitionEnd,
    Rows,
    decode_reply,
)
from penstock.ports import FileSystem
from penstock.storage.trust import read_credentials

BATCH_ROWS = 8192
BATCHES_PER_S = 20
UNANSWERED_MAX = 8  # unacknowledged batches: enough to hide the round trip, few enough to send again
REDIAL_INTERVAL_S = 0.2
GIVE_UP_S = 120.0  # without an answer of any worker
STREAM_ERRORS = (pa.ArrowException, OSError, StopIteration)


@dataclass(frozen=True, slots=True)
class Push:
    """One partition of a dataset: its files in order are its rows; ``rate`` in rows/s or None.

    ``rows`` are pushed at most, as if the files ended there. ``trust`` is the folder of a sender's
    certificates, where the workers ask for one, and ``certificate_host`` the name that theirs must
    have. Without it the workers are of this machine and user. ``anybody`` takes whoever announces
    itself in ``folder``: for workers of a cluster that have no certificates.
    """

    folder: str
    files: tuple[str, ...]
    partition: int
    partitions: int
    sender: int
    rate: int | None = None
    rows: int | None = None
    trust: str = ""
    certificate_host: str = ""
    anybody: bool = False

    @property
    def proof(self) -> Proof:
        """Return how this sender identifies its workers."""
        return proof_of(self.trust, anybody=self.anybody)


def proof_of(trust: str, *, anybody: bool) -> Proof:
    """Return how a sender with these options identifies its workers."""
    if trust:
        return Proof.CERTIFICATES
    return Proof.NOTHING if anybody else Proof.FOLDER


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result: FINISHED or SUPERSEDED, the rows sent (also repeated ones), and the connections."""

    partition: int
    answer: str
    rows: int
    sent: int
    dials: int


class PartitionRows:
    """Reads the rows of a partition from any offset on."""

    def __init__(self, files: Sequence[str], rows: int | None = None) -> None:
        """Read the footers; ``rows`` bounds them. Raises ConfigError for an unreadable file."""
        try:
            self._files = [(Path(f), pq.read_metadata(f).num_rows) for f in files]
            self._schema = pq.read_schema(files[0]) if files else None
        except (OSError, pa.ArrowInvalid) as error:
            raise ConfigError(f"replay: a file of the dataset cannot be read: {error}") from error
        there = sum(count for _, count in self._files)
        self.rows = there if rows is None else min(there, rows)

    def batches(self, offset: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from ``offset`` on, in order, at most ``batch_rows`` at once."""
        left = max(0, self.rows - offset)
        for batch in self._all(offset, batch_rows):
            if not left:
                return
            yield batch.slice(0, left)
            left = max(0, left - batch.num_rows)

    def _all(self, offset: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        start = 0
        for file, rows in self._files:
            if start + rows > offset:
                pieces = Pieces(file, self._schema)
                for piece in pieces.decode(max(0, offset - start)):
                    yield from _batches(piece, batch_rows)
                pieces.close()
            start += rows


def _batches(piece: pa.RecordBatch, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Divide rows into batches that a worker accepts. Raises ConfigError if a row is too large."""
    first = 0
    while first < piece.num_rows:
        batch = head(piece.slice(first), batch_rows)
        if batch.nbytes > INGEST_BATCH_BYTES_MAX:
            raise ConfigError(
                f"replay: a row of {batch.nbytes} bytes cannot be pushed, at most "
                f"{INGEST_BATCH_BYTES_MAX}: have the job read the files themselves"
            )
        yield batch
        first += batch.num_rows


class Pusher:
    """Sends one partition until the job has committed it, or another sender has taken over."""

    def __init__(self, push: Push, files: FileSystem = OS_FILES) -> None:
        """Open the input. No connection is made yet. ``files`` has the folder of announcements."""
        self._push = push
        self._files = files
        self._input = PartitionRows(push.files, push.rows)
        self._shown = _shown(push)
        self._sent = 0
        self._dials = 0
        self._told_end = False
        self._heard = time.monotonic()

    def run(self) -> Pushed:
        """Push to the end. Raises PeerError if it is refused, StorageError if no worker answers."""
        while True:
            answer = self._attempt()
            if answer in {IngestAnswer.FINISHED, IngestAnswer.SUPERSEDED}:
                push = self._push
                return Pushed(push.partition, answer, self._input.rows, self._sent, self._dials)
            if time.monotonic() - self._heard > GIVE_UP_S:
                raise StorageError(
                    f"replay: no worker answered for {GIVE_UP_S:.0f} s; they announce themselves in"
                    f" {self._push.folder}: is the job running?"
                )
            time.sleep(REDIAL_INTERVAL_S)

    def _attempt(self) -> str:
        """Connect to the likely owner of the partition, or to any worker; return how the stream ended.

        Raises ConfigError if other users may write to the folder where workers announce themselves.
        """
        proof = self._push.proof
        with opened(Path(self._push.folder), proof) as folder:
            owner = read_owners(folder, self._files).get(self._push.partition)
            others = [a.address for a in read_announcements(folder, self._files)]
            for announced in dict.fromkeys([*([owner] if owner else []), *others]):
                address = dialled(announced, folder, proof)
                if address is None:
                    continue
                try:
                    answer = self._stream(address)
                except STREAM_ERRORS:
                    continue  # the worker has ended or is ending: ask another one
                if answer not in {IngestAnswer.RETRY, IngestAnswer.MOVED}:
                    return answer
            return IngestAnswer.FINISHED if self._is_noted(folder) else IngestAnswer.RETRY

    def _is_noted(self, folder: Path) -> bool:
        """Return whether the job has ended and left the note that it committed the whole partition.

        Valid only after this sender has sent its end. By then the worker that took the rows has
        removed the files of earlier jobs.
        """
        note = finished_note(folder, self._push.partition)
        return self._told_end and read_note(note, self._files) == str(self._input.rows)

    def _stream(self, address: str) -> str:
        push = self._push
        hello = Hello(WIRE_VERSION, push.partition, push.partitions, push.sender)
        self._dials += 1
        with fl.FlightClient(address, **self._shown) as client:
            descriptor = fl.FlightDescriptor.for_command(codec.encode(hello))
            writer, reader = client.do_exchange(descriptor)
            try:
                reply = self._hear(reader)
                if reply.answer != IngestAnswer.TAKEN:
                    return reply.answer
                return self._send(writer, reader, reply.next)
            finally:
                writer.close()

    def _send(self, writer: Any, reader: Any, offset: int) -> str:
        pace = RateLimit(self._push.rate)
        unanswered = 0
        begun = False
        for batch in self._input.batches(offset, batch_rows(self._push.rate)):
            _await_turn(pace, batch.num_rows)
            if not begun:
                writer.begin(batch.schema)
                begun = True
            writer.write_with_metadata(batch, codec.encode(Rows(offset)))
            offset += batch.num_rows
            self._sent += batch.num_rows
            unanswered += 1
            while unanswered >= UNANSWERED_MAX:
                reply = self._hear(reader)
                unanswered -= 1
                if reply.answer != IngestAnswer.TAKEN:
                    return reply.answer
        writer.write_metadata(codec.encode(PartitionEnd(offset)))
        self._told_end = True
        return self._last_answers(reader, unanswered)

    def _last_answers(self, reader: Any, unanswered: int) -> str:
        for _ in range(unanswered):
            reply = self._hear(reader)
            if reply.answer != IngestAnswer.TAKEN:
                return reply.answer
        return self._hear(reader).answer

    def _hear(self, reader: Any) -> IngestReply:
        chunk = reader.read_chunk()
        self._heard = time.monotonic()
        reply = decode_reply(chunk.app_metadata.to_pybytes())
        if reply.answer == IngestAnswer.REFUSED:
            raise PeerError(f"replay: partition {self._push.partition} was refused: {reply.text}")
        return reply


def _shown(push: Push) -> dict[str, Any]:
    if not push.trust:
        return {}
    return read_credentials(Path(push.trust), push.certificate_host).client_options()


def batch_rows(rate: int | None) -> int:
    """Return how many rows to send at once. At a low rate they are few, for an even flow."""
    return BATCH_ROWS if rate is None else max(1, min(BATCH_ROWS, rate // BATCHES_PER_S))


def _await_turn(pace: RateLimit, rows: int) -> None:
    """Wait until the first of these rows is due, and count them all."""
    while not pace.allow(1):
        time.sleep(pace.wait_s())
    pace.sent(rows)
