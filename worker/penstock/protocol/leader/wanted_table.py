"""The table that is wanted after another one: for another number of workers, or with other schemes."""

from penstock.base.limits import REFUSED_MAX, TEXT_BYTES_MAX
from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.latest import clip
from penstock.contract.plan import Assignment, next_assignment
from penstock.contract.schemes import given, refused, said
from penstock.protocol.leader.leader_state import LeaderState


def next_table(state: LeaderState, table: Assignment, workers: int) -> Assignment:
    """Return the table that follows ``table`` on a number of workers, as it is wanted."""
    assert state.plan is not None
    following = next_assignment(state.plan, table, workers)
    return replace(following, version=state.next_version(), schemes=state.schemes(table))


def difference(state: LeaderState, table: Assignment, workers: int) -> str | None:
    """Say in which way another table is wanted than ``table``; None if it is as wanted."""
    if table.workers != workers:
        return f"{workers} workers are wanted now"
    schemes = state.schemes(table)
    return None if schemes == table.schemes else f"other schemes are wanted now: {said(given(schemes))}"


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
