"""A table of Delta Lake, as one sink writes it: one commit for each epoch, which has the marker.

    look for the marker ─> copy files, under names of this hour ─> look again, commit on what was seen

The marker is two numbers that a snapshot has by name (application transactions): the epoch, and a part of the digest of
all handles. Both come with the commit that adds the files. ``protocol/marked.py`` judges them.

A commit is made only on the snapshot in which the marker was looked for. If another commit came between, it fails, and
the next try looks again. The client would try by itself; then a marker that came between would not be seen.
"""

from collections.abc import Iterable
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq

from penstock.base.errors import StateError, StorageError
from penstock.connectors.delta.client import DeltaPlace, DeltaSnapshot, library
from penstock.connectors.delta.delta_columns import DeltaColumns
from penstock.connectors.delta.file_statistics import statistics_of
from penstock.connectors.partitions import values_of
from penstock.connectors.seeded_output import SeededOutput
from penstock.connectors.staged_sink import StagedFile
from penstock.connectors.tables.copied_names import CopiedNames
from penstock.contract.ids import Epoch
from penstock.protocol.marked import OutputMarker, Wanted, visible_blocks

SEEDS_MAX = 10  # tries to write the first marker, while others commit
DIGEST_CHARS = 15  # in hex; the number of a transaction has 63 bits


class MarkedVersions(SeededOutput[StagedFile]):
    """One sink's view of the table. Any thread may use it."""

    def __init__(self, place: DeltaPlace, columns: DeltaColumns, owner: tuple[str, str]) -> None:
        """Ask nothing yet. ``owner`` is (job, step)."""
        super().__init__()
        self._place = place
        self._columns = columns
        self._id = "penstock/" + "/".join(owner)
        self._names = CopiedNames(self._id)

    def _published(self, wanted: Wanted, blocks: Iterable[StagedFile]) -> int:
        """Add all files with one commit. A table refuses no single row."""
        visible, done = self._look(self._open(), wanted)
        if not done:
            adds = [] if visible == wanted.blocks else self._copy(wanted.epoch, blocks)
            self._commit(wanted, adds)
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
        visible = visible_blocks(found, wanted, f"delta sink: table {self._place.url}")
        return visible, found == wanted.marker

    def _commit(self, wanted: Wanted, adds: list[Any]) -> None:
        snapshot = self._open()
        if self._look(snapshot, wanted)[1]:
            return  # another worker was quicker
        why = self._columns.refusal(snapshot.schema, snapshot.settings, snapshot.features)
        if any(set(add.partition_values) != set(snapshot.partitions) for add in adds):
            now = ", ".join(snapshot.partitions) or "none"
            why = f"its partition columns are others now ({now}): bring the old ones back until the job has published"
        if why is not None and adds:
            raise StateError(f"delta sink: table {self._place.url} was changed: {why}; then start the job again")
        self._mark(snapshot, wanted.epoch, _number(wanted.digest), adds)

    def _copy(self, epoch: Epoch, blocks: Iterable[StagedFile]) -> list[Any]:
        """Write the files of the table, and return what adds them."""
        self._names.begin()
        adds = []
        for index, block in enumerate(blocks):
            data = block.data()
            name = self._names.name(epoch, index, block)
            self._place.write(name, data)
            about = (
                values_of(block.part.folder),
                block.modified_ms(),
                True,
                statistics_of(pq.read_metadata(BytesIO(data))),
            )
            adds.append(library().transaction.AddAction(name, len(data), *about))
        return adds

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
