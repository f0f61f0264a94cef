"""Savepoints as folders: copied out of a job's directory, and into another's.

A folder holds the files of one checkpoint under their own names, and ``savepoint.json``, written
last: a folder without it is not a savepoint. Copies are checked against the manifest's hashes,
so repeating a copy that was cut off is safe.
"""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.base.errors import PeerError, PenstockError, StateError, StorageError
from penstock.contract.codec import decode, encode
from penstock.contract.ids import BlobName, Incarnation, JobUid
from penstock.contract.manifest import BlobRef, RootManifest, StateFile, TaskManifest
from penstock.contract.names import ROOT_SUFFIX, blob_name
from penstock.protocol import actions, events
from penstock.storage.blobs import DirectoryBlobStore

INDEX = "savepoint.json"
INDEX_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class SavepointIndex:
    """What ``savepoint.json`` says: the job it is of, and its root manifest."""

    job: str
    name: str
    root: BlobRef
    format: int = 1


def copy_savepoint(
    store: DirectoryBlobStore, folder: Path, job: str, action: actions.CopySavepoint
) -> events.CoordinatorEvent:
    """Perform :class:`actions.CopySavepoint` into ``folder``/name."""
    target = folder / action.name
    if target.parent != folder or target.name != action.name:
        return events.SavepointNotCopied(action.request, f"{action.name!r} is no name of a folder")
    try:
        index = _read_index(target) if target.exists() else None
        if index is not None and index.root != action.root:
            raise StorageError(f"{target} is already another savepoint; choose another name")
        if index is None:
            _copy_all(store, target, action.root)
            _write_index(target, SavepointIndex(job, action.name, action.root))
    except PenstockError as error:
        return events.SavepointNotCopied(action.request, str(error))
    return events.SavepointCopied(action.request, str(target))


def read_snapshot(action: actions.ReadSnapshot) -> events.CoordinatorEvent:
    """Perform :class:`actions.ReadSnapshot`."""
    try:
        manifest = _manifest(Path(action.path))
    except PenstockError as error:
        return events.ImportFailed(action.token, str(error), _hopeless(error))
    return events.SnapshotRead(action.token, manifest)


def import_snapshot(
    store: DirectoryBlobStore, uid: JobUid, action: actions.ImportSnapshot
) -> events.CoordinatorEvent:
    """Perform :class:`actions.ImportSnapshot` for the job ``uid``; what fails leaves no file."""
    made: list[BlobName] = []
    try:
        source = DirectoryBlobStore(Path(action.path))
        manifest = _adopt(source, store, uid, action, made)
        root = store.put(_fresh(action, ROOT_SUFFIX, made), encode(manifest))
    except PenstockError as error:
        _clear(store, made)
        return events.ImportFailed(action.token, str(error), _hopeless(error))
    return events.Imported(action.token, root, manifest)


def _clear(store: DirectoryBlobStore, made: list[BlobName]) -> None:
    """Remove what a failed try has made: its names are its own, and the next try copies anew."""
    for name in made:
        with suppress(PenstockError):  # what stays is collected after the next commit
            store.delete(name)


def _hopeless(error: PenstockError) -> bool:
    return isinstance(error, StateError | PeerError)


def _copy_all(store: DirectoryBlobStore, target: Path, root: BlobRef) -> None:
    copies = DirectoryBlobStore(target)
    data = store.get(root)
    manifest = decode(RootManifest, data)
    for blob in _blobs(manifest):
        if not _there(copies, blob):
            copies.put(blob.name, store.get(blob))
    if not _there(copies, root):
        copies.put(root.name, data)


def _there(copies: DirectoryBlobStore, blob: BlobRef) -> bool:
    try:
        copies.get(blob)
    except StateError:
        copies.delete(blob.name)  # torn by an earlier try, which nobody refers to
        return False
    return True


def _blobs(manifest: RootManifest) -> list[BlobRef]:
    found = {file.blob.name: file.blob for task in manifest.tasks for file in task.files}
    return list(found.values())


def _write_index(target: Path, index: SavepointIndex) -> None:
    staged = target / f".{INDEX}"
    try:
        with staged.open("wb") as file:
            file.write(encode(index))
            file.flush()
            os.fsync(file.fileno())
        staged.replace(target / INDEX)
        folder = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StorageError(f"{target / INDEX}: {error.strerror}") from error


def _read_index(folder: Path) -> SavepointIndex | None:
    data = DirectoryBlobStore(folder).peek(BlobName(INDEX), INDEX_BYTES_MAX)
    return None if data is None else decode(SavepointIndex, data)


def _manifest(folder: Path) -> RootManifest:
    if not folder.is_dir():
        raise StateError(f"{folder}: there is no such folder")
    index = _read_index(folder)
    if index is None:
        raise StateError(f"{folder} is not a savepoint: it has no {INDEX}")
    return decode(RootManifest, DirectoryBlobStore(folder).get(index.root))


def _adopt(
    source: DirectoryBlobStore,
    store: DirectoryBlobStore,
    uid: JobUid,
    action: actions.ImportSnapshot,
    made: list[BlobName],
) -> RootManifest:
    manifest = _manifest(Path(action.path))
    renamed: dict[BlobName, BlobRef] = {}
    for blob in _blobs(manifest):
        name = _fresh(action, _suffix(blob.name), made)
        renamed[blob.name] = store.put(name, source.get(blob))
    tasks = tuple(_rename(task, renamed, action) for task in manifest.tasks)
    return replace(manifest, job_uid=uid, epoch=action.epoch, term=action.term, tasks=tasks)


def _rename(
    task: TaskManifest, renamed: dict[BlobName, BlobRef], action: actions.ImportSnapshot
) -> TaskManifest:
    def adopt(file: StateFile) -> StateFile:
        return replace(file, blob=renamed[file.blob.name], epoch=action.epoch)

    # Output that the savepoint's job prepared is that job's to publish.
    return replace(task, files=tuple(adopt(file) for file in task.files), handles=())


def _fresh(action: actions.ImportSnapshot, suffix: str, made: list[BlobName]) -> BlobName:
    """Return a name that only this try gives; it is in ``made`` before its file is."""
    life = Incarnation(f"{action.life}.{action.token}")
    made.append(blob_name(action.term, action.epoch, life, len(made), suffix))
    return made[-1]


def _suffix(name: BlobName) -> str:
    """What follows the number at the end of a stored file's name."""
    return name.rsplit("-", 1)[-1].lstrip("0123456789")
