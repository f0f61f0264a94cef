"""Clients of Kafka: their settings, and what their errors mean to a job.

The client library is loaded when a connector is opened, because it is an extra. Its settings are those of the
connector and those of a file: only names that are known to be harmless are taken from it.
"""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.base.errors import ConfigError, PenstockError, StateError, StorageError
from penstock.base.os_errors import storage_error
from penstock.base.suggest import unknown

ANSWER_MAX_S = 10.0
SETTINGS = frozenset(
    [
        "client.dns.lookup",
        "connections.max.idle.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
    ]
)
REMEDIES = {
    "_ALL_BROKERS_DOWN": "no broker answers: check bootstrapServers, and that the brokers run",
    "_TRANSPORT": "no broker answers: check bootstrapServers, and that the brokers run",
    "_RESOLVE": "the name of a broker is not known: check bootstrapServers",
    "_TIMED_OUT": "no broker has answered in time: check bootstrapServers, and that the brokers run",
    "_AUTHENTICATION": "the brokers refuse the user or the password: check sasl.* in clientFile",
    "_SSL": "TLS fails: check ssl.* in clientFile",
    "TOPIC_AUTHORIZATION_FAILED": "the user may not use the topic: grant READ and DESCRIBE to a source, WRITE,"
    " DESCRIBE and READ to a sink",
    "GROUP_AUTHORIZATION_FAILED": "the user may not use the group: grant READ on it",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user may not write transactions: grant WRITE and DESCRIBE on the"
    " transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "the user may not use the cluster: grant IDEMPOTENT_WRITE",
}
_NO_ROWS = (
    "rows that the job has not read are gone: the topic keeps them for too short a time, or it was made anew; begin"
    " anew (penstock run --fresh), and let the topic keep rows for longer"
)
_NO_TOPIC = (
    "there is no such topic or partition: make it; if it was removed, its rows are gone, and the job has to begin"
    " anew (penstock run --fresh)"
)
GONE = {
    "UNKNOWN_TOPIC_OR_PART": _NO_TOPIC,
    "_UNKNOWN_TOPIC": _NO_TOPIC,
    "_UNKNOWN_PARTITION": _NO_TOPIC,
    "_AUTO_OFFSET_RESET": _NO_ROWS,
    "OFFSET_OUT_OF_RANGE": _NO_ROWS,
}


def library() -> ModuleType:
    """Return the client library. Raises ConfigError that names the extra when it is not installed."""
    try:
        import confluent_kafka  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            "kafka: the client library is not installed: pip install 'penstock[kafka]', on every worker"
        ) from error
    return confluent_kafka


def client_settings(servers: str, file: str | None) -> dict[str, Any]:
    """Return what every client is made with. Reads ``file``. Raises ConfigError naming the line, StorageError."""
    settings: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0}
    if file is None:
        return settings
    try:
        lines = Path(file).read_text().splitlines()
    except FileNotFoundError as error:
        raise ConfigError(f"kafka: there is no clientFile {file}") from error
    except OSError as error:
        raise storage_error(f"kafka: clientFile {file}", error) from error
    for number, line in enumerate(lines, 1):
        name, sign, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not sign:
            raise ConfigError(f"kafka: clientFile {file}, line {number}: a line has to be name=value")
        if name.strip() not in SETTINGS:
            raise ConfigError(f"kafka: clientFile {file}, line {number}: {unknown('setting', name.strip(), SETTINGS)}")
        settings[name.strip()] = value.strip()
    return settings


def make_client(kind: Any, settings: Mapping[str, Any]) -> Any:
    """Make a client. Raises ConfigError when it refuses a setting."""
    try:
        return kind(dict(settings))
    except library().KafkaException as error:
        raise ConfigError(
            f"kafka: the client refuses its settings: {error.args[0].str()}: correct clientFile"
        ) from error


def problem(what: str, error: Any) -> PenstockError:
    """Turn a KafkaError into what a job does about it; ``what`` begins the text."""
    name, said = error.name(), error.str()
    if name in GONE:
        return StateError(f"{what}: {GONE[name]} ({name})")
    remedy = REMEDIES.get(name)
    return StorageError(f"{what}: {remedy} ({said})" if remedy else f"{what}: {said} ({name})")
