"""What a client of Kafka says beside its answers becomes the text of an error."""

import pytest
from confluent_kafka import KafkaError

from penstock.base.errors import StorageError, is_storage_away
from penstock.connectors.kafka.client import Complaints, problem

REFUSED, DOWN, LATE = KafkaError._AUTHENTICATION, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT


class Client:
    """A client whose complaints come when it is polled, as the library's do."""

    def __init__(self, *codes: int, reads: bool = False) -> None:
        self.complaints = Complaints()
        self.polls = 0
        self._codes = codes
        self._reads = reads

    def assignment(self) -> list[str]:
        return ["orders"] if self._reads else []

    def poll(self, timeout_s: float) -> None:
        self.polls += 1
        for code in self._codes:
            self.complaints(KafkaError(code))


def told(client: Client, code: int = LATE) -> str:
    with pytest.raises(StorageError) as caught:
        raise problem("sink", KafkaError(code), client)
    return str(caught.value)


def test_a_reason_is_told_instead_of_the_silence_that_follows_it() -> None:
    for codes in ((REFUSED, DOWN), (DOWN, REFUSED)):
        assert "refuse the user or the password" in told(Client(*codes))
    assert "no broker answers" in told(Client(DOWN))
    assert "no broker has answered in time" in told(Client())
    assert "grant READ on it" in told(Client(REFUSED), KafkaError.GROUP_AUTHORIZATION_FAILED)


def test_a_wrong_use_of_the_client_is_not_tried_again_without_end() -> None:
    misused = problem("sink", KafkaError(KafkaError._INVALID_ARG), Client())
    assert not is_storage_away(misused)
    assert "report it" in str(misused)


def test_a_client_that_reads_is_not_polled_because_that_could_take_a_record() -> None:
    reading = Client(REFUSED, reads=True)
    assert "no broker has answered in time" in told(reading)
    assert reading.polls == 0


def test_every_complaint_is_passed_on() -> None:
    heard: list[KafkaError] = []
    complaints = Complaints(heard.append)
    complaints(KafkaError(REFUSED))
    complaints(KafkaError(DOWN))
    assert [error.name() for error in heard] == ["_AUTHENTICATION", "_ALL_BROKERS_DOWN"]
