"""Prepared output of a task: it is carried until it is committed, then published, then forgotten.

    prepared --in the manifest of E--> undecided --commit E--> committed --Published--> visible
        ^                                  | abort of E
        +----------------------------------+        only a reset discards, never what E lists

A handle belongs to every manifest from its cut to the first committed one. The output of an aborted
epoch is committed with the next epoch, because the sources are not rewound for it.
"""

from penstock.contract.ids import NO_EPOCH, Epoch
from penstock.contract.manifest import SinkHandle

Handles = tuple[SinkHandle, ...]


class SinkLedger:
    """Knows the handles of one task, from their preparation until they are forgotten."""

    __slots__ = ("_committed", "_prepared", "_undecided", "_wanted", "published")

    def __init__(self, epoch: Epoch = NO_EPOCH) -> None:
        """Begin behind ``epoch``. The leader chooses which workers publish its handles."""
        self._prepared: Handles = ()
        self._undecided: dict[Epoch, Handles] = {}
        self._committed: dict[Epoch, Handles] = {}
        self._wanted = epoch
        self.published = epoch

    def prepare(self, handles: Handles) -> None:
        """Keep new handles until a manifest that lists them is committed."""
        self._prepared += handles

    def manifest(self, epoch: Epoch) -> Handles:
        """Return the handles that the manifest of ``epoch`` lists: new ones and carried ones."""
        self._undecided[epoch] = self._prepared
        return self._prepared

    def commit(self, epoch: Epoch) -> Handles | None:
        """Return the handles to publish for ``epoch``, or None if its commit was known before."""
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
        """Return the handles published before ``epoch``. Its commit has recorded their publication."""
        old = [e for e in self._committed if e < epoch and e <= self.published]
        return tuple(h for e in old for h in self._committed.pop(e))

    def discard(self, epoch: Epoch) -> Handles:
        """Return the handles that a reset to ``epoch`` discards: those its manifest does not list.

        The number in a handle does not decide. A handle prepared for epoch 6 under an older term may
        have been carried into epoch 5 that a newer term has committed.
        """
        kept = self._undecided.get(epoch, ())
        return tuple(h for h in self._prepared if h not in kept)
