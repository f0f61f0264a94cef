"""Performs the cores' actions: each on the lane where it may block, none in the loop."""

from collections import deque
from dataclasses import dataclass
from pathlib import Path

from penstock.cluster.launch import KeeperLaunch, latest_name
from penstock.contract.control_messages import Envelope
from penstock.keeper import savepoint_copies as savepoints
from penstock.keeper import stores
from penstock.keeper.engines import Engines
from penstock.keeper.keeper_inbox import (
    Core,
    ForCoordinator,
    ForMember,
    Item,
    Job,
    KeeperInbox,
    Lane,
)
from penstock.keeper.peer_senders import PeerSenders
from penstock.metrics.logs import Log
from penstock.ports import LeaseStore, MetaStore
from penstock.protocol import control_actions as actions
from penstock.protocol import control_events as events
from penstock.storage.blobs import DirectoryBlobStore


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
    """Used by the loop only. ``loopback`` holds messages to oneself, for the loop to take first.

    The Lease has a lane of its own: nothing slower may delay a renewal.
    """

    def __init__(
        self, launch: KeeperLaunch, stores_: Stores, outside: Outside, inbox: KeeperInbox, log: Log
    ) -> None:
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
            return lambda: ForCoordinator(stores.read_lease(lease, action))
        return lambda: ForCoordinator(stores.write_lease(lease, action))

    def _metadata_job(self, core: Core, action: actions.ReadLatest | actions.SwapLatest) -> Job:
        store, name = self._stores.metadata, self._latest
        if isinstance(action, actions.ReadLatest):
            return lambda: _for(core, stores.read_latest(store, name, action))
        return lambda: ForCoordinator(stores.swap_latest(store, name, action))

    def _copy_job(
        self, action: actions.CopySavepoint | actions.ReadSnapshot | actions.ImportSnapshot
    ) -> Job:
        blobs, launch = self._stores.blobs, self._launch

        def copy() -> Item:
            match action:
                case actions.CopySavepoint():
                    event = savepoints.copy_savepoint(blobs, Path(launch.savepoints), action)
                case actions.ReadSnapshot():
                    event = savepoints.read_snapshot(action)
                case actions.ImportSnapshot():
                    event = savepoints.import_snapshot(blobs, launch.job_uid, action)
            return ForCoordinator(event)

        return copy

    def _index_job(self, action: actions.IndexSavepoint) -> Job:
        folder, job = Path(self._launch.savepoints), self._launch.job
        return lambda: ForCoordinator(savepoints.index_savepoint(folder, job, action))

    def _file_job(self, action: stores.FileAction) -> Job:
        blobs = self._stores.blobs

        def act() -> Item | None:
            event = stores.file_action(blobs, action)
            if isinstance(event, str):
                self._log.say("could not delete", reason=event)
                return None
            return None if event is None else ForCoordinator(event)

        return act


def _for(core: Core, event: events.LatestRead | events.LatestUnreadable) -> Item:
    return ForCoordinator(event) if core is Core.COORDINATOR else ForMember(event)
