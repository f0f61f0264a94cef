"""Explicit-state search: every order of events of a small model, up to a bound of states."""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

S = TypeVar("S")


class Small(Protocol[S]):
    """A model that is small enough to be searched."""

    def first(self) -> S:
        """Return the state in which nothing has happened."""
        ...

    def following(self, state: S) -> Iterable[S]:
        """Yield every state that follows by one step. Raises Violation."""
        ...

    def key(self, state: S) -> Hashable:
        """Return a key that only equal states share."""
        ...

    def check_end(self, state: S) -> None:
        """Check a final state. Raises Violation."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search: distinct states, steps between them, final states.

    ``broad``: how many states it went on from by breadth.
    """

    states: int
    broad: int
    steps: int
    ends: int
    exhausted: bool


def search(world: Small[S], states_max: int) -> Found:
    """Visit up to ``states_max`` distinct states. Raises Violation.

    The first half by breadth: all short histories. The others by depth: some to their end.
    """
    first = world.first()
    seen = {world.key(first)}
    frontier = deque([first])
    steps = ends = broad = 0
    while frontier and len(seen) < states_max:
        breadth = len(seen) < states_max // 2
        broad += breadth
        state = frontier.popleft() if breadth else frontier.pop()
        here, followed = world.key(state), False
        for following in world.following(state):
            steps += 1
            key = world.key(following)
            followed = followed or key != here
            if key not in seen:
                seen.add(key)
                frontier.append(following)
        if not followed:
            ends += 1
            world.check_end(state)
    return Found(len(seen), broad, steps, ends, not frontier)
