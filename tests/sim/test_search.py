"""Every order of events in a very small world: 50,000 distinct states in every test run."""

from penstock.testing.search import search
from penstock.testing.small_world import SmallWorld

STATES = 50_000


def test_no_order_of_events_breaks_a_small_world() -> None:
    found = search(SmallWorld(), STATES)
    assert found.states >= STATES or found.exhausted
    assert found.ends > 10, "some histories were followed to their end"
