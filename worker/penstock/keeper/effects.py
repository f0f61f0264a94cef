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
from penstock.cluster.launch import KeeperLaunch, latest_name
from penstock.contract.codec import decode, encode
from penstock.contract.control_messages import Envelope, MembersFile
from penstock.contract.ids import BlobName
from penstock.contract.latest import Desired, decode_desired, decode_latest, encode_latest
from penstock.contract.manifest import RootManifest
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
from penstock.protocol import control_actions as actions
from penstock.protocol import control_events as events
from penstock.storage.blobs import DirectoryBlobStore

ROOT_FILE = BlobName("ROOT")


ROOT_FILE_BYTES_MAX = 4096


FileAction = (
    actions.WriteBlob
    | actions.ReadBlob
    | actions.ListBlobs
    | actions.DeleteBlobs
    | actions.ReadRootFile
    | actions.WriteRootFile
)


def read_lease(store: LeaseStore, action: actions.ReadLease) -> events.CoordinatorEvent:
    """Perform :class:`actions.ReadLease`."""
    try:
        view = store.read()
    except PenstockError as error:
        return events.LeaseFailed(action.token, str(error))
    return events.LeaseRead(action.token, view.holder, view.renewed, view.duration_s, view.version)


def write_lease(store: LeaseStore, action: actions.WriteLease) -> events.CoordinatorEvent:
    """Perform :class:`actions.WriteLease`."""
    try:
        view = store.write(action.holder, action.version)
    except (PenstockError, SwapConflict, SwapUnknown) as error:
        return events.LeaseFailed(action.token, str(error))
    return events.LeaseWritten(action.token, view.version)


def read_latest(store: MetaStore, name: str, action: actions.ReadLatest) -> events.LatestRead | events.LatestUnreadable:
    """Perform :class:`actions.ReadLatest`."""
    try:
        found = store.get(name)
        if found is None:
            return events.LatestRead(action.token, None)
        record = decode_latest(found.data)
    except PenstockError as error:
        return events.LatestUnreadable(action.token, str(error))
    return events.LatestRead(action.token, record, found.version, found.uid)


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


def swap_latest(store: MetaStore, name: str, action: actions.SwapLatest) -> events.CoordinatorEvent:
    """Perform :class:`actions.SwapLatest`. Whatever is not certain is unknown."""
    swap_id = action.latest.swap_id
    try:
        stored = store.swap(name, encode_latest(action.latest), action.version)
    except SwapConflict:
        return events.SwapConflicted(swap_id)
    except (PenstockError, SwapUnknown) as error:
        return events.SwapUnknown(swap_id, str(error))
    return events.SwapDone(swap_id, stored.version)


def read_desired(store: MetaStore, name: str) -> Desired | None:
    """Read what is wanted. Raises PenstockError when the store does not answer."""
    found = store.get(name)
    return None if found is None else decode_desired(found.data)


def file_action(store: DirectoryBlobStore, action: FileAction) -> events.CoordinatorEvent | str | None:
    """Perform one action on files. A text is the failure of an action that has no answer."""
    match action:
        case actions.WriteBlob():
            return write_blob(store, action)
        case actions.ReadBlob():
            return read_blob(store, action)
        case actions.ListBlobs():
            return list_blobs(store, action)
        case actions.DeleteBlobs():
            return delete_blobs(store, action)
        case actions.ReadRootFile():
            return read_root_file(store, action)
        case actions.WriteRootFile():
            return write_root_file(store, action)


def write_blob(store: DirectoryBlobStore, action: actions.WriteBlob) -> events.CoordinatorEvent:
    """Perform :class:`actions.WriteBlob`; what is larger than a manifest may be is not written."""
    data = encode(action.value)
    if len(data) > MANIFEST_BYTES_MAX:
        return events.BlobNotWritten(action.name, _too_large(action.name, len(data)))
    try:
        return events.BlobWritten(store.put(action.name, data))
    except PenstockError as error:
        return events.BlobNotWritten(action.name, str(error))


def read_blob(store: DirectoryBlobStore, action: actions.ReadBlob) -> events.CoordinatorEvent:
    """Perform :class:`actions.ReadBlob`."""
    kind: type[RootManifest] | type[MembersFile] = RootManifest if action.kind is actions.BlobKind.ROOT else MembersFile
    if action.ref.size > MANIFEST_BYTES_MAX:
        reason = _too_large(action.ref.name, action.ref.size)
        return events.BlobUnreadable(action.ref, reason, damaged=True)
    try:
        value = decode(kind, store.get(action.ref))
    except StateError as error:
        return events.BlobUnreadable(action.ref, str(error), damaged=True)
    except PenstockError as error:
        # Its hash was right, so what does not decode was written by another version of us.
        damaged = isinstance(error, PeerError)
        return events.BlobUnreadable(action.ref, str(error), damaged)
    return events.BlobRead(action.ref, value)


def _too_large(name: BlobName, size: int) -> str:
    return (
        f"manifest {name} has {size} bytes, at most {MANIFEST_BYTES_MAX} are possible: fewer splits"
        " (input files), steps or workers make it smaller"
    )


def list_blobs(store: DirectoryBlobStore, action: actions.ListBlobs) -> events.CoordinatorEvent:
    """Perform :class:`actions.ListBlobs`."""
    try:
        return events.BlobsListed(action.token, tuple(store.list_for_collection()))
    except PenstockError:
        return events.BlobsListed(action.token, None)


def delete_blobs(store: DirectoryBlobStore, action: actions.DeleteBlobs) -> str | None:
    """Perform :class:`actions.DeleteBlobs`. Returns the first failure in words, for the log."""
    for name in action.names:
        try:
            store.delete(name)
        except PenstockError as error:
            return str(error)  # what stays is found again by the next listing
    return None


def read_root_file(store: DirectoryBlobStore, action: actions.ReadRootFile) -> events.CoordinatorEvent:
    """Perform :class:`actions.ReadRootFile`."""
    try:
        data = store.peek(ROOT_FILE, ROOT_FILE_BYTES_MAX)
    except PenstockError as error:
        return events.RootFileFailed(action.token, str(error))
    text = None if data is None else data.decode(errors="replace")
    return events.RootFileRead(action.token, text)


def write_root_file(store: DirectoryBlobStore, action: actions.WriteRootFile) -> events.CoordinatorEvent:
    """Perform :class:`actions.WriteRootFile`."""
    try:
        staged = BlobName(f"{ROOT_FILE}-{uuid.uuid4()}")
        store.put_whole(ROOT_FILE, staged, action.text.encode())
    except PenstockError as error:
        return events.RootFileFailed(action.token, str(error))
    return events.RootFileWritten(action.token)


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

    def perform(self, core: Core, action: actions.Action) -> None:
        """Begin one action; its answer comes to ``core`` through the inbox."""
        match action:
            case actions.SendCommand(address=address, envelope=envelope):
                self._send(address, envelope, ForMember(events.CommandArrived(envelope)))
            case actions.SendReport(address, envelope):
                self._send(address, envelope, ForCoordinator(events.ReportArrived(envelope)))
            case actions.ToEngine(incarnation, term, command):
                self._outside.engines.send(incarnation, term, command)
            case actions.StartEngine():
                self._outside.engines.start()
            case actions.EndEngine(incarnation, reason):
                self._log.say("ending the engine", incarnation=incarnation, reason=reason)
                self._outside.engines.end(incarnation)
            case actions.Note(text):
                self._log.line(text)
            case actions.ReadLease() | actions.WriteLease():
                self._lease.do(self._lease_job(action))
            case actions.ReadLatest() | actions.SwapLatest():
                self._metadata.do(self._metadata_job(core, action))
            case actions.CopySavepoint() | actions.ReadSnapshot() | actions.ImportSnapshot():
                self._copies.do(self._copy_job(action))
            case actions.IndexSavepoint():  # not behind another savepoint's copy
                self._files.do(self._index_job(action))
            case _:
                self._files.do(self._file_job(action))

    def _send(self, address: str, envelope: Envelope, arrived: Item) -> None:
        if address == self._outside.address:
            self.loopback.append(arrived)
        else:
            self._outside.senders.send(address, envelope)

    def _lease_job(self, action: actions.ReadLease | actions.WriteLease) -> Job:
        lease = self._stores.lease
        if isinstance(action, actions.ReadLease):
            return lambda: ForCoordinator(read_lease(lease, action))
        return lambda: ForCoordinator(write_lease(lease, action))

    def _metadata_job(self, core: Core, action: actions.ReadLatest | actions.SwapLatest) -> Job:
        store, name = self._stores.metadata, self._latest
        if isinstance(action, actions.ReadLatest):
            return lambda: _for(core, read_latest(store, name, action))
        return lambda: ForCoordinator(swap_latest(store, name, action))

    def _copy_job(self, action: actions.CopySavepoint | actions.ReadSnapshot | actions.ImportSnapshot) -> Job:
        blobs, launch = self._stores.blobs, self._launch

        def copy() -> Item:
            match action:
                case actions.CopySavepoint():
                    event = savepoints.copy_savepoint(blobs, Path(launch.savepoints), action)
                case actions.ReadSnapshot():
                    event = savepoints.read_snapshot(action, blobs.files)
                case actions.ImportSnapshot():
                    event = savepoints.import_snapshot(blobs, launch.job_uid, action)
            return ForCoordinator(event)

        return copy

    def _index_job(self, action: actions.IndexSavepoint) -> Job:
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


def _for(core: Core, event: events.LatestRead | events.LatestUnreadable) -> Item:
    return ForCoordinator(event) if core is Core.COORDINATOR else ForMember(event)
