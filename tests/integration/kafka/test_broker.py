"""The broker of the tests keeps what Kafka promises, so that the connectors are judged by a real one."""

from collections import Counter

from tests.support.kafka import Kafka
from tools.servers.kafka import new_name


def test_an_open_transaction_is_not_seen_by_a_reader_of_what_is_committed(kafka: Kafka) -> None:
    topic = kafka.topic("numbers", 2)
    kafka.write(topic, [{"value": b"%d" % n, "key": b"k", "partition": n % 2} for n in range(100)])
    kafka.write(topic, [{"value": b"in a transaction"}], new_name("writer"))
    seen = Counter(record.value for record in kafka.read(topic))
    assert seen == Counter([b"in a transaction", *(b"%d" % n for n in range(100))])


def test_what_is_written_outlives_a_broker_that_was_killed(kafka: Kafka) -> None:
    topic, pid = kafka.topic("kept"), kafka.broker.pid
    kafka.write(topic, [{"value": b"once"}])
    kafka.broker.kill()
    kafka.broker.start()
    assert kafka.broker.pid != pid
    assert [record.value for record in kafka.read(topic)] == [b"once"]
