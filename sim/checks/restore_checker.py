"""The checker of restores: where a job goes back to, and what it repeats or loses by that.

C  a job goes back to another checkpoint only when a user has asked for that, and to the one that was named
E  output is repeated, or given up, only when the restore allows it
"""

from collections.abc import Callable

from penstock.contract.ids import BlobName, SplitId
from penstock.contract.latest import Desired, Latest, Restore, Unpublished, how_of
from penstock.contract.manifest import RootManifest
from sim.kernel.kernel import Violation


class RestoreChecker:
    """It believes what users have asked for, and nothing that the job's object says of it."""

    def __init__(self, root: Callable[[BlobName], RootManifest], saved: Callable[[str], RootManifest]) -> None:
        """Know no restore. ``root`` reads a manifest of the job, ``saved`` that of the savepoint at a path."""
        self._root = root
        self._saved = saved
        self._asked: dict[str, Restore] = {}

    def wanted(self, desired: Desired) -> None:
        """Learn what the user wants."""
        if desired.restore is not None:
            self._asked[desired.restore.nonce] = desired.restore

    def may_lose(self, nonce: str, sink: str) -> bool:
        """Return whether a restore gives output of a sink up. One that reads input again may give up all."""
        restore = self._asked.get(nonce)
        if restore is None:
            return False
        return restore.allow_output_replay or how_of(sink, restore.handling()) is Unpublished.DROP

    def check(self, old: Latest, new: Latest) -> None:
        """Check a change of the job's object. Raises Violation."""
        restore = self._asked.get(new.restored) if new.restored != old.restored else None
        if new.replayed and not old.replayed and (restore is None or not restore.allow_output_replay):
            raise Violation("E", f"output may be repeated from now on, and nobody has allowed it: {restore}")
        if new.restored == old.restored:
            return
        if restore is None:
            raise Violation("C", f"restore {new.restored} is done, and nobody has asked for it")
        wanted, found = self._named(old, restore), None if new.root is None else self._root(new.root.name)
        if found is None or wanted is None:
            if found is not wanted:
                raise Violation("C", f"{restore} begins from {new.root}")
        elif _offsets(found) != _offsets(wanted):
            raise Violation("C", f"{restore} begins from other offsets: {_offsets(found)}, not {_offsets(wanted)}")
        elif found != wanted and restore.path is None and not restore.drop_state:
            raise Violation("C", f"{restore} begins from epoch {found.epoch}, not from {wanted.epoch}")

    def _named(self, old: Latest, restore: Restore) -> RootManifest | None:
        """Return the checkpoint that a restore names: the newest one, if it names none. None: no state."""
        if restore.empty:
            return None
        if restore.path is not None:
            return self._saved(restore.path)
        if restore.epoch is None:
            return None if old.root is None else self._root(old.root.name)
        kept = [each.root.name for each in old.retained if each.epoch == restore.epoch]
        if not kept:
            raise Violation("C", f"{restore} is done, and that epoch is not retained")
        return self._root(kept[-1])


def _offsets(root: RootManifest) -> dict[SplitId, int]:
    return {state.split: state.offset for task in root.tasks for state in task.splits}
