"""A Kafka topic as a replayable source. Only the job's checkpoints hold its positions, never a consumer group.

    partition 0, 3 ──> lane 0 ──poll──> records ──decoded by column──> Read(batch, offset)
    partition 1, 4 ──> lane 1        a split is a lane (lane_position.py); each has a client of its own

``offset`` counts the rows of a split, as with every source. The positions in Kafka are in the split's spec.
They may jump: control records and compacted records have offsets and are no rows. So a position comes from
a record, or from the broker's word that a partition has no more, and never from counting.

A reader sees committed records only. It never resets a position by itself: rows that are gone are an error.
A topic that was removed and made again has another id, which is an error too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.threads import monotonic, uuid4
from penstock.connectors.kafka.avro import avro_library
from penstock.connectors.kafka.client import client_settings, library, make_client, problem
from penstock.connectors.kafka.decoding import RowDecoder
from penstock.connectors.kafka.lane_position import EARLIEST, LanePosition, parse_position
from penstock.connectors.kafka.topics import (
    check_topic_id,
    first_offsets,
    is_compacted,
    last_offsets,
    milliseconds,
    partitions_of,
    topic_id,
)
from penstock.connectors.missing import refused_at_first
from penstock.connectors.source_rows import Stamper, closed_when_it_fails, head, with_stamp
from penstock.contract.columns import Columns
from penstock.contract.event_time import EventTime
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.kafka_options import KafkaInput, RecordFormat
from penstock.contract.manifest import SplitState
from penstock.graph.arrow import arrow_schema
from penstock.ports import Read

FIRST_WAIT_S = 0.05  # of a read, while a new client has heard nothing
WAIT_S = 0.002  # of a read, while the broker has not said that there is no more
FETCH_WAIT_MS = 100  # the broker answers after so long that there is no more
SILENT_AFTER_S = 5 * FETCH_WAIT_MS / 1000  # a broker that has more to say has said it by then
RECORDS_MAX = 20_000  # of one read
BUFFERED_RECORDS = 5 * RECORDS_MAX  # the client fetches more while it holds fewer
FULL_WAIT_MS = 5  # of a client that holds enough, before it looks again; its default is a second
BUFFER_KBYTES = 16 * 1024  # of records that a client holds and nobody has read
DISCOVERY_WAIT_S, DISCOVERY_WAIT_MAX_S = 0.05, 1.0  # of a look for new partitions: twice as long after each failure
DISCOVERY_REST = 100  # times such a wait are between two looks that get no answer, so that they hold up no task
SILENCE_MAX_S = 30.0  # after so long without an answer the attempt ends, and its error says why
CHECKED_FOR_S = 10.0  # splits that are opened one after the other ask for the topic's id once


def source_schema(options: KafkaInput, columns: Columns) -> Any:
    """Return the declared columns. Raises ConfigError when options and columns do not fit."""
    if not columns:
        raise ConfigError(
            f"kafka source: topic {options.topic} has no types: declare its columns, like columns={{'name': 'string'}}"
        )
    schema = arrow_schema(columns)
    RowDecoder(options, schema)
    if options.startup not in ("earliest", "latest"):
        milliseconds(options.startup, "startup", ("earliest", "latest"))
    if options.until not in (None, "latest"):
        milliseconds(options.until, "until", ("latest",))
    return schema


class KafkaSource:
    """One topic. :meth:`splits` fixes the number of lanes, and where a bounded source ends."""

    def __init__(self, options: KafkaInput, columns: Columns, event_time: EventTime | None = None) -> None:
        """Ask no broker yet. Raises ConfigError when options and columns do not fit, or the client is missing."""
        library()
        if options.format == RecordFormat.AVRO:
            avro_library()
        plain = source_schema(options, columns)
        self.bounded = options.until is not None
        self.schema = with_stamp(plain, event_time)
        self.options = options
        self.decoder = RowDecoder(options, plain, event_time)
        self._event_time = event_time
        self._checked = ("", 0.0)
        self._compacted = False

    def settings(self) -> dict[str, Any]:
        """Return the settings of a client. Reads the file of settings; raises ConfigError, StorageError."""
        return client_settings(self.options.bootstrap_servers, self.options.client_file)

    def consumer(self, on_error: Callable[[Any], None] | None = None) -> Any:
        """Make a client that reads; ``on_error`` hears of lost connections, in a call of the client."""
        own = {
            **({} if on_error is None else {"error_cb": on_error}),
            "group.id": self.options.group or f"penstock-{uuid4().hex}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "queued.max.messages.kbytes": BUFFER_KBYTES,
            "queued.min.messages": BUFFERED_RECORDS,
            "fetch.queue.backoff.ms": FULL_WAIT_MS,
        }
        return make_client(library().Consumer, {**self.settings(), **own})

    def splits(self) -> list[SplitState]:
        """List a lane for each partition that the topic has now. Blocking.

        Raises ConfigError when there is no such topic, StorageError when a retry may help.
        """
        options = self.options
        with refused_at_first(first=True), closing(self.consumer()) as consumer:
            partitions = partitions_of(consumer, options.topic)
            first = first_offsets(consumer, options.topic, partitions, options.startup)
            last = None if options.until is None else last_offsets(consumer, options.topic, partitions, options.until)
        identity = topic_id(self.settings(), options.topic)
        return [
            self._first_state(
                LanePosition(options.topic, identity, p, len(partitions), {p: first[p]}, last and {p: last[p]})
            )
            for p in partitions
        ]

    def _first_state(self, place: LanePosition) -> SplitState:
        return SplitState(SplitId(f"{place.topic}-{place.lane}"), place.as_json(), 0, finished=place.finished)

    def open(self, state: SplitState) -> "KafkaReader":
        """Open a lane where its state says. Raises StateError when the topic is another one now, StorageError."""
        place = parse_position(state.spec)
        if place.topic != self.options.topic:
            raise StateError(
                f"kafka source: the job's state is of topic {place.topic}, its file says {self.options.topic}: begin"
                " anew (penstock run --fresh) or name the topic of before"
            )
        self._check_until(place)
        self.check(place)
        stamper = Stamper(self._event_time, state.max_ts) if self._event_time else None
        return KafkaReader(self, state, place, stamper)

    def _check_until(self, place: LanePosition) -> None:
        """Raise StateError when only one of state and options has an end: it is asked for once, by a new job."""
        if self.bounded == (place.end is not None):
            return
        began, remedy = ("without", "take it out") if self.bounded else ("with", "give it")
        raise StateError(
            f"kafka source: topic {place.topic}: the job began {began} `until`, and its state says so for good:"
            f" {remedy} again, or begin anew (penstock run --fresh)"
        )

    def unreplayable(self) -> str:
        """Return why a record may be gone when it is read again: only the newest of a key has to stay."""
        if not self._compacted:
            return ""
        return f"topic {self.options.topic} is compacted, so a record may be gone when it is read again"

    def check(self, place: LanePosition) -> None:
        """Check that the topic is the one of ``place``. Raises StateError. Asks the cluster from time to time."""
        identity, at = self._checked
        if identity == place.topic_id and monotonic() - at < CHECKED_FOR_S:
            return
        check_topic_id(self.settings(), place.topic, place.topic_id)
        compacted = is_compacted(self.settings(), place.topic)
        self._compacted = self._compacted if compacted is None else compacted
        self._checked = (place.topic_id, monotonic())


class KafkaReader:
    """Reads one lane, on one thread. One read takes what has come, and hardly waits."""

    def __init__(self, source: KafkaSource, state: SplitState, place: LanePosition, stamper: Stamper | None) -> None:
        """Begin at ``place``. The first read makes the client."""
        self._source = source
        self._state = state
        self._place = place
        self._next = dict(place.next)
        self._offset = state.offset
        self._stamper = stamper
        self._consumer: Any = None
        self._behind: set[int] = set()  # partitions of which the broker has not said that there is no more
        self._left: list[Any] = []  # records that came beyond the bound of a read
        self._reached: dict[int, int] = {}  # offsets up to which there are no rows behind those that came
        self._stopped: set[int] = set()  # partitions whose end was reached
        self._fresh = True
        self._lost_touch = False
        self._look_at = 0.0
        self._look_wait_s = DISCOVERY_WAIT_S
        self._silent_since = monotonic()

    def read(self, max_rows: int) -> Read | None:
        """Return the next 1..max_rows rows, or None when none have come.

        Raises StateError when rows are gone or do not decode, StorageError when a retry may help.
        """
        if self._place.at(self._next).finished:
            return None
        # The client may have given records that are no rows yet.
        with closed_when_it_fails(self.close, self._about), self._asked():
            rows = self._rows(max_rows)
        if rows is None:
            return None
        offset, self._offset = self._offset, self._offset + rows.num_rows
        return Read(self._stamper.stamp(rows, self._state.split, offset) if self._stamper else rows, offset)

    def _rows(self, max_rows: int) -> Any:
        if self._consumer is None:
            self._begin()
        elif not self._left:
            self._discover()
            if self._lost_touch:
                self._ask_again()
        records, last = self._records(min(max_rows, RECORDS_MAX))
        rows = head(self._source.decoder.rows(records), max_rows) if records else None
        if rows is not None:
            if rows.num_rows < len(records):
                self._left = records[rows.num_rows :] + self._left
                last = _last_offsets(records[: rows.num_rows])
            self._next |= {partition: offset + 1 for partition, offset in last.items()}
        if not self._left:
            for partition, reached in self._reached.items():
                self._next[partition] = max(self._next[partition], reached)
            self._reached.clear()
        return rows

    def state(self) -> SplitState:
        """Return where the next read begins."""
        place = self._place.at(self._next)
        max_ts = self._stamper.max_ts if self._stamper else None
        return SplitState(self._state.split, place.as_json(), self._offset, place.finished, max_ts)

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Tell the consumer group, if there is one, for those who look at it. Never read. Raises StorageError."""
        if self._source.options.group is None or self._consumer is None:
            return
        kafka, place = library(), parse_position(state.spec)
        there = [kafka.TopicPartition(place.topic, p, offset) for p, offset in place.next.items() if offset >= 0]
        if there:
            with self._asked():
                self._consumer.commit(offsets=there, asynchronous=True)

    def close(self) -> None:
        """Close the client; idempotent. A later read makes another one, which begins at the positions."""
        consumer, self._consumer, self._left = self._consumer, None, []
        self._reached, self._stopped, self._behind = {}, set(), set()
        self._lost_touch, self._fresh = False, True
        if consumer is not None:
            consumer.close()

    def pending(self) -> tuple[int | None, int | None]:
        """Return how many offsets are left up to the end, or up to the end that the client last heard of.

        The client hears it with the records that it fetches. Records of transactions that are still open count, and so
        do holes of compaction. None until the client has heard of each partition. Raises StorageError.
        """
        with self._asked():
            left = [self._left_of(partition, at) for partition, at in self._next.items()]
        known = [offsets for offsets in left if offsets is not None]
        return sum(known) if len(known) == len(left) else None, None

    def _left_of(self, partition: int, at: int) -> int | None:
        if self._consumer is None:
            return None
        if partition not in self._behind and not self._left:
            return 0
        kafka = library()
        here = kafka.TopicPartition(self._place.topic, partition)
        first, end = self._consumer.get_watermark_offsets(here, cached=True)
        if self._place.end is not None:
            end = self._place.end.get(partition, 0)
        begin = first if at == EARLIEST else at
        return None if begin < 0 or end < 0 else max(0, end - begin)

    def silent(self) -> bool:
        """Return whether the broker does not answer, so that it is not known whether there are rows."""
        return bool(self._behind) and monotonic() - self._silent_since > SILENT_AFTER_S

    # --- The client -------------------------------------------------------------------------------

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Give what a call of the client raises its meaning. A fault of ours stays what it is."""
        try:
            yield
        except library().KafkaException as error:
            raise problem(self._about(), error.args[0], self._consumer) from error

    def _about(self) -> str:
        return f"kafka source: topic {self._place.topic}, split {self._state.split}"

    def _begin(self) -> None:
        self._consumer = self._source.consumer(self._disconnected)
        self._silent_since = monotonic()
        self._assign(p for p, at in self._next.items() if self._place.end is None or at < self._place.end.get(p, 0))
        self._discover()

    def _assign(self, partitions: Iterable[int]) -> None:
        kafka = library()
        there = [kafka.TopicPartition(self._place.topic, p, self._next[p]) for p in partitions]
        self._behind |= {each.partition for each in there}
        self._consumer.incremental_assign(there)

    def _disconnected(self, _: Any) -> None:
        self._lost_touch = not self._behind

    def _ask_again(self) -> None:
        """Have the broker say anew that there is no more: it says so once, and may have been away since."""
        self._lost_touch, self._silent_since = False, monotonic()
        kafka = library()
        there = [each.partition for each in self._consumer.assignment()]
        self._consumer.incremental_unassign([kafka.TopicPartition(self._place.topic, p) for p in there])
        self._assign(there)

    def _discover(self) -> None:
        """Begin with partitions of this lane that were added, and look whether the topic is still the same."""
        if self._place.end is not None or monotonic() < self._look_at:
            return
        if self._look_at:  # whoever opened the split has just checked it
            self._source.check(self._place)
        wait_s, every_s = self._look_wait_s, self._source.options.discover_every
        self._look_at = monotonic() + every_s
        try:
            found = partitions_of(self._consumer, self._place.topic, wait_s)
        except StorageError:  # reading says more, when the broker does not come back
            self._look_wait_s = min(2 * wait_s, DISCOVERY_WAIT_MAX_S)
            self._look_at = monotonic() + min(every_s, DISCOVERY_REST * wait_s)
            return
        new = [p for p in found if self._place.holds(p) and p not in self._next]
        self._next |= dict.fromkeys(new, EARLIEST)
        if new:
            self._assign(new)

    def _records(self, wanted: int) -> tuple[list[Any], dict[int, int]]:
        """Return records in the order in which they came, and the offset of the last one of each partition.

        Those of a partition are in order of their offsets.
        """
        if self._left:
            records, self._left = self._left[:wanted], self._left[wanted:]
            return records, _last_offsets(records)
        first = self._consumer.poll((FIRST_WAIT_S if self._fresh else WAIT_S) if self._behind else 0.0)
        if first is None:
            self._heard_nothing()
            return [], {}
        self._silent_since, self._fresh, self._consumer.complaints.reason = monotonic(), False, None
        came = [first, *self._consumer.consume(wanted - 1, 0.0)] if wanted > 1 else [first]
        return self._rows_among(came)

    def _rows_among(self, came: list[Any]) -> tuple[list[Any], dict[int, int]]:
        """Return the messages that are rows, mostly all, and the offset of the last one of each partition.

        Notes what the other messages say, and raises what is an error.
        """
        if any([message.error() for message in came]) or self._beyond(last := _last_offsets(came)):  # noqa: C419
            rows = [message for message in came if self._takes(message)]
            return rows, _last_offsets(rows)
        self._behind.update(last)
        return came, last

    def _beyond(self, offsets: Mapping[int, int]) -> bool:
        """Return whether an offset of a partition is not before its end."""
        end = self._place.end
        return end is not None and any(offset >= end.get(partition, 0) for partition, offset in offsets.items())

    def _takes(self, message: Any) -> bool:
        """Return whether a message is a row. Notes what else it says, and raises what is an error."""
        partition, error = message.partition(), message.error()
        end = None if self._place.end is None else self._place.end.get(partition)
        if error is None:
            if end is None or message.offset() < end:
                self._behind.add(partition)
                return True
            self._reach(partition, end)
        elif error.name() == "_PARTITION_EOF":
            self._behind.discard(partition)
            self._reach(partition, message.offset())
        elif error.fatal() or not error.retriable():
            raise problem(f"kafka source: {self._where(partition)}", error, self._consumer)
        return False

    def _reach(self, partition: int, offset: int) -> None:
        """Note that there are no rows up to ``offset`` behind those that came; stop at an end."""
        self._reached[partition] = offset
        done = self._place.end is not None and offset >= self._place.end.get(partition, 0)
        if done and partition not in self._stopped:
            self._stopped.add(partition)
            self._behind.discard(partition)
            kafka = library()
            self._consumer.incremental_unassign([kafka.TopicPartition(self._place.topic, partition)])

    def _heard_nothing(self) -> None:
        if not self._behind:
            self._silent_since = monotonic()
        elif monotonic() - self._silent_since > SILENCE_MAX_S:
            about = f"kafka source: {self._where(min(self._behind))}: no broker has answered for {SILENCE_MAX_S:.0f} s"
            if (reason := self._consumer.complaints.reason) is not None:
                raise problem(about, reason, self._consumer)
            raise StorageError(f"{about}: check bootstrapServers, and that the brokers run")

    def _where(self, partition: int) -> str:
        if partition < 0:
            return f"topic {self._place.topic}"
        at = self._next.get(partition, EARLIEST)
        place = "the beginning" if at == EARLIEST else f"offset {at}"
        return f"topic {self._place.topic}, partition {partition}, {place}"


def _last_offsets(messages: Sequence[Any]) -> dict[int, int]:
    """Return the offset of the last message of each partition."""
    left = {message.partition() for message in messages}
    last: dict[int, int] = {}
    for message in reversed(messages):
        if (partition := message.partition()) in left:
            last[partition] = message.offset()
            left.remove(partition)
            if not left:
                break
    return last
