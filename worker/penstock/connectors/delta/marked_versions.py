"""A table of Delta Lake, as one sink writes it: one commit for each epoch, which has the marker.

    look for the marker ─> copy files, under names of this hour ─> look again, commit on what was seen

The marker is two numbers that a snapshot has by name (application transactions): the epoch, and a part of the digest of
all handles. Both come with the commit that adds the files. ``protocol/marked.py`` judges them.

A commit is made only on the snapshot in which the marker was looked for. If another commit came between, it fails, and
the next try looks again. The client would try by itself; then a marker that came between would not be seen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import StateError, StorageError
from penstock.connectors.delta.client import DeltaPlace, DeltaSnapshot, library
from penstock.connectors.delta.delta_columns import DeltaColumns
from penstock.connectors.delta.file_statistics import statistics_of
from penstock.connectors.partitions import values_of
from penstock.connectors.seeded_output import SeededOutput
from penstock.connectors.staged_sink import StagedFile
from penstock.connectors.tables.copied_names import CopiedNames
from penstock.contract.codec import parsed
from penstock.contract.ids import Epoch
from penstock.protocol.marked import OutputMarker, Wanted, visible_blocks

SEEDS_MAX = 10  # tries to write the first marker, while others commit
DIGEST_CHARS = 15  # in hex; the number of a transaction has 63 bits


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """A file at the table that no version has yet: what adds it, its columns, and their numbers of nulls if known."""

    action: Any
    schema: pa.Schema
    nulls: Mapping[str, int]

    def unfit(self, snapshot: DeltaSnapshot, where: str) -> str | None:
        """Return why the table, which may have changed since the file was staged, cannot have it; None when it can."""
        folder = self.action.partition_values
        if set(folder) != set(snapshot.partitions):
            now = ", ".join(snapshot.partitions) or "none"
            return f"its partition columns are others now ({now}): bring the old ones back until the job has published"
        found = {field["name"]: field["type"] for field in snapshot.schema["fields"] if field["name"] in folder}
        columns = DeltaColumns.of(self.schema, where)
        types = DeltaColumns(where, columns.staged, {**columns.types, **found})
        nulls = {name for name, text in folder.items() if text is None} | {
            n for n, count in self.nulls.items() if count
        }
        if refused := sorted(nulls.intersection(types.not_null(snapshot.schema))):
            return f"column {refused[0]!r} is NOT NULL, and committed rows have a null there: let it have nulls again"
        return types.refusal(snapshot.schema, snapshot.settings, snapshot.features)


class MarkedVersions(SeededOutput[StagedFile]):
    """One sink's view of the table. Any thread may use it."""

    def __init__(self, place: DeltaPlace, owner: tuple[str, str]) -> None:
        """Ask nothing yet. ``owner`` is (job, step)."""
        super().__init__()
        self._place = place
        self._id = "penstock/" + "/".join(owner)
        self._names = CopiedNames(self._id)
        self._where = f"delta sink: table {place.url}"

    def _published(self, wanted: Wanted, blocks: Iterable[StagedFile]) -> int:
        """Add all files with one commit. A table refuses no single row."""
        visible, done = self._look(self._open(), wanted)
        if not done:
            files = [] if visible == wanted.blocks else self._copy(wanted.epoch, blocks)
            self._commit(wanted, files)
        return 0

    def _open(self) -> DeltaSnapshot:
        return self._place.open(self._id, self._digest_id)

    def _look(self, snapshot: DeltaSnapshot, wanted: Wanted) -> tuple[int, bool]:
        """Return how many blocks need not be written, and whether nothing is left to be done."""
        epoch, digest = snapshot.numbers[self._id], snapshot.numbers[self._digest_id]
        found = None
        if epoch is not None:
            same = digest == _number(wanted.digest)
            found = OutputMarker(Epoch(epoch), wanted.digest if same else f"{digest}", wanted.blocks)
        visible = visible_blocks(found, wanted, self._where)
        return visible, found == wanted.marker

    def _commit(self, wanted: Wanted, files: list[CopiedRows]) -> None:
        snapshot = self._open()
        if self._look(snapshot, wanted)[1]:
            return  # another worker was quicker
        for file in files:
            if (why := file.unfit(snapshot, self._where)) is not None:
                raise StateError(f"{self._where} was changed: {why}; then start the job again")
        self._mark(snapshot, wanted.epoch, _number(wanted.digest), [file.action for file in files])

    def _copy(self, epoch: Epoch, blocks: Iterable[StagedFile]) -> list[CopiedRows]:
        """Write the files of the table."""
        self._names.begin()
        files = []
        for index, block in enumerate(blocks):
            data = block.data()
            name = self._names.name(epoch, index, block)
            self._place.write(name, data)
            footer = pq.read_metadata(BytesIO(data))
            known = statistics_of(footer)
            about = (values_of(block.part.folder), block.modified_ms(), True, known)
            action = library().transaction.AddAction(name, len(data), *about)
            files.append(CopiedRows(action, footer.schema.to_arrow_schema(), parsed(known)["nullCount"]))
        return files

    def _seeded(self, visible: Epoch) -> Epoch:
        for _ in range(SEEDS_MAX):
            snapshot = self._open()
            found = snapshot.numbers[self._id]
            if found is not None:
                return Epoch(found)
            try:
                self._mark(snapshot, visible, 0, [])
            except StorageError as error:
                failed = error  # another task of the sink, or another writer, was quicker
        raise failed

    def _mark(self, snapshot: DeltaSnapshot, epoch: Epoch, digest: int, adds: list[Any]) -> None:
        note = {"job": self._id, "epoch": int(epoch), "digest": digest}
        self._place.commit(snapshot, adds, {self._id: int(epoch), self._digest_id: digest}, note)

    @property
    def _digest_id(self) -> str:
        return f"{self._id}/digest"


def _number(digest: str) -> int:
    return int(digest[:DIGEST_CHARS], 16)
