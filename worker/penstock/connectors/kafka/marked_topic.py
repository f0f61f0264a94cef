"""One transactional id: it writes blocks of records and the marker in one transaction.

The marker is the offset that a consumer group of the same name has committed for partition 0 of the output
topic: the epoch, with the digest and the number of visible blocks as metadata. ``protocol/marked.py`` judges it.

If a broker does not answer, the client repeats the request, and the first one may arrive later. This client does not
support KIP-890, so brokers cannot tell a late request from one of the producer's next transaction: a late commit would
commit a part of that. So a producer that has lost a connection begins no further transaction. It is replaced by a new
one with the same id, which fences the late requests.

The order matters. ``init_transactions`` fences and aborts predecessors, so it comes **before** the marker is read: a
predecessor could otherwise commit between the two. An id that has not failed since keeps its producer, and knows its
marker; the broker tells it when somebody else has fenced it.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.base.errors import StorageError
from penstock.base.threads import Lock, monotonic
from penstock.connectors.kafka.client import ANSWER_MAX_S, library, make_client, problem
from penstock.connectors.kafka.encoding import messages_of, pieces_of
from penstock.connectors.kafka.topics import TopicRules, record_rules
from penstock.connectors.staged_sink import Block
from penstock.contract.ids import Epoch
from penstock.contract.latest import Unpublished
from penstock.protocol.marked import DROP, SKIP, OutputMarker, Wanted, visible_blocks

log = logging.getLogger(__name__)

TRANSACTION_MAX_MS = 60_000
LARGER = "raise the topic's max.message.bytes"
REFUSALS = {  # what a topic does not take, and what to do
    "INVALID_RECORD": "take `compact` from the topic's cleanup.policy, which lets no record without a key in",
    "MSG_SIZE_TOO_LARGE": LARGER,
    "RECORD_LIST_TOO_LARGE": LARGER,
}
REST_MAX_S = 3600.0  # then the marker is looked at anew: brokers forget it after days without a write
SHARE_OF_TIMEOUT = 0.25  # a transaction takes no more blocks after this part of its time
QUEUED_MAX = 200_000  # records on their way
CLIENT_QUEUE_KBYTES = 256 * 1024  # half of it is used, so that a batch of rows still fits


class MarkedTopic:
    """A topic, as one sink task writes it. Any thread may use it."""

    def __init__(self, settings: Callable[[], Mapping[str, Any]], topic: str, name: str, partitioner: str) -> None:
        """Connect nothing yet. ``name`` is that of the transactional id and of the group.

        ``settings`` are asked for whenever a client is made, because a password in them may change.
        """
        self._settings = settings
        self._topic = topic
        self._name = name
        self._partitioner = partitioner
        self._producer: Any = None
        self._consumer: Any = None
        self._marker: OutputMarker | None = None
        self._sent_bytes = 0  # since the client had nothing left to send
        self._marked_at = 0.0  # when the marker was read or written
        self._alone = False  # whether the producer sends each record in a request of its own
        self._rules = TopicRules()  # of the topic, when rows are to be left out
        self._lock = Lock()

    def known(self, visible: Epoch) -> Epoch:
        """Return an epoch that the marker has reached; write one of ``visible`` when there is none. Blocking.

        One that was just read is raised to ``visible``, so that brokers forget it later, and a publisher that comes
        late finds it done. See ``MarkedOutput``. Raises StorageError.
        """
        with self._lock, self._calls():
            if monotonic() - self._marked_at > REST_MAX_S:
                self._forget()
            if looked := self._producer is None:
                self._begin()
            if self._marker is None or (looked and self._marker.epoch < visible):
                self._producer.begin_transaction()
                self._commit(OutputMarker(visible, "seed", 0))
            assert self._marker is not None, "it was just written"
            return self._marker.epoch

    def publish(self, wanted: Wanted, blocks: Iterable[Block]) -> int:
        """Make all blocks visible, each once. ``blocks`` gives them in order; those that are visible are passed over.

        Returns how many records were left out. Blocking. Raises StateError when it is not known what is visible,
        StorageError when a retry may help.
        """
        with self._lock, self._calls():
            skips = wanted.how is Unpublished.SKIP
            if self._producer is None or self._lost_touch() or skips:
                self._forget()
                self._begin(skips=skips)
            visible = visible_blocks(self._marker, wanted, self._where)
            if self._marker == wanted.marker:
                return 0
            if visible == wanted.blocks:
                self._producer.begin_transaction()
                self._commit(wanted.marker)
            elif skips:
                return self._apply_accepted(wanted, visible, blocks)
            else:
                self._apply(wanted, visible, blocks)
            return 0

    def close(self) -> None:
        """Forget the clients; a transaction that is open is aborted by the next one of this id."""
        with self._lock:
            self._forget()

    # --- One transaction after another --------------------------------------------------------------

    def _apply(self, wanted: Wanted, visible: int, blocks: Iterable[Block]) -> None:
        began: float | None = None
        for number, block in enumerate(blocks, 1):
            if number <= visible:
                continue
            if began is None:
                self._begin_transaction()
                began = monotonic()
            for records in block:
                for piece in pieces_of(records, CLIENT_QUEUE_KBYTES * 1024 // 4):
                    self._make_room(piece.nbytes)
                    self._produce(messages_of(piece))
            if number == wanted.blocks or monotonic() - began > SHARE_OF_TIMEOUT * TRANSACTION_MAX_MS / 1000:
                self._commit(OutputMarker(wanted.epoch, wanted.digest, number))
                began = None
        assert began is None, "the last block ends the transaction"

    def _apply_accepted(self, wanted: Wanted, visible: int, blocks: Iterable[Block]) -> int:
        """Write blocks without the records that the topic refuses, a transaction for each. Return their number."""
        left_out = 0
        for number, block in enumerate(blocks, 1):
            if number > visible:
                records = [record for batch in block for record in messages_of(batch)]
                left_out += self._commit_accepted(OutputMarker(wanted.epoch, wanted.digest, number), records)
        self._forget()  # this producer has other settings
        return left_out

    def _commit_accepted(self, marker: OutputMarker, records: list[dict[str, bytes | None]]) -> int:
        """Write records and the marker; begin anew without the refused ones, until none is refused.

        A broker refuses all records of a request. So behind a first refusal each record goes alone, which is slow.

        Raises StorageError when the marker is another one then: a successor has published before it was fenced.
        """
        keyless = [n for n, record in enumerate(records) if self._rules.needs_key and record["key"] is None]
        refused = dict.fromkeys(keyless, "it has no key, and the topic is compacted")
        while True:
            self._begin_transaction(skips=True)
            by_client, by_broker = self._refused([(n, r) for n, r in enumerate(records) if n not in refused])
            refused |= {**by_client, **(by_broker if self._alone else {})}
            if not by_broker:
                break
            # A refusal ends the transaction: all that was sent in it has to be sent again.
            self._begin_anew(skips=True, alone=True)
        self._commit(marker)
        for number, why in refused.items():
            log.warning(
                "event=record_left_out sink=%s block=%d record=%d reason=%s", self._where, marker.blocks, number, why
            )
        return len(refused)

    def _refused(self, records: list[tuple[int, dict[str, bytes | None]]]) -> tuple[dict[int, str], dict[int, str]]:
        """Send records, up to a refusal. Return those which the client and which a broker refuses, with the reasons."""
        by_client: dict[int, str] = {}
        errors: dict[int, Any] = {}
        failed: Any = None

        def answered(number: int, error: Any) -> None:
            if error is not None:
                errors[number] = error

        for number, record in records:
            self._make_room(sum(len(part or b"") for part in record.values()))
            self._send_on(QUEUED_MAX)
            if errors:
                break
            try:
                self._producer.produce(
                    self._topic, record["value"], record["key"], on_delivery=lambda e, _, n=number: answered(n, e)
                )
            except library().KafkaException as error:
                if error.args[0].name() not in REFUSALS:
                    failed = error  # the client may know of a refusal that it has not told yet
                    break
                by_client[number] = error.args[0].str()
        end = monotonic() + TRANSACTION_MAX_MS / 1000
        while len(self._producer) and not errors and monotonic() < end:
            self._producer.poll(0.05)
        by_broker = {number: error.str() for number, error in errors.items() if error.name() in REFUSALS}
        if errors and not by_broker:
            raise problem(self._where, next(iter(errors.values())), self._producer)
        if failed is not None and not by_broker:
            raise failed
        return by_client, by_broker

    def _begin_transaction(self, *, skips: bool = False) -> None:
        """Begin a transaction. A producer that has lost a connection is replaced first. Raises StorageError."""
        if self._lost_touch():
            self._begin_anew(skips=skips, alone=self._alone)
        self._producer.begin_transaction()

    def _begin_anew(self, *, skips: bool, alone: bool) -> None:
        """Replace the producer. Raises StorageError if the marker has changed: then a successor has published."""
        marker = self._marker
        self._forget()
        self._begin(skips=skips, alone=alone)
        if self._marker != marker:
            raise StorageError(f"{self._where}: another worker has published meanwhile: the marker is read again")

    def _make_room(self, size: int) -> None:
        """Wait until the client has sent its queue, if ``size`` bytes more would fill more than half of it."""
        if self._sent_bytes + size > CLIENT_QUEUE_KBYTES * 1024 // 2:
            self._send_on(0)
            self._sent_bytes = 0
        self._sent_bytes += size

    def _produce(self, records: list[dict[str, bytes | None]]) -> None:
        taken = self._producer.produce_batch(self._topic, records)
        if taken != len(records):
            first = next((r["_error"] for r in records if r.get("_error") is not None), None)
            raise StorageError(f"{self._where}: the client took {taken} of {len(records)} records: {first!r}")
        self._send_on(QUEUED_MAX)

    def _send_on(self, left_max: int) -> None:
        """Wait for some time until at most so many records are on their way."""
        end = monotonic() + ANSWER_MAX_S
        self._producer.poll(0)
        while len(self._producer) > left_max and monotonic() < end:
            self._producer.poll(0.05)

    def _commit(self, marker: OutputMarker) -> None:
        kafka = library()
        at = kafka.TopicPartition(self._topic, 0, marker.epoch, metadata=f"{marker.digest}/{marker.blocks}")
        self._producer.send_offsets_to_transaction([at], self._consumer.consumer_group_metadata(), ANSWER_MAX_S)
        self._producer.commit_transaction(TRANSACTION_MAX_MS / 1000)
        self._marker = marker
        self._marked_at = monotonic()
        self._sent_bytes = 0

    # --- Clients ----------------------------------------------------------------------------------------

    def _begin(self, *, skips: bool = False, alone: bool = False) -> None:
        """Fence every other producer of this id, then read the marker.

        With ``skips`` by the rules that the topic has now, which may be others than at the start. With ``alone`` every
        record goes alone.
        """
        kafka = library()
        own = {
            "transactional.id": self._name,
            "transaction.timeout.ms": TRANSACTION_MAX_MS,
            "partitioner": self._partitioner,
            "linger.ms": 5,
            "batch.size": 1 << 20,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 2 * QUEUED_MAX,
            "queue.buffering.max.kbytes": CLIENT_QUEUE_KBYTES,
        }
        self._alone = alone
        if skips:
            self._rules = record_rules(self._reading(), self._topic)
            own |= {"message.max.bytes": self._rules.client_bytes_max}
        if alone:
            own |= {"batch.num.messages": 1}
        self._producer = make_client(kafka.Producer, {**self._settings(), **own})
        self._producer.init_transactions(2 * ANSWER_MAX_S)
        self._marker = self._read()
        self._marked_at = monotonic()
        self._sent_bytes = 0

    def _read(self) -> OutputMarker | None:
        kafka = library()
        if self._consumer is None:
            own = {"group.id": self._name, "isolation.level": "read_committed", "enable.auto.commit": False}
            self._consumer = make_client(kafka.Consumer, {**self._reading(), **own})
        try:
            (found,) = self._consumer.committed([kafka.TopicPartition(self._topic, 0)], ANSWER_MAX_S)
        except kafka.KafkaException as error:
            raise problem(self._where, error.args[0], self._consumer) from error
        if found.error is not None:
            raise problem(self._where, found.error, self._consumer)
        if found.offset < 0:
            return None
        digest, _, blocks = (found.metadata or "").rpartition("/")
        return OutputMarker(Epoch(found.offset), digest, int(blocks) if blocks.isdecimal() else 0)

    def _reading(self) -> dict[str, Any]:
        return {k: v for k, v in self._settings().items() if k != "message.max.bytes"}

    @contextmanager
    def _calls(self) -> Iterator[None]:
        """Begin anew next time after anything that fails, because its outcome is not known."""
        try:
            yield
        except library().KafkaException as error:
            found, name = problem(self._where, error.args[0], self._producer), error.args[0].name()
            if name in REFUSALS:  # the topic takes less than at the start of the job
                found = StorageError(f"{found}: {REFUSALS[name]}, or give {SKIP}, or {DROP}")
            self._forget()
            raise found from error
        except OSError as error:
            self._forget()
            raise StorageError(f"{self._where}: {error}") from error
        except BaseException:
            self._forget()
            raise

    def _lost_touch(self) -> bool:
        """Return whether the producer has lost a connection. It then may wait for ever with offsets to send."""
        self._producer.poll(0)
        return self._producer.complaints.reason is not None

    def _forget(self) -> None:
        producer, self._producer, self._marker = self._producer, None, None
        consumer, self._consumer = self._consumer, None
        if producer is not None:
            producer.purge()
        if consumer is not None:
            consumer.close()

    @property
    def _where(self) -> str:
        return f"kafka sink: topic {self._topic}, transactional id {self._name}"
