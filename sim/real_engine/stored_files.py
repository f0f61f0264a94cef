"""The stores behind the simulated keepers, when their files are those that real engines read and write.

Metadata and Lease are those of :class:`sim.cluster.services.Service`. The job's directory is a
:class:`penstock.storage.blobs.DirectoryBlobStore`, so its files are bytes.
"""

from random import Random
from typing import cast

from penstock.base.errors import PenstockError, StateError
from penstock.contract.codec import decode, encode
from penstock.contract.control_messages import MembersFile
from penstock.contract.ids import MEMBERS_SUFFIX, BlobName
from penstock.contract.manifest import RootManifest
from penstock.storage.blobs import DirectoryBlobStore
from sim.cluster.services import WRITE_US, Service
from sim.kernel.calls import ROOT_FILE, Call, DeleteFiles, FileOp, Get, ListFiles, Put, ReadFile, Reply
from sim.kernel.kernel import SimKernel

ROOT_BYTES_MAX = 1_000


class RealFiles(Service):
    """See the module. It knows the calls of keepers, without those on savepoints."""

    def __init__(self, kernel: SimKernel, chances: Random, blobs: DirectoryBlobStore) -> None:
        super().__init__(kernel, chances, codec=False)
        self.blobs = blobs
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
                self._staged += 1
                self.blobs.put_whole(name, BlobName(f"{ROOT_FILE}.{self._staged}"), str(content).encode())
                return None
            case Put(name, content):
                return self.blobs.put(name, encode(cast("RootManifest | MembersFile", content)))
            case Get(ref):
                kind = MembersFile if ref.name.endswith(MEMBERS_SUFFIX) else RootManifest
                return decode(kind, self.blobs.get(ref))
            case ReadFile(name):
                found = self.blobs.peek(name, ROOT_BYTES_MAX)
                if found is None:
                    raise StateError(f"{name} is missing")
                return found.decode()
            case ListFiles():
                return tuple(self.blobs.list_for_collection())
            case DeleteFiles(name):
                if self.watcher is not None:
                    self.watcher.deleted(name)
                self.blobs.delete(name)
                return None
            case _:
                raise AssertionError(f"no keeper of these scenarios asks for {type(op).__name__}")
