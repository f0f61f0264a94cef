"""Swaps with a store that loses, delays and repeats calls: the result is what the store did."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.values import replace
from penstock.contract.ids import Epoch, Incarnation, JobUid, SwapId, Term
from penstock.contract.latest import Latest
from penstock.protocol.core_context import StepContext
from penstock.protocol.keeper_core_messages import (
    LatestRead,
    LatestUnreadable,
    ReadLatest,
    SwapConflicted,
    SwapDone,
    SwapLatest,
    SwapUnknown,
)
from penstock.protocol.leader.leader_storage import MetadataCas, SwapEvent

OUTCOMES = st.sampled_from(["done", "lost", "applied", "delayed", "unreadable", "other-term", "touch"])


class Store:
    """One object; swaps may be applied without a reply, or only after later reads."""

    def __init__(self, first: Latest) -> None:
        self.history = [first]
        self.version = 1
        self.delayed: list[SwapLatest] = []

    def apply(self, swap: SwapLatest) -> bool:
        if swap.version != str(self.version):
            return False
        self.version += 1
        self.history.append(swap.latest)
        return True

    def arrive(self) -> None:
        """Let delayed swaps arrive, also those that are not wanted any more."""
        for swap in self.delayed:
            self.apply(swap)
        self.delayed = []


def answer(store: Store, action: object, outcome: str) -> SwapEvent:
    if outcome == "other-term":
        store.version += 1
        leads = replace(store.history[-1], term=Term(9), swap_id=SwapId("other"))
        store.history.append(leads)
    if outcome == "touch":
        store.version += 1
    if isinstance(action, ReadLatest):
        if outcome == "unreadable":
            return LatestUnreadable(action.token, "away")
        event = LatestRead(action.token, store.history[-1], str(store.version))
        store.arrive()
        return event
    assert isinstance(action, SwapLatest)
    if outcome == "lost":
        return SwapUnknown(action.latest.swap_id)
    if outcome == "delayed":
        store.delayed.append(action)
        return SwapUnknown(action.latest.swap_id)
    applied = store.apply(action)
    if outcome == "applied":
        return SwapUnknown(action.latest.swap_id)
    if not applied:
        return SwapConflicted(action.latest.swap_id)
    return SwapDone(action.latest.swap_id, str(store.version))


@given(outcomes=st.lists(OUTCOMES, max_size=40))
def test_every_decided_intent_is_in_the_object_once_and_in_order(outcomes: list[str]) -> None:
    first = Latest(JobUid("job"), SwapId("first"), term=Term(1))
    store, context = Store(first), StepContext(Incarnation("me"))
    context.begin(0.0)
    cas = MetadataCas(first, "1", retry_s=0.5)
    decided: list[int] = []
    for number, outcome in enumerate([*outcomes, *["done"] * 8]):
        context.begin(float(number))
        cas.reconcile(context)
        if cas.deposed is not None:
            break
        if not cas.busy:
            if cas.latest.epoch:
                decided.append(cas.latest.epoch)
            cas.propose(context, replace(cas.latest, epoch=Epoch(cas.latest.epoch + 1)))
        for action in context.actions:
            cas.on_event(context, answer(store, action, outcome))
    written = [r.epoch for r in store.history if r.term == 1 and r.epoch]
    assert written == sorted(set(written)), "no intent is ever applied twice"
    assert decided == written[: len(decided)], "all decided intents are there, in their order"
    if cas.deposed is None:
        assert len(written) - len(decided) <= 2
