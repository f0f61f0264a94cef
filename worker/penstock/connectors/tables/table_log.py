"""The log of a table: versions that never change once they are there, each with the files that it has added.

Delta Lake calls them versions, and Iceberg snapshots. A version is a number; only the log knows their order.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.base.errors import ConfigError, StateError
from penstock.base.suggest import unknown
from penstock.base.threads import Lock, monotonic
from penstock.connectors.parquet_source import fits, value_type
from penstock.connectors.tables.file_rows import FileRows
from penstock.connectors.tables.lane_place import LanePlace
from penstock.contract.columns import Columns
from penstock.graph.arrow import arrow_schema

LISTS_KEPT_MAX = 64  # versions whose files are remembered: the lanes of a source are seldom further apart
FRESH = "begin anew (penstock run --fresh)"


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A file of the table. ``rows`` is None where its writer kept no statistics.

    ``partition`` has the values of columns that need not be in the file, as the client gives them.
    """

    path: str
    size: int
    rows: int | None
    partition: Mapping[str, object]


class TableLog(ABC):
    """The versions of one table. Any thread may use it; every call blocks, and raises StorageError.

    ``where`` names it in errors, ``table_id`` is the same as long as it is the same table, and ``schema`` has the
    columns that are read.
    """

    where: str
    table_id: str
    schema: pa.Schema

    def __init__(self) -> None:
        """Look at nothing yet: whoever extends this class has looked when it is made."""
        self._lock = Lock()
        self._lists: OrderedDict[tuple[bool, int], tuple[AddedFile, ...]] = OrderedDict()
        self._looked_at = monotonic()

    def newest(self) -> int:
        """Look at the table, and return its newest version. Raises StateError when it is another table than before."""
        with self._lock:
            self._refresh(0.0)
            return self._newest()

    def versions(self, begin: LanePlace, every_s: float) -> tuple[Sequence[int], bool]:
        """Return the versions from a place on, the older ones first, and whether these are all; not more at once
        than are remembered. The last look at the table is at most ``every_s`` seconds ago.

        Raises StateError when the place is not in the log any more, or it is another table than before.
        """
        with self._lock:
            self._refresh(every_s)
            found = self._from(begin)
        return found[:LISTS_KEPT_MAX], len(found) <= LISTS_KEPT_MAX

    def files(self, version: int, *, whole: bool) -> tuple[AddedFile, ...]:
        """Return all files of a version, the older ones first, or without ``whole`` those that it has added.

        Raises StateError when the log has lost it; without ``whole`` also when it removes rows, or changes the columns
        in use.
        """
        with self._lock:
            found = self._lists.get((whole, version))
            if found is None:
                found = tuple(self._all(version) if whole else self._added(version))
                self._lists[whole, version] = found
                if len(self._lists) > LISTS_KEPT_MAX:
                    self._lists.popitem(last=False)
            return found

    def _refresh(self, every_s: float) -> None:
        if monotonic() >= self._looked_at + every_s:
            self._look()
            self._looked_at = monotonic()

    def _same_table(self, table_id: str) -> None:
        if table_id != self.table_id:
            raise StateError(f"{self.where} was made anew while the job reads it: put the old table back, or {FRESH}")

    @abstractmethod
    def check(self, place: LanePlace) -> None:
        """Raise StateError when a place of a checkpoint is of another table, or of none that there is."""

    @abstractmethod
    def behind(self, place: LanePlace) -> LanePlace:
        """Return the place behind the version of ``place``."""

    @abstractmethod
    def open(self, file: AddedFile, place: LanePlace) -> FileRows:
        """Open a file at the row of ``place``. Raises StateError when it is gone or another one."""

    @abstractmethod
    def _look(self) -> None:
        """Look at the table as it is now."""

    @abstractmethod
    def _newest(self) -> int:
        """Return the newest version of the last look."""

    @abstractmethod
    def _from(self, begin: LanePlace) -> Sequence[int]:
        """Return the versions from a place on through the newest one of the last look."""

    @abstractmethod
    def _all(self, version: int) -> Sequence[AddedFile]:
        """Read all files of a version."""

    @abstractmethod
    def _added(self, version: int) -> Sequence[AddedFile]:
        """Read the files that a version has added."""


def chosen_columns(found: pa.Schema, columns: Columns, where: str) -> pa.Schema:
    """Return the declared columns, or all of the table. Raises ConfigError for one that is missing or does not fit."""
    if not columns:
        return found
    wanted = arrow_schema(columns)
    for field in wanted:
        index = found.get_field_index(field.name)
        if index < 0:
            raise ConfigError(f"{where}: {unknown('column', field.name, found.names)}")
        if not fits(found.field(index).type, field.type):
            raise ConfigError(f"{where}: column {field.name!r} is {found.field(index).type}, declared is {field.type}")
    return wanted


def changed_column(found: pa.Schema, wanted: pa.Schema) -> str | None:
    """Return how a table has changed a column in use such that its values do not fit; None when it has not."""
    for field in wanted:
        index = found.get_field_index(field.name)
        if index < 0 or not fits(value_type(found.field(index).type), field.type):
            has = "it is gone" if index < 0 else f"now it is {found.field(index).type}"
            return f"it changes column {field.name!r}, which the job reads as {field.type}: {has}"
    return None
