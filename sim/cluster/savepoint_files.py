"""The simulated calls of the actions on savepoints: one call after the other, then an event.

They follow ``keeper/savepoint_copies.py`` call by call. Each action is a generator: it yields a call,
gets the reply, and returns the event that answers the action.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from penstock.contract.ids import ROOT_SUFFIX, BlobName, JobUid
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.protocol import keeper_core_messages as km
from penstock.protocol.savepoints import adopted, files_of, import_name, inside, suffix_of
from sim.kernel.calls import (
    SAVEPOINTS,
    DeleteFiles,
    Get,
    LinkFile,
    ListFiles,
    Op,
    Put,
    ReadFile,
    Reply,
)

Steps = Generator[Op, Reply, km.CoordinatorEvent]
Orders = km.CopySavepoint | km.IndexSavepoint | km.ReadSnapshot | km.ImportSnapshot
Clearing = Generator[Op, Reply, None]


@dataclass(frozen=True, slots=True)
class Index:
    """The content of a savepoint's index: its manifest and the folder of its files."""

    root: BlobRef
    folder: str


def begin(uid: JobUid, action: Orders) -> Steps:
    """Perform an action for the job ``uid``."""
    match action:
        case km.CopySavepoint():
            return _copy(action)
        case km.IndexSavepoint():
            return _index(action)
        case km.ReadSnapshot():
            return _read(action)
        case km.ImportSnapshot():
            return _import(uid, action)


def index_name(path: str) -> BlobName:
    """Return the name of the index of the savepoint at ``path``."""
    return BlobName(f"{path}/savepoint.json")


def at(path: str, folder: str, blob: BlobRef) -> BlobRef:
    """Return a file of the savepoint at ``path``."""
    return inside(path, inside(folder, blob))


def _copy(action: km.CopySavepoint) -> Steps:
    path, folder = SAVEPOINTS + action.name, f"{SAVEPOINTS}{action.name}/{action.folder}/"
    known = _indexed(action, (yield ReadFile(index_name(path))))
    if known is not None:
        return known
    failed = yield from _copy_all(action, path)
    if failed:
        yield from _clear((yield ListFiles(folder)))
        return km.SavepointNotCopied(action.request, action.folder, failed)
    known = _indexed(action, (yield ReadFile(index_name(path))))
    if known is None:
        return km.SavepointCopied(action.request, action.folder)
    yield from _clear((yield ListFiles(folder)))
    return known


def _copy_all(action: km.CopySavepoint, path: str) -> Generator[Op, Reply, str]:
    """Copy every file, the manifest last. Return the error, if any."""
    read = yield Get(action.root)
    if read.error:
        return f"{action.root.name} is {read.error}"
    assert isinstance(read.value, RootManifest)
    for blob in (*files_of(read.value), action.root):
        content = yield Get(blob)
        if content.error:
            return f"{blob.name} is {content.error}"
        written = yield Put(at(path, action.folder, blob).name, content.value)
        if written.error:
            return f"the copy of {blob.name} is {written.error}"
    return ""


def _indexed(action: km.CopySavepoint | km.IndexSavepoint, reply: Reply) -> km.CoordinatorEvent | None:
    """Return the answer that follows from the index, None when there is no index."""
    index, request, folder = reply.value, action.request, action.folder
    if reply.error == "missing":
        return None
    if not isinstance(index, Index):
        return km.SavepointNotCopied(request, folder, f"the index is {reply.error}")
    if index.root != action.root:
        return km.SavepointNotCopied(request, folder, "is already another savepoint")
    return km.SavepointIndexed(request, folder, SAVEPOINTS + action.name)


def _index(action: km.IndexSavepoint) -> Steps:
    path = SAVEPOINTS + action.name
    made = yield LinkFile(index_name(path), Index(action.root, action.folder))
    read = yield ReadFile(index_name(path))
    done = _indexed(action, read)
    if done is None:
        return km.SavepointNotCopied(action.request, action.folder, f"index {made.error}")
    if isinstance(done, km.SavepointIndexed):
        assert isinstance(read.value, Index)
        kept = f"{path}/{read.value.folder}/"
        found = yield ListFiles(f"{path}/")
        yield from _clear(found, but=(kept, index_name(path)))
    return done


def _clear(found: Reply, but: Iterable[str] = ()) -> Clearing:
    names = () if found.error else found.value
    assert isinstance(names, tuple)
    for name in names:
        if not name.startswith(tuple(but)):
            yield DeleteFiles(name)


def _read(action: km.ReadSnapshot) -> Steps:
    found = yield ReadFile(index_name(action.path))
    if not isinstance(found.value, Index):
        return km.ImportFailed(action.token, f"index {found.error}", found.error == "missing")
    root = yield Get(at(action.path, found.value.folder, found.value.root))
    if not isinstance(root.value, RootManifest):
        return km.ImportFailed(action.token, f"manifest {root.error}", root.error != "failed")
    return km.SnapshotRead(action.token, root.value)


def _import(uid: JobUid, action: km.ImportSnapshot) -> Steps:
    read = yield from _read(km.ReadSnapshot(action.token, action.path))
    if not isinstance(read, km.SnapshotRead):
        return read
    found = yield ReadFile(index_name(action.path))
    if not isinstance(found.value, Index):
        return km.ImportFailed(action.token, f"index {found.error}")
    renamed: dict[BlobName, BlobRef] = {}
    failed = ""
    for blob in files_of(read.manifest):
        content = yield Get(at(action.path, found.value.folder, blob))
        name = import_name(action, len(renamed), suffix_of(blob.name))
        copied = content if content.error else (yield Put(name, content.value))
        failed = failed or copied.error
        if isinstance(copied.value, BlobRef) and not failed:
            renamed[blob.name] = copied.value
        else:
            break
    if not failed:
        manifest = adopted(read.manifest, renamed, uid, action)
        root = yield Put(import_name(action, len(renamed), ROOT_SUFFIX), manifest)
        if isinstance(root.value, BlobRef) and not root.error:
            return km.Imported(action.token, root.value, manifest)
        failed = root.error
    for number in range(len(renamed) + 1):
        yield DeleteFiles(import_name(action, number, ".state"))
    yield DeleteFiles(import_name(action, len(renamed), ROOT_SUFFIX))
    return km.ImportFailed(action.token, f"a copy is {failed}")
