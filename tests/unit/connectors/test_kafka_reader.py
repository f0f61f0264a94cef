"""What a reader of Kafka does when something that it asks fails once. Its client is a fake one."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.base.errors import StateError, StorageError, is_storage_away
from penstock.connectors.kafka.kafka_source import KafkaReader, KafkaSource
from penstock.connectors.kafka.lane_position import LanePosition, parse_position
from penstock.contract.columns import Column
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.kafka_options import KafkaInput
from penstock.contract.manifest import SplitState

RECORDS = 7
AT_ONCE = 3
ANSWERS_S = 0.18


class Message:
    """A message of the client: a record, or with ``code`` an event, such as the end of a partition."""

    def __init__(self, offset: int, code: str = "") -> None:
        self._offset, self._code = offset, code

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 0

    def error(self) -> Any:
        return SimpleNamespace(name=lambda: self._code) if self._code else None


class Client:
    """A consumer of a topic of one partition: it gives each message once, from where it is assigned on."""

    def __init__(self, failing: str = "") -> None:
        self._failing = failing
        self.complaints = SimpleNamespace(reason=None)
        self._messages: list[Message] = []

    def incremental_assign(self, there: Iterable[Any]) -> None:
        self._called("assign")
        for each in there:
            self._messages = [Message(n) for n in range(each.offset, RECORDS)] + [Message(RECORDS, "_PARTITION_EOF")]

    def incremental_unassign(self, there: Iterable[Any]) -> None:
        self._messages = []

    def poll(self, timeout_s: float) -> Message | None:
        return self._messages.pop(0) if self._messages else None

    def commit(self, offsets: object, asynchronous: bool) -> None:
        self._called("commit")

    def get_watermark_offsets(self, there: object, cached: bool) -> tuple[int, int]:
        self._called("watermarks")
        return 0, RECORDS

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        self._called("consume")
        came, self._messages = self._messages[:count], self._messages[count:]
        return came

    def close(self) -> None:
        self._messages = []

    def _called(self, name: str) -> None:
        if name == self._failing:
            self._failing = ""
            raise KafkaException(KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, "not now"))


class FarClient(Client):
    """A consumer of a topic that got a partition. Its brokers answer after ``ANSWERS_S`` seconds."""

    def list_topics(self, topic: str, timeout_s: float) -> Any:
        if timeout_s < ANSWERS_S:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer yet"))
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None, 1: None})})


class Topic:
    """What a reader uses of its source. The look at the records number ``fails`` (from 0 on) fails."""

    options = SimpleNamespace(discover_every=1e9, group="readers")

    def __init__(self, fails: int = -1, failing: str = "") -> None:
        self._left = fails
        self._clients = iter((Client(failing),))
        self.decoder = SimpleNamespace(rows=self._rows)

    def consumer(self, on_error: Callable[[Any], None]) -> Client:
        return next(self._clients, Client())

    def _rows(self, messages: list[Message]) -> pa.RecordBatch:
        self._left -= 1
        if self._left == -1:
            raise StorageError("the registry is away")
        return pa.record_batch({"n": [message.offset() for message in messages]})


@pytest.mark.parametrize("fails", range(4))
@pytest.mark.parametrize("at_once", [AT_ONCE, 2 * RECORDS])
def test_records_that_could_not_be_decoded_are_read_again(fails: int, at_once: int) -> None:
    place = LanePosition("orders", "id", 0, 1, {0: 0}, {0: RECORDS})
    state = SplitState(SplitId("orders-0"), place.as_json(), 0)
    reader: Any = KafkaReader(Topic(fails), state, place, None)  # type: ignore[arg-type]
    found: list[tuple[int, int]] = []
    for _ in range(4 * RECORDS):
        before = reader.state()
        try:
            read = reader.read(at_once)
        except StorageError:
            assert reader.state() == before
            continue
        if read is not None:
            found += enumerate(read.batch["n"].to_pylist(), read.offset)
    assert found == [(n, n) for n in range(RECORDS)]
    assert reader.state().finished


@pytest.mark.parametrize("call", ["assign", "consume", "commit", "watermarks"])
def test_a_call_of_the_client_that_fails_is_an_error_of_storage(call: str) -> None:
    place = LanePosition("orders", "id", 0, 1, {0: 0}, {0: RECORDS})
    state = SplitState(SplitId("orders-0"), place.as_json(), 0)
    reader: Any = KafkaReader(Topic(failing=call), state, place, None)  # type: ignore[arg-type]

    def ask() -> None:
        reader.read(AT_ONCE)
        reader.pending()
        reader.committed(Epoch(1), reader.state())

    with pytest.raises(StorageError, match=r"split orders-0: .*not now.*COORDINATOR_NOT_AVAILABLE") as told:
        ask()
    assert is_storage_away(told.value)
    ask()


@pytest.mark.parametrize(
    ("until", "end", "said"),
    [
        (None, {0: RECORDS}, "began with `until`, and its state says so for good: give it again, or begin anew"),
        ("latest", None, "began without `until`, and its state says so for good: take it out again, or begin anew"),
    ],
)
def test_an_end_that_was_given_or_taken_away_later_is_an_error(
    until: str | None, end: dict[int, int] | None, said: str
) -> None:
    """It would be passed over: the job would read nothing behind its end, and never end, or read on behind it."""
    source = KafkaSource(KafkaInput("broker:1", "orders", until=until), (Column("n", "int64"),))
    place = LanePosition("orders", "id", 0, 1, {0: 3}, end)
    with pytest.raises(StateError, match=f"topic orders: the job {said}"):
        source.open(SplitState(SplitId("orders-0"), place.as_json(), 3))


def test_a_partition_that_was_added_is_found_when_the_brokers_are_far_away() -> None:
    """A look holds up a task, so the first ones are short. Nobody would hear that all of them get no answer."""
    client = FarClient()
    topic = SimpleNamespace(
        options=SimpleNamespace(discover_every=1e-9),
        consumer=lambda _: client,
        decoder=SimpleNamespace(rows=lambda messages: pa.record_batch({"n": [m.offset() for m in messages]})),
        check=lambda place: None,
    )
    place = LanePosition("orders", "id", 0, 1, {0: 0})
    reader: Any = KafkaReader(topic, SplitState(SplitId("orders-0"), place.as_json(), 0), place, None)  # type: ignore[arg-type]
    for _ in range(RECORDS):
        reader.read(1)
    assert sorted(parse_position(reader.state().spec).next) == [0, 1]
