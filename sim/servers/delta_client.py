"""The twin of the client of Delta Lake (``deltalake``), for the virtual table.

As delta-rs does, it reads the log, and commits by the creation of the next version. When that is there, it looks at
what other writers did, and tries to be the version behind it, as often as it is told.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import deltalake

from sim.servers.delta_table import Action, Replayed, actions_in, log_entry, log_key, replayed

Send = Callable[[str, tuple[Any, ...]], Any]  # the name of a method of the bucket, its arguments


class DeltaApi:
    """The names of the client's module that ``connectors/delta`` uses for output."""

    exceptions = deltalake.exceptions
    transaction = deltalake.transaction
    Transaction = deltalake.Transaction
    CommitProperties = deltalake.CommitProperties

    def __init__(self, send: Send) -> None:
        """``send`` carries a request there and back. It may raise DeltaError."""
        self._send = send

    def DeltaTable(self, url: str, version: int | None, storage: Mapping[str, str] | None) -> "SimDeltaTable":
        """Read the newest version of a table. Raises TableNotFoundError."""
        assert version is None, "output is for the newest version"
        assert storage is not None, "the virtual table is in a bucket"
        return SimDeltaTable(self._send, url.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class TableAbout:
    """What the client tells of a table."""

    partition_columns: list[str]
    configuration: dict[str, str]


@dataclass(frozen=True, slots=True)
class TableProtocol:
    """What writers of a table have to know."""

    writer_features: list[str] | None


class SimDeltaTable:
    """Twin of ``DeltaTable``: one version of a table."""

    def __init__(self, send: Send, name: str) -> None:
        self._send = send
        self._name = name
        self._seen: Replayed = self._read()

    def version(self) -> int:
        """Return which version it is."""
        return self._seen.version

    def schema(self) -> deltalake.Schema:
        """Return the columns."""
        return deltalake.Schema.from_json(self._seen.about["schemaString"])

    def metadata(self) -> TableAbout:
        """Return what the table is told to be."""
        return TableAbout(self._seen.about["partitionColumns"], self._seen.settings)

    def protocol(self) -> TableProtocol:
        """Return what writers have to know."""
        return TableProtocol(self._seen.protocol.get("writerFeatures"))

    def transaction_version(self, name: str) -> int | None:
        """Return the number that an application has set last."""
        return self._seen.numbers.get(name)

    def create_write_transaction(
        self,
        actions: Sequence[Any],
        mode: str,
        _schema: deltalake.Schema,
        *,
        partition_by: list[str],
        commit_properties: deltalake.CommitProperties,
    ) -> None:
        """Add files, and set numbers of applications. Raises CommitFailedError."""
        assert (mode, partition_by) == ("append", self._seen.about["partitionColumns"])
        given = commit_properties
        numbers = {each.app_id: each.version for each in given.app_transactions or ()}
        entry = log_entry(
            [
                {"commitInfo": {"operation": "WRITE", **(given.custom_metadata or {})}},
                *({"add": _added(asdict(each))} for each in actions),
                *({"txn": {"appId": name, "version": number}} for name, number in numbers.items()),
            ]
        )
        tries = 15 if given.max_commit_retries is None else given.max_commit_retries
        version = self._seen.version + 1
        while not self._send("create", (log_key(self._name, version), entry)):
            if tries == 0:
                raise deltalake.exceptions.CommitFailedError(f"Failed to commit transaction: version {version} exists")
            tries -= 1
            version = self._behind(version, numbers)

    def _behind(self, version: int, numbers: Mapping[str, int]) -> int:
        """Return the version behind all others, if none of those from ``version`` on is in the way."""
        log: list[bytes] = self._send("log", (self._name,))
        for action in (action for data in log[version:] for action in actions_in(data)):
            if "metaData" in action or action.get("txn", {}).get("appId") in numbers:
                raise deltalake.exceptions.CommitFailedError(
                    "Failed to commit transaction: another writer is in the way"
                )
        return len(log)

    def _read(self) -> Replayed:
        log: list[bytes] = self._send("log", (self._name,))
        if not log:
            raise deltalake.exceptions.TableNotFoundError(f"no log files: {self._name}")
        return replayed(log)


def _added(add: Action) -> Action:
    names = {
        "path": "path",
        "size": "size",
        "partition_values": "partitionValues",
        "modification_time": "modificationTime",
        "data_change": "dataChange",
        "stats": "stats",
    }
    return {theirs: add[ours] for ours, theirs in names.items()}
