"""Clients of Kafka: their settings, and what their errors mean to a job.

The client library is loaded when a connector is opened, because it is an extra. Its settings are those of the
connector and those of a file: only names that are known to be harmless are taken from it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.base.errors import ConfigError, ConnectorError, PenstockError, StateError, StorageError
from penstock.base.os_errors import storage_error
from penstock.base.suggest import unknown
from penstock.connectors import extras
from penstock.connectors.missing import NotThere

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
NO_ANSWER = ("_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TRANSPORT")
_DOWN = "no broker answers: check bootstrapServers, security.protocol in clientFile, and that the brokers run"
REMEDIES = {
    "_ALL_BROKERS_DOWN": _DOWN,
    "_TRANSPORT": _DOWN,
    "_RESOLVE": "the name of a broker is not known: check bootstrapServers",
    "_TIMED_OUT": "no broker has answered in time: check bootstrapServers, that the brokers run, and that no"
    " transaction hangs (kafka-transactions.sh find-hanging)",
    "_AUTHENTICATION": "the brokers refuse the user or the password: check sasl.* in clientFile",
    "_SSL": "TLS fails: check ssl.* in clientFile",
    "TOPIC_AUTHORIZATION_FAILED": "the user may not use the topic: grant READ and DESCRIBE to a source, WRITE,"
    " DESCRIBE and READ to a sink",
    "GROUP_AUTHORIZATION_FAILED": "the user may not use the group: grant READ on it",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user may not write transactions: grant WRITE and DESCRIBE on the"
    " transactional id",
    "CLUSTER_AUTHORIZATION_FAILED": "the user may not use the cluster: grant IDEMPOTENT_WRITE",
}
MISUSED = ("_INVALID_ARG", "_NOT_IMPLEMENTED")
_NO_ROWS = (
    "rows that the job has not read are gone: the topic keeps them for too short a time, or it was made anew; begin"
    " anew (penstock run --fresh), and let the topic keep rows for longer"
)
_NO_TOPIC = (
    "there is no such topic or partition: make it; if it was removed, its rows are gone, and the job has to begin"
    " anew (penstock run --fresh)"
)
ABSENT = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
GONE = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


def library() -> Any:
    """Return the client library. Raises ConfigError that names the extra when it is not installed."""
    return extras.library("confluent_kafka", of="kafka", extra="kafka")


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


class Complaints:
    """What a client said beside the answers to calls: why it does not get through to the brokers.

    A call that gets no answer only says so. That a password is wrong is said here.
    """

    def __init__(self, other: Callable[[Any], None] | None = None) -> None:
        """Give each error to ``other``, too."""
        self._other = other
        self.reason: Any = None

    def __call__(self, error: Any) -> None:
        """Keep an error; one that names a reason is kept before one that says that there was no answer."""
        if self.reason is None or error.name() not in NO_ANSWER:
            self.reason = error
        if self._other is not None:
            self._other(error)


def make_client(kind: Any, settings: Mapping[str, Any]) -> Any:
    """Make a client, which keeps its ``complaints``. Raises ConfigError when it refuses a setting."""
    complaints = Complaints(settings.get("error_cb"))
    complaining = type(kind.__name__, (kind,), {"__module__": kind.__module__, "complaints": complaints})
    try:
        return complaining({**settings, "error_cb": complaints})
    except library().KafkaException as error:
        raise ConfigError(
            f"kafka: the client refuses its settings: {error.args[0].str()}: correct clientFile"
        ) from error


def problem(what: str, error: Any, client: Any) -> PenstockError:
    """Turn a KafkaError of a call of ``client`` into what a job does about it; ``what`` begins the text."""
    if error.name() in NO_ANSWER:
        _hear(client)
        error = client.complaints.reason or error
    name, said = error.name(), error.str()
    if name in ABSENT:
        return NotThere(f"{what}: {_NO_TOPIC} ({name})")
    if name in GONE:
        return StateError(f"{what}: {_NO_ROWS} ({name})")
    if name in MISUSED:
        return ConnectorError(f"{what}: {said} ({name}): {extras.REPORT}")
    remedy = REMEDIES.get(name)
    return StorageError(f"{what}: {remedy} ({said})" if remedy else f"{what}: {said} ({name})")


def _hear(client: Any) -> None:
    """Have a client say its complaints, which come in a call. One that reads could give a record, and is left alone."""
    if hasattr(client, "assignment") and client.assignment():
        return
    heard = client.poll(0)
    if hasattr(heard, "error") and heard.error() is not None:  # a consumer without anything to read gives errors only
        client.complaints(heard.error())
