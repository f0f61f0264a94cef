"""The memory of a worker's keyed state, shared by all of its tasks that live now."""

from weakref import ref

from penstock.state.keyed_backend import KeyedStateBackend


class StateBudget:
    """Equal parts of ``memory_bytes`` for every task: divided anew when one comes.

    For the thread that makes tasks.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._states: list[ref[KeyedStateBackend]] = []

    def admit(self, state: KeyedStateBackend) -> None:
        """Give a new task its part; the parts of the others shrink, those of closed ones go."""
        live = [s for r in self._states if (s := r()) is not None and not s.closed]
        live.append(state)
        self._states = [ref(s) for s in live]
        for each in live:
            each.limit(self._memory_bytes // len(live))
