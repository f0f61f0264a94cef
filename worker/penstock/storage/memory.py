"""A blob store in the memory of one process, for a run that keeps nothing on disk."""

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

from penstock.base.errors import StateError, StorageError
from penstock.contract.ids import BlobName
from penstock.contract.manifest import BlobRef


class MemoryBlobStore:
    """:class:`penstock.ports.BlobStore` over a dict."""

    def __init__(self) -> None:
        """Begin empty."""
        self._files: dict[BlobName, bytes] = {}

    def put(self, name: BlobName, data: bytes) -> BlobRef:
        """Create exclusively. Raises StorageError on a used name."""
        if name in self._files:
            raise StorageError(f"{name} exists already; names are never used again")
        self._files[name] = data
        return BlobRef(name, hashlib.sha256(data).hexdigest(), len(data))

    def put_file(self, name: BlobName, path: str) -> BlobRef:
        """Like :meth:`put`, from a local file."""
        return self.put(name, Path(path).read_bytes())

    def get(self, ref: BlobRef) -> bytes:
        """Read whole. Raises StateError when the file is missing or is another one."""
        data = self._files.get(ref.name)
        if data is None:
            raise StateError(f"{ref.name} is missing")
        if len(data) != ref.size or hashlib.sha256(data).hexdigest() != ref.sha256:
            raise StateError(f"{ref.name} is not the file that the manifest names")
        return data

    def check(self, ref: BlobRef) -> None:
        """Like :meth:`get`, but return nothing."""
        self.get(ref)

    def fetch(self, ref: BlobRef, path: str) -> None:
        """Like :meth:`get`, into a local file."""
        Path(path).write_bytes(self.get(ref))

    def delete(self, name: BlobName) -> None:
        """Remove; a missing file is no error."""
        self._files.pop(name, None)

    def list_for_collection(self) -> Iterator[BlobName]:
        """List the names in order."""
        return iter(sorted(self._files))

    def keep_only(self, names: Collection[BlobName]) -> None:
        """Remove all files but these."""
        self._files = {name: data for name, data in self._files.items() if name in names}

    def copy(self) -> "MemoryBlobStore":
        """Return a store of its own with the files that are here now."""
        store = MemoryBlobStore()
        store._files = dict(self._files)
        return store
