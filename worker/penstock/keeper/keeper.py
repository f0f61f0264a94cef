"""The loop: events in, the cores' decisions, actions out. It never blocks on anything else."""

import os
import shutil
import time
import uuid
from pathlib import Path
from typing import get_args

from penstock.base.errors import PeerError
from penstock.base.limits import RETIRE_TIMEOUT_S
from penstock.cluster.control import DELIVER
from penstock.cluster.launch import KeeperLaunch, desired_name
from penstock.cluster.metadata import RemoteLeaseStore, RemoteMetaStore
from penstock.cluster.rpc import Client, Nothing, Server
from penstock.contract.control import Command, EngineHello, Envelope
from penstock.contract.ids import Incarnation
from penstock.contract.latest import Leader
from penstock.contract.progress import WorkerReport
from penstock.keeper.announcer import Announcer
from penstock.keeper.checkpoints import CheckpointWatch
from penstock.keeper.couriers import Couriers
from penstock.keeper.engines import Engines
from penstock.keeper.inbox import Core, Crash, ForCoordinator, ForMember, Inbox, Item, Leave
from penstock.keeper.performer import Outside, Performer, Stores
from penstock.keeper.watcher import watch_desired
from penstock.metrics.exporter import Exporter
from penstock.metrics.logs import Log
from penstock.metrics.registry import registry_of
from penstock.protocol import actions, events
from penstock.protocol.coordinator import Coordinator
from penstock.protocol.member import Member
from penstock.storage.blobs import DirectoryBlobStore


class Keeper:
    """One worker's keeper. :meth:`run` returns when the process may end."""

    def __init__(self, launch: KeeperLaunch, log: Log) -> None:
        """Listen, connect, and build the cores; nothing is decided before :meth:`run`."""
        self._log = log
        self._launch = launch
        self._life = Incarnation(str(uuid.uuid4()))
        self.inbox = Inbox()
        self._server = Server({DELIVER: self._deliver}, launch.token)
        # Calls to the supervisor that must not wait for each other have clients of their own.
        clients = [Client(launch.supervisor, launch.token) for _ in range(3)]
        metadata = RemoteMetaStore(clients[0])
        self._announcer = Announcer(clients[2], self.inbox, self._report)
        self._engines = Engines(launch, self.inbox, self._announcer.wake)
        couriers = Couriers(self.inbox, lambda a: Client(a, launch.token), log.say)
        self._performer = Performer(
            launch,
            Stores(
                metadata, RemoteLeaseStore(clients[1]), DirectoryBlobStore(Path(launch.storage))
            ),
            Outside(self._engines, couriers, self._server.address),
            self.inbox,
            log,
        )
        me = Leader(launch.ordinal, self._life, self._server.address)
        self._coordinator = Coordinator(launch.control, me, launch.job_uid)
        self._member = Member(launch.control, launch.ordinal, self._server.address, launch.job_uid)
        self._checkpoints = CheckpointWatch()
        self._retire_by: float | None = None
        self._lease_actions = 0
        self._exporter = Exporter(registry_of(launch.job, self._report))
        self._announcer.start()
        interval_s = launch.control.meta_poll_interval_s
        watch_desired(metadata, desired_name(launch.job), interval_s, self.inbox)

    def run(self) -> None:
        """Serve until asked to leave and ready to. Raises what a thread of ours died of."""
        # Left by a keeper that was killed with its engine.
        shutil.rmtree(self._launch.scratch, ignore_errors=True)
        self._log.say("keeper started", pid=os.getpid(), address=self._server.address)
        self._step(ForCoordinator(events.Tick()))
        self._step(ForMember(events.Tick()))
        while not self._may_end():
            item = self._next()
            match item:
                case ForCoordinator() | ForMember():
                    self._step(item)
                case Leave(reason):
                    self._leave(reason)
                case Crash(error):
                    raise error
            self._tick_due()
        self._engines.kill()
        self._announcer.last_words()
        self._server.close()
        self._exporter.close()
        self._log.say("keeper ended")

    def _next(self) -> Item | Crash | Leave | None:
        if self._performer.loopback:
            return self._performer.loopback.popleft()
        return self.inbox.take(self._wait_s())

    def _wait_s(self) -> float | None:
        due = [self._coordinator.wakes_at(), self._member.wakes_at(), self._retire_by]
        known = [at for at in due if at is not None]
        return max(0.0, min(known) - time.monotonic()) if known else None

    def _tick_due(self) -> None:
        now = time.monotonic()
        if _due(self._coordinator.wakes_at(), now):
            self._step(ForCoordinator(events.Tick()))
        if _due(self._member.wakes_at(), now):
            self._step(ForMember(events.Tick()))

    def _step(self, item: Item) -> None:
        now = time.monotonic()
        self._look_at(item.event, now)
        if isinstance(item, ForCoordinator):
            core, todo = Core.COORDINATOR, self._coordinator.step(item.event, now)
        else:
            core, todo = Core.MEMBER, self._member.step(item.event, now)
        for action in todo:
            if isinstance(action, actions.ReadLease | actions.WriteLease):
                self._lease_actions += 1
            self._checkpoints.saw_action(action, now)
            self._performer.perform(core, action)

    def _look_at(self, event: events.CoordinatorEvent | events.MemberEvent, now: float) -> None:
        self._checkpoints.saw_event(event, now)
        match event:
            case events.LeaseRead() | events.LeaseWritten() | events.LeaseFailed():
                self._lease_actions -= 1
            case events.EngineGone(incarnation, reason):
                self._log.say("engine gone", incarnation=incarnation, reason=reason)
                self._engines.forget(incarnation)
            case events.EngineSaid(incarnation, EngineHello() as hello):
                self._log.say("engine says hello", incarnation=incarnation, flight=hello.flight)
                self._performer.loopback.append(ForCoordinator(events.PlanKnown(hello.plan)))
                self._announcer.wake()

    def _leave(self, reason: str) -> None:
        if self._retire_by is not None:
            return
        self._log.say("keeper leaves", reason=reason)
        self._retire_by = time.monotonic() + RETIRE_TIMEOUT_S
        self._step(ForCoordinator(events.Retire()))
        self._step(ForMember(events.Retire()))

    def _may_end(self) -> bool:
        if self._retire_by is None:
            return False
        done = not self._engines.running and self._lease_actions == 0
        return done or time.monotonic() >= self._retire_by

    def _deliver(self, envelope: Envelope) -> Nothing:
        """Take a message at the door; called by rpc threads."""
        if envelope.job_uid != self._launch.job_uid:
            raise PeerError(f"job uid {envelope.job_uid}: this is {self._launch.job_uid}")
        if isinstance(envelope.body, get_args(Command)):
            self.inbox.offer(ForMember(events.CommandArrived(envelope)))
        else:
            self.inbox.offer(ForCoordinator(events.ReportArrived(envelope)))
        return Nothing()

    def _report(self) -> WorkerReport:
        view = self._engines.view
        return WorkerReport(
            self._launch.ordinal,
            self._life,
            os.getpid(),
            view.incarnation,
            view.pid,
            self._server.address,
            max(0, view.starts - 1),
            view.progress,
            self._checkpoints.newest,
            self._exporter.address,
            self._checkpoints.trouble,
        )


def _due(at: float | None, now: float) -> bool:
    return at is not None and at <= now
