"""The memory budget of a worker's keyed state, shared equally by its running tasks."""

from weakref import ref

from penstock.state.keyed_backend import KeyedStateBackend


class StateBudget:
    """Gives every task an equal part of ``memory_bytes``; divides again when a task is added.

    Only the thread that makes tasks calls it.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._states: list[ref[KeyedStateBackend]] = []

    def admit(self, state: KeyedStateBackend) -> None:
        """Add a new task. The parts of the others shrink; closed tasks give up their part."""
        live = [s for r in self._states if (s := r()) is not None and not s.closed]
        live.append(state)
        self._states = [ref(s) for s in live]
        for each in live:
            each.limit(self._memory_bytes // len(live))
