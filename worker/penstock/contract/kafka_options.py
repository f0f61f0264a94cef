"""The options of the Kafka source and sink."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from penstock.base.errors import ConfigError
from penstock.contract.bad_records import OnBadRecord
from penstock.contract.s3_options import Delimiter
from penstock.contract.schema import Field, Fields, LongText, SecretPlace

SCHEMA_CHARS_MAX = 65_536
COMMA = ","
DISCOVER_EVERY_S = 300.0
TRANSACTIONAL_ID_PREFIX = "penstock-"

Servers = Annotated[
    LongText,
    Field(
        "bootstrapServers",
        "brokers as host:port, with commas between",
        pattern="[^@]+",
        rule="brokers as host:port, with commas between; a user and a password go to clientFile, as sasl.username and"
        " sasl.password",
        secret=True,
    ),
]
Topic = Annotated[str, Field("topic", "name of the topic", length_max=249, pattern="[A-Za-z0-9._-]+")]
ClientFile = Annotated[
    LongText | None,
    Field(
        "clientFile",
        "a file with a line name=value for each setting of the client: TLS, SASL; read whenever a client is made,"
        " so a password is in no job file, no checkpoint and no log",
    ),
]

Registry = Annotated[
    LongText | None,
    Field(
        "registry",
        "of format avro: the address of the schema registry, with the REST API of Confluent",
        pattern=r"https?://[^/?#@]+(/[^?#]*)?",
        rule="https://host:port, or http:// where the network is trusted; a user goes to registryUser",
        secret=True,
    ),
]
RegistryUser = Annotated[str | None, Field("registryUser", "the user of the registry, with registryPassword")]
RegistryPassword = Annotated[
    SecretPlace | None,
    Field(
        "registryPassword", "where the password is: secret:NAME/KEY, env:NAME or file:/PATH; read for each connection"
    ),
]


class RecordFormat(StrEnum):
    """What the value of a record is that a source reads."""

    JSON = "json"
    CSV = "csv"
    RAW = "raw"
    AVRO = "avro"


class OutputFormat(StrEnum):
    """What the value of a record is that a sink writes."""

    JSON = "json"
    RAW = "raw"
    AVRO = "avro"


class KeyPartitioner(StrEnum):
    """How the partition of a record follows from its key."""

    JAVA = "murmur2_random"
    CONSISTENT = "consistent_random"


class Delivery(StrEnum):
    """How often a committed row is there, and when."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


def _only_with(of_format: str, options: "KafkaInput | KafkaOutput", **given: bool) -> None:
    """Raise ConfigError when an option is given that another format than that of the records reads."""
    if options.format != of_format:
        for name in (name for name, is_given in given.items() if is_given):
            raise ConfigError(
                f"kafka: {name} is for format {of_format}, and this one is {options.format}: leave it out"
            )


@dataclass(frozen=True, slots=True)
class KafkaOutput(Fields):
    """Options of the Kafka sink."""

    bootstrap_servers: Servers
    topic: Topic
    format: Annotated[
        OutputFormat,
        Field(
            "format",
            "what a value is: json (an object of all columns), avro (a record of all columns, with the id of its schema"
            " in registry), or raw (one column of binary or string)",
        ),
    ] = OutputFormat.JSON
    key_column: Annotated[
        str | None, Field("keyColumn", "the column that is the key of a record: a text, bytes or integer")
    ] = None
    partitioner: Annotated[
        KeyPartitioner,
        Field(
            "partitioner", "how a key chooses the partition: murmur2_random as Java's clients do, or consistent_random"
        ),
    ] = KeyPartitioner.JAVA
    transactional_id_prefix: Annotated[
        str,
        Field("transactionalIdPrefix", "begins the name of transactional ids and of groups, for access rights"),
    ] = TRANSACTIONAL_ID_PREFIX
    delivery: Annotated[
        Delivery,
        Field(
            "delivery",
            "exactly-once (records go out when their checkpoint is committed) or at-least-once (they go out at once,"
            " and are repeated after a rollback)",
        ),
    ] = Delivery.EXACTLY_ONCE
    client_file: ClientFile = None
    registry: Registry = None
    registry_user: RegistryUser = None
    registry_password: RegistryPassword = None
    subject: Annotated[
        str | None, Field("subject", "of format avro: the subject of the schema; TOPIC-value without it")
    ] = None
    register_schema: Annotated[
        bool,
        Field("registerSchema", "of format avro: whether the job registers the schema of its rows if it is not there"),
    ] = True

    def __post_init__(self) -> None:
        """Raise ConfigError when an option would do nothing."""
        _only_with(
            OutputFormat.AVRO,
            self,
            registry=self.registry is not None,
            registryUser=self.registry_user is not None,
            registryPassword=self.registry_password is not None,
            subject=self.subject is not None,
            registerSchema=not self.register_schema,
        )
        if self.partitioner is not KeyPartitioner.JAVA and self.key_column is None:
            raise ConfigError("kafka: partitioner is for records with a key: give keyColumn, too, or leave it out")
        if self.transactional_id_prefix != TRANSACTIONAL_ID_PREFIX and self.delivery is Delivery.AT_LEAST_ONCE:
            raise ConfigError(
                "kafka: transactionalIdPrefix is for delivery exactly-once, and this one is at-least-once: leave it out"
            )


@dataclass(frozen=True, slots=True)
class KafkaInput(Fields):
    """Options of the Kafka source."""

    bootstrap_servers: Servers
    topic: Topic
    format: Annotated[
        RecordFormat,
        Field(
            "format",
            "what a value is: json (an object), avro (a record with the id of its schema in registry), csv (the columns"
            " in their declared order), raw (one column of binary or string)",
        ),
    ] = RecordFormat.JSON
    startup: Annotated[
        str,
        Field("startup", "where a new job begins: earliest, latest, or a time like 2026-01-31T08:00:00Z"),
    ] = "earliest"
    until: Annotated[
        str | None,
        Field(
            "until",
            "where the source ends: latest (what is there when the job begins) or a time; without it there is no end",
        ),
    ] = None
    discover_every: Annotated[
        float, Field("discoverEvery", "seconds between two looks for new partitions", minimum=0.1)
    ] = DISCOVER_EVERY_S
    delimiter: Annotated[Delimiter, Field("delimiter", "the character between two values of csv")] = COMMA
    key_column: Annotated[
        str | None, Field("keyColumn", "the column that gets the key of a record (binary or string)")
    ] = None
    timestamp_column: Annotated[
        str | None, Field("timestampColumn", "the column that gets the timestamp of a record (timestamp[us])")
    ] = None
    headers_column: Annotated[
        str | None, Field("headersColumn", "the column that gets the headers, as a JSON object (string)")
    ] = None
    partition_column: Annotated[
        str | None, Field("partitionColumn", "the column that gets the partition (int32 or int64)")
    ] = None
    offset_column: Annotated[str | None, Field("offsetColumn", "the column that gets the offset (int64)")] = None
    raw_column: Annotated[str | None, Field("rawColumn", "the column that gets the value as it came (binary)")] = None
    error_column: Annotated[
        str | None,
        Field(
            "errorColumn",
            "the column that gets the reason when a value does not decode; its other columns are null then. Without"
            " it such a value fails the job",
        ),
    ] = None
    on_error: Annotated[
        OnBadRecord,
        Field(
            "onError",
            "what happens when a record does not decode: the job fails, or the record goes to the output dead-letter"
            " with its key and value as they came, its partition and its offset",
        ),
    ] = OnBadRecord.FAIL
    group: Annotated[
        str | None,
        Field("group", "a consumer group that is told what is committed, for tools that show a lag; never read"),
    ] = None
    client_file: ClientFile = None
    registry: Registry = None
    registry_user: RegistryUser = None
    registry_password: RegistryPassword = None
    reader_schema: Annotated[
        str | None,
        Field(
            "readerSchema",
            "of format avro: the schema by which values are read, as JSON, with its defaults and aliases; without it a"
            " column that a value's own schema lacks is null",
            length_max=SCHEMA_CHARS_MAX,
        ),
    ] = None

    def __post_init__(self) -> None:
        """Raise ConfigError when an option would do nothing."""
        _only_with(
            RecordFormat.AVRO,
            self,
            registry=self.registry is not None,
            registryUser=self.registry_user is not None,
            registryPassword=self.registry_password is not None,
            readerSchema=self.reader_schema is not None,
        )
        _only_with(RecordFormat.CSV, self, delimiter=self.delimiter != COMMA)
        if self.discover_every != DISCOVER_EVERY_S and self.until is not None:
            raise ConfigError(
                "kafka: discoverEvery is for a source without an end, and this one has until: it reads the partitions"
                " that are there when the job begins: leave one of them out"
            )
