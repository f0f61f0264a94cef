"""The election: which keeper may take the Lease, judged by its own clock only."""

from penstock.contract.ids import Incarnation
from penstock.protocol.core_context import ControlSettings, StepContext
from penstock.protocol.keeper_core_messages import Action, LeaseFailed, LeaseRead, LeaseWritten, ReadLease, WriteLease
from penstock.protocol.leader.election import Election, LeaseEvent

SETTINGS = ControlSettings(lease_duration_s=15.0, lease_renew_deadline_s=10.0, lease_retry_s=2.0)


class Bench:
    """One Election, driven step by step."""

    def __init__(self) -> None:
        self.context = StepContext(Incarnation("me"))
        self.election = Election(SETTINGS, "me")

    def at(self, now: float, event: LeaseEvent | None = None, patience: float | None = 0.0) -> list[Action]:
        self.context.begin(now)
        if event is not None:
            self.election.on_event(self.context, event)
        self.election.reconcile(self.context, patience)
        return self.context.actions

    def read(self, now: float, holder: str | None, text: str = "1") -> list[Action]:
        (asked,) = self.at(now)
        assert isinstance(asked, ReadLease)
        return self.at(now, LeaseRead(asked.token, holder, text, 15.0, text))

    def hold(self, now: float) -> None:
        (write,) = self.read(now, None)
        assert isinstance(write, WriteLease)
        self.at(now, LeaseWritten(write.token, "2"))
        assert self.election.held


def test_a_free_lease_is_taken_at_once() -> None:
    bench = Bench()
    (write,) = bench.read(0.0, None)
    assert write == WriteLease(2, "me", "1")


def test_a_held_lease_is_left_alone_until_it_has_not_changed_for_its_duration() -> None:
    bench = Bench()
    assert bench.read(0.0, "other") == []
    assert bench.read(2.0, "other") == []
    assert bench.read(14.0, "other") == []
    (write,) = bench.read(15.0, "other")
    assert isinstance(write, WriteLease)


def test_every_renewal_starts_the_wait_anew() -> None:
    bench = Bench()
    bench.read(0.0, "other", "1")
    bench.read(14.0, "other", "2")
    assert bench.read(16.0, "other", "2") == []
    assert bench.read(28.9, "other", "2") == []
    assert isinstance(bench.read(29.0, "other", "2")[0], WriteLease)


def test_a_conflicting_write_does_not_hold() -> None:
    bench = Bench()
    (write,) = bench.read(0.0, None)
    assert isinstance(write, WriteLease)
    assert bench.at(0.1, LeaseFailed(write.token, "conflict")) == []
    assert not bench.election.held
    assert isinstance(bench.at(2.1)[0], ReadLease)


def test_a_write_whose_reply_was_lost_is_found_by_reading() -> None:
    bench = Bench()
    (write,) = bench.read(0.0, None)
    assert isinstance(write, WriteLease)
    bench.at(0.1, LeaseFailed(write.token, "unknown"))
    (renew,) = bench.read(2.1, "me", "2")
    assert renew == WriteLease(4, "me", "2")


def test_it_is_renewed_and_given_up_when_that_fails_for_too_long() -> None:
    bench = Bench()
    bench.hold(0.0)
    (renew,) = bench.at(2.0)
    assert isinstance(renew, WriteLease)
    bench.at(3.0, LeaseFailed(renew.token, "away"))
    bench.at(9.9)
    assert bench.election.held
    bench.at(10.0)
    assert not bench.election.held, "another may hold it from 15 s on"


def test_the_deadline_counts_from_when_the_renewal_was_sent() -> None:
    bench = Bench()
    bench.hold(0.0)
    (renew,) = bench.at(2.0)
    assert isinstance(renew, WriteLease)
    bench.at(9.0, LeaseWritten(renew.token, "3"))
    bench.at(11.9)
    assert bench.election.held
    bench.at(12.0)
    assert not bench.election.held


def test_a_deposed_leader_frees_the_lease_and_stays_out_for_one_duration() -> None:
    bench = Bench()
    bench.hold(0.0)
    bench.context.begin(1.0)
    bench.election.give_up(bench.context)
    (free,) = bench.at(1.0)
    assert free == WriteLease(3, None, "2")
    bench.at(1.0, LeaseWritten(3, "3"))
    assert bench.read(3.0, None, "3") == []
    assert bench.read(15.9, None, "3") == []
    assert isinstance(bench.read(17.9, None, "3")[0], WriteLease)


def test_a_renewal_under_way_while_giving_up_is_undone() -> None:
    bench = Bench()
    bench.hold(0.0)
    (renew,) = bench.at(2.0)
    assert isinstance(renew, WriteLease)
    bench.context.begin(2.1)
    bench.election.give_up(bench.context)
    (free,) = bench.at(2.2, LeaseWritten(renew.token, "3"))
    assert free == WriteLease(renew.token + 1, None, "3")
    assert not bench.election.held


def test_patience_leaves_a_free_lease_to_others_first() -> None:
    bench = Bench()
    (asked,) = bench.at(0.0, patience=15.0)
    assert isinstance(asked, ReadLease)
    free = LeaseRead(asked.token, None, "1", 15.0, "1")
    assert bench.at(0.0, free, patience=15.0) == []
    (again,) = bench.at(15.0, patience=15.0)
    assert isinstance(again, ReadLease)
    free = LeaseRead(again.token, None, "1", 15.0, "1")
    assert isinstance(bench.at(15.0, free, patience=15.0)[0], WriteLease)


def test_who_does_not_contend_never_writes() -> None:
    bench = Bench()
    (asked,) = bench.at(0.0, patience=None)
    assert isinstance(asked, ReadLease)
    assert bench.at(0.0, LeaseRead(asked.token, None, "1", 15.0, "1"), patience=None) == []


def test_a_dead_holders_lease_is_seized_and_only_that_holders() -> None:
    bench = Bench()
    bench.read(0.0, "dead")
    bench.context.begin(1.0)
    bench.election.acquire_expired(bench.context, "dead")
    assert isinstance(bench.read(1.0, "dead")[0], WriteLease)
    bench = Bench()
    bench.read(0.0, "dead")
    bench.context.begin(1.0)
    bench.election.acquire_expired(bench.context, "dead")
    assert bench.read(1.0, "alive", "2") == []
