"""An early takeover needs two refusals, the right address, and another witness."""

from penstock.contract.control_messages import Confirm, Envelope, Suspect
from penstock.contract.ids import Incarnation, JobUid, Ordinal, SwapId, Term
from penstock.contract.latest import Latest, Leader
from penstock.protocol.core_context import StepContext
from penstock.protocol.keeper_core_messages import LatestRead, ReadLatest, SendReport
from penstock.protocol.leader.takeover import Takeover
from tests.support.in_memory_control_plane import JOB, SETTINGS, InMemoryControlPlane

ME = Leader(Ordinal(1), Incarnation("me"), "mine")


def record(workers: int, address: str = "theirs") -> Latest:
    leader = Leader(Ordinal(0), Incarnation("dead"), address)
    return Latest(JOB, SwapId("s"), term=Term(1), leader=leader, workers=workers)


class Bench:
    """One Takeover, driven step by step."""

    def __init__(self) -> None:
        self.context = StepContext(Incarnation("me"))
        self.takeover = Takeover(SETTINGS, ME)

    def refuse(self, now: float, address: str = "theirs") -> list[object]:
        self.context.begin(now)
        self.takeover.refuse(self.context, address)
        return list(self.context.actions)

    def read(self, now: float, latest: Latest) -> str | None:
        self.context.begin(now)
        event = LatestRead(self.takeover.token, latest, "1")
        return self.takeover.on_event(self.context, event)


def test_one_refusal_is_not_enough() -> None:
    bench = Bench()
    assert bench.refuse(0.0) == []
    assert isinstance(bench.refuse(0.5)[0], ReadLatest)


def test_refusals_long_apart_do_not_add_up() -> None:
    bench = Bench()
    bench.refuse(0.0)
    assert bench.refuse(SETTINGS.heartbeat_timeout_s) == []


def test_of_two_workers_one_may_judge_alone() -> None:
    bench = Bench()
    bench.refuse(0.0)
    bench.refuse(0.1)
    assert bench.read(0.2, record(2)) == "dead"


def test_an_address_that_is_not_the_leaders_begins_no_takeover() -> None:
    bench = Bench()
    bench.refuse(0.0)
    bench.refuse(0.1)
    assert bench.read(0.2, record(2, "another")) is None


def test_of_three_workers_another_has_to_confirm() -> None:
    bench = Bench()
    bench.refuse(0.0)
    bench.refuse(0.1)
    assert bench.read(0.2, record(3)) is None


def test_a_witness_answers_only_what_it_saw_itself() -> None:
    bench = Bench()
    asked = Envelope(JobUid("job"), Term(0), Ordinal(2), Suspect("theirs", "asker"))
    bench.context.begin(0.0)
    bench.takeover.on_report(bench.context, asked)
    assert bench.context.actions == []
    bench.refuse(0.1)
    bench.refuse(0.2)
    bench.context.begin(0.3)
    bench.takeover.on_report(bench.context, asked)
    (answer,) = bench.context.actions
    assert isinstance(answer, SendReport)
    assert (answer.address, answer.envelope.body) == ("asker", Confirm("theirs"))


def test_a_confirmation_nobody_asked_for_changes_nothing() -> None:
    bench = Bench()
    bench.context.begin(0.0)
    heard = Envelope(JobUid("job"), Term(0), Ordinal(2), Confirm("theirs"))
    assert bench.takeover.on_report(bench.context, heard) is None


def test_without_a_witness_the_lease_has_to_run_out() -> None:
    plane = InMemoryControlPlane(3)
    plane.until(lambda: plane.latest.epoch >= 1)
    plane.cut = lambda _a, _to, body: isinstance(body, Confirm)
    plane.kill(plane.leader().ordinal)
    plane.run(SETTINGS.lease_duration_s - 1.5)
    assert plane.latest.term == 1
    plane.until(lambda: plane.latest.term == 2)
