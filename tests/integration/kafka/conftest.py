"""One broker for the tests of this folder. It ends behind the last of them: a broker at rest takes CPU, too."""

from collections.abc import Iterator

import pytest

from tests.support.kafka import Kafka
from tools.servers.fetched import ServerMissing
from tools.servers.kafka import KafkaBroker


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Start a broker, and stop it by its pid. Skips the test where no broker can be had, and says what is missing."""
    try:
        broker = KafkaBroker(tmp_path_factory.mktemp("kafka"))
        broker.start()
    except ServerMissing as error:
        pytest.skip(str(error))
    try:
        kafka = Kafka(broker)
        kafka.wait_for_coordinator()
        yield kafka
    finally:
        broker.stop()
