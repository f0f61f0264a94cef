"""The keyed state of one simulated task: a dict, its dirty generations, and its state files.

It does with dicts and tuples what the engine's state backend does with tables and files, under the
same rules. A delta holds copies of every change since the last epoch known committed, with
tombstones. The manifest lists live files in order. Lost groups narrow entries. A gained range takes
over the entries of its former owner. A full file replaces all entries of the task.
"""

from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Share, groups_of
from penstock.contract.manifest import BlobRef, StateFile
from penstock.protocol.state_entries import FileList, in_order, next_order, to_merge
from sim.workload import group_of

Key = tuple[int, ...]
Value = tuple[int, ...]
Rows = tuple[tuple[Key, Value | None], ...]
FILES_MAX = 3  # more are merged into one at the next cut


class TaskTable:
    """The state of the one keyed step of a task. ``share`` bounds the keys that it may hold."""

    def __init__(self, step: str, groups: int) -> None:
        self.step = step
        self.values: dict[Key, Value] = {}
        self.files = FileList()
        self._groups = groups
        self._dirty: dict[Key, None] = {}
        self._cuts: dict[Epoch, dict[Key, None]] = {}

    def put(self, key: Key, value: Value) -> None:
        """Write a value and mark it as changed."""
        self.values[key] = value
        self._dirty[key] = None

    def delete(self, key: Key) -> None:
        """Remove a value and keep a tombstone."""
        self.values.pop(key, None)
        self._dirty[key] = None

    # --- Checkpoints

    def cut(self, epoch: Epoch, since: Epoch) -> tuple[Rows, bool]:
        """Copy the changes since an epoch. True with them when the file replaces all others."""
        # An aborted number may recur under a higher term: what it held is dirty all the same.
        self._cuts[epoch] = {**self._cuts.get(epoch, {}), **self._dirty}
        self._dirty = {}
        if to_merge(self.files.committed, FILES_MAX):
            return tuple(sorted(self.values.items())), True
        changed: dict[Key, None] = {}
        for at in sorted(self._cuts):
            if at > since:
                changed.update(self._cuts[at])
        return tuple((key, self.values.get(key)) for key in sorted(changed)), False

    def stored(self, epoch: Epoch, blob: BlobRef | None, share: Share, rows: int, full: bool) -> tuple[StateFile, ...]:
        """Return the entries that the manifest of ``epoch`` lists: live ones and the new file."""
        entries = () if full else self.files.committed
        if blob is not None and share:
            order = next_order(self.files.committed)
            entries += (StateFile(blob, self.step, share, order, epoch, rows),)
        self.files.propose(epoch, entries)
        return entries

    def confirm(self, epoch: Epoch) -> None:
        """Note that an epoch is committed: its changes are not dirty any more."""
        self.files.confirm(epoch)
        self._cuts = {e: keys for e, keys in self._cuts.items() if e > epoch}

    # --- Restore and rescale

    def load(self, files: tuple[StateFile, ...], contents: dict[BlobName, Rows]) -> None:
        """Load entries in order, only the groups that each entry shows."""
        for entry in in_order(files):
            shown = set(groups_of(entry.groups))
            for key, value in contents[entry.blob.name]:
                if group_of(key[0], self._groups) not in shown:
                    continue
                if value is None:
                    self.values.pop(key, None)
                else:
                    self.values[key] = value
        self.files.gain(files)

    def drop(self, share: Share) -> None:
        """Give up groups: their values, their changes, and the right to read them."""
        gone = set(groups_of(share))
        self.files.lose(share)
        for key in [k for k in self.values if group_of(k[0], self._groups) in gone]:
            del self.values[key]
        for keys in (self._dirty, *self._cuts.values()):
            for key in [k for k in keys if group_of(k[0], self._groups) in gone]:
                del keys[key]
