"""An in-memory control plane: keepers, stores that answer at once, stub engines, virtual time.

Every action is performed in order, and every message is delivered once and in order. A test can
change that: ``cut`` drops messages, ``lose_reply`` makes the outcome of a swap unknown,
``unreadable`` keeps the object from being read, ``kill`` ends a worker, ``freeze`` stops one for a
while. ``log`` has the log lines of the cores. ``steps`` has each event with its actions, for golden
conversations.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.codec import encode
from penstock.contract.ids import (
    BlobName,
    Incarnation,
    JobUid,
    Ordinal,
    SwapId,
)
from penstock.contract.latest import Desired, Latest, Leader, encode_latest
from penstock.contract.manifest import (
    BlobRef,
    RootManifest,
)
from penstock.protocol import keeper_core_messages as km
from penstock.protocol.core_context import ControlSettings
from penstock.protocol.keeper_core_messages import Action
from penstock.protocol.leader.leader_core import LeaderCore
from penstock.protocol.member.member_core import MemberCore
from tests.support.stub_engine import PLAN, StubEngine

JOB = JobUid("job")
SETTINGS = ControlSettings(  # a cluster's ratios: a member is lost long before the Lease is
    heartbeat_interval_s=0.25,
    heartbeat_timeout_s=2.0,
    lease_duration_s=6.0,
    lease_renew_deadline_s=4.0,
    lease_retry_s=0.8,
    meta_poll_interval_s=0.25,
    checkpoint_interval_s=1.0,
    checkpoint_first_delay_s=0.5,
    checkpoint_timeout_s=5.0,
    ready_timeout_s=6.0,
    prepare_timeout_s=4.0,
    rescale_timeout_s=8.0,
    collect_interval_s=2.0,
)


@dataclass
class Keeper:
    """One worker: its cores, its engine, and the events that wait for it."""

    ordinal: Ordinal
    life: int
    address: str
    coordinator: LeaderCore
    member: MemberCore
    engine: StubEngine | None = None
    engines: int = 0
    frozen: bool = False
    waiting: list[tuple[str, object]] = field(default_factory=list)


Step = tuple[float, int, str, object, list[Action]]  # when, who, which core, event, actions


class InMemoryControlPlane:
    """``workers`` keepers start at once. ``run`` lets virtual time pass."""

    def __init__(self, workers: int, settings: ControlSettings = SETTINGS) -> None:
        self.settings = settings
        self.now = 0.0
        self.version = 1
        self.uid = "object-1"
        self.record: Latest | None = Latest(JOB, SwapId("created"))
        self.lease: tuple[str | None, int] = (None, 0)
        self.blobs: dict[BlobName, object] = {}
        self.root_file: str | None = None
        self.desired = Desired(workers=workers, run="run-1")
        self.keepers: dict[int, Keeper] = {}
        self.lives = 0
        self.events: deque[tuple[Keeper, str, object]] = deque()
        self.cut: Callable[[int, int, object], bool] = lambda a, b, body: False
        self.lose_reply: Callable[[Latest], str | None] = lambda latest: None
        self.log: list[str] = []
        self.steps: list[Step] = []
        self.plan = PLAN
        self.mute: dict[int, tuple[str, ...]] = {}
        self.unsound: str | None = None
        self.deleted: list[BlobName] = []
        self.unreadable = False
        self.dies_at_birth: dict[int, int] = {}  # by ordinal: how many engines from now on
        self.silent: set[int] = set()  # ordinals whose engines say nothing
        self.cas: list[Latest] = []
        for ordinal in range(workers):
            self.start(ordinal)

    @property
    def latest(self) -> Latest:
        """Return the object -latest, which tests expect to be there."""
        assert self.record is not None
        return self.record

    # --- Workers -------------------------------------------------------------------------------

    def start(self, ordinal: int) -> Keeper:
        """Start a worker's keeper. It knows only its ordinal."""
        self.lives += 1
        address = f"keeper-{ordinal}-{self.lives}"
        me = Leader(Ordinal(ordinal), Incarnation(f"k{ordinal}.{self.lives}"), address)
        keeper = Keeper(
            Ordinal(ordinal),
            self.lives,
            address,
            LeaderCore(self.settings, me, JOB),
            MemberCore(self.settings, Ordinal(ordinal), address, JOB, pod=f"pod-{self.lives}"),
        )
        self.keepers[ordinal] = keeper
        self._post(keeper, "c", km.DesiredRead(self.desired))
        self._post(keeper, "m", km.Tick())
        return keeper

    def kill(self, ordinal: int) -> None:
        """End a worker's keeper and engine at once."""
        del self.keepers[ordinal]

    def kill_engine(self, ordinal: int) -> None:
        """End an engine only. Its keeper learns of it."""
        keeper = self.keepers[ordinal]
        assert keeper.engine is not None
        gone = km.EngineGone(keeper.engine.incarnation, "killed")
        keeper.engine = None
        self._post(keeper, "m", gone)

    def freeze(self, ordinal: int) -> None:
        """Stop a worker as SIGSTOP does: its events wait."""
        self.keepers[ordinal].frozen = True

    def thaw(self, ordinal: int) -> None:
        """Let a stopped worker go on, as if no time had passed for it."""
        keeper = self.keepers[ordinal]
        keeper.frozen = False
        waiting, keeper.waiting = keeper.waiting, []
        for which, event in waiting:
            self._post(keeper, which, event)

    def drain(self, ordinal: int) -> None:
        """Tell a worker that it will be asked to end."""
        self._post(self.keepers[ordinal], "m", km.Drain())

    def report(self, ordinal: int, report: control.EngineReport) -> None:
        """Send a report of a worker's engine to its keeper."""
        self._report(self.keepers[ordinal], report)

    def tell(self, ordinal: int, event: object) -> None:
        """Give a worker's member an event."""
        self._post(self.keepers[ordinal], "m", event)

    def post(self, ordinal: int, event: object) -> None:
        """Give a worker's leader core an event."""
        self._post(self.keepers[ordinal], "c", event)

    def want(self, **changes: object) -> None:
        """Change the object -desired. Every keeper reads it."""
        self.desired = replace(self.desired, **changes)  # type: ignore[arg-type]
        for keeper in self.keepers.values():
            self._post(keeper, "c", km.DesiredRead(self.desired))

    def leader(self) -> Keeper:
        """Return the keeper that leads the newest term."""
        leaders = [k for k in self.keepers.values() if k.coordinator.leads() is not None]
        return max(leaders, key=lambda k: k.coordinator.leads() or 0)

    def engine(self, ordinal: int) -> StubEngine:
        """Return a running engine."""
        engine = self.keepers[ordinal].engine
        assert engine is not None
        return engine

    # --- Time ----------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let time pass, with ticks when cores ask for them."""
        end = self.now + seconds
        self._drain()
        while True:
            wakes = [
                at
                for k in self.keepers.values()
                if not k.frozen
                for at in (k.coordinator.wakes_at(), k.member.wakes_at())
                if at is not None
            ]
            due = min([*wakes, end])
            if due >= end:
                self.now = end
                return
            self.now = max(self.now, due)
            for keeper in [k for k in self.keepers.values() if not k.frozen]:
                for which, core in (("c", keeper.coordinator), ("m", keeper.member)):
                    at = core.wakes_at()
                    if at is not None and at <= self.now:
                        self._post(keeper, which, km.Tick())
                if keeper.engine is not None and self.now % 0.25 < 0.05:
                    self._report(keeper, keeper.engine.status)
            self._drain()

    def until(self, done: Callable[[], bool], seconds: float = 30.0) -> None:
        """Let time pass until ``done``. Fail when that takes too long."""
        end = self.now + seconds
        while not done():
            assert self.now < end, f"not done in {seconds} s:\n" + "\n".join(self.log[-40:])
            self.run(0.05)

    def _post(self, keeper: Keeper, which: str, event: object) -> None:
        self.events.append((keeper, which, event))

    def _drain(self) -> None:
        while self.events:
            keeper, which, event = self.events.popleft()
            if self.keepers.get(keeper.ordinal) is not keeper:
                continue
            if keeper.frozen:
                keeper.waiting.append((which, event))
                continue
            core = keeper.coordinator if which == "c" else keeper.member
            actions = core.step(event, self.now)  # type: ignore[arg-type]
            self.steps.append((self.now, keeper.ordinal, which, event, actions))
            for action in actions:
                self._perform(keeper, which, action)

    # --- Effects -------------------------------------------------------------------------------

    def _perform(self, keeper: Keeper, which: str, action: object) -> None:
        match action:
            case km.Note(text):
                self.log.append(f"{self.now:7.2f} {keeper.ordinal}: {text}")
            case km.ReadLatest(token) if self.unreadable:
                self._post(keeper, which, km.LatestUnreadable(token, "away"))
            case km.ReadLatest(token):
                read = km.LatestRead(token, self.record, str(self.version), self.uid)
                self._post(keeper, which, read)
            case km.SwapLatest(latest, version):
                self._post(keeper, which, self._swap(latest, version))
            case km.ReadLease() | km.WriteLease():
                self._post(keeper, which, self._lease(action))
            case km.SendCommand(ordinal, address, envelope):
                self._deliver(keeper, ordinal, address, km.CommandArrived(envelope))
            case km.SendReport(address, envelope):
                owner = next((k for k in self.keepers.values() if k.address == address), None)
                to = owner.ordinal if owner is not None else -1
                self._deliver(keeper, to, address, km.ReportArrived(envelope))
            case km.ToEngine() | km.StartEngine() | km.EndEngine():
                self._engine(keeper, action)
            case _:
                self._file(keeper, action)

    def _swap(self, latest: Latest, version: str) -> object:
        encode_latest(latest)
        outcome = self.lose_reply(latest)
        if version != str(self.version):
            return km.SwapConflicted(latest.swap_id)
        if outcome != "lost":
            self.version += 1
            self.record = latest
            self.cas.append(latest)
        return km.SwapUnknown(latest.swap_id) if outcome else km.SwapDone(latest.swap_id, str(self.version))

    def _lease(self, action: km.ReadLease | km.WriteLease) -> object:
        holder, version = self.lease
        if isinstance(action, km.ReadLease):
            duration = self.settings.lease_duration_s
            return km.LeaseRead(action.token, holder, str(version), duration, str(version))
        if action.version != str(version):
            return km.LeaseFailed(action.token, "conflict")
        self.lease = (action.holder, version + 1)
        return km.LeaseWritten(action.token, str(version + 1))

    def _deliver(self, sender: Keeper, to: int, address: str, event: object) -> None:
        keeper = self.keepers.get(to)
        assert isinstance(event, km.CommandArrived | km.ReportArrived)
        if keeper is None or keeper.address != address:
            self._post(sender, "c", km.PeerRefused(address))
        elif not self.cut(sender.ordinal, to, event.envelope.body):
            which = "m" if isinstance(event, km.CommandArrived) else "c"
            self._post(keeper, which, event)

    def _engine(self, keeper: Keeper, action: km.ToEngine | km.StartEngine | km.EndEngine) -> None:
        match action:
            case km.StartEngine():
                keeper.engines += 1
                name = Incarnation(f"e{keeper.ordinal}.{keeper.life}.{keeper.engines}")
                if self.unsound is not None:  # the user's code does not load
                    self._post(keeper, "m", km.EngineGone(name, self.unsound, fatal=True))
                    return
                if self.dies_at_birth.get(keeper.ordinal, 0) > 0:
                    self.dies_at_birth[keeper.ordinal] -= 1
                    self._post(keeper, "m", km.EngineGone(name, "killed at birth"))
                    return
                mute = list(self.mute.get(keeper.ordinal, ()))
                keeper.engine = StubEngine(keeper.ordinal, name, self.plan, mute=mute)
                self._report(keeper, keeper.engine.hello())
                self._post(keeper, "c", km.PlanKnown(keeper.engine.plan))
            case km.EndEngine():
                if keeper.engine is not None:
                    gone = km.EngineGone(keeper.engine.incarnation, "ended")
                    keeper.engine = None
                    self._post(keeper, "m", gone)
            case km.ToEngine(incarnation, term, command):
                if keeper.engine is not None and keeper.engine.incarnation == incarnation:
                    for report in keeper.engine.obey(term, command):
                        self._report(keeper, report)

    def _report(self, keeper: Keeper, report: control.EngineReport) -> None:
        assert keeper.engine is not None
        if keeper.ordinal in self.silent:
            return
        if isinstance(report, control.EngineStatus):
            report = replace(report, exhausted=keeper.engine.exhausted)
        self._post(keeper, "m", km.EngineReported(keeper.engine.incarnation, report))

    def _file(self, keeper: Keeper, action: object) -> None:
        match action:
            case km.WriteBlob(name, value):
                assert name not in self.blobs, f"{name} is written twice"
                self.blobs[name] = value
                ref = BlobRef(name, "hash", len(encode(value)))
                if isinstance(value, RootManifest):
                    for task in value.tasks:
                        for file in task.files:
                            self.blobs.setdefault(file.blob.name, "state")
                self._post(keeper, "c", km.BlobWritten(ref))
            case km.ReadBlob(ref):
                if ref.name in self.blobs:
                    self._post(keeper, "c", km.BlobRead(ref, self.blobs[ref.name]))  # type: ignore[arg-type]
                else:
                    self._post(keeper, "c", km.BlobUnreadable(ref, "missing", damaged=True))
            case km.ListBlobs(token):
                self._post(keeper, "c", km.BlobsListed(token, tuple(self.blobs)))
            case km.DeleteBlobs(names):
                self.deleted += names
                for name in names:
                    self.blobs.pop(name, None)
            case km.ReadRootFile(token):
                self._post(keeper, "c", km.RootFileRead(token, self.root_file))
            case km.WriteRootFile(token, text):
                self.root_file = text
                self._post(keeper, "c", km.RootFileWritten(token))
            case km.CopySavepoint(request, _, _, folder):
                self._post(keeper, "c", km.SavepointCopied(request, folder))
            case km.IndexSavepoint(request, name, _, folder):
                self._post(keeper, "c", km.SavepointIndexed(request, folder, f"savepoints/{name}"))
            case _:
                raise AssertionError(f"nobody performs {action}")
