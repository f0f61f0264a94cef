"""A virtual store of objects, and the twin of its client (obstore's ``S3Store``).

Each call of :class:`VirtualBucket` is one atomic step, as a request of S3 is. The client has the methods that
``connectors/s3`` calls. ``send`` carries a request there and back: it may take time, or raise the client's errors.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from obstore import exceptions

Send = Callable[[str, tuple[Any, ...]], Any]  # the name of a method of the bucket, its arguments


class VirtualBucket:
    """Objects by their keys. ``created`` is called with the key of each new object."""

    def __init__(self, created: Callable[[str], None] = lambda _: None) -> None:
        self._objects: dict[str, bytes] = {}
        self._created = created

    def create(self, key: str, data: bytes) -> bool:
        """Write an object unless there is one. Returns whether there was none."""
        if key in self._objects:
            return False
        self._objects[key] = data
        self._created(key)
        return True

    def overwrite(self, key: str, data: bytes) -> bool:
        """Write an object."""
        self._objects[key] = data
        return True

    def read(self, key: str) -> bytes | None:
        """Return an object; None when there is none."""
        return self._objects.get(key)

    def keys(self, below: str) -> list[str]:
        """List the keys that begin with ``below``, sorted."""
        return sorted(key for key in self._objects if key.startswith(below))

    def delete(self, key: str) -> None:
        """Remove an object if it is there."""
        self._objects.pop(key, None)

    def client_ended(self, client: str) -> None:
        """Do nothing: no request is about an earlier one of the same client."""

    def files(self, folder: str) -> dict[str, bytes]:
        """Return the objects in a folder, without those in folders of it, by their names."""
        keys = [key for key in self.keys(f"{folder}/") if "/" not in key.removeprefix(f"{folder}/")]
        return {key.removeprefix(f"{folder}/"): self._objects[key] for key in keys}


class BucketClient:
    """Twin of ``obstore.store.S3Store``. All names are relative to ``prefix``."""

    def __init__(self, prefix: str, send: Send) -> None:
        self._prefix = f"{prefix}/" if prefix else ""
        self._send = send

    def put(self, name: str, data: bytes, *, mode: str = "overwrite", use_multipart: bool = True) -> None:
        """Write an object in one request. Raises AlreadyExistsError."""
        how = "create" if mode == "create" else "overwrite"
        if not self._send(how, (self._prefix + name, bytes(data))):
            raise exceptions.AlreadyExistsError(f"Object at location {name} already exists")

    def get(self, name: str, *, options: Any = None) -> "GotObject":
        """Read an object. Raises FileNotFoundError, and PreconditionError when it is another version."""
        data, options = self._found(name), options or {}
        if options.get("if_match", etag(data)) != etag(data):
            raise exceptions.PreconditionError(f"Object at location {name} is another one")
        start, end = options.get("range", (0, len(data)))
        return GotObject(data[start:end])

    def head(self, name: str) -> dict[str, Any]:
        """Look at an object. Raises FileNotFoundError."""
        data = self._found(name)
        return {"size": len(data), "e_tag": etag(data)}

    def list(self, below: str | None = None) -> Iterator[list[dict[str, str]]]:
        """List all objects in a folder, and in the folders in it."""
        keys = self._send("keys", (self._prefix + (f"{below}/" if below else ""),))
        yield [{"path": key.removeprefix(self._prefix)} for key in keys]

    def list_with_delimiter(self) -> dict[str, Any]:
        """List the folder itself."""
        names = [key.removeprefix(self._prefix) for key in self._send("keys", (self._prefix,))]
        folders = sorted({name.partition("/")[0] for name in names if "/" in name})
        return {"common_prefixes": folders, "objects": [{"path": name} for name in names if "/" not in name]}

    def delete(self, name: str) -> None:
        """Remove an object."""
        self._send("delete", (self._prefix + name,))

    def _found(self, name: str) -> bytes:
        data: bytes | None = self._send("read", (self._prefix + name,))
        if data is None:
            raise FileNotFoundError(f"Object at location {name} not found")
        return data


class GotObject:
    """The answer to a request for an object."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def bytes(self) -> bytes:
        """Return it whole."""
        return self._data

    def stream(self, piece_bytes: int) -> Any:
        """Return it in pieces."""
        return [self._data[at : at + piece_bytes] for at in range(0, len(self._data), piece_bytes)]


def etag(data: bytes) -> str:
    """Return what names a content."""
    return hashlib.sha256(data).hexdigest()[:32]
