"""A simulated keeper: the real LeaderCore and MemberCore, and the shell that performs their actions.

Every keeper has both cores; the cores themselves decide who leads. An action that asks for something
is a call or a message. Exactly one event answers it, unless the keeper dies first.
"""

from dataclasses import dataclass

from penstock.contract.control_messages import EngineHello, EngineReport, MembersFile
from penstock.contract.ids import Attempt, Epoch, Incarnation, Ordinal
from penstock.contract.latest import Desired, Latest, Leader
from penstock.contract.manifest import BlobRef
from penstock.protocol import keeper_core_messages as km
from penstock.protocol.leader.leader_core import LeaderCore
from penstock.protocol.member.member_core import EnginePhase, MemberCore
from sim.cluster.ports import Host
from sim.cluster.savepoint_files import Steps, begin
from sim.cluster.services import StoredFile
from sim.kernel.calls import (
    ROOT_FILE,
    SAVEPOINTS,
    DeleteFiles,
    Get,
    ListFiles,
    MetaGet,
    MetaSwap,
    Op,
    Put,
    ReadFile,
    ReadLease,
    Reply,
    WriteLease,
)
from sim.kernel.kernel import SimCrash, Violation
from sim.kernel.messages import Leave
from sim.kernel.network import Packet

LATEST = "latest"
DESIRED = "desired"


@dataclass(frozen=True, slots=True)
class Booted:
    """The keeper's process has begun."""


@dataclass(frozen=True, slots=True)
class Due:
    """A core's deadline has come."""

    core: str
    at: float


@dataclass(frozen=True, slots=True)
class PollDesired:
    """Time to read the object -desired."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A stored object may have changed."""


@dataclass(frozen=True, slots=True)
class GraceOver:
    """The grace of the keeper is over: it waits no longer for its last checkpoint."""


@dataclass(frozen=True, slots=True)
class Said:
    """A report of the engine, over the socket."""

    incarnation: Incarnation
    report: EngineReport


@dataclass(frozen=True, slots=True)
class EngineEnded:
    """The engine's process is gone."""

    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class Asked:
    """The token of a call: the core that asked, and its action."""

    core: str
    action: object


@dataclass(slots=True)
class Leaving:
    """A keeper that ends. ``epoch`` was committed when it was told to, and ``ran`` was the attempt that all ran.

    The last checkpoint is due only if no recovery was under way, neither when the keeper was told nor when
    it retires: an attempt that has ended keeps no new epoch.
    """

    told: Leave
    epoch: Epoch
    ran: Attempt | None
    patient: bool = True
    retired: bool = False

    def check(self, name: str, committed: Epoch, runs: Attempt | None) -> None:
        """Check the moment when it retires; all run the attempt ``runs``. Raises Violation."""
        if self.told.soon and not self.patient:
            raise Violation("L", f"{name} waited until its grace was over")
        undisturbed = self.ran is not None and self.ran == runs
        if self.told.last and undisturbed and committed == self.epoch:
            raise Violation("L", f"{name} went without its last checkpoint")


class KeeperNode:
    """One life of one keeper."""

    def __init__(self, host: Host, ordinal: Ordinal, name: str) -> None:
        self.host = host
        self.kernel = host.kernel
        self.ordinal = ordinal
        self.name = name
        me = Leader(ordinal, Incarnation(name), name)
        self.coordinator = LeaderCore(host.control, me, host.job_uid)
        self.member = MemberCore(host.control, ordinal, name, host.job_uid)
        self._due: dict[str, float] = {}
        self._leaving: Leaving | None = None
        self._lease_calls = 0

    # --- The node

    def handle(self, event: object, now: float) -> None:
        """Take one event, give it to its core, and perform the actions."""
        match event:
            case Booted():
                self._tell("coordinator", km.Tick())
                self._tell("member", km.Tick())
                self._ask("shell", MetaGet(DESIRED), None)
                self.kernel.at(self.host.poll_us, self.name, PollDesired())
            case Due(core, at):
                if self._due.get(core) == at:
                    del self._due[core]
                    self._tell(core, km.Tick())
            case PollDesired():
                self._ask("shell", MetaGet(DESIRED), None)
                self.kernel.at(self.host.poll_us, self.name, PollDesired())
            case Hint():
                self._ask("shell", MetaGet(DESIRED), None)
                self._tell("member", km.StoreChanged())
            case Reply():
                self._replied(event)
            case Packet(_, body):
                self._packet(body)
            case Said(incarnation, report):
                if isinstance(report, EngineHello):
                    self._tell("coordinator", km.PlanKnown(report.plan))
                self._tell("member", km.EngineReported(incarnation, report))
            case EngineEnded(incarnation):
                self._tell("member", km.EngineGone(incarnation, "its process ended"))
            case Leave():
                self._leave(event)
            case GraceOver() if self._leaving is not None:
                self._leaving.patient = False
        if self._leaving is not None:
            self._continue_end(self._leaving)

    def _leave(self, event: Leave) -> None:
        if self._leaving is None:
            self._leaving = Leaving(event, self.host.latest().epoch, self.host.running())
            self.kernel.at(event.grace_us, self.name, GraceOver())
            self._tell("member", km.Drain())

    def _continue_end(self, leaving: "Leaving") -> None:
        """Retire when the last checkpoint is over or cannot come; end when nothing is under way."""
        if not leaving.retired and (not leaving.patient or self.member.drained()):
            leaving.retired = True
            leaving.check(self.name, self.host.latest().epoch, self.host.running())
            self.kernel.happened("keeper retired")
            self._tell("coordinator", km.Retire())
            self._tell("member", km.Retire())
        if leaving.retired and self.member.engine is EnginePhase.OFF and self._lease_calls == 0:
            raise SimCrash

    def _packet(self, body: object) -> None:
        match body:
            case km.ReportArrived() | km.PeerRefused():
                self._tell("coordinator", body)
            case km.CommandArrived():
                self._tell("member", body)

    def _tell(self, core: str, event: object) -> None:
        now = self.kernel.clock(self.name)
        if core == "coordinator":
            actions = self.coordinator.step(event, now)  # type: ignore[arg-type]
            wakes = self.coordinator.wakes_at()
        else:
            actions = self.member.step(event, now)  # type: ignore[arg-type]
            wakes = self.member.wakes_at()
        for action in actions:
            self._do(core, action)
        if wakes is not None and self._due.get(core) != wakes:
            self._due[core] = wakes
            delay = self.kernel.until_clock(self.name, wakes)
            self.kernel.at(delay, self.name, Due(core, wakes))

    # --- Actions

    def _do(self, core: str, action: km.Action) -> None:
        match action:
            case km.ReadLease():
                self._ask(core, ReadLease(), action)
            case km.WriteLease(_, holder, version):
                self._ask(core, WriteLease(holder, version), action)
            case km.ReadLatest():
                self._ask(core, MetaGet(LATEST), action)
            case km.SwapLatest(latest, version):
                self._ask(core, MetaSwap(LATEST, latest, version), action)
            case km.WriteBlob(name, value):
                if isinstance(value, MembersFile):
                    self.kernel.happened("members drafted")
                self._ask(core, Put(name, value), action)
            case km.ReadBlob(ref, _):
                self._ask(core, Get(ref), action)
            case km.ListBlobs():
                self._ask(core, ListFiles(), action)
            case km.DeleteBlobs(names):
                for name in names:
                    self._ask(core, DeleteFiles(name), action)
            case km.ReadRootFile():
                self._ask(core, ReadFile(ROOT_FILE), action)
            case km.WriteRootFile(_, text):
                self._ask(core, Put(ROOT_FILE, text), action)
            case km.CopySavepoint() | km.IndexSavepoint() | km.ReadSnapshot() | km.ImportSnapshot():
                self._step_copy(begin(self.host.job_uid, action), None)
            case km.Note(text):
                self.kernel.log(f"{self.name}: {text}")
            case _:
                self._do_message(action)

    def _step_copy(self, steps: Steps, reply: Reply | None) -> None:
        """Make the next call of an action on savepoints. After the last call give its event."""
        try:
            op = next(steps) if reply is None else steps.send(reply)
        except StopIteration as done:
            self._tell("coordinator", done.value)
            return
        if isinstance(op, Put) and op.name.startswith(SAVEPOINTS):
            self.kernel.happened("savepoint file copied")
        self._ask("savepoints", op, steps)

    def _do_message(self, action: km.Action) -> None:
        match action:
            case km.SendCommand(_, address, envelope):
                self._send(address, km.CommandArrived(envelope))
            case km.SendReport(address, envelope):
                self._send(address, km.ReportArrived(envelope))
            case km.ToEngine(incarnation, term, command):
                self.host.to_engine(self.name, incarnation, term, command)
            case km.StartEngine():
                self.host.start_engine(self.ordinal)
            case km.EndEngine(incarnation, _):
                self.host.end_engine(self.ordinal, incarnation)
            case _:
                raise AssertionError(f"the simulator does not know {type(action).__name__}")

    def _ask(self, core: str, op: Op, action: object) -> None:
        self._lease_calls += isinstance(op, ReadLease | WriteLease)
        self.host.call(self.name, op, Asked(core, action))

    def _send(self, address: str, body: km.CommandArrived | km.ReportArrived) -> None:
        self.host.to_peer(self.name, address, body)

    # --- Answers

    def _replied(self, reply: Reply) -> None:
        assert isinstance(reply.token, Asked)
        core, action = reply.token.core, reply.token.action
        self._lease_calls -= isinstance(reply.op, ReadLease | WriteLease)
        if core == "savepoints":
            self._step_copy(action, reply)  # type: ignore[arg-type]
            return
        if core == "shell":
            if not reply.error:
                desired = reply.value.data if isinstance(reply.value, StoredFile) else None
                assert desired is None or isinstance(desired, Desired)
                self._tell("coordinator", km.DesiredRead(desired))
            return
        event = self._answer(action, reply)
        if event is not None:
            self._tell(core, event)

    def _answer(self, action: object, reply: Reply) -> object:
        match action:
            case km.ReadLease(token) | km.WriteLease(token, _, _):
                return self._lease_answer(action, token, reply)
            case km.ReadLatest(token):
                return self._latest_answer(token, reply)
            case km.SwapLatest(latest, _):
                return _swap_answer(latest, reply)
            case km.WriteBlob(name, _):
                if reply.error:
                    return km.BlobNotWritten(name, reply.error)
                assert isinstance(reply.value, BlobRef)
                return km.BlobWritten(reply.value)
            case km.ReadBlob(ref, _):
                if reply.error:
                    gone = reply.error in {"missing", "damaged"}
                    return km.BlobUnreadable(ref, reply.error, gone)
                return km.BlobRead(ref, reply.value)  # type: ignore[arg-type]
            case km.ListBlobs(token):
                names = None if reply.error else reply.value
                return km.BlobsListed(token, names)  # type: ignore[arg-type]
            case km.ReadRootFile(token):
                return _root_file_answer(token, reply)
            case km.WriteRootFile(token, _):
                if reply.error:
                    return km.RootFileFailed(token, reply.error)
                return km.RootFileWritten(token)
        return None

    def _lease_answer(self, action: object, token: int, reply: Reply) -> object:
        if reply.error:
            return km.LeaseFailed(token, reply.error)
        assert isinstance(reply.value, tuple)
        holder, version = reply.value
        if isinstance(action, km.WriteLease):
            return km.LeaseWritten(token, version)
        duration = self.host.control.lease_duration_s
        return km.LeaseRead(token, holder, version, duration, version)

    def _latest_answer(self, token: int, reply: Reply) -> object:
        if reply.error:
            return km.LatestUnreadable(token, reply.error)
        if reply.value is None:
            return km.LatestRead(token, None)
        assert isinstance(reply.value, StoredFile)
        assert isinstance(reply.value.data, Latest)
        return km.LatestRead(token, reply.value.data, reply.value.version, reply.value.uid)


def _swap_answer(latest: Latest, reply: Reply) -> object:
    match reply.error:
        case "":
            assert isinstance(reply.value, StoredFile)
            return km.SwapDone(latest.swap_id, reply.value.version)
        case "conflict":
            return km.SwapConflicted(latest.swap_id)
        case _:
            return km.SwapUnknown(latest.swap_id)


def _root_file_answer(token: int, reply: Reply) -> object:
    if reply.error == "missing":
        return km.RootFileRead(token, None)
    if reply.error:
        return km.RootFileFailed(token, reply.error)
    assert isinstance(reply.value, str)
    return km.RootFileRead(token, reply.value)


__all__ = ["Booted", "EngineEnded", "KeeperNode", "Said"]
