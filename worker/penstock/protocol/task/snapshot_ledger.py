"""The ledgers of a task's snapshots and of its prepared output.

Snapshots (:class:`SnapshotLedger`): which one is under way, and since when a delta counts.

    cut --SnapshotStored--> acknowledged, unless the epoch was aborted meanwhile
     |--StoreFailed--> failed: this epoch aborts and nothing else

The known committed epoch rises by a barrier, by a commit, and by the announcement of a new term.
A delta holds every change since then, whatever was cut and aborted in between.

Prepared output (:class:`SinkLedger`) is carried until it is committed, then published, then forgotten.

    prepared --in the manifest of E--> undecided --commit E--> committed --Published--> visible
        ^                                  | abort of E
        +----------------------------------+        only a reset discards, never what E lists

A handle belongs to every manifest from its cut to the first committed one. The output of an aborted
epoch is committed with the next epoch, because the sources are not rewound for it.
"""

from dataclasses import dataclass

from penstock.contract.ids import NO_EPOCH, Epoch, Term
from penstock.contract.manifest import GroupsTime, SinkHandle
from penstock.model.elements import Barrier

Handles = tuple[SinkHandle, ...]


@dataclass(frozen=True, slots=True)
class SnapshotInProgress:
    """The state of the task at a barrier that is not in its files."""

    barrier: Barrier
    watermark_us: int | None
    exhausted: bool
    firing: tuple[GroupsTime, ...] = ()


class SnapshotLedger:
    """Knows the last committed epoch and the snapshot under way; there is at most one."""

    __slots__ = ("_aborted", "_open", "committed")

    def __init__(self, committed: Epoch = NO_EPOCH) -> None:
        """Begin at the epoch that the task was restored from."""
        self.committed = committed
        self._open: SnapshotInProgress | None = None
        self._aborted = False

    @property
    def busy(self) -> bool:
        """Return whether a snapshot is being stored; the next cut waits for it, aborted or not."""
        return self._open is not None

    def confirm(self, epoch: Epoch) -> bool:
        """Note that ``epoch`` is committed. Return whether it was not known before."""
        news = epoch > self.committed
        self.committed = max(self.committed, epoch)
        return news

    def cut(self, cut: SnapshotInProgress) -> Epoch:
        """Begin a snapshot. Return the epoch since which its delta counts."""
        assert self._open is None, "one snapshot at a time: a sink's cuts must end in order"
        self._open = cut
        self._aborted = False
        return self.committed

    def off(self, term: Term, epoch: Epoch) -> None:
        """Give up all snapshots up to (term, epoch) that are not committed: they never will be."""
        if self._open is not None and _identity(self._open) <= (term, epoch):
            self._aborted = True

    def close(self, term: Term, epoch: Epoch) -> SnapshotInProgress | None:
        """End the snapshot of (term, epoch). Return it if its outcome still matters."""
        cut = self._open
        assert cut is not None, "an outcome without a cut"
        assert _identity(cut) == (term, epoch), "the outcome of another cut"
        self._open = None
        return None if self._aborted else cut


def _identity(cut: SnapshotInProgress) -> tuple[Term, Epoch]:
    return cut.barrier.term, cut.barrier.epoch


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
        """Note that everything up to ``epoch`` is visible, of the handles that this task publishes."""
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
