"""Swaps with unknown outcomes: decided by their own id or by a later swap, never by a guess."""

from penstock.base.values import replace
from penstock.contract.ids import Epoch, Incarnation, JobUid, SwapId, Term
from penstock.contract.latest import Latest
from penstock.protocol.core_context import StepContext
from penstock.protocol.keeper_core_messages import (
    Action,
    LatestRead,
    LatestUnreadable,
    ReadLatest,
    SwapConflicted,
    SwapDone,
    SwapLatest,
    SwapUnknown,
)
from penstock.protocol.leader.leader_storage import MetadataCas, SwapEvent

BASE = Latest(JobUid("job"), SwapId("base"), term=Term(3))


class Bench:
    """One MetadataCas, at version 7 of the object."""

    def __init__(self) -> None:
        self.context = StepContext(Incarnation("me"))
        self.context.begin(0.0)
        self.cas = MetadataCas(BASE, "7", retry_s=0.5)

    def propose(self) -> SwapLatest:
        self.cas.propose(self.context, replace(BASE, epoch=Epoch(1), max_epoch=Epoch(1)))
        return self.swap()

    def take(self, event: SwapEvent, now: float = 0.0) -> list[Action]:
        self.context.begin(now)
        self.cas.on_event(self.context, event)
        self.cas.reconcile(self.context)
        return self.context.actions

    def swap(self) -> SwapLatest:
        (action,) = self.context.actions
        assert isinstance(action, SwapLatest)
        return action

    def read(self) -> int:
        (action,) = self.context.actions
        assert isinstance(action, ReadLatest)
        return action.token


def test_a_done_swap_is_what_the_object_holds() -> None:
    bench = Bench()
    sent = bench.propose()
    assert bench.cas.busy
    assert bench.take(SwapDone(sent.latest.swap_id, "8")) == []
    assert (bench.cas.latest, bench.cas.version) == (sent.latest, "8")
    assert not bench.cas.busy


def test_after_an_unknown_outcome_ones_own_id_means_success() -> None:
    bench = Bench()
    sent = bench.propose()
    bench.take(SwapUnknown(sent.latest.swap_id))
    assert bench.cas.busy, "nothing may be aborted while the swap can still arrive"
    bench.take(LatestRead(bench.read(), sent.latest, "8"))
    assert bench.cas.latest == sent.latest
    assert not bench.cas.busy


def test_an_unchanged_object_gets_the_same_intent_under_a_fresh_id() -> None:
    bench = Bench()
    sent = bench.propose()
    bench.take(SwapUnknown(sent.latest.swap_id))
    bench.take(LatestRead(bench.read(), BASE, "7"))
    again = bench.swap()
    assert again.latest.swap_id != sent.latest.swap_id, "an identical write changes no version"
    assert again.latest == replace(sent.latest, swap_id=again.latest.swap_id)
    assert bench.cas.busy


def test_later_sends_keep_a_pace_and_end_at_a_bound() -> None:
    bench = Bench()
    bench.propose()
    now = 0.0
    while bench.cas.deposed is None:
        sent = bench.swap()
        bench.take(SwapUnknown(sent.latest.swap_id), now)
        bench.take(LatestRead(bench.read(), BASE, "7"), now)
        if not bench.context.actions and bench.cas.deposed is None:
            now += 0.5
            assert bench.context.alarm == now
            bench.context.begin(now)
            bench.cas.reconcile(bench.context)
    assert bench.cas.deposed == "64 swaps in a row had no known outcome"
    assert now > 30.0


def test_the_first_of_two_sends_may_turn_out_to_be_the_one_that_arrived() -> None:
    bench = Bench()
    sent = bench.propose()
    bench.take(SwapUnknown(sent.latest.swap_id))
    bench.take(LatestRead(bench.read(), BASE, "7"))
    again = bench.swap()
    bench.take(SwapConflicted(again.latest.swap_id))
    bench.take(LatestRead(bench.read(), sent.latest, "8"))
    assert bench.cas.latest == sent.latest
    assert bench.cas.deposed is None


def test_a_version_that_moved_without_a_change_is_swapped_again() -> None:
    bench = Bench()
    sent = bench.propose()
    bench.take(SwapConflicted(sent.latest.swap_id))
    bench.take(LatestRead(bench.read(), BASE, "9"))
    assert bench.swap().version == "9"


def test_another_term_deposes() -> None:
    bench = Bench()
    sent = bench.propose()
    bench.take(SwapConflicted(sent.latest.swap_id))
    other = replace(BASE, term=Term(4), swap_id=SwapId("theirs"))
    assert bench.take(LatestRead(bench.read(), other, "8")) == []
    assert bench.cas.deposed == "term 4 leads"


def test_a_change_by_nobody_known_deposes_too() -> None:
    bench = Bench()
    sent = bench.propose()
    bench.take(SwapConflicted(sent.latest.swap_id))
    bench.take(LatestRead(bench.read(), replace(BASE, swap_id=SwapId("x")), "8"))
    assert bench.cas.deposed is not None


def test_an_object_that_is_gone_deposes() -> None:
    bench = Bench()
    sent = bench.propose()
    bench.take(SwapUnknown(sent.latest.swap_id))
    bench.take(LatestRead(bench.read(), None))
    assert bench.cas.deposed == "the object -latest is gone"


def test_an_unreachable_store_is_read_again_later_and_nothing_is_decided() -> None:
    bench = Bench()
    sent = bench.propose()
    bench.take(SwapUnknown(sent.latest.swap_id))
    assert bench.take(LatestUnreadable(bench.read(), "away"), now=1.0) == []
    assert bench.context.alarm == 1.5
    bench.context.begin(1.5)
    bench.cas.reconcile(bench.context)
    bench.take(LatestRead(bench.read(), sent.latest, "8"), now=1.6)
    assert not bench.cas.busy


def test_answers_to_other_reads_and_swaps_change_nothing() -> None:
    bench = Bench()
    sent = bench.propose()
    bench.take(SwapDone(SwapId("other"), "9"))
    bench.take(SwapUnknown(sent.latest.swap_id))
    token = bench.read()
    bench.take(LatestRead(token + 1, BASE, "7"))
    bench.take(LatestUnreadable(token + 1, "away"))
    assert bench.cas.busy
    assert bench.cas.reading == token
