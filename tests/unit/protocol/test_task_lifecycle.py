"""The lifecycle of a task is a table. A transition that the table does not have is refused by name."""

from itertools import product

import pytest

from penstock.protocol.task.task_state import TRANSITIONS, TaskLifecycle
from tests.support.task_harness import COUNT, rig

MISSING = [
    (before, after)
    for before, after in product(TaskLifecycle, TaskLifecycle)
    if after not in TRANSITIONS[before]
]


@pytest.mark.parametrize(("before", "after"), MISSING)
def test_a_transition_that_is_not_in_the_table_is_refused(
    before: TaskLifecycle, after: TaskLifecycle
) -> None:
    state = rig(COUNT).core.state
    state.life = before
    with pytest.raises(AssertionError, match=f"from {before} to {after}"):
        state.enter(after)


def test_every_phase_is_reached_and_can_end() -> None:
    reached = {after for ways in TRANSITIONS.values() for after in ways}
    begun = {TaskLifecycle.BUILDING, TaskLifecycle.JOINING}
    assert reached | begun == set(TaskLifecycle)
    assert all(TaskLifecycle.ENDED in ways for ways in TRANSITIONS.values())
