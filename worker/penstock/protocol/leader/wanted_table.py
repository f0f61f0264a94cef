"""The table that is wanted after another one: for other workers, with other schemes, or balanced by load."""

from penstock.base.limits import REFUSED_MAX, TEXT_BYTES_MAX
from penstock.base.values import replace
from penstock.contract.balance import Balance
from penstock.contract.codec import ABSENT
from penstock.contract.latest import clip
from penstock.contract.plan import Assignment, next_assignment
from penstock.contract.schemes import given, refused, said
from penstock.protocol.leader.balanced_table import balanced
from penstock.protocol.leader.leader_state import LeaderState


def next_table(state: LeaderState, table: Assignment, workers: int) -> Assignment:
    """Return the table that follows ``table`` on a number of workers, as it is wanted."""
    assert state.plan is not None
    after = next_assignment(state.plan, table, workers)
    after = replace(after, version=state.next_version(), schemes=state.schemes(table), balance=ABSENT)
    nonce = state.balance_wanted()
    return after if nonce is None else balanced(state.plan, after, state.root, nonce)


def difference(state: LeaderState, table: Assignment, workers: int) -> str | None:
    """Say in which way another table is wanted than ``table``; None if it is as wanted."""
    if table.workers != workers:
        return f"{workers} workers are wanted now"
    schemes = state.schemes(table)
    if schemes != table.schemes:
        return f"other schemes are wanted now: {said(given(schemes))}"
    return "the key groups are to be balanced" if _moves(state, table) else None


def _moves(state: LeaderState, table: Assignment) -> bool:
    """Return whether key groups move by a request to balance that ``table`` does not answer."""
    nonce, answers = state.balance_wanted(), table.balance
    if nonce is None or (table.version > state.latest.version and answers is not ABSENT and answers.nonce == nonce):
        return False
    return bool(_balance(state, table, nonce).moved)


def _balance(state: LeaderState, table: Assignment, nonce: int) -> Balance:
    assert state.plan is not None
    found = balanced(state.plan, table, state.root, nonce).balance
    assert found is not ABSENT
    return found


def record_balance(state: LeaderState) -> None:
    """Record in the object a request to balance by which no key group moves."""
    nonce, table = state.balance_wanted(), state.assignment()
    if nonce is None or table is None or not state.is_of_plan() or state.latest.epoch == 0 or state.proposing():
        return
    if difference(state, table, state.target()) is None:
        found = _balance(state, table, nonce)
        state.context.log(f"event=balance nonce={nonce} moved=0 steps={len(found.steps)}")
        state.propose(replace(state.latest, balance=found))


def record_refused(state: LeaderState) -> None:
    """Record in the object which schemes are asked for and cannot be. What holds stays."""
    if state.plan is None or state.desired is None:
        return
    found = refused(state.plan.schemes, state.asked_schemes())[:REFUSED_MAX]
    recorded = tuple(replace(each, text=clip(each.text, TEXT_BYTES_MAX)) for each in found) or ABSENT
    if recorded != state.latest.refused:
        for each in found:
            state.log_once(f"scheme-refused-{each.step}", f"reason={each.text!r}")
        state.propose(replace(state.latest, refused=recorded))
