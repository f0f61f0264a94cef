"""Performs the cores' actions: each in a lane where it may block, and none in the loop.

The functions are the blocking halves of the actions on Lease, metadata and files. Each performs one
action and returns the one event that answers it. The errors of the ports become the events that
the cores know.
"""

import uuid
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import PeerError, PenstockError, StateError, StorageError
from penstock.base.limits import MANIFEST_BYTES_MAX
from penstock.cluster.launch import KeeperLaunch
from penstock.contract.codec import decode, encode
from penstock.contract.control_messages import Envelope, MembersFile
from penstock.contract.ids import BlobName
from penstock.contract.latest import Desired, decode_desired, decode_latest, encode_latest
from penstock.contract.manifest import RootManifest
from penstock.contract.pod import latest_name
from penstock.keeper import savepoint_copies as savepoints
from penstock.keeper.engine_process import Engines
from penstock.keeper.keeper_messages import (
    Core,
    ForCoordinator,
    ForMember,
    Item,
    Job,
    KeeperInbox,
    Lane,
    PeerSenders,
)
from penstock.metrics.logs import Log
from penstock.ports import LeaseStore, MetaStore, SwapConflict, SwapUnknown
from penstock.protocol import keeper_core_messages as km
from penstock.storage.blobs import DirectoryBlobStore

ROOT_FILE = BlobName("ROOT")


ROOT_FILE_BYTES_MAX = 4096


FileAction = km.WriteBlob | km.ReadBlob | km.ListBlobs | km.DeleteBlobs | km.ReadRootFile | km.WriteRootFile


def read_lease(store: LeaseStore, action: km.ReadLease) -> km.CoordinatorEvent:
    """Perform :class:`km.ReadLease`."""
    try:
        view = store.read()
    except PenstockError as error:
        return km.LeaseFailed(action.token, str(error))
    return km.LeaseRead(action.token, view.holder, view.renewed, view.duration_s, view.version)


def write_lease(store: LeaseStore, action: km.WriteLease) -> km.CoordinatorEvent:
    """Perform :class:`km.WriteLease`."""
    try:
        view = store.write(action.holder, action.version)
    except (PenstockError, SwapConflict, SwapUnknown) as error:
        return km.LeaseFailed(action.token, str(error))
    return km.LeaseWritten(action.token, view.version)


def read_latest(store: MetaStore, name: str, action: km.ReadLatest) -> km.LatestRead | km.LatestUnreadable:
    """Perform :class:`km.ReadLatest`."""
    try:
        found = store.get(name)
        if found is None:
            return km.LatestRead(action.token, None)
        record = decode_latest(found.data)
    except PenstockError as error:
        return km.LatestUnreadable(action.token, str(error))
    return km.LatestRead(action.token, record, found.version, found.uid)


def refuse_newer(store: MetaStore, name: str) -> None:
    """Raise StateError when the record is of a newer version: no keeper of this version may lead.

    A record that cannot be read for another reason is read again by the leader.
    """
    try:
        found = store.get(name)
        if found is not None:
            decode_latest(found.data)
    except (StorageError, PeerError):
        return


def swap_latest(store: MetaStore, name: str, action: km.SwapLatest) -> km.CoordinatorEvent:
    """Perform :class:`km.SwapLatest`. Whatever is not certain is unknown."""
    swap_id = action.latest.swap_id
    try:
        stored = store.swap(name, encode_latest(action.latest), action.version)
    except SwapConflict:
        return km.SwapConflicted(swap_id)
    except (PenstockError, SwapUnknown) as error:
        return km.SwapUnknown(swap_id, str(error))
    return km.SwapDone(swap_id, stored.version)


def read_desired(store: MetaStore, name: str) -> Desired | None:
    """Read what is wanted. Raises PenstockError when the store does not answer."""
    found = store.get(name)
    return None if found is None else decode_desired(found.data)


def file_action(store: DirectoryBlobStore, action: FileAction) -> km.CoordinatorEvent | str | None:
    """Perform one action on files. A text is the failure of an action that has no answer."""
    match action:
        case km.WriteBlob():
            return write_blob(store, action)
        case km.ReadBlob():
            return read_blob(store, action)
        case km.ListBlobs():
            return list_blobs(store, action)
        case km.DeleteBlobs():
            return delete_blobs(store, action)
        case km.ReadRootFile():
            return read_root_file(store, action)
        case km.WriteRootFile():
            return write_root_file(store, action)


def write_blob(store: DirectoryBlobStore, action: km.WriteBlob) -> km.CoordinatorEvent:
    """Perform :class:`km.WriteBlob`. A file over the limit of a manifest is not written."""
    data = encode(action.value)
    if len(data) > MANIFEST_BYTES_MAX:
        return km.BlobNotWritten(action.name, _too_large(action.name, len(data)))
    try:
        return km.BlobWritten(store.put(action.name, data))
    except PenstockError as error:
        return km.BlobNotWritten(action.name, str(error))


def read_blob(store: DirectoryBlobStore, action: km.ReadBlob) -> km.CoordinatorEvent:
    """Perform :class:`km.ReadBlob`."""
    kind: type[RootManifest] | type[MembersFile] = RootManifest if action.kind is km.BlobKind.ROOT else MembersFile
    if action.ref.size > MANIFEST_BYTES_MAX:
        reason = _too_large(action.ref.name, action.ref.size)
        return km.BlobUnreadable(action.ref, reason, damaged=True)
    try:
        value = decode(kind, store.get(action.ref))
    except StateError as error:
        return km.BlobUnreadable(action.ref, str(error), damaged=True)
    except PenstockError as error:
        # Its hash was right, so what does not decode was written by another version of us.
        damaged = isinstance(error, PeerError)
        return km.BlobUnreadable(action.ref, str(error), damaged)
    return km.BlobRead(action.ref, value)


def _too_large(name: BlobName, size: int) -> str:
    return (
        f"manifest {name} has {size} bytes, at most {MANIFEST_BYTES_MAX} are possible: fewer splits"
        " (input files), steps or workers make it smaller"
    )


def list_blobs(store: DirectoryBlobStore, action: km.ListBlobs) -> km.CoordinatorEvent:
    """Perform :class:`km.ListBlobs`."""
    try:
        return km.BlobsListed(action.token, tuple(store.list_for_collection()))
    except PenstockError:
        return km.BlobsListed(action.token, None)


def delete_blobs(store: DirectoryBlobStore, action: km.DeleteBlobs) -> str | None:
    """Perform :class:`km.DeleteBlobs`. Returns the first failure in words, for the log."""
    for name in action.names:
        try:
            store.delete(name)
        except PenstockError as error:
            return str(error)  # what stays is found again by the next listing
    return None


def read_root_file(store: DirectoryBlobStore, action: km.ReadRootFile) -> km.CoordinatorEvent:
    """Perform :class:`km.ReadRootFile`."""
    try:
        data = store.peek(ROOT_FILE, ROOT_FILE_BYTES_MAX)
    except PenstockError as error:
        return km.RootFileFailed(action.token, str(error))
    text = None if data is None else data.decode(errors="replace")
    return km.RootFileRead(action.token, text)


def write_root_file(store: DirectoryBlobStore, action: km.WriteRootFile) -> km.CoordinatorEvent:
    """Perform :class:`km.WriteRootFile`."""
    try:
        staged = BlobName(f"{ROOT_FILE}-{uuid.uuid4()}")
        store.put_whole(ROOT_FILE, staged, action.text.encode())
    except PenstockError as error:
        return km.RootFileFailed(action.token, str(error))
    return km.RootFileWritten(action.token)


@dataclass(frozen=True, slots=True)
class Stores:
    """Where the job's truth and files are."""

    metadata: MetaStore
    lease: LeaseStore
    blobs: DirectoryBlobStore


@dataclass(frozen=True, slots=True)
class Outside:
    """What the actions act upon: this worker's engine and the other keepers."""

    engines: Engines
    senders: PeerSenders
    address: str


class KeeperEffects:
    """Used by the loop only. ``loopback`` holds messages of this keeper to itself; the loop takes them first.

    The Lease has a lane of its own: nothing slower may delay a renewal.
    """

    def __init__(self, launch: KeeperLaunch, stores_: Stores, outside: Outside, inbox: KeeperInbox, log: Log) -> None:
        """Start the lanes."""
        self._launch = launch
        self._latest = latest_name(launch.job)
        self._stores = stores_
        self._outside = outside
        self._log = log
        self.loopback: deque[Item] = deque()
        self._lease, self._metadata, self._files, self._copies = (
            Lane(name, inbox) for name in ("lease", "metadata", "files", "copies")
        )

    def perform(self, core: Core, action: km.Action) -> None:
        """Begin one action; its answer comes to ``core`` through the inbox."""
        match action:
            case km.SendCommand(address=address, envelope=envelope):
                self._send(address, envelope, ForMember(km.CommandArrived(envelope)))
            case km.SendReport(address, envelope):
                self._send(address, envelope, ForCoordinator(km.ReportArrived(envelope)))
            case km.ToEngine(incarnation, term, command):
                self._outside.engines.send(incarnation, term, command)
            case km.StartEngine():
                self._outside.engines.start()
            case km.EndEngine(incarnation, reason):
                self._log.say("ending the engine", incarnation=incarnation, reason=reason)
                self._outside.engines.end(incarnation)
            case km.Note(text):
                self._log.line(text)
            case km.ReadLease() | km.WriteLease():
                self._lease.do(self._lease_job(action))
            case km.ReadLatest() | km.SwapLatest():
                self._metadata.do(self._metadata_job(core, action))
            case km.CopySavepoint() | km.ReadSnapshot() | km.ImportSnapshot():
                self._copies.do(self._copy_job(action))
            case km.IndexSavepoint():  # not behind another savepoint's copy
                self._files.do(self._index_job(action))
            case _:
                self._files.do(self._file_job(action))

    def _send(self, address: str, envelope: Envelope, arrived: Item) -> None:
        if address == self._outside.address:
            self.loopback.append(arrived)
        else:
            self._outside.senders.send(address, envelope)

    def _lease_job(self, action: km.ReadLease | km.WriteLease) -> Job:
        lease = self._stores.lease
        if isinstance(action, km.ReadLease):
            return lambda: ForCoordinator(read_lease(lease, action))
        return lambda: ForCoordinator(write_lease(lease, action))

    def _metadata_job(self, core: Core, action: km.ReadLatest | km.SwapLatest) -> Job:
        store, name = self._stores.metadata, self._latest
        if isinstance(action, km.ReadLatest):
            return lambda: _for(core, read_latest(store, name, action))
        return lambda: ForCoordinator(swap_latest(store, name, action))

    def _copy_job(self, action: km.CopySavepoint | km.ReadSnapshot | km.ImportSnapshot) -> Job:
        blobs, launch = self._stores.blobs, self._launch

        def copy() -> Item:
            match action:
                case km.CopySavepoint():
                    event = savepoints.copy_savepoint(blobs, Path(launch.savepoints), action)
                case km.ReadSnapshot():
                    event = savepoints.read_snapshot(action, blobs.files)
                case km.ImportSnapshot():
                    event = savepoints.import_snapshot(blobs, launch.job_uid, action)
            return ForCoordinator(event)

        return copy

    def _index_job(self, action: km.IndexSavepoint) -> Job:
        folder, job, files = Path(self._launch.savepoints), self._launch.job, self._stores.blobs.files
        return lambda: ForCoordinator(savepoints.index_savepoint(folder, job, action, files))

    def _file_job(self, action: FileAction) -> Job:
        blobs = self._stores.blobs

        def act() -> Item | None:
            event = file_action(blobs, action)
            if isinstance(event, str):
                self._log.say("could not delete", reason=event)
                return None
            return None if event is None else ForCoordinator(event)

        return act


def _for(core: Core, event: km.LatestRead | km.LatestUnreadable) -> Item:
    return ForCoordinator(event) if core is Core.COORDINATOR else ForMember(event)
