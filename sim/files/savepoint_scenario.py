"""Savepoints: leaders copy a checkpoint into a folder, and another job begins from the copy."""

from pathlib import Path

from penstock.base.errors import StorageError
from penstock.contract.codec import encode
from penstock.contract.ids import ROOT_SUFFIX, Attempt, BlobName, Epoch, Incarnation, JobUid, Term, Version, blob_name
from penstock.contract.keygroups import first_shares
from penstock.contract.manifest import BlobRef, RootManifest, StateFile, TaskManifest
from penstock.contract.plan import Assignment
from penstock.keeper.savepoint_copies import copy_savepoint, import_snapshot, index_savepoint
from penstock.ports import FileSystem
from penstock.protocol import keeper_core_messages as km
from penstock.storage.blobs import DirectoryBlobStore
from sim.files.mounted_files import Mount, MountedFiles
from sim.files.storage_scenarios import JOB, LIFE, TASK, tried
from sim.files.virtual_disk import VirtualDisk

KEY_GROUPS = 4
NAME = "monday"


class Savepoints:
    """Each life is another leader of the job, and another try of the job that begins from the savepoint."""

    SOURCE = Path("/volume/checkpoints/job")
    OTHER = Path("/volume/checkpoints/other")
    CHECK = Path("/volume/checkpoints/check")
    FOLDER = Path("/volume/savepoints")

    def __init__(self, disk: VirtualDisk) -> None:
        """Write the checkpoint that is copied."""
        store = DirectoryBlobStore(self.SOURCE, MountedFiles(disk, Mount("maker")))
        self._state = store.put(blob_name(Term(1), Epoch(4), LIFE, 1, ".state"), b"state")
        manifest = _manifest(self._state)
        self._root = store.put(blob_name(Term(1), Epoch(4), LIFE, 2, ROOT_SUFFIX), encode(manifest))
        self._orders = 0
        self._indexed: km.SavepointIndexed | None = None
        self._imported: km.Imported | None = None

    def live(self, files: FileSystem) -> None:
        """Copy and index the savepoint, import it, and collect what failed imports have left."""
        if self._indexed is None:
            self._indexed = tried(lambda: self._copy(files))
        if self._imported is None:
            self._imported = tried(lambda: self._import(files, self.OTHER))
        tried(lambda: self._collect(files))

    def check_complete(self, files: FileSystem) -> None:
        """An indexed savepoint can be read whole; all files of an imported one are there."""
        if self._indexed is not None:
            self._import(files, self.CHECK)  # reads every file of it
            DirectoryBlobStore(self.CHECK.parent, files).delete_folder(BlobName(self.CHECK.name))
        if self._imported is not None:
            other = DirectoryBlobStore(self.OTHER, files)
            for ref in self._listed(self._imported):
                other.get(ref)

    def check_clean(self, disk: VirtualDisk) -> None:
        """There are the checkpoint, one whole copy with its index, and the files of the import."""
        assert self._imported is not None
        imported = {f"{self.OTHER}/{ref.name}" for ref in self._listed(self._imported)}
        assert set(disk.contents(str(self.OTHER))) == imported
        left = set(disk.contents(str(self.FOLDER)))
        if not disk.power_failures:  # which bring back what was removed; nobody reads it
            assert len(left) == 3, sorted(left)
            assert len({path.split("/")[4] for path in left}) == 2, "one copy, one index"

    def _copy(self, files: FileSystem) -> km.SavepointIndexed:
        self._orders += 1
        folder = f"{self._orders}-{LIFE}-{self._orders}"
        order = km.CopySavepoint("r1", NAME, self._root, folder)
        done = copy_savepoint(DirectoryBlobStore(self.SOURCE, files), self.FOLDER, order)
        if isinstance(done, km.SavepointCopied):
            index = km.IndexSavepoint("r1", NAME, self._root, folder)
            done = tried(lambda: _successful(index_savepoint(self.FOLDER, "words", index, files)))
        found = _successful(done)
        assert isinstance(found, km.SavepointIndexed)
        return found

    def _import(self, files: FileSystem, folder: Path) -> km.Imported:
        self._orders += 1
        life = Incarnation(f"{LIFE[:-2]}{self._orders:02d}")
        order = km.ImportSnapshot(1, str(self.FOLDER / NAME), Term(1), Epoch(1), life)
        found = _successful(import_snapshot(DirectoryBlobStore(folder, files), JobUid("other"), order))
        assert isinstance(found, km.Imported)
        return found

    def _collect(self, files: FileSystem) -> None:
        """Remove what the job's object does not list, as after a commit."""
        store = DirectoryBlobStore(self.OTHER, files)
        assert self._imported is not None
        kept = {ref.name for ref in self._listed(self._imported)}
        for name in store.list_for_collection():
            if name not in kept:
                store.delete(name)

    def _listed(self, done: km.Imported) -> tuple[BlobRef, ...]:
        return done.root, *(file.blob for task in done.manifest.tasks for file in task.files)


def _successful(event: km.CoordinatorEvent) -> km.CoordinatorEvent:
    if isinstance(event, km.SavepointNotCopied | km.ImportFailed):
        damaged = isinstance(event, km.ImportFailed) and event.damaged
        assert not damaged, event.reason
        raise StorageError(event.reason)
    return event


def _manifest(state: BlobRef) -> RootManifest:
    file = StateFile(state, "counts", first_shares(KEY_GROUPS, 1)[0], 0, Epoch(4), 1)
    return RootManifest(
        JOB,
        Epoch(4),
        Term(1),
        Attempt(1),
        "savepoint",
        KEY_GROUPS,
        "plan",
        Assignment(Version(1), 1, ()),
        (TaskManifest(TASK, (file,), (), ()),),
    )
