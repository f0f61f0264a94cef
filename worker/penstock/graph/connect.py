"""Sources and sinks as values of the Python API, ``ps.parquet(path)`` for example.

They only describe the connector. The engine opens it.
"""

from os import PathLike, fspath

from penstock.base.errors import ConfigError
from penstock.contract.connectors import Role, check_plugin
from penstock.contract.graph import Connector, Option


def parquet(
    path: "str | PathLike[str]", *, rate: int = 0, partition_by: str | None = None, roll_bytes: int | str | None = None
) -> Connector:
    """Read or write the Parquet files of a folder, exactly once.

    As a source, ``path`` may also be one file. Each file is a split, and the number of a row is its
    offset. ``rate`` limits the rows per second of each file; 0 means no limit. With ``partition_by="year,month"`` a
    source reads the files of the folders ``year=2026/month=11``, whose values become columns: of the declared types, or
    texts where no columns are declared. As a sink, a file that has become visible never changes. With ``roll_bytes`` of
    rows in memory ("32Mi" without it) a task begins a new file.
    """
    options: dict[str, Option] = {"path": fspath(path), "rate": rate or None, "roll_bytes": roll_bytes}
    options["partition_by"] = partition_by
    return Connector("parquet", {name: value for name, value in options.items() if value is not None})


def json(
    path: "str | PathLike[str]",
    *,
    rate: int = 0,
    follow: float | None = None,
    partition_by: str | None = None,
    on_error: str | None = None,
    roll_bytes: int | str | None = None,
) -> Connector:
    """Read or write JSON lines, exactly once: each line is an object, and each row a line.

    A source needs declared columns; a field that is missing is null, and other fields are passed over.
    It reads ``*.jsonl``, ``*.ndjson`` and ``*.json`` files, and the same with ``.gz`` or ``.zst``. ``rate``
    limits the rows per second of each file; 0 means no limit. With ``follow`` the source has no end, and looks for
    new files so often, in seconds. With ``on_error="dead-letter"`` a line that does not decode goes to the output
    ``dead_letter`` of the source, with its file and its number; without it, such a line fails the job. ``partition_by``
    and ``roll_bytes`` are as in :func:`parquet`.
    """
    options: dict[str, Option] = {"path": fspath(path), "rate": rate or None, "follow": follow}
    options |= {"roll_bytes": roll_bytes, "partition_by": partition_by, "on_error": on_error}
    return Connector("json", {name: value for name, value in options.items() if value is not None})


def csv(
    path: "str | PathLike[str]",
    *,
    rate: int = 0,
    delimiter: str | None = None,
    follow: float | None = None,
    partition_by: str | None = None,
    on_error: str | None = None,
    roll_bytes: int | str | None = None,
) -> Connector:
    """Read or write CSV files with a header, exactly once.

    A source needs declared columns, which are found by the names in the header. It reads ``*.csv`` files, and
    the same with ``.gz`` or ``.zst``. ``rate`` limits the rows per second of each file; 0 means no limit.
    ``delimiter`` is a comma by default; a sink writes commas. ``follow`` and ``on_error`` are as in :func:`json`,
    ``partition_by`` and ``roll_bytes`` as in :func:`parquet`.
    """
    options: dict[str, Option] = {"path": fspath(path), "rate": rate or None, "delimiter": delimiter, "follow": follow}
    options |= {"roll_bytes": roll_bytes, "partition_by": partition_by, "on_error": on_error}
    return Connector("csv", {name: value for name, value in options.items() if value is not None})


def kafka(topic: str, *, bootstrap_servers: str, **more: Option) -> Connector:
    """Read the records of a Kafka topic, those that are committed; or write records, exactly once.

    ``more`` are the options of a job file as Python spells them: ``format`` ("json", "avro", "raw", and "csv" for a
    source), ``key_column``, ``startup``, ``until`` and so on. A source needs declared columns. Needs
    ``pip install 'penstock[kafka]'``, and for Avro ``'penstock[avro]'``.
    """
    options: dict[str, Option] = {"topic": topic, "bootstrap_servers": bootstrap_servers, **more}
    return Connector("kafka", {name: value for name, value in options.items() if value is not None})


def postgres(
    table: str, *, uri: str, key_columns: "str | list[str] | None" = None, password: str | None = None
) -> Connector:
    """Write rows to a table of PostgreSQL, exactly once; or look rows up in one (:meth:`Stream.lookup`).

    ``uri`` is ``postgresql://user@host:5432/database``, and ``password`` says where the password is: ``env:NAME`` or
    ``file:/path``. With ``key_columns`` a row takes the place of the one with the same values in these columns;
    without, every row is added. A lookup has no ``key_columns``. Needs ``pip install 'penstock[postgres]'``.
    """
    names = key_columns if isinstance(key_columns, str | None) else ",".join(key_columns)
    options: dict[str, Option] = {"table": table, "uri": uri, "key_columns": names, "password": password}
    return Connector("postgres", {name: value for name, value in options.items() if value is not None})


def s3(url: str, *, format: str = "parquet", **more: Option) -> Connector:  # noqa: A002 - the name of the option
    """Read or write files in a bucket of S3, or of a store with its API, exactly once.

    ``url`` is ``s3://bucket/folder``, and ``format`` is "parquet", "json" or "csv". ``more`` are the options of a job
    file as Python spells them: ``endpoint``, ``region``, ``access_key="env:NAME"``, ``secret_key``, ``session_token``;
    of a source ``rate``, ``follow``, ``on_error`` and ``delimiter``, of a sink ``roll_bytes``. ``partition_by`` is as
    in :func:`parquet`; a sink makes such folders. Without keys they come from where the clients of AWS find them. Needs
    ``pip install 'penstock[s3]'``.
    """
    return Connector("s3", {n: v for n, v in {"url": url, "format": format, **more}.items() if v is not None})


def delta(table: "str | PathLike[str]", **more: Option) -> Connector:
    """Read a table of Delta Lake, or write rows to one, exactly once: one commit for each checkpoint.

    ``table`` is a folder or ``s3://bucket/folder``. The table has to be there, and its partitions are kept. ``more``
    are the options of a job file as Python spells them: of a source ``follow``, ``rate`` and ``skip_change_commits``,
    of a sink ``roll_bytes``, and for a bucket ``endpoint``, ``region``, ``access_key="env:NAME"``, ``secret_key`` and
    ``session_token``. Needs ``pip install 'penstock[delta]'``.
    """
    return Connector("delta", {n: v for n, v in {"table": fspath(table), **more}.items() if v is not None})


def iceberg(table: str, *, catalog: str, **more: Option) -> Connector:
    """Read a table of Iceberg, or write rows to one, exactly once: one snapshot for each checkpoint.

    ``table`` is ``namespace.table``, which has to be there, and its partitions are kept. ``catalog`` is
    ``https://host/path`` (a REST catalog) or ``sqlite:///FILE``. ``more`` are the options of a job file as Python
    spells them: of a source ``follow``, ``rate`` and ``skip_change_commits``, of a sink ``roll_bytes``, of both
    ``warehouse``, ``token="env:NAME"``, ``credential``, ``catalog_name``, and those of :func:`s3` for a table in a
    bucket. Needs ``pip install 'penstock[iceberg]'``.
    """
    options: dict[str, Option] = {"table": table, "catalog": catalog, **more}
    return Connector("iceberg", {name: value for name, value in options.items() if value is not None})


def generator(
    *,
    rows: int | None = None,
    rate: int | None = None,
    splits: int = 1,
    seed: int = 0,
    **more: Option,
) -> Connector:
    """Generate rows. ``rows`` is the number of rows of each split; None means without end.

    ``rate`` limits the rows per second of each split; None means no limit.
    """
    options: dict[str, Option] = {
        "rows": rows,
        "rate": rate,
        "splits": splits,
        "seed": seed,
        **more,
    }
    return Connector("generator", {k: v for k, v in options.items() if v is not None})


def ingest(partitions: int, announce: "str | PathLike[str]") -> Connector:
    """Receive rows that other programs push over Arrow Flight, ``penstock replay`` for example.

    ``partitions`` is the number of senders. Workers write their addresses into the folder
    ``announce``, and senders read them there. On one machine the folder has mode 0700, so only the
    user who runs the job can push rows.
    """
    return Connector("ingest", {"partitions": partitions, "announce": fspath(announce)})


def plugin(kind: str, /, **options: Option) -> Connector:
    """Read or write by a connector of an installed package: an entry point ``kind`` of ``penstock.connectors``.

    ``options`` are those of the connector. Raises ConfigError for a kind that is built in.
    """
    check_plugin(kind)
    return Connector(kind, {name: value for name, value in options.items() if value is not None})


def discard() -> Connector:
    """Count rows and drop them. For measurements."""
    return Connector("discard")


_REQUIRED_MEMBERS = {
    Role.SOURCE: ("bounded", "schema", "splits", "open"),
    Role.SINK: ("guarantee", "publisher", "claim", "sweep", "writer", "close"),
    Role.LOOKUP: ("connect",),
}


def check_user_connector(place: str, connector: object, role: Role) -> None:
    """Raise ConfigError if a user's object lacks a member that a source, sink or lookup must have.

    ``place`` begins the message.
    """
    missing = [name for name in _REQUIRED_MEMBERS[role] if not hasattr(connector, name)]
    if missing:
        kind, names = type(connector).__name__, ", ".join(missing)
        raise ConfigError(
            f"{place}: {kind} is not a {role}: it lacks {names}. Use ps.parquet(path) or another "
            f"connector, or an object that follows ps.{role.capitalize()}"
        )
