"""Sources and sinks as values of the Python API: ``ps.parquet(path)``; opened by the engine."""

from os import PathLike, fspath

from penstock.base.errors import ConfigError
from penstock.contract.connectors import Role
from penstock.contract.graph import Connector, Option


def parquet(path: "str | PathLike[str]", *, rate: int = 0) -> Connector:
    """Read or write Parquet files of a folder (as a source also one file). Exactly once.

    As a source: split = file, offset = row; ``rate`` bounds the rows per second of each file (0:
    as fast as possible). As a sink: each file is visible once and for good.
    """
    options: dict[str, Option] = {"path": fspath(path)}
    return Connector("parquet", {**options, "rate": rate} if rate else options)


def generator(
    *,
    rows: int | None = None,
    rate: int | None = None,
    splits: int = 1,
    seed: int = 0,
    **more: Option,
) -> Connector:
    """Make rows on the spot: ``rows`` per split (without end when None), ``rate`` per second."""
    options: dict[str, Option] = {
        "rows": rows,
        "rate": rate,
        "splits": splits,
        "seed": seed,
        **more,
    }
    return Connector("generator", {k: v for k, v in options.items() if v is not None})


def ingest(partitions: int, announce: "str | PathLike[str]") -> Connector:
    """Take rows pushed over Arrow Flight by so many senders, ``penstock replay`` for example.

    Workers say in the folder ``announce`` where they listen; senders look there. On one machine
    only the user who runs the job may enter it: it has mode 0700, and no other user can push.
    """
    return Connector("ingest", {"partitions": partitions, "announce": fspath(announce)})


def discard() -> Connector:
    """Count rows and keep nothing, for measurements."""
    return Connector("discard")


_NEEDED = {
    Role.SOURCE: ("bounded", "schema", "splits", "open"),
    Role.SINK: ("guarantee", "publisher", "claim", "sweep", "writer", "close"),
}


def check_own(place: str, connector: object, role: Role) -> None:
    """Check that an object of the user's has what a source or sink needs. Raises ConfigError."""
    missing = [name for name in _NEEDED[role] if not hasattr(connector, name)]
    if missing:
        kind, lacks = type(connector).__name__, ", ".join(missing)
        raise ConfigError(
            f"{place}: {kind} is no {role}: it has no {lacks}. Take ps.parquet(path) or another "
            f"connector, or an object that follows ps.{role.capitalize()}"
        )
