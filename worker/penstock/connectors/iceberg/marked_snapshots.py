"""A table of Iceberg, as one sink writes it: one snapshot for each epoch, and the marker comes with it.

    look for the marker ─> copy files, under names of this hour ─> look again, commit on what was seen

The marker is a property of the table: the epoch, and the digest of all handles. The commit that adds the snapshot sets
it, and it goes with no snapshot that expires. ``protocol/marked.py`` judges it. Each commit that sets the marker makes
a snapshot, if only an empty one: the catalog refuses a commit when the newest snapshot is another one than the one
that was looked at. If another commit came between, the next try looks again.

The snapshot's summary says job and epoch, too, for people.
"""

from collections.abc import Iterable, Sequence
from io import BytesIO

import pyarrow.parquet as pq

from penstock.base.errors import StateError, StorageError
from penstock.connectors.iceberg.client import IcebergPlace, IcebergSnapshot
from penstock.connectors.iceberg.data_files import CopiedFile
from penstock.connectors.iceberg.partition_fields import path_of, values_in
from penstock.connectors.seeded_output import SeededOutput
from penstock.connectors.staged_sink import StagedFile
from penstock.connectors.tables.copied_names import CopiedNames
from penstock.contract.ids import Epoch
from penstock.protocol.marked import OutputMarker, Wanted, visible_blocks

SEEDED = "seed"  # in place of a digest
SEEDS_MAX = 10  # tries to write the first marker, while others commit


class MarkedSnapshots(SeededOutput[StagedFile]):
    """One sink's view of the table. Any thread may use it."""

    def __init__(self, place: IcebergPlace, owner: tuple[str, str]) -> None:
        """Ask nothing yet. ``owner`` is (job, step)."""
        super().__init__()
        self._place = place
        self._id = "penstock/" + "/".join(owner)
        self._names = CopiedNames(self._id)
        self._where = f"iceberg sink: table {place.name}"

    def close(self) -> None:
        """Release the connection to the catalog."""
        self._place.close()

    def _published(self, wanted: Wanted, blocks: Iterable[StagedFile]) -> int:
        """Add all files with one snapshot. A table refuses no single row."""
        with self._place.asked():
            snapshot = self._place.open()
            visible, done = self._look(snapshot, wanted)
            if not done:
                files = [] if visible == wanted.blocks else self._copy(snapshot, wanted.epoch, blocks)
                self._commit(wanted, files)
        return 0

    def _look(self, snapshot: IcebergSnapshot, wanted: Wanted) -> tuple[int, bool]:
        """Return how many blocks need not be written, and whether nothing is left to be done."""
        marker = self._marker(snapshot)
        found = None if marker is None else OutputMarker(*marker, wanted.blocks)
        return visible_blocks(found, wanted, self._where), found == wanted.marker

    def _marker(self, snapshot: IcebergSnapshot) -> tuple[Epoch, str] | None:
        """Return the epoch and the digest of the marker."""
        text = snapshot.properties.get(self._id)
        if text is None:
            return None
        epoch, _, digest = text.partition(" ")
        if not epoch.isdecimal():
            raise StateError(f"{self._where}: its property {self._id} is {text!r}, which no job wrote: correct it")
        return Epoch(int(epoch)), digest

    def _copy(self, snapshot: IcebergSnapshot, epoch: Epoch, blocks: Iterable[StagedFile]) -> list[CopiedFile]:
        """Write the files of the table."""
        self._names.begin()
        copies, table = [], snapshot.table
        for index, block in enumerate(blocks):
            data, values = block.data(), values_in(block.part.folder)
            name = self._names.name(epoch, index, block)
            location = table.location_provider().new_data_location(path_of(table, values) + name)
            self._place.write(snapshot, location, data)
            copies.append(CopiedFile(location, len(data), pq.read_metadata(BytesIO(data)), values))
        return copies

    def _commit(self, wanted: Wanted, files: Sequence[CopiedFile]) -> None:
        snapshot = self._place.open()
        if self._look(snapshot, wanted)[1]:
            return  # another worker was quicker
        for file in files:
            if (why := file.unfit(snapshot, self._where)) is not None:
                raise StateError(f"{self._where} was changed: {why}; then start the job again")
        self._mark(snapshot, wanted.epoch, wanted.digest, files)

    def _seeded(self, visible: Epoch) -> Epoch:
        for _ in range(SEEDS_MAX):
            snapshot = self._place.open()
            marker = self._marker(snapshot)
            if marker is not None:
                return marker[0]
            try:
                with self._place.asked():
                    self._mark(snapshot, visible, SEEDED, [])
            except StorageError as error:
                failed = error  # another task of the sink, or another writer, was quicker
        raise failed

    def _mark(self, snapshot: IcebergSnapshot, epoch: Epoch, digest: str, files: Sequence[CopiedFile]) -> None:
        added = [file.data_file(snapshot) for file in files]
        note = {"penstock.sink": self._id, "penstock.epoch": str(int(epoch))}
        self._place.commit(snapshot, added, {self._id: f"{int(epoch)} {digest}"}, note)
