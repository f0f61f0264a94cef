"""The stores behind the simulated keepers, when their files are those that real engines read and write.

Metadata and Lease are those of :class:`sim.cluster.services.Service`. The job's directory and the folder of
savepoints are each a :class:`penstock.storage.blobs.DirectoryBlobStore`, so their files are bytes.
"""

from dataclasses import dataclass
from random import Random

from penstock.base.errors import PenstockError, StateError, StorageError
from penstock.base.values import replace
from penstock.contract.codec import decode, encode
from penstock.contract.control_messages import MembersFile
from penstock.contract.ids import MEMBERS_SUFFIX, ROOT_SUFFIX, BlobName
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.keeper.savepoint_copies import INDEX, SavepointIndex, index_of
from penstock.storage.blobs import DirectoryBlobStore
from sim.cluster.savepoint_files import Index
from sim.cluster.services import WRITE_US, Service
from sim.kernel.calls import (
    ROOT_FILE,
    SAVEPOINTS,
    Call,
    DeleteFiles,
    FileOp,
    Get,
    LinkFile,
    ListFiles,
    Put,
    ReadFile,
    Reply,
)
from sim.kernel.kernel import SimKernel

SMALL_FILE_BYTES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class SharedFolders:
    """The job's directory, and the folder of savepoints, as one machine sees them."""

    job: DirectoryBlobStore
    savepoints: DirectoryBlobStore

    def of(self, name: BlobName) -> tuple[DirectoryBlobStore, BlobName]:
        """Return the store of a file, and the file's name there."""
        if name.startswith(SAVEPOINTS):
            return self.savepoints, BlobName(name.removeprefix(SAVEPOINTS))
        return self.job, name

    def get(self, ref: BlobRef) -> bytes:
        """Read a file of either. Raises StateError and StorageError, as the store does."""
        store, name = self.of(ref.name)
        return store.get(replace(ref, name=name))


class RealFiles(Service):
    """See the module."""

    def __init__(self, kernel: SimKernel, chances: Random, stores: SharedFolders) -> None:
        super().__init__(kernel, chances, codec=False)
        self.stores = stores
        self._staged = 0

    def _refuse(self, call: Call) -> None:
        self._reply(call, Reply(call.token, call.op, error="failed"))

    def _begin_write(self, call: Call, op: Put) -> None:
        if self.disk.full:
            self._refuse(call)
        else:
            from sim.kernel.calls import Written  # noqa: PLC0415

            self.kernel.at(self.kernel.streams.schedule.randint(*WRITE_US), "store", Written(call))

    def _written(self, call: Call) -> None:
        if self._lives(call):
            self._reply(call, self._apply(call))
        else:
            self.kernel.happened("writer died inside a write")

    def _apply_to_file(self, call: Call, op: FileOp) -> Reply:
        try:
            return Reply(call.token, op, self._on_disk(op))
        except StateError as error:
            return Reply(call.token, op, error="missing" if "missing" in str(error) else "damaged")
        except PenstockError:
            return Reply(call.token, op, error="failed")

    def _on_disk(self, op: FileOp) -> object:
        match op:
            case Put(name, content) if name == ROOT_FILE:
                self._put_whole(name, str(content).encode())
                return None
            case Put(name, content):
                return self._put(name, content)
            case LinkFile(name, content):
                self._link_index(name, content)
                return None
            case Get(ref):
                return _decoded(ref.name, self.stores.get(ref))
            case ReadFile(name):
                return self._read_small(name)
            case ListFiles(under):
                return self._listed(under)
            case DeleteFiles(name):
                if self.watcher is not None:
                    self.watcher.deleted(name)
                store, inside = self.stores.of(name)
                store.delete(inside)
                return None
            case _:
                raise AssertionError(f"no keeper asks for {type(op).__name__}")

    def _put(self, name: BlobName, content: object) -> BlobRef:
        store, inside = self.stores.of(name)
        assert isinstance(content, RootManifest | MembersFile | bytes)
        ref = store.put(inside, content if isinstance(content, bytes) else encode(content))
        return replace(ref, name=name)

    def _put_whole(self, name: BlobName, content: bytes) -> None:
        self._staged += 1
        store, inside = self.stores.of(name)
        store.put_whole(inside, BlobName(f"{inside}.{self._staged}"), content)

    def _link_index(self, name: BlobName, content: object) -> None:
        assert isinstance(content, Index)
        store, inside = self.stores.of(name)
        if self.disk.full or store.peek(inside, SMALL_FILE_BYTES_MAX) is not None:
            raise StorageError(f"{name} cannot be linked")
        if self.watcher is not None:
            self.watcher.indexed(name, content)
        savepoint = name.removeprefix(SAVEPOINTS).removesuffix(f"/{INDEX}")
        self._put_whole(name, index_of("job", savepoint, content.root, content.folder))

    def _read_small(self, name: BlobName) -> object:
        store, inside = self.stores.of(name)
        found = store.peek(inside, SMALL_FILE_BYTES_MAX)
        if found is None:
            raise StateError(f"{name} is missing")
        if not name.endswith(INDEX):
            return found.decode()
        index = decode(SavepointIndex, found)
        return Index(index.root, index.folder)

    def _listed(self, under: str) -> tuple[BlobName, ...]:
        if not under.startswith(SAVEPOINTS):
            return tuple(self.stores.job.list_for_collection())
        found = (BlobName(SAVEPOINTS + name) for name in self.stores.savepoints.list_for_collection())
        return tuple(name for name in found if name.startswith(under))


def _decoded(name: BlobName, content: bytes) -> object:
    if name.endswith(MEMBERS_SUFFIX):
        return decode(MembersFile, content)
    return decode(RootManifest, content) if name.endswith(ROOT_SUFFIX) else content
