"""Savepoints as folders: copied out of a job's directory, and into another's.

::

    NAME/savepoint.json                       the index: names one of the folders, and its manifest
    NAME/<term>-<life>-<n>/                   one try of one leader to copy all files

A folder without an index is not a savepoint. Each try writes in a folder of its own and removes
nothing but that folder. So a try that goes on after its leader was replaced does no harm. The index
is linked exclusively, when a whole copy is durable. Then the other folders are removed. In format 1
the files are in the folder of the index.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.base.errors import PeerError, PenstockError, StateError, StorageError
from penstock.contract.codec import Message, decode, encode
from penstock.contract.ids import ROOT_SUFFIX, BlobName, JobUid
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.contract.schema import PATH_RULE, plain_parts
from penstock.file_system import OS_FILES, is_folder
from penstock.ports import FileSystem
from penstock.protocol import keeper_core_messages as km
from penstock.protocol.savepoints import adopted, files_of, import_name, inside, suffix_of
from penstock.storage.blobs import DirectoryBlobStore

INDEX = BlobName("savepoint.json")
INDEX_BYTES_MAX = 64 * 1024
INDEX_FORMAT = 2


class SavepointIndex(Message, tag="SavepointIndex"):
    """What ``savepoint.json`` says: the job it is of, its root manifest, the folder of its files.

    ``folder`` is next to the index. It is empty in format 1: the files are next to the index.
    """

    job: str
    name: str
    root: BlobRef
    folder: str = ""
    format: int = 1


def copy_savepoint(store: DirectoryBlobStore, savepoints: Path, action: km.CopySavepoint) -> km.CoordinatorEvent:
    """Perform :class:`km.CopySavepoint` into ``savepoints``/name/folder."""
    request, folder = action.request, action.folder
    target = savepoints / action.name
    if target.parent != savepoints or target.name != action.name:
        text = f"{action.name!r} is no name of a folder"
        return km.SavepointNotCopied(request, folder, text)
    try:
        copies = DirectoryBlobStore(target, store.files)
        if not _is_indexed(copies, target, action):
            _copy_all(store, copies, action)
            if not _is_indexed(copies, target, action):
                return km.SavepointCopied(request, folder)
        _clear_others(copies, target)  # another was quicker, and may have died before it cleared
    except PenstockError as error:
        return km.SavepointNotCopied(request, folder, str(error))
    return km.SavepointIndexed(request, folder, str(target))


def index_savepoint(
    savepoints: Path, job: str, action: km.IndexSavepoint, files: FileSystem = OS_FILES
) -> km.CoordinatorEvent:
    """Perform :class:`km.IndexSavepoint` in ``savepoints``/name."""
    request, folder = action.request, action.folder
    target = savepoints / action.name
    index = index_of(job, action.name, action.root, folder)
    try:
        copies = DirectoryBlobStore(target, files)
        try:
            copies.put_whole(INDEX, BlobName(f"{INDEX}-{folder}"), index)
        except StorageError:
            if not _is_indexed(copies, target, action):  # another's, or ours: the reply was lost
                raise
        _clear_others(copies, target)
    except PenstockError as error:
        return km.SavepointNotCopied(request, folder, str(error))
    return km.SavepointIndexed(request, folder, str(target))


def index_of(job: str, name: str, root: BlobRef, folder: str) -> bytes:
    """Return the content of the index of a savepoint whose files are in ``folder``."""
    return encode(SavepointIndex(job, name, root, folder, INDEX_FORMAT))


def read_snapshot(action: km.ReadSnapshot, files: FileSystem = OS_FILES) -> km.CoordinatorEvent:
    """Perform :class:`km.ReadSnapshot`."""
    try:
        *_, manifest = open_savepoint(files, action.path)
    except PenstockError as error:
        return km.ImportFailed(action.token, str(error), _hopeless(error))
    return km.SnapshotRead(action.token, manifest)


def import_snapshot(store: DirectoryBlobStore, uid: JobUid, action: km.ImportSnapshot) -> km.CoordinatorEvent:
    """Perform :class:`km.ImportSnapshot` for the job ``uid``; what fails leaves no file."""
    made: list[BlobName] = []
    try:
        manifest = _adopt(store, uid, action, made)
        root = store.put(_fresh(action, ROOT_SUFFIX, made), encode(manifest))
    except PenstockError as error:
        _clear(store, made)
        return km.ImportFailed(action.token, str(error), _hopeless(error))
    return km.Imported(action.token, root, manifest)


def _clear(store: DirectoryBlobStore, made: list[BlobName]) -> None:
    """Remove the files of a failed try. No other try uses its names, and the next try copies again."""
    for name in made:
        with suppress(PenstockError):  # what stays is collected after the next commit
            store.delete(name)


def _hopeless(error: PenstockError) -> bool:
    return isinstance(error, StateError | PeerError)


def _copy_all(store: DirectoryBlobStore, copies: DirectoryBlobStore, action: km.CopySavepoint) -> None:
    """Copy every file, the manifest last; what fails leaves no folder behind."""
    try:
        data = store.get(action.root)
        for blob in files_of(decode(RootManifest, data)):
            copies.copy(blob, store, inside(action.folder, blob).name)
        copies.put(inside(action.folder, action.root).name, data)
    except PenstockError:
        with suppress(PenstockError):  # whoever writes the index removes it then
            copies.delete_folder(BlobName(action.folder))
        raise


def _is_indexed(
    copies: DirectoryBlobStore,
    target: Path,
    action: km.CopySavepoint | km.IndexSavepoint,
) -> bool:
    """Say whether this savepoint is complete, and stays so. Raises StorageError when the name is another's."""
    index = _read_index(copies)
    if index is None:
        return False
    if index.root != action.root:
        raise StorageError(f"{target} is already another savepoint; choose another name")
    copies.sync_name(INDEX)  # whoever linked it may have died, or failed, before its own sync
    return True


def _clear_others(copies: DirectoryBlobStore, target: Path) -> None:
    """Remove the folders and indexes of all other tries; what cannot be removed does no harm."""
    index = _read_index(copies)
    for name in _left_by_tries(copies.files, target):
        if index is not None and name != index.folder:
            with suppress(PenstockError):
                if name.startswith(INDEX):
                    copies.delete(BlobName(name))
                else:
                    copies.delete_folder(BlobName(name))


def _left_by_tries(files: FileSystem, target: Path) -> Iterator[str]:
    """List what tries have made; whatever else a user keeps here is none of it."""
    try:
        found = sorted(entry.name for entry in files.entries(target))
    except OSError as error:
        raise StorageError(f"{target}: {error.strerror}") from error
    for name in found:
        term, *rest = name.removeprefix(f"{INDEX}-").split("-")
        if term.isdecimal() and len(rest) > 1 and rest[-1].isdecimal():
            yield name


def _read_index(copies: DirectoryBlobStore) -> SavepointIndex | None:
    data = copies.peek(INDEX, INDEX_BYTES_MAX)
    if data is None:
        return None
    index = decode(SavepointIndex, data)
    if index.format > INDEX_FORMAT:
        raise StateError(
            f"savepoint {index.name!r} has format {index.format}, this Penstock reads up to "
            f"{INDEX_FORMAT}: use the version that wrote it, or a newer one"
        )
    return index


def open_savepoint(files: FileSystem, path: str) -> tuple[DirectoryBlobStore, str, RootManifest]:
    """Return a savepoint's store, the folder of its files in it, and its manifest.

    Raises StateError if ``path`` is not a savepoint, and StorageError if it cannot be read now.
    """
    if plain_parts(path) is None:
        raise StateError(f"{path!r} is no folder of a savepoint: expected {PATH_RULE}")
    folder = Path(path)
    try:
        there = is_folder(files, folder)
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}") from error
    if not there:
        raise StateError(f"{folder}: there is no such folder")
    store = DirectoryBlobStore(folder, files)
    index = _read_index(store)
    if index is None:
        raise StateError(f"{folder} is not a savepoint: it has no {INDEX}")
    data = store.get(inside(index.folder, index.root))
    return store, index.folder, decode(RootManifest, data)


def _adopt(
    store: DirectoryBlobStore,
    uid: JobUid,
    action: km.ImportSnapshot,
    made: list[BlobName],
) -> RootManifest:
    source, folder, manifest = open_savepoint(store.files, action.path)
    renamed: dict[BlobName, BlobRef] = {}
    for blob in files_of(manifest):
        name = _fresh(action, suffix_of(blob.name), made)
        renamed[blob.name] = store.copy(inside(folder, blob), source, name)
    return adopted(manifest, renamed, uid, action)


def _fresh(action: km.ImportSnapshot, suffix: str, made: list[BlobName]) -> BlobName:
    """Return the next name of this try; it is in ``made`` before its file is."""
    made.append(import_name(action, len(made), suffix))
    return made[-1]
