"""Output to a Kafka topic at once, without a wait for the commit: at least once.

A record is on its way as soon as it is written. A checkpoint waits until the brokers have all records before it. After
a rollback the rows since the last checkpoint are read again, and their records are there twice.
"""

from typing import Any

import pyarrow as pa

from penstock.base.errors import ConnectorError, StateError
from penstock.base.threads import Lock
from penstock.connectors.kafka.client import client_settings, library, make_client
from penstock.connectors.kafka.encoding import RecordEncoder, messages_of, pieces_of
from penstock.connectors.kafka.topics import TopicRules, record_rules, topic_id
from penstock.connectors.missing import refused_at_first
from penstock.connectors.staged_sink import NOTHING_STAGED
from penstock.contract.ids import Attempt, Epoch, TaskId
from penstock.contract.kafka_options import KafkaOutput
from penstock.contract.manifest import SinkHandle
from penstock.protocol.marked import DROP

QUEUED_MAX = 200_000  # records on their way; then the task takes no input
CLIENT_QUEUE_MAX = 10_000_000
CLIENT_QUEUE_KBYTES = 512 * 1024  # the task takes no input from half of it on, so that a batch still fits
FLUSH_MAX_S = 60.0


class DirectKafkaSink:
    """The sink step of one engine, for one topic."""

    guarantee = "at-least-once"

    def __init__(self, step: str, options: KafkaOutput, schema: pa.Schema) -> None:
        """Connect nothing yet. Raises ConfigError when a column does not fit, or the client is missing."""
        library()
        self._step = step
        self._options = options
        self._encoder = RecordEncoder(options, schema)
        self._rules = TopicRules()
        self.publisher = NothingStaged()

    def claim(self, job_uid: str, fresh: bool) -> None:
        """Look at the topic and the registry. Raises ConfigError, StorageError when a retry may help."""
        with refused_at_first(first=fresh):
            topic_id(self._settings(), self._options.topic)
            self._rules = record_rules(self._settings(), self._options.topic)
        self._encoder.claim(self._rules)

    def sweep(self, attempt: Attempt) -> None:
        """Do nothing: nothing is staged."""

    def writer(self, task: TaskId, attempt: Attempt) -> "DirectWriter":
        """Make the writer of one task, which has a client of its own."""
        own = {
            "enable.idempotence": True,
            "partitioner": self._options.partitioner,
            "linger.ms": 5,
            "batch.size": 1 << 20,
            "compression.type": "lz4",
            "delivery.report.only.error": True,
            "message.max.bytes": self._rules.client_bytes_max,
            "queue.buffering.max.messages": CLIENT_QUEUE_MAX,
            "queue.buffering.max.kbytes": CLIENT_QUEUE_KBYTES,
        }
        return DirectWriter(self._step, task, self._options.topic, self._encoder, {**self._settings(), **own})

    def close(self) -> None:
        """Do nothing: writers have the clients."""

    def _settings(self) -> dict[str, Any]:
        return client_settings(self._options.bootstrap_servers, self._options.client_file)


class DirectWriter:
    """Output of one task: records that are on their way."""

    guarantee = DirectKafkaSink.guarantee

    def __init__(self, step: str, task: TaskId, topic: str, encoder: RecordEncoder, settings: dict[str, Any]) -> None:
        self._owner = (step, task)
        self._topic = topic
        self._encoder = encoder
        self._queued_bytes_max = int(settings["queue.buffering.max.kbytes"]) * 1024 // 2
        self._record_bytes = 0  # the mean of the batch with the largest, since all were sent
        self._lock = Lock()
        self._failed: str | None = None
        self._producer = make_client(library().Producer, {**settings, "on_delivery": self._delivered})
        self._rows = self._bytes = 0

    def room(self) -> bool:
        """Return whether few enough records and bytes are on their way. The client counts records only."""
        self._producer.poll(0)
        queued = len(self._producer)
        if not queued:
            self._record_bytes = 0
        return queued < QUEUED_MAX and queued * self._record_bytes < self._queued_bytes_max

    def write(self, batch: pa.RecordBatch) -> None:
        """Send rows. Raises ConnectorError when the client takes no more, or a record was refused."""
        if not batch.num_rows:
            return
        records = self._encoder.records(batch)
        self._record_bytes = max(self._record_bytes, records.nbytes // records.num_rows)
        for piece in pieces_of(records, self._queued_bytes_max):
            taken = self._producer.produce_batch(self._topic, messages_of(piece))
            if taken != len(piece):
                raise ConnectorError(f"{self._where}: the client took {taken} of {len(piece)} records")
        self._rows, self._bytes = self._rows + records.num_rows, self._bytes + records.nbytes
        self.check()

    def seal(self, epoch: Epoch, name: str) -> "DirectPending":
        """Cut: all rows so far belong to ``epoch``."""
        step, task = self._owner
        handle = SinkHandle(step, task, epoch, NOTHING_STAGED, self._rows, self._bytes)
        self._rows = self._bytes = 0
        return DirectPending(self, handle)

    def flush(self) -> None:
        """Wait until the brokers have every record. Raises ConnectorError: then the rows are read again."""
        left = self._producer.flush(FLUSH_MAX_S)
        self.check()
        if left:
            raise ConnectorError(f"{self._where}: the brokers have not taken {left} records in {FLUSH_MAX_S:.0f} s")

    def check(self) -> None:
        """Raise ConnectorError when a record was refused."""
        if self._failed is not None:
            raise ConnectorError(f"{self._where}: {self._failed}")

    def close(self) -> None:
        """Drop what was not sent."""
        self._producer.purge()

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None and self._failed is None:
            self._failed = f"a record was not taken: {error.str()} ({error.name()})"

    @property
    def _where(self) -> str:
        return f"kafka sink: topic {self._topic}"


class DirectPending:
    """The records of one cut."""

    def __init__(self, writer: DirectWriter, handle: SinkHandle) -> None:
        self._writer = writer
        self._handle = handle

    def finish(self) -> SinkHandle | None:
        """Wait until the brokers have every record. Raises ConnectorError."""
        self._writer.flush()
        return self._handle if self._handle.rows else None


class NothingStaged:
    """The publisher of a sink that has sent everything before the commit."""

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        """Do nothing: it is visible. Raises StateError for output that is staged, and of which nobody knows that."""
        if handle.data != NOTHING_STAGED:
            raise StateError(
                f"kafka sink: {handle.rows:,} rows of epoch {epoch} are staged, and not known to be visible: the sink"
                " had delivery: exactly-once when they were written; run the job so until they are published (stop it,"
                f" or suspend it), or give {DROP}"
            )

    def discard(self, handle: SinkHandle) -> None:
        """Do nothing: it is visible, and will be there twice."""

    def forget(self, handle: SinkHandle) -> None:
        """Do nothing."""
