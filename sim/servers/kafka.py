"""A virtual Kafka: topics, transactions with a fence and a time-out, and the offsets that groups have committed.

Each call of :class:`VirtualKafka` is one atomic step. A transaction ends with a commit, with the next ``init`` of its
id, or when it has taken too long: then its producer is fenced. Offsets of a group that nobody has written for
``retention_s`` are forgotten.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.servers import Waits

NEVER_S = 1e9
RECORD_BYTES_MAX = 1_000_000  # of a topic that says nothing else

Record = tuple[bytes | None, bytes | None]  # key, value
Offset = tuple[int, str]  # the offset, its metadata
Group = tuple[str, str]  # its name, and the topic whose first partition the offset is about


class KafkaRefusal(Exception):
    """What the server answers in the place of a result: the name of an error."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(slots=True)
class Transaction:
    """What a producer has open: the places of its records, and its offsets."""

    began: float
    records: list["Logged"] = field(default_factory=list)
    offsets: dict[Group, Offset] = field(default_factory=dict)


@dataclass(slots=True)
class Logged:
    """One record in a partition. ``visible``: None while its transaction is open."""

    record: Record
    visible: bool | None = None


@dataclass(slots=True)
class Producer:
    """A transactional id. ``sequence``: the newest request with records of the present epoch."""

    epoch: int = -1
    sequence: int = 0
    timeout_s: float = NEVER_S
    open: Transaction | None = None


class VirtualKafka:
    """See the module. ``committed`` is called with each offset that a group commits: the group, old and new."""

    def __init__(
        self,
        clock: Callable[[], float],
        committed: Callable[[Group, Offset | None, Offset], None] = lambda *_: None,
        retention_s: float = NEVER_S,
    ) -> None:
        self._clock = clock
        self._committed = committed
        self._retention_s = retention_s
        self._topics: dict[str, list[list[Logged]]] = {}
        self._bytes_max: dict[str, int] = {}
        self._producers: dict[str, Producer] = {}
        self._offsets: dict[Group, tuple[Offset, float]] = {}

    # --- For those who look at the server

    def make_topic(self, name: str, partitions: int) -> None:
        """Make a topic."""
        self._topics[name] = [[] for _ in range(partitions)]
        self._bytes_max[name] = RECORD_BYTES_MAX

    def lower_limit(self, name: str, bytes_max: int) -> None:
        """Have a topic refuse records whose values are larger, from now on."""
        self._bytes_max[name] = bytes_max

    def lose_markers(self) -> None:
        """Forget what groups have committed, as brokers do after days without a write."""
        self._offsets.clear()

    def records(self, topic: str) -> list[Record]:
        """Return what a ``read_committed`` reader sees now: each partition up to its first open transaction."""
        self._end_late()
        found: list[Record] = []
        for log in self._topics[topic]:
            for logged in log:
                if logged.visible is None:
                    break
                if logged.visible:
                    found.append(logged.record)
        return found

    def values(self, topic: str) -> list[dict[str, Any]]:
        """Return the values of records that are JSON."""
        return [json.loads(value or b"{}") for _, value in self.records(topic)]

    def marker_of(self, topic: str, step: str, task: str) -> int:
        """Return the newest offset of the groups of a task, in any job; -1 without one."""
        of_task = [
            offset[0]
            for (group, of), (offset, _) in self._offsets.items()
            if of == topic and group.endswith(f"/{step}/{task}")
        ]
        return max(of_task, default=-1)

    def keep_open(self, name: str, seconds: float) -> None:
        """End the open transaction of an id so much later: brokers look at the times of transactions now and then."""
        if (open_ := self._producers[name].open) is not None:
            open_.began += seconds

    # --- For clients

    def client_ended(self, client: str) -> None:
        """Do nothing: no request is about an earlier one of the same client."""

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has. Raises KafkaRefusal."""
        if topic not in self._topics:
            raise KafkaRefusal("UNKNOWN_TOPIC_OR_PART")
        return len(self._topics[topic])

    def bytes_max(self, topic: str) -> int:
        """Return how large a record may be. Raises KafkaRefusal."""
        self.partitions(topic)
        return self._bytes_max[topic]

    def init(self, name: str, timeout_s: float) -> int:
        """Fence every other producer of an id, and abort what it has open. Return the number of the new one."""
        producer = self._producers.setdefault(name, Producer())
        self._end(producer, visible=False)
        producer.epoch += 1
        producer.sequence = 0
        producer.timeout_s = timeout_s
        return producer.epoch

    def append(self, name: str, epoch: int, sequence: int, topic: str, records: Sequence[tuple[int, Record]]) -> None:
        """Add records to the open transaction, each to its partition. A second time does nothing.

        Raises KafkaRefusal.
        """
        open_, producer = self._opened(name, epoch), self._producers[name]
        if sequence <= producer.sequence:
            return
        if any(len(value or b"") > self._bytes_max[topic] for _, (_, value) in records):
            raise KafkaRefusal("MSG_SIZE_TOO_LARGE")
        producer.sequence = sequence
        for partition, record in records:
            logged = Logged(record)
            self._topics[topic][partition].append(logged)
            open_.records.append(logged)

    def add_offset(self, name: str, epoch: int, group: Group, offset: Offset) -> None:
        """Add an offset of a group to the open transaction. Raises KafkaRefusal."""
        self._opened(name, epoch).offsets[group] = offset

    def commit(self, name: str, epoch: int) -> None:
        """Make the open transaction visible; none is open when it was committed before. Raises KafkaRefusal."""
        producer = self._current(name, epoch)
        self._end(producer, visible=True)

    def offset(self, group: Group) -> Offset | None:
        """Return what a group has committed. Raises Waits while a transaction is about to change it."""
        self._end_late()
        if any(p.open is not None and group in p.open.offsets for p in self._producers.values()):
            raise Waits
        offset, written = self._offsets.get(group, (None, 0.0))
        return None if self._clock() - written > self._retention_s else offset

    # --- Inside

    def _opened(self, name: str, epoch: int) -> Transaction:
        producer = self._current(name, epoch)
        if producer.open is None:
            producer.open = Transaction(self._clock())
        return producer.open

    def _current(self, name: str, epoch: int) -> Producer:
        self._end_late()
        producer = self._producers[name]
        if producer.epoch != epoch:
            raise KafkaRefusal("_FENCED")
        return producer

    def _end_late(self) -> None:
        """Abort transactions that have taken too long, and fence their producers."""
        for producer in self._producers.values():
            if producer.open is not None and self._clock() - producer.open.began > producer.timeout_s:
                self._end(producer, visible=False)
                producer.epoch += 1

    def _end(self, producer: Producer, *, visible: bool) -> None:
        ended, producer.open = producer.open, None
        if ended is None:
            return
        for logged in ended.records:
            logged.visible = visible
        if visible:
            for group, offset in ended.offsets.items():
                before, _ = self._offsets.get(group, (None, 0.0))
                self._offsets[group] = (offset, self._clock())
                self._committed(group, before, offset)
