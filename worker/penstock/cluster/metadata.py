"""Metadata and Lease over gRPC: served by the one process that has the database open.

The client's methods are those of the ports. A write without an answer is unknown, never failed.
"""

from collections.abc import Mapping
from typing import Any

from penstock.base.errors import StorageError
from penstock.cluster.rpc import Client, Handler, Method, Reply, Request, Unreachable
from penstock.contract.codec import Message
from penstock.ports import LeaseStore, LeaseView, MetaStore, SwapUnknown, Versioned


class GetObject(Message, tag="GetObject"):
    """Read one object."""

    name: str


class PutObject(Message, tag="PutObject"):
    """Create (``version`` None) or swap. ``data`` has one character per byte."""

    name: str
    data: str
    version: str | None


class StoredObject(Message, tag="StoredObject"):
    """An object and its version."""

    data: str
    version: str
    uid: str


class FoundObject(Message, tag="FoundObject"):
    """The answer to :class:`GetObject`; None when there is no such object."""

    found: StoredObject | None


class GetLease(Message, tag="GetLease"):
    """Read the Lease."""


class PutLease(Message, tag="PutLease"):
    """Take, renew or give up the Lease."""

    holder: str | None
    version: str


class LeaseState(Message, tag="LeaseState"):
    """The Lease, as :class:`penstock.ports.LeaseView`."""

    holder: str | None
    renewed: str
    duration_s: float
    version: str


GET = Method("get", GetObject, FoundObject)
PUT = Method("put", PutObject, StoredObject)
LEASE = Method("lease", GetLease, LeaseState)
HOLD = Method("hold", PutLease, LeaseState)


def metadata_handlers(store: MetaStore, lease: LeaseStore) -> Mapping[Method[Any, Any], Handler]:
    """Serve ``store`` and ``lease`` as the methods of this module."""

    def get(request: GetObject) -> FoundObject:
        found = store.get(request.name)
        return FoundObject(None if found is None else _to_message(found))

    def put(request: PutObject) -> StoredObject:
        data = request.data.encode("latin-1")
        if request.version is None:
            return _to_message(store.create(request.name, data))
        return _to_message(store.swap(request.name, data, request.version))

    def hold(request: PutLease) -> LeaseState:
        return _to_state(lease.write(request.holder, request.version))

    return {GET: get, PUT: put, LEASE: lambda _: _to_state(lease.read()), HOLD: hold}


class RemoteMetaStore:
    """:class:`penstock.ports.MetaStore` of another process."""

    def __init__(self, client: Client) -> None:
        """Ask through ``client``."""
        self._client = client

    def get(self, name: str) -> Versioned | None:
        """Return the newest object. Raises StorageError when there is no answer."""
        found = _read(self._client, GET, GetObject(name)).found
        return None if found is None else _from_message(found)

    def create(self, name: str, data: bytes) -> Versioned:
        """Create atomically. Raises SwapConflict, SwapUnknown."""
        request = PutObject(name, data.decode("latin-1"), None)
        return _from_message(_write(self._client, PUT, request))

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        """Replace exactly ``version``. Raises SwapConflict, SwapUnknown."""
        request = PutObject(name, data.decode("latin-1"), version)
        return _from_message(_write(self._client, PUT, request))


class RemoteLeaseStore:
    """:class:`penstock.ports.LeaseStore` of another process."""

    def __init__(self, client: Client) -> None:
        """Ask through ``client``."""
        self._client = client

    def read(self) -> LeaseView:
        """Return the Lease. Raises StorageError when there is no answer."""
        return _from_state(_read(self._client, LEASE, GetLease()))

    def write(self, holder: str | None, version: str) -> LeaseView:
        """Take, renew or give up. Raises SwapConflict, SwapUnknown."""
        return _from_state(_write(self._client, HOLD, PutLease(holder, version)))


def _read(client: Client, method: Method[Request, Reply], request: Request) -> Reply:
    try:
        return client.call(method, request)
    except Unreachable as error:
        raise StorageError(f"metadata store: {error}") from error


def _write(client: Client, method: Method[Request, Reply], request: Request) -> Reply:
    try:
        return client.call(method, request)
    except Unreachable as error:
        raise SwapUnknown(f"metadata store: {error}") from error


def _to_message(stored: Versioned) -> StoredObject:
    # Latin-1 maps every byte to one character and back, and leaves JSON readable.
    return StoredObject(stored.data.decode("latin-1"), stored.version, stored.uid)


def _from_message(stored: StoredObject) -> Versioned:
    return Versioned(stored.data.encode("latin-1"), stored.version, stored.uid)


def _to_state(view: LeaseView) -> LeaseState:
    return LeaseState(view.holder, view.renewed, view.duration_s, view.version)


def _from_state(state: LeaseState) -> LeaseView:
    return LeaseView(state.holder, state.renewed, state.duration_s, state.version)
