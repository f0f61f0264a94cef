"""When a member reads the object that says who leads and what is committed."""

from penstock.contract.ids import Incarnation, JobUid, Ordinal, SwapId, Term
from penstock.contract.latest import Latest, Leader
from penstock.protocol.core_context import ControlSettings
from penstock.protocol.keeper_core_messages import Action, LatestRead, ReadLatest, StoreChanged, Tick
from penstock.protocol.member.member_core import MemberCore

JOB = JobUid("job")
LED = Latest(JOB, SwapId("s"), term=Term(1), leader=Leader(Ordinal(0), Incarnation("k0"), "leader"))


def reads(actions: list[Action]) -> list[int]:
    return [a.token for a in actions if isinstance(a, ReadLatest)]


def test_a_hint_has_it_read_at_once_and_again_when_it_came_during_a_read() -> None:
    member = MemberCore(ControlSettings(), Ordinal(1), "me", JOB)
    (first,) = reads(member.step(Tick(), 0.0))
    assert not reads(member.step(LatestRead(first, LED), 0.1))
    (second,) = reads(member.step(StoreChanged(), 0.2))
    assert not reads(member.step(StoreChanged(), 0.3))
    assert reads(member.step(LatestRead(second, LED), 0.4))


def test_without_a_hint_it_is_read_by_the_clock() -> None:
    settings = ControlSettings()
    member = MemberCore(settings, Ordinal(1), "me", JOB)
    (first,) = reads(member.step(Tick(), 0.0))
    member.step(LatestRead(first, LED), 0.1)
    assert not reads(member.step(Tick(), 0.2))
    assert reads(member.step(Tick(), settings.meta_poll_interval_s + 0.2))
