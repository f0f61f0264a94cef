"""A harness for the member core."""

from penstock.contract import control_messages as control
from penstock.contract.ids import (
    Attempt,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    SwapId,
    TaskId,
    Term,
    Version,
)
from penstock.contract.latest import Latest, Leader, Member
from penstock.contract.plan import Assignment
from penstock.protocol.core_context import ControlSettings
from penstock.protocol.keeper_core_messages import (
    Action,
    CommandArrived,
    EngineReported,
    LatestRead,
    MemberEvent,
    ReadLatest,
    SendReport,
    Tick,
    ToEngine,
)
from penstock.protocol.member.member_core import MemberCore
from tests.support.stub_engine import PLAN

JOB = JobUid("job")
LEADER = Leader(Ordinal(0), Incarnation("k0"), "leader")
SETTINGS = ControlSettings(engine_silence_timeout_s=20.0)
HELLO = control.EngineHello(Ordinal(1), Incarnation("e1"), "flight", PLAN)
TASK = TaskId(StageIndex(1), Ordinal(1), 0)
TABLE = Assignment(Version(4), 3, ())
MEMBERS = (Member(Ordinal(1), HELLO.incarnation, "keeper-1", HELLO.flight),)


class Bench:
    """A MemberCore whose engine is up under term 1, attempt 1."""

    def __init__(self, *, up: bool = True) -> None:
        self.now = 0.0
        self.actions: list[Action] = []
        self.asked: int | None = None
        self.member = MemberCore(SETTINGS, Ordinal(1), "keeper-1", JOB)
        if up:
            self.look(Latest(JOB, SwapId("s"), term=Term(1), leader=LEADER))
            self.report(HELLO)
            self.announce(1)
            self.command(control.Reset(Attempt(1), Epoch(0), None, TABLE, MEMBERS))

    def take(self, event: MemberEvent, dt: float = 0.001) -> list[Action]:
        self.now += dt
        self.actions = self.member.step(event, self.now)
        for action in self.actions:
            if isinstance(action, ReadLatest):
                self.asked = action.token
        return self.actions

    def look(self, record: Latest | None) -> list[Action]:
        if self.asked is None:
            self.take(Tick(), dt=1.0)
        assert self.asked is not None
        token, self.asked = self.asked, None
        return self.take(LatestRead(token, record))

    def report(self, report: control.EngineReport) -> list[Action]:
        return self.take(EngineReported(HELLO.incarnation, report))

    def command(self, body: control.Command, term: int = 1) -> list[control.Command]:
        self.take(CommandArrived(control.Envelope(JOB, Term(term), Ordinal(0), body)))
        return [a.command for a in self.actions if isinstance(a, ToEngine)]

    def announce(self, term: int, attempt: int = 0) -> list[control.Command]:
        body = control.Announce(LEADER, Attempt(attempt), Epoch(0), Version(0), Epoch(0))
        return self.command(body, term)

    def reports(self) -> list[control.Report]:
        sent = [a for a in self.actions if isinstance(a, SendReport)]
        assert all(a.address == "leader" for a in sent)
        return [a.envelope.body for a in sent]  # type: ignore[misc]

    def beat(self) -> control.Heartbeat:
        self.take(Tick(), dt=1.0)
        (beat,) = [r for r in self.reports() if isinstance(r, control.Heartbeat)]
        return beat
