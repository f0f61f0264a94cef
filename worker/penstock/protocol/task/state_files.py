"""The state files of a task: which it lists, and which it may merge. Pure rules over manifest entries.

    committed entries --cut--> committed + delta (or merged + delta) --confirm--> committed
                          |--abort--> nothing: the next cut begins at the committed ones again

A delta holds every change since the last commit, so a listing is always built on committed files. A
file of an aborted epoch, delta or merged, is never listed again.
"""

from collections.abc import Sequence

from penstock.base.values import replace
from penstock.contract.ids import Epoch
from penstock.contract.keygroups import Share, intersect, subtract, to_share
from penstock.contract.manifest import StateFile

Files = tuple[StateFile, ...]


class FileList:
    """The entries of one task: the committed ones, and those that snapshots under way would list."""

    __slots__ = ("_proposed", "committed")

    def __init__(self, committed: Files = ()) -> None:
        """Begin with the entries that the task was restored from."""
        self.committed = committed
        self._proposed: dict[Epoch, Files] = {}

    def propose(self, epoch: Epoch, listing: Files) -> None:
        """Remember what the manifest of ``epoch`` lists, in case it is committed."""
        self._proposed[epoch] = listing

    def confirm(self, epoch: Epoch) -> None:
        """Note that ``epoch`` is committed. The listings of older snapshots are forgotten."""
        self.committed = self._proposed.get(epoch, self.committed)
        self._proposed = {e: files for e, files in self._proposed.items() if e > epoch}

    def gain(self, files: Files) -> None:
        """Take over entries of gained groups, narrowed as given."""
        self.committed = in_order((*self.committed, *files))

    def lose(self, share: Share) -> None:
        """Narrow every entry to the groups that are left, and remove empty entries."""
        narrowed = (replace(f, groups=subtract(f.groups, share)) for f in self.committed)
        self.committed = tuple(f for f in narrowed if f.groups)


def in_order(files: Sequence[StateFile]) -> Files:
    """Sort entries in the order of loading: a later entry overwrites an earlier one."""
    return tuple(sorted(files, key=lambda f: (f.order, f.blob.name)))


def next_order(files: Sequence[StateFile]) -> int:
    """Return an order number behind all entries, own and gained."""
    return 1 + max((f.order for f in files), default=0)


def to_merge(files: Sequence[StateFile], files_max: int) -> Files:
    """Choose the newest entries of one state to merge so that at most ``files_max`` stay listed.

    With fewer entries nothing is merged. Else at least half of the entries are merged, from the
    newest on, and older ones while each is no larger than all newer ones together. So the number of
    times that a byte is rewritten grows only with the logarithm of the state.
    """
    if len(files) < files_max:
        return ()
    ordered = in_order(files)
    start = len(ordered) - max(files_max // 2, 2)
    size = sum(f.blob.size for f in ordered[start:])
    while start > 0 and ordered[start - 1].blob.size <= size:
        start -= 1
        size += ordered[start].blob.size
    return ordered[start:]


def drops_tombstones(merged: Sequence[StateFile], files: Sequence[StateFile]) -> bool:
    """Return whether tombstones may be dropped: a merge covers all older entries of its range."""
    groups = groups_of_files(merged)
    newest = max(f.order for f in merged)
    left = [f for f in files if f not in merged and f.order < newest]
    return not any(intersect(f.groups, groups) for f in left)


def groups_of_files(files: Sequence[StateFile]) -> Share:
    """Return every group that an entry shows."""
    groups = {g for f in files for r in f.groups for g in range(r.start, r.stop)}
    return to_share(groups)
