"""The ledger of a task's snapshots: which one is under way, and since when a delta counts.

    cut --SnapshotStored--> acknowledged, unless the epoch was aborted meanwhile
     |--StoreFailed--> failed: this epoch aborts and nothing else

The known committed epoch rises by a barrier, by a commit, and by the announcement of a new term.
A delta holds every change since then, whatever was cut and aborted in between.
"""

from dataclasses import dataclass

from penstock.contract.ids import NO_EPOCH, Epoch, Term
from penstock.model.elements import Barrier


@dataclass(frozen=True, slots=True)
class SnapshotInProgress:
    """The state of the task at a barrier that is not in its files."""

    barrier: Barrier
    watermark_us: int | None
    exhausted: bool


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
