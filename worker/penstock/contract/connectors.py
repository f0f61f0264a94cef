"""The connectors as data: their options, as the file and the Python API know them.

The code behind each kind is in ``penstock.connectors``; this table is what a graph is checked
against, and what the documentation and the CRD are made from.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.contract.schema import Kind, Row, integer, number, quantity, text


class Role(StrEnum):
    """Whether a connector reads or writes."""

    SOURCE = "source"
    SINK = "sink"


class Bounded(StrEnum):
    """Whether a source ends: always, never, or when the option ``rows`` is given."""

    ALWAYS = "always"
    NEVER = "never"
    WITH_ROWS = "with rows"


@dataclass(frozen=True, slots=True)
class ConnectorKind:
    """One kind of source or sink. ``guarantee`` is that of a sink's output."""

    name: str
    role: Role
    meaning: str
    options: tuple[Row, ...]
    bounded: Bounded = Bounded.ALWAYS
    guarantee: str = ""


_PATH_LENGTH_MAX = 4096
_PATH_IN = text(
    "path", "a folder of *.parquet files, or one file", required=True, length_max=_PATH_LENGTH_MAX
)
_PATH_OUT = text(
    "path",
    "the output folder; made when it is not there",
    required=True,
    length_max=_PATH_LENGTH_MAX,
)

CONNECTORS: tuple[ConnectorKind, ...] = (
    ConnectorKind(
        "parquet",
        Role.SOURCE,
        "Parquet files: split = file, offset = row",
        (
            _PATH_IN,
            quantity(
                "rate", "rows per second of each file, like 2k; 0: as fast as possible", default=0
            ),
        ),
    ),
    ConnectorKind(
        "generator",
        Role.SOURCE,
        "words made on the spot, the same for the same seed; column word (string)",
        (
            integer("rows", "rows of each split; without it the source never ends", minimum=0),
            integer(
                "rate", "rows per second of each split; as fast as possible without it", minimum=1
            ),
            integer("splits", "number of splits", default=1, minimum=1),
            integer("seed", "seed of the rows", default=0, minimum=0),
            integer("payload", "letters of a word", default=32, minimum=1, maximum=1_000_000),
            integer("keys", "number of different words", default=10_000, minimum=1),
            integer(
                "symbols",
                "number of different characters in words: LZ4 packs few well, and many not at all",
                default=26,
                minimum=2,
                maximum=94,
            ),
            text("distribution", "how words are drawn: uniform or zipf", default="uniform"),
            number("exponent", "of the zipf distribution", default=1.05, minimum=0),
        ),
        Bounded.WITH_ROWS,
    ),
    ConnectorKind(
        "ingest",
        Role.SOURCE,
        "rows pushed over Arrow Flight, by `penstock replay` for example",
        (
            integer(
                "partitions", "number of partitions that senders push", required=True, minimum=1
            ),
            text(
                "announce",
                "folder in which workers say where they listen; senders look there. On one machine "
                "it is for its user alone: mode 0700",
                required=True,
                length_max=_PATH_LENGTH_MAX,
            ),
        ),
    ),
    ConnectorKind(
        "parquet",
        Role.SINK,
        "Parquet files, each visible once and for good",
        (_PATH_OUT,),
        guarantee="exactly-once",
    ),
    ConnectorKind(
        "discard",
        Role.SINK,
        "counts rows and keeps nothing, for measurements",
        (
            text(
                "report",
                "folder for the totals of each epoch (rows, sum of each int64 column)",
                length_max=_PATH_LENGTH_MAX,
            ),
            number("stallAfter", "seconds after its first rows it takes none", minimum=0),
            number("stallFor", "seconds that it then takes none", minimum=0),
            number("markAfter", "seconds of warm-up whose latency does not count", minimum=0),
        ),
        guarantee="none",
    ),
)


def connector_kinds(role: Role) -> dict[str, ConnectorKind]:
    """List the kinds of a role by name."""
    return {c.name: c for c in CONNECTORS if c.role is role}


def option_row(kind: ConnectorKind) -> Row:
    """Return the row of an object with a kind's options, as ``source: {parquet: ...}`` has it."""
    return Row(kind.name, Kind.OBJECT, kind.meaning, fields=kind.options, make=dict)
