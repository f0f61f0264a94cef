"""Metadata and Lease over gRPC: served by the one process that has the database open.

The client's methods are those of the ports. A write without an answer is unknown, never failed.

A keeper also asks once for news of stored objects, and is answered when something was written. What
changes seldom is then read when it changes, not by the clock: each read is a call between two
processes, which disturbs the engines of the same machine.

    writer --> NotedMetaStore --note--> Changes --wait--> handler of WATCH --> watch_changes
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from penstock.base.errors import PenstockError, StorageError
from penstock.base.limits import META_RETRY_INTERVAL_S, WATCH_WAIT_S
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


class AwaitWrite(Message, tag="AwaitWrite"):
    """Wait until another number of writes was counted than ``seen``."""

    seen: int


class Written(Message, tag="Written"):
    """How many writes were counted; the same as was seen when there were none in time.

    ``names``: the objects that were written since.
    """

    count: int
    names: tuple[str, ...]


WATCH = Method("watch", AwaitWrite, Written)


class Changes:
    """Counts what was written, and lets any number of threads wait for the next."""

    def __init__(self) -> None:
        """Begin with none."""
        self._count = 0
        self._last: dict[str, int] = {}  # by the name of an object: what its last write counted
        self._counted = threading.Condition()
        self._over = False

    def note(self, name: str) -> None:
        """Count a write of an object."""
        with self._counted:
            self._count += 1
            self._last[name] = self._count
            self._counted.notify_all()

    def close(self) -> None:
        """End all waiting: later calls return at once."""
        with self._counted:
            self._over = True
            self._counted.notify_all()

    def wait(self, seen: int, timeout_s: float) -> Written:
        """Return what was written once the count is not ``seen``, or when the time is over."""
        with self._counted:
            self._counted.wait_for(lambda: self._over or self._count != seen, timeout_s)
            since = seen if seen <= self._count else -1  # more than there are: of another server
            names = (name for name, count in self._last.items() if count > since)
            return Written(self._count, tuple(sorted(names)))

    def handlers(self) -> Mapping[Method[Any, Any], Handler]:
        """Serve :data:`WATCH`; each call holds a thread of the server for WATCH_WAIT_S at most."""
        return {WATCH: lambda request: self.wait(request.seen, WATCH_WAIT_S)}


class NotedMetaStore:
    """A :class:`penstock.ports.MetaStore` that says when something may have been written."""

    def __init__(self, store: MetaStore, note: Callable[[str], None]) -> None:
        """Pass everything on to ``store``."""
        self._store = store
        self._note = note

    def get(self, name: str) -> Versioned | None:
        """Return the newest object, or None. Raises StorageError."""
        return self._store.get(name)

    def create(self, name: str, data: bytes) -> Versioned:
        """Create atomically. Raises SwapConflict, SwapUnknown."""
        try:
            return self._store.create(name, data)
        finally:
            self._note(name)

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        """Replace exactly ``version``. Raises SwapConflict, SwapUnknown."""
        try:
            return self._store.swap(name, data, version)
        finally:
            self._note(name)


def watch_changes(client: Client, changed: Callable[[Collection[str]], None]) -> None:
    """Start a thread that calls ``changed`` with the names of objects that may be others now.

    At first with all that were written so far.

    Nothing is said while there is no answer. Those who must know read the object now and then anyway.
    It ends with the process, or when the client is closed.
    """

    def watch() -> None:
        seen = -1
        while True:
            try:
                written = client.call(WATCH, AwaitWrite(seen))
            except ValueError:  # the client was closed: gRPC's own word for it
                return
            except (Unreachable, PenstockError):
                time.sleep(META_RETRY_INTERVAL_S)
                continue
            if written.count != seen:
                seen = written.count
                changed(written.names)

    threading.Thread(target=watch, name="watch", daemon=True).start()
