"""Prepared output of a task: carried until committed, published after the commit, then forgotten.

    prepared --in the manifest of E--> undecided --commit E--> committed --Published--> visible
        ^                                  | abort of E
        +----------------------------------+        only a reset discards, never what E lists

A handle belongs to every manifest from its cut to the first that is committed: the output of an
aborted epoch is committed with the next one, because the sources are not rewound for it.
"""

from penstock.contract.ids import NO_EPOCH, Epoch
from penstock.contract.manifest import SinkHandle

Handles = tuple[SinkHandle, ...]


class SinkLedger:
    """Knows the handles of one task in every state between prepare and forget."""

    __slots__ = ("_committed", "_prepared", "_undecided", "_wanted", "published")

    def __init__(self, epoch: Epoch = NO_EPOCH) -> None:
        """Begin behind ``epoch``: its handles are published by whom the leader asks."""
        self._prepared: Handles = ()
        self._undecided: dict[Epoch, Handles] = {}
        self._committed: dict[Epoch, Handles] = {}
        self._wanted = epoch
        self.published = epoch

    def prepare(self, handles: Handles) -> None:
        """Keep new handles until a manifest that lists them is committed."""
        self._prepared += handles

    def manifest(self, epoch: Epoch) -> Handles:
        """Return what the manifest of ``epoch`` must list: new handles and carried ones."""
        self._undecided[epoch] = self._prepared
        return self._prepared

    def commit(self, epoch: Epoch) -> Handles | None:
        """Return what is to be published for ``epoch``, or None if that was asked before."""
        if epoch <= self._wanted:
            return None
        self._wanted = epoch
        handles = self._undecided.get(epoch, ())
        self._undecided.clear()
        self._prepared = tuple(h for h in self._prepared if h not in handles)
        self._committed[epoch] = handles
        return handles

    def done(self, epoch: Epoch) -> None:
        """Note that everything up to ``epoch`` is visible."""
        self.published = max(self.published, epoch)

    def forget(self, epoch: Epoch) -> Handles:
        """Return what was published before ``epoch``, whose commit recorded that it was."""
        old = [e for e in self._committed if e < epoch and e <= self.published]
        return tuple(h for e in old for h in self._committed.pop(e))

    def discard(self, epoch: Epoch) -> Handles:
        """Return what a reset to ``epoch`` throws away: only what its manifest does not list.

        The number in a handle cannot tell: one prepared for 6 under an older term may have been
        carried into the 5 that a newer term committed.
        """
        kept = self._undecided.get(epoch, ())
        return tuple(h for h in self._prepared if h not in kept)
