"""The cleaner of checkpoints: it decides from names and manifests which files are garbage.

A file is garbage iff the epoch in its name is at most the committed one and no retained or pinned
manifest lists it. An earlier swap has removed epochs from the retained list. A new manifest takes
over older files only from the manifest before it, which is retained. So garbage stays garbage, and
a leader that was deposed without knowing it can delete only garbage.

No manifest lists members files. A members file is garbage iff its term is at most this leader's
and the object, as this leader's own last swap wrote it, names another one. The members file that
is being admitted is spared.
"""

from dataclasses import dataclass

from penstock.base.limits import COLLECT_BATCH_MAX
from penstock.contract.ids import BlobName, Epoch, parse_name
from penstock.contract.manifest import RootManifest
from penstock.protocol.keeper_core_messages import BlobsListed, DeleteBlobs, ListBlobs
from penstock.protocol.leader.leader_state import LeaderState
from penstock.protocol.leader.leader_storage import ManifestCache


@dataclass(slots=True)
class CheckpointCleaner:
    """The state of the collection.

    - ``token``: the listing under way; ``names``: a listing that is not classified yet.
    - ``done``: the epoch after which files were last collected.
    - ``quiet_since``: when the first listing began since which no listing has met a live engine.
    - ``last``: the listing began so long after ``quiet_since`` that no write of an engine is still under
      way; ``swept``: such a listing had no garbage, so a closed job has none.
    """

    token: int | None = None
    next_at: float = 0.0
    names: tuple[BlobName, ...] | None = None
    done: Epoch = Epoch(0)
    quiet_since: float | None = None
    last: bool = False
    swept: bool = False

    def on_event(self, state: LeaderState, event: BlobsListed) -> None:
        """Keep a listing until it can be classified."""
        if event.token == self.token:
            self.token = None
            self.names = event.names
            self.next_at = state.context.now + state.settings.collect_interval_s

    def reconcile(self, state: LeaderState, manifests: ManifestCache, draft: BlobName | None) -> None:
        """Collect at most once after each epoch, and at most once in the interval."""
        if self._judge(state, manifests, draft) is not None:
            self.done = state.latest.epoch
        elif self.done < state.latest.epoch:
            self._list(state)

    def sweep(self, state: LeaderState, manifests: ManifestCache) -> None:
        """Collect in a closed job until no garbage is left and no engine makes more.

        A write may arrive when its engine has given it up, and when the engine has ended. It is waited for as
        long as a Lease lasts.
        """
        found = self._judge(state, manifests, None)
        if found is not None:
            self.swept = self.last and found == 0
        elif not self.swept:
            self._list(state)

    def reopen(self) -> None:
        """Forget the sweep: a new run opens the closed job, and its engines write files again."""
        self.quiet_since = None
        self.swept = False

    def _list(self, state: LeaderState) -> None:
        if self.names is None and self.token is None and state.context.due_or_wake(self.next_at):
            now, lives = state.context.now, state.registry.lives.values()
            if any(state.registry.recent(state.context, life) for life in lives):
                self.quiet_since = None
            elif self.quiet_since is None:
                self.quiet_since = now
            self.last = self.quiet_since is not None and now >= self.quiet_since + state.settings.lease_duration_s
            self.token = state.context.number()
            state.context.do(ListBlobs(self.token))

    def _judge(self, state: LeaderState, manifests: ManifestCache, draft: BlobName | None) -> int | None:
        """Delete the garbage of the listing; return how many files, None when it is not known yet.

        Nothing is deleted while a swap is undecided: the swap may retain more than is known here.
        """
        if self.names is None or state.cas.busy:
            return None
        listed = listed_names(state, manifests)
        if listed is None:
            return None
        if draft is not None:
            listed.add(draft)
        found = garbage(state, self.names, listed)
        self.names = None
        for i in range(0, len(found), COLLECT_BATCH_MAX):
            state.context.do(DeleteBlobs(tuple(found[i : i + COLLECT_BATCH_MAX])))
        if found:
            state.context.log(f"event=collected files={len(found)} epoch={state.latest.epoch}")
        return len(found)


def listed_names(state: LeaderState, manifests: ManifestCache) -> set[BlobName] | None:
    """Return every name that a retained or pinned manifest lists; None until all are read."""
    names: set[BlobName] = set()
    complete = True
    for kept in (*state.latest.retained, *state.latest.pinned):
        root = manifests.root(state.context, kept.root)
        if root is None:
            complete = False
        else:
            names.add(kept.root.name)
            names.update(_files(root))
    return names if complete else None


def garbage(state: LeaderState, names: tuple[BlobName, ...], listed: set[BlobName]) -> list[BlobName]:
    """Return the garbage among ``names``, in rising order. Pure."""
    return [name for name in sorted(names) if _is_garbage(state, name, listed)]


def _is_garbage(state: LeaderState, name: BlobName, listed: set[BlobName]) -> bool:
    parts = parse_name(name)
    if parts is None:
        return False
    if name in listed:
        return False
    if parts.members:
        current = state.latest.members
        return parts.term <= state.term and (current is None or name != current.name)
    if state.latest.finished:
        return True  # a finished job commits nothing any more
    return parts.epoch <= state.latest.epoch


def _files(root: RootManifest) -> list[BlobName]:
    return [f.blob.name for task in root.tasks for f in task.files]
