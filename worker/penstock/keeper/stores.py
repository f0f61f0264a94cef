"""The blocking halves of the cores' actions on Lease, metadata and files.

Each function performs one action and returns the one event that answers it; the errors of the
ports become the events that the cores know.
"""

import uuid

from penstock.base.errors import PeerError, PenstockError, StateError, StorageError
from penstock.base.limits import MANIFEST_BYTES_MAX
from penstock.contract.codec import decode, encode
from penstock.contract.control_messages import MembersFile
from penstock.contract.ids import BlobName
from penstock.contract.latest import Desired, decode_desired, decode_latest, encode_latest
from penstock.contract.manifest import RootManifest
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


def read_latest(
    store: MetaStore, name: str, action: actions.ReadLatest
) -> events.LatestRead | events.LatestUnreadable:
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
    """Raise StateError when the record is of a newer version: nobody of this one may lead.

    What cannot be read for another reason is for whoever leads to read again.
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


def file_action(
    store: DirectoryBlobStore, action: FileAction
) -> events.CoordinatorEvent | str | None:
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
    kind: type[RootManifest] | type[MembersFile] = (
        RootManifest if action.kind is actions.BlobKind.ROOT else MembersFile
    )
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


def read_root_file(
    store: DirectoryBlobStore, action: actions.ReadRootFile
) -> events.CoordinatorEvent:
    """Perform :class:`actions.ReadRootFile`."""
    try:
        data = store.peek(ROOT_FILE, ROOT_FILE_BYTES_MAX)
    except PenstockError as error:
        return events.RootFileFailed(action.token, str(error))
    text = None if data is None else data.decode(errors="replace")
    return events.RootFileRead(action.token, text)


def write_root_file(
    store: DirectoryBlobStore, action: actions.WriteRootFile
) -> events.CoordinatorEvent:
    """Perform :class:`actions.WriteRootFile`."""
    try:
        staged = BlobName(f"{ROOT_FILE}-{uuid.uuid4()}")
        store.put_whole(ROOT_FILE, staged, action.text.encode())
    except PenstockError as error:
        return events.RootFileFailed(action.token, str(error))
    return events.RootFileWritten(action.token)
