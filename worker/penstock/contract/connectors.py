"""The connectors as data: their options, as the file and the Python API know them.

The code behind each kind is in ``penstock.connectors``. A graph is checked against this table, and
the documentation and the CRD are made from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from penstock.base.errors import ConfigError
from penstock.contract.bad_records import OnBadLine
from penstock.contract.delta_options import DeltaInput, DeltaOutput
from penstock.contract.iceberg_options import IcebergInput, IcebergOutput
from penstock.contract.kafka_options import KafkaInput, KafkaOutput
from penstock.contract.postgres_options import PostgresLookup, PostgresOutput
from penstock.contract.s3_options import Delimiter, FolderNames, RollBytes, S3Input, S3Output
from penstock.contract.schema import (
    Count,
    Field,
    FieldRow,
    Fields,
    Kind,
    LongText,
    Quantity,
    rows_of,
)

ZIPF_EXPONENT = 1.05


class Role(StrEnum):
    """Whether a connector reads, writes, or is asked for rows."""

    SOURCE = "source"
    SINK = "sink"
    LOOKUP = "lookup"


class Bounded(StrEnum):
    """Whether a source ends: always, never, with ``rows``, without ``follow``, or with ``until``."""

    ALWAYS = "always"
    NEVER = "never"
    WITH_ROWS = "with rows"
    NOT_FOLLOWED = "not followed"
    WITH_UNTIL = "with until"

    def ends(self, options: Mapping[str, object]) -> bool:
        """Return whether a source with these options ends."""
        if self is Bounded.WITH_ROWS:
            return options.get("rows") is not None
        if self is Bounded.WITH_UNTIL:
            return options.get("until") is not None
        return self is Bounded.ALWAYS or (self is Bounded.NOT_FOLLOWED and not options.get("follow"))


@dataclass(frozen=True, slots=True)
class ParquetInput(Fields):
    """Options of the Parquet source."""

    path: Annotated[LongText, Field("path", "a folder of *.parquet files, or one file")]
    rate: Annotated[Quantity, Field("rate", "rows per second of each file, like 2k; 0: as fast as possible")] = 0
    partition_by: FolderNames | None = None


@dataclass(frozen=True, slots=True)
class JsonInput(Fields):
    """Options of the source of JSON lines."""

    path: Annotated[
        LongText,
        Field("path", "a folder of *.jsonl, *.ndjson or *.json files, plain or with .gz or .zst, or one file"),
    ]
    rate: Annotated[Quantity, Field("rate", "rows per second of each file, like 2k; 0: as fast as possible")] = 0
    partition_by: FolderNames | None = None
    follow: Annotated[
        float | None,
        Field(
            "follow",
            "seconds between two looks for new files; the source has no end then, and reads files that come later",
            minimum=0.1,
        ),
    ] = None
    on_error: OnBadLine | None = None


@dataclass(frozen=True, slots=True)
class CsvInput(Fields):
    """Options of the source of CSV."""

    path: Annotated[LongText, Field("path", "a folder of *.csv files, plain or with .gz or .zst, or one file")]
    rate: Annotated[Quantity, Field("rate", "rows per second of each file, like 2k; 0: as fast as possible")] = 0
    partition_by: FolderNames | None = None
    follow: Annotated[
        float | None,
        Field(
            "follow",
            "seconds between two looks for new files; the source has no end then, and reads files that come later",
            minimum=0.1,
        ),
    ] = None
    on_error: OnBadLine | None = None
    delimiter: Annotated[Delimiter, Field("delimiter", "the character between two values")] = ","


@dataclass(frozen=True, slots=True)
class WordsSpec(Fields):
    """Options of the generator: ``keys`` words of exactly ``payload`` characters.

    The characters are the first ``symbols`` letters; above 26 they are printable characters.
    """

    rows: Annotated[Count | None, Field("rows", "rows of each split; without it the source never ends")] = None
    rate: Annotated[
        int | None,
        Field("rate", "rows per second of each split; as fast as possible without it", minimum=1),
    ] = None
    splits: Annotated[int, Field("splits", "number of splits", minimum=1)] = 1
    seed: Annotated[Count, Field("seed", "seed of the rows")] = 0
    payload: Annotated[int, Field("payload", "number of letters in a word", minimum=1, maximum=1_000_000)] = 32
    keys: Annotated[int, Field("keys", "number of different words", minimum=1)] = 10_000
    symbols: Annotated[
        int,
        Field(
            "symbols",
            "number of different characters in words: LZ4 packs few well, and many not at all",
            minimum=2,
            maximum=94,
        ),
    ] = 26
    distribution: Annotated[str, Field("distribution", "how words are drawn: uniform or zipf", length_min=1)] = (
        "uniform"
    )
    exponent: Annotated[float, Field("exponent", "exponent of the zipf distribution", minimum=0)] = ZIPF_EXPONENT

    def __post_init__(self) -> None:
        """Raise ConfigError when an option would do nothing."""
        if self.exponent != ZIPF_EXPONENT and self.distribution == "uniform":
            raise ConfigError("generator: exponent is for distribution zipf, and this one is uniform: leave it out")


@dataclass(frozen=True, slots=True)
class IngestInput(Fields):
    """Options of the source that senders push to."""

    partitions: Annotated[int, Field("partitions", "number of partitions that senders push", minimum=1)]
    announce: Annotated[
        LongText,
        Field(
            "announce",
            "folder in which workers write where they listen; senders look there. On one machine"
            " only its user may open it (mode 0700)",
        ),
    ]


@dataclass(frozen=True, slots=True)
class ParquetOutput(Fields):
    """Options of the Parquet sink."""

    path: Annotated[LongText, Field("path", "the output folder; it is made when it does not exist")]
    roll_bytes: RollBytes | None = None


@dataclass(frozen=True, slots=True)
class TextOutput(Fields):
    """Options of the sinks of JSON lines and of CSV."""

    path: Annotated[LongText, Field("path", "the output folder; it is made when it does not exist")]
    roll_bytes: RollBytes | None = None


@dataclass(frozen=True, slots=True)
class DiscardOutput(Fields):
    """Options of the sink that keeps nothing; the numbers are seconds."""

    report: Annotated[
        LongText | None,
        Field("report", "folder for the totals of each epoch (rows, sum of each int64 column)"),
    ] = None
    stall_after: Annotated[
        float | None,
        Field("stallAfter", "seconds after its first rows at which it stops taking rows", minimum=0),
    ] = None
    stall_for: Annotated[float | None, Field("stallFor", "seconds for which it then takes no rows", minimum=0)] = None
    mark_after: Annotated[
        float | None,
        Field("markAfter", "seconds of warm-up whose latency does not count", minimum=0),
    ] = None

    def __post_init__(self) -> None:
        """Raise ConfigError when an option would do nothing."""
        if self.stall_after is not None and self.stall_for is None:
            raise ConfigError("discard: stallAfter says when a stall begins: give stallFor, too, or leave it out")


@dataclass(frozen=True, slots=True)
class ConnectorKind:
    """One kind of source, sink or lookup. ``guarantee`` is that of a sink's output.

    ``keyed_by`` is an option with names of columns: rows that are equal in them go to one task of the sink, in order.
    """

    name: str
    role: Role
    meaning: str
    options: type[Fields]
    bounded: Bounded = Bounded.ALWAYS
    guarantee: str = ""
    keyed_by: str = ""


CONNECTORS: tuple[ConnectorKind, ...] = (
    ConnectorKind(
        "parquet",
        Role.SOURCE,
        "Parquet files; each file is a split, and the number of a row is its offset",
        ParquetInput,
    ),
    ConnectorKind(
        "json",
        Role.SOURCE,
        "JSON lines: each line is an object; each file is a split, and the number of a row is its offset",
        JsonInput,
        Bounded.NOT_FOLLOWED,
    ),
    ConnectorKind(
        "csv",
        Role.SOURCE,
        "CSV files with a header; each file is a split, and the number of a row is its offset",
        CsvInput,
        Bounded.NOT_FOLLOWED,
    ),
    ConnectorKind(
        "kafka",
        Role.SOURCE,
        "a topic of Kafka, read committed; each partition is a split, and partitions that are added are found",
        KafkaInput,
        Bounded.WITH_UNTIL,
    ),
    ConnectorKind(
        "s3",
        Role.SOURCE,
        "files in a bucket of S3, or of a store with its API; each is a split, and the number of a row is its offset",
        S3Input,
        Bounded.NOT_FOLLOWED,
    ),
    ConnectorKind(
        "delta",
        Role.SOURCE,
        "a table of Delta Lake: the rows of its newest version, and with follow those that later versions add",
        DeltaInput,
        Bounded.NOT_FOLLOWED,
    ),
    ConnectorKind(
        "iceberg",
        Role.SOURCE,
        "a table of Iceberg: the rows of its newest snapshot, and with follow those that later snapshots add",
        IcebergInput,
        Bounded.NOT_FOLLOWED,
    ),
    ConnectorKind(
        "generator",
        Role.SOURCE,
        "generated words in the column word (string); the same seed gives the same words",
        WordsSpec,
        Bounded.WITH_ROWS,
    ),
    ConnectorKind(
        "ingest",
        Role.SOURCE,
        "rows pushed over Arrow Flight, by `penstock replay` for example",
        IngestInput,
    ),
    ConnectorKind(
        "parquet",
        Role.SINK,
        "Parquet files; a visible file never changes and never goes away",
        ParquetOutput,
        guarantee="exactly-once",
    ),
    ConnectorKind(
        "json",
        Role.SINK,
        "files of JSON lines; a visible file never changes and never goes away",
        TextOutput,
        guarantee="exactly-once",
    ),
    ConnectorKind(
        "csv",
        Role.SINK,
        "CSV files with a header; a visible file never changes and never goes away",
        TextOutput,
        guarantee="exactly-once",
    ),
    ConnectorKind(
        "kafka",
        Role.SINK,
        "a topic of Kafka; committed output appears in transactions, to readers of what is committed",
        KafkaOutput,
        guarantee="exactly-once",
    ),
    ConnectorKind(
        "postgres",
        Role.SINK,
        "a table of PostgreSQL; committed rows appear with a marker in one transaction of each task",
        PostgresOutput,
        guarantee="exactly-once",
        keyed_by="key_columns",
    ),
    ConnectorKind(
        "s3",
        Role.SINK,
        "files in a bucket of S3, or of a store with its API; a visible object never changes",
        S3Output,
        guarantee="exactly-once",
    ),
    ConnectorKind(
        "delta",
        Role.SINK,
        "a table of Delta Lake; committed rows of all tasks appear with one commit for each checkpoint",
        DeltaOutput,
        guarantee="exactly-once",
    ),
    ConnectorKind(
        "iceberg",
        Role.SINK,
        "a table of Iceberg; committed rows of all tasks appear with one snapshot for each checkpoint",
        IcebergOutput,
        guarantee="exactly-once",
    ),
    ConnectorKind(
        "discard",
        Role.SINK,
        "counts rows and keeps nothing, for measurements",
        DiscardOutput,
        guarantee="none",
    ),
    ConnectorKind(
        "postgres",
        Role.LOOKUP,
        "a table of PostgreSQL, whose key has a unique index",
        PostgresLookup,
    ),
)


PLUGIN = "plugin"


@dataclass(frozen=True, slots=True)
class Plugin(Fields):
    """A connector of an installed package. Only the package knows which options it has."""

    kind: Annotated[
        str,
        Field(
            "kind",
            "the name of its entry point in the group penstock.connectors",
            pattern=r"[A-Za-z][-_.A-Za-z0-9]*",
            rule="a letter, then letters, digits, - _ and .",
            length_max=63,
        ),
    ]
    options: Annotated[dict[str, LongText], Field("options", "the options of the connector, by name")] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        """Raise ConfigError for a kind that is built in."""
        check_plugin(self.kind)


def check_plugin(kind: str) -> None:
    """Raise ConfigError for a kind that is built in."""
    if any(each.name == kind for each in CONNECTORS):
        raise ConfigError(f"{kind!r} is built in: a job file names it without plugin, and Python has ps.{kind}(...)")


def connector_kinds(role: Role) -> dict[str, ConnectorKind]:
    """List the kinds of a role by name."""
    return {c.name: c for c in CONNECTORS if c.role is role}


def option_row(kind: ConnectorKind) -> FieldRow:
    """Return the row of an object with a kind's options, as ``source: {parquet: ...}`` has it."""
    return FieldRow(kind.name, Kind.OBJECT, kind.meaning, fields=rows_of(kind.options), make=dict)
