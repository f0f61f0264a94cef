"""What a cluster says of a topic. Its client is a fake one."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from penstock.base.errors import StorageError
from penstock.connectors.kafka.topics import first_offsets

NEWEST = -1  # what brokers say where no record is as late as a time


class Client:
    """A consumer of a topic whose partitions end at 9."""

    def __init__(self, **offsets: int | KafkaError) -> None:
        self._offsets = offsets
        self.complaints = SimpleNamespace(reason=None)

    def offsets_for_times(self, asked: list[TopicPartition], timeout_s: float) -> list[Any]:
        return [self._told(each.topic, each.partition) for each in asked]

    def get_watermark_offsets(self, there: TopicPartition, timeout_s: float) -> tuple[int, int]:
        return 0, 9

    def _told(self, topic: str, partition: int) -> Any:
        told = self._offsets[f"p{partition}"]
        if isinstance(told, int):
            return SimpleNamespace(topic=topic, partition=partition, offset=told, error=None)
        return SimpleNamespace(topic=topic, partition=partition, offset=-1001, error=told)


def test_a_partition_that_does_not_know_a_time_is_asked_again_and_not_begun_at_its_end() -> None:
    time = "2026-01-31T08:00:00Z"
    assert first_offsets(Client(p0=4, p1=NEWEST), "orders", [0, 1], time) == {0: 4, 1: 9}
    moving = KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "no leader")
    with pytest.raises(StorageError, match=r"topic orders, partition 1: no leader \(LEADER_NOT_AVAILABLE\)"):
        first_offsets(Client(p0=4, p1=moving), "orders", [0, 1], time)
