"""What the cluster says of a topic: its id, its partitions, and offsets for times."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.kafka.client import ANSWER_MAX_S, library, make_client, problem
from penstock.connectors.kafka.lane_position import EARLIEST

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen bytes of zero: a broker that has no ids
RECORD_BYTES_MAX = 1_000_000  # where the brokers do not say what a topic takes
CLIENT_BYTES_MIN, CLIENT_BYTES_MAX = 1_000, 1_000_000_000  # what the client takes as message.max.bytes


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Which records a topic takes: how large one may be, and whether it has to have a key."""

    bytes_max: int = RECORD_BYTES_MAX
    needs_key: bool = False

    @property
    def client_bytes_max(self) -> int:
        """How large a record may be for the client, which has bounds of its own."""
        return min(max(self.bytes_max, CLIENT_BYTES_MIN), CLIENT_BYTES_MAX)


def topic_id(settings: Mapping[str, Any], topic: str) -> str:
    """Return the cluster's own id of a topic: another one when it was removed and made again. Blocking.

    Raises NotThere when there is no such topic, StorageError when a retry may help.
    """
    from confluent_kafka import TopicCollection  # noqa: PLC0415 - an extra
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an extra

    admin = make_client(AdminClient, settings)
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=ANSWER_MAX_S)[topic]
    try:
        found = str(described.result(2 * ANSWER_MAX_S).topic_id)
    except library().KafkaException as error:
        raise problem(f"kafka: topic {topic}", error.args[0], admin) from error
    return "" if found == NO_TOPIC_ID else found


def check_topic_id(settings: Mapping[str, Any], topic: str, wanted: str) -> None:
    """Raises StateError when the topic was removed and made again since the job began."""
    found = topic_id(settings, topic)
    if wanted and found and found != wanted:
        raise StateError(
            f"kafka: topic {topic} was removed and made again since the job began (its id was {wanted}, now it is"
            f" {found}): its offsets mean other rows; begin anew (penstock run --fresh) or name the right topic"
        )


def partitions_of(client: Any, topic: str, timeout_s: float = ANSWER_MAX_S) -> list[int]:
    """Return the partitions of a topic. Blocking; raises NotThere or StorageError."""
    try:
        found = client.list_topics(topic, timeout_s).topics[topic]
    except library().KafkaException as error:
        raise problem(f"kafka: topic {topic}", error.args[0], client) from error
    if found.error is not None:
        raise problem(f"kafka: topic {topic}", found.error, client)
    return sorted(found.partitions)


def bounds(consumer: Any, topic: str, partition: int) -> tuple[int, int]:
    """Return the first offset that is there, and the one behind the last that is committed. Blocking."""
    kafka = library()
    try:
        low, high = consumer.get_watermark_offsets(kafka.TopicPartition(topic, partition), ANSWER_MAX_S)
    except kafka.KafkaException as error:
        raise problem(f"kafka: topic {topic}, partition {partition}", error.args[0], consumer) from error
    return low, high


def offsets_at(consumer: Any, topic: str, partitions: list[int], time_ms: int) -> dict[int, int]:
    """Return, for each partition, the first offset at or after a time; the end when there is none. Blocking."""
    kafka = library()
    asked = [kafka.TopicPartition(topic, partition, time_ms) for partition in partitions]
    try:
        found = consumer.offsets_for_times(asked, ANSWER_MAX_S)
    except kafka.KafkaException as error:
        raise problem(f"kafka: topic {topic}", error.args[0], consumer) from error
    for each in found:
        if each.error is not None:  # it says nothing of the time, and the end would pass over rows
            raise problem(f"kafka: topic {topic}, partition {each.partition}", each.error, consumer)
    return {
        each.partition: each.offset if each.offset >= 0 else bounds(consumer, topic, each.partition)[1]
        for each in found
    }


def first_offsets(consumer: Any, topic: str, partitions: list[int], startup: str) -> dict[int, int]:
    """Return where a new job begins in each partition. Raises ConfigError for another word."""
    match startup:
        case "earliest":
            return dict.fromkeys(partitions, EARLIEST)
        case "latest":
            return {p: bounds(consumer, topic, p)[1] for p in partitions}
        case _:
            return offsets_at(consumer, topic, partitions, milliseconds(startup, "startup", ("earliest", "latest")))


def last_offsets(consumer: Any, topic: str, partitions: list[int], until: str) -> dict[int, int]:
    """Return where a bounded source ends in each partition. Raises ConfigError for another word."""
    if until == "latest":
        return {p: bounds(consumer, topic, p)[1] for p in partitions}
    return offsets_at(consumer, topic, partitions, milliseconds(until, "until", ("latest",)))


def milliseconds(text: str, option: str, words: tuple[str, ...]) -> int:
    """Read a time as milliseconds since 1970. Raises ConfigError that names ``option``."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        due = ", ".join(words)
        raise ConfigError(
            f"kafka source: {option} is {text!r}; due is {due}, or a time like 2026-01-31T08:00:00Z"
        ) from error
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def record_rules(settings: Mapping[str, Any], topic: str) -> TopicRules:
    """Return which records a topic takes. Blocking; raises NotThere or StorageError."""
    found = _settings_of(settings, topic, "kafka sink")
    return TopicRules(int(found.get("max.message.bytes", RECORD_BYTES_MAX)), _is_compact(found))


def is_compacted(settings: Mapping[str, Any], topic: str) -> bool | None:
    """Return whether brokers remove records whose key has newer ones; None when they do not say. Blocking."""
    try:
        return _is_compact(_settings_of(settings, topic, "kafka source"))
    except StorageError:
        return None


def _is_compact(settings: Mapping[str, str]) -> bool:
    return "compact" in settings.get("cleanup.policy", "")


def _settings_of(settings: Mapping[str, Any], topic: str, about: str) -> dict[str, str]:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - an extra
    from confluent_kafka.admin._config import ConfigResource  # noqa: PLC0415 - the module that defines it

    admin, resource = make_client(AdminClient, settings), ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        found = admin.describe_configs([resource], request_timeout=ANSWER_MAX_S)[resource].result(2 * ANSWER_MAX_S)
    except library().KafkaException as error:
        raise problem(f"{about}: topic {topic}", error.args[0], admin) from error
    return {name: str(entry.value) for name, entry in found.items()}
