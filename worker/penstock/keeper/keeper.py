"""The loop: events in, the cores' decisions, actions out. Nothing in the loop blocks for long."""

import os
import shutil
import threading
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import get_args

from penstock.base.errors import PeerError, PenstockError, StateError
from penstock.base.limits import RETIRE_TIMEOUT_S
from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.rpc import DELIVER, Nothing, Server
from penstock.cluster.system import RandomIds
from penstock.contract.control_messages import Command, EngineHello, Envelope
from penstock.contract.ids import Incarnation
from penstock.contract.latest import Desired, Leader
from penstock.contract.pod import desired_name, latest_name
from penstock.contract.status import WorkerReport
from penstock.keeper.checkpoint_stats import CheckpointWatch
from penstock.keeper.effects import KeeperEffects, Outside, Stores, read_desired
from penstock.keeper.engine_process import Engines
from penstock.keeper.keeper_messages import (
    Core,
    EngineCrashed,
    ForCoordinator,
    ForMember,
    Item,
    KeeperInbox,
    Leave,
    PeerSenders,
)
from penstock.keeper.platforms import Facts, KeeperView, Platform
from penstock.metrics.logs import Log
from penstock.ports import MetaStore
from penstock.protocol import keeper_core_messages as km
from penstock.protocol.keeper_core_messages import DesiredRead
from penstock.protocol.leader.leader_core import LeaderCore
from penstock.protocol.member.member_core import EnginePhase, MemberCore
from penstock.storage.blobs import DirectoryBlobStore


class DesiredWatcher:
    """Reads what is wanted, and reports when it has changed.

    ``unread`` is why the newest object cannot be read: a newer version wrote it, or it is no record. The
    keeper then goes on with what it read before. A store that does not answer is asked again.
    """

    def __init__(self, store: MetaStore, name: str, inbox: KeeperInbox, log: Log) -> None:
        self._store = store
        self._name = name
        self._inbox = inbox
        self._log = log
        self._last: DesiredRead | None = None
        self.unread = ""

    def start(self, interval_s: float, changed: threading.Event) -> None:
        """Read at an interval, in a thread. Any thread may set ``changed`` to have it read now."""

        def watch() -> None:
            while True:
                changed.clear()  # before the read: what changes after it wakes us again
                self.look()
                changed.wait(interval_s)

        threading.Thread(target=watch, name="desired", daemon=True).start()

    def look(self) -> None:
        """Read it once."""
        try:
            now = DesiredRead(read_desired(self._store, self._name))
        except (StateError, PeerError) as error:
            self._note(str(error))
            return
        except PenstockError:
            return
        self._note("")
        if now != self._last:
            self._inbox.put(ForCoordinator(now))
            self._last = now

    def _note(self, why: str) -> None:
        """Log it when it has changed."""
        if why == self.unread:
            return
        if why:
            self._log.say("what is wanted cannot be read: the job goes on as it was wanted before", reason=why)
        else:
            self._log.say("what is wanted can be read again")
        self.unread = why


class Keeper:
    """One worker's keeper. :meth:`run` returns when the process may end."""

    def __init__(self, launch: KeeperLaunch, platform: Platform, log: Log) -> None:
        """Listen, connect, and build the cores; nothing is decided before :meth:`run`."""
        self._log = log
        self._launch = launch
        self._platform = platform
        self._life = Incarnation(RandomIds().fresh())
        self.inbox = KeeperInbox()
        self._facts = Facts(time.monotonic())
        view = KeeperView(self._life, self.inbox, self._report, lambda: self._facts)
        self._reporter = platform.reporter(view)
        handlers = {DELIVER: self._deliver, **self._reporter.handlers}
        self._server = Server(handlers, launch.token, platform.listen)
        address = self._server.address
        self._engines = Engines(
            launch,
            self.inbox,
            self._reporter.wake,
            spawn=platform.spawn,
            place=platform.place,
            pass_on=partial(log.quote, "engine"),
        )
        self._effects = KeeperEffects(
            launch,
            Stores(platform.metadata, platform.lease, DirectoryBlobStore(Path(launch.storage))),
            Outside(
                self._engines,
                PeerSenders(self.inbox, platform.dial, log.say, time.monotonic),
                address,
            ),
            self.inbox,
            log,
        )
        me = Leader(launch.ordinal, self._life, address)
        self._coordinator = LeaderCore(launch.control, me, launch.job_uid)
        self._member = MemberCore(launch.control, launch.ordinal, address, launch.job_uid, pod=platform.pod)
        self._checkpoints = CheckpointWatch()
        self._drain_by: float | None = None
        self._retire_by: float | None = None
        self._lease_actions = 0
        self._changed = threading.Event()
        self._pages = platform.pages(view)
        self._reporter.start()
        self._wanted = DesiredWatcher(platform.metadata, desired_name(launch.job), self.inbox, log)
        self._wanted.start(launch.control.meta_poll_interval_s, self._changed)
        platform.watch(self._stored_changed)

    def run(self) -> None:
        """Serve until asked to leave and ready to. Raises what a thread of ours died of."""
        # Left by a keeper that was killed with its engine.
        shutil.rmtree(self._launch.scratch, ignore_errors=True)
        self._log.say("keeper started", pid=os.getpid(), address=self._server.address)
        self._step(ForCoordinator(km.Tick()))
        self._step(ForMember(km.Tick()))
        while not self._may_end():
            item = self._next()
            match item:
                case ForCoordinator() | ForMember():
                    self._step(item)
                case Leave(reason):
                    self._leave(reason)
                case EngineCrashed(error):
                    raise error
            self._tick_due()
            self._note_facts()
            self._pursue_end()
        self._engines.kill()
        self._reporter.final_report()
        self._server.close()
        self._pages.close()
        self._log.say("keeper ended")

    def _next(self) -> Item | EngineCrashed | Leave | None:
        if self._effects.loopback:
            return self._effects.loopback.popleft()
        return self.inbox.take(self._wait_s())

    def _wait_s(self) -> float | None:
        end = self._drain_by if self._retire_by is None else self._retire_by
        due = [self._coordinator.wakes_at(), self._member.wakes_at(), end]
        known = [at for at in due if at is not None]
        return max(0.0, min(known) - time.monotonic()) if known else None

    def _tick_due(self) -> None:
        now = time.monotonic()
        if _due(self._coordinator.wakes_at(), now):
            self._step(ForCoordinator(km.Tick()))
        if _due(self._member.wakes_at(), now):
            self._step(ForMember(km.Tick()))

    def _step(self, item: Item) -> None:
        now = time.monotonic()
        self._look_at(item.event, now)
        if isinstance(item, ForCoordinator):
            core, todo = Core.COORDINATOR, self._coordinator.step(item.event, now)
        else:
            core, todo = Core.MEMBER, self._member.step(item.event, now)
        for action in todo:
            if isinstance(action, km.ReadLease | km.WriteLease):
                self._lease_actions += 1
            self._checkpoints.saw_action(action, now)
            self._effects.perform(core, action)

    def _look_at(self, event: km.CoordinatorEvent | km.MemberEvent, now: float) -> None:
        self._checkpoints.saw_event(event, now)
        match event:
            case km.LeaseRead() | km.LeaseWritten() | km.LeaseFailed():
                self._lease_actions -= 1
            case km.EngineGone(incarnation, reason):
                self._log.say("engine gone", incarnation=incarnation, reason=reason)
                self._engines.forget(incarnation, reason)
            case km.EngineReported(incarnation, EngineHello() as hello):
                self._log.say("engine says hello", incarnation=incarnation, flight=hello.flight)
                self._engines.ready(incarnation)
                self._effects.loopback.append(ForCoordinator(km.PlanKnown(hello.plan)))
                self._reporter.wake()

    def _note_facts(self) -> None:
        """Let other threads see where this keeper stands."""
        controller, member = self._coordinator.controller, self._member
        desired = self._coordinator.desired
        if desired is None and controller is not None and self._wanted.unread:  # the status has to say so
            at = controller.state.latest
            desired = Desired(at.workers, run=at.run)
        leads = None if controller is None or desired is None else (controller.state.latest, desired)
        self._checkpoints.saw_leader(member.leader, self._life, time.monotonic())
        status = member.status
        running = member.engine is EnginePhase.UP and 0 < status.running == member.taken.attempt
        wanted = member.closed is False and not member.retired
        self._facts = Facts(time.monotonic(), member.leader, leads, running, wanted)

    def _leave(self, reason: str) -> None:
        if self._drain_by is not None:
            return
        self._log.say("keeper leaves", reason=reason)
        self._drain_by = time.monotonic() + self._platform.drain_s
        if self._platform.drain_s > 0:
            self._step(ForMember(km.Drain()))

    def _pursue_end(self) -> None:
        if self._drain_by is None or self._retire_by is not None:
            return
        if self._member.drained() or time.monotonic() >= self._drain_by:
            self._retire()

    def _retire(self) -> None:
        self._retire_by = time.monotonic() + RETIRE_TIMEOUT_S
        self._step(ForCoordinator(km.Retire()))
        self._step(ForMember(km.Retire()))

    def _may_end(self) -> bool:
        if self._retire_by is None:
            return False
        done = not self._engines.running and self._lease_actions == 0
        return done or time.monotonic() >= self._retire_by

    def _deliver(self, envelope: Envelope) -> Nothing:
        """Take a message of another keeper; called by rpc threads."""
        if envelope.job_uid != self._launch.job_uid:
            raise PeerError(f"this worker runs another job than {envelope.job_uid}")
        if isinstance(envelope.body, get_args(Command)):
            self.inbox.offer(ForMember(km.CommandArrived(envelope)))
        else:
            self.inbox.offer(ForCoordinator(km.ReportArrived(envelope)))
        return Nothing()

    def _stored_changed(self, names: Collection[str]) -> None:
        """Have read again what may be another now; called by the thread that watches."""
        if desired_name(self._launch.job) in names:
            self._changed.set()
        if latest_name(self._launch.job) in names:
            self.inbox.put(ForMember(km.StoreChanged()))

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
            self._pages.address,
            self._checkpoints.trouble,
            self._platform.pod,
            self._checkpoints.failures,
            view.unready,
            self._member.deaths_unasked,
            self._launch.control.checkpoint_interval_s,
            self._uncommitted_s(),
            self._wanted.unread,
        )

    def _uncommitted_s(self) -> float | None:
        since = self._checkpoints.waits_since
        open_ = self._facts.leads is not None and self._facts.wanted
        return round(time.monotonic() - since, 1) if open_ and since is not None else None


def _due(at: float | None, now: float) -> bool:
    return at is not None and at <= now
