"""Which files are garbage: decided first, from names and retained manifests; deleted after.

A file is garbage iff the epoch in its name is at most the committed one and no retained or pinned
manifest lists it. The retained list was shrunk by an earlier swap. New manifests take over older
files only from the one before, which is retained; so garbage stays garbage, and a leader that
was deposed without knowing it can delete only garbage.

Members files are listed by no manifest: one is garbage iff its term is at most this leader's and
the object, as this leader's own last swap wrote it, names another; one that is being admitted is
spared.
"""

from dataclasses import dataclass

from penstock.base.limits import COLLECT_BATCH_MAX
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.manifest import RootManifest
from penstock.contract.names import parse_name
from penstock.protocol.control_actions import DeleteBlobs, ListBlobs
from penstock.protocol.control_events import BlobsListed
from penstock.protocol.leader.leader_state import Lead
from penstock.protocol.leader.manifest_cache import Shelf


@dataclass(slots=True)
class Collection:
    """``token``: the listing under way, ``names``: one that is not yet judged.

    ``done`` is the epoch after which was last collected. ``quiet``: no engine was alive when the
    listing was begun; ``swept``: such a listing had no garbage, so a closed job has none.
    """

    token: int | None = None
    next_at: float = 0.0
    names: tuple[BlobName, ...] | None = None
    done: Epoch = Epoch(0)
    quiet: bool = False
    swept: bool = False

    def absorb(self, lead: Lead, event: BlobsListed) -> None:
        """Keep a listing until it can be judged."""
        if event.token == self.token:
            self.token = None
            self.names = event.names
            self.next_at = lead.desk.now + lead.settings.collect_interval_s

    def pursue(self, lead: Lead, shelf: Shelf, draft: BlobName | None) -> None:
        """Collect once after each epoch at most, and not more often than the interval."""
        if self._judge(lead, shelf, draft) is not None:
            self.done = lead.latest.epoch
        elif self.done < lead.latest.epoch:
            self._list(lead)

    def sweep(self, lead: Lead, shelf: Shelf) -> None:
        """Collect under a closed job until nothing is left and nobody makes more."""
        found = self._judge(lead, shelf, None)
        if found is not None:
            self.swept = self.quiet and found == 0
        elif not self.swept:
            self._list(lead)

    def _list(self, lead: Lead) -> None:
        if self.names is None and self.token is None and lead.desk.due(self.next_at):
            lives = lead.roster.lives.values()
            self.quiet = not any(lead.roster.heard(lead.desk, life) for life in lives)
            self.token = lead.desk.number()
            lead.desk.do(ListBlobs(self.token))

    def _judge(self, lead: Lead, shelf: Shelf, draft: BlobName | None) -> int | None:
        """Delete what is garbage in the listing; return how much, None when it cannot be told.

        Never while a swap is undecided: it may retain more than is known here.
        """
        if self.names is None or lead.swaps.busy:
            return None
        listed = listed_names(lead, shelf)
        if listed is None:
            return None
        if draft is not None:
            listed.add(draft)
        found = garbage(lead, self.names, listed)
        self.names = None
        for i in range(0, len(found), COLLECT_BATCH_MAX):
            lead.desk.do(DeleteBlobs(tuple(found[i : i + COLLECT_BATCH_MAX])))
        if found:
            lead.desk.note(f"event=collected files={len(found)} epoch={lead.latest.epoch}")
        return len(found)


def listed_names(lead: Lead, shelf: Shelf) -> set[BlobName] | None:
    """Return every name that a retained or pinned manifest lists; None until all are read."""
    names: set[BlobName] = set()
    complete = True
    for kept in (*lead.latest.retained, *lead.latest.pinned):
        root = shelf.root(lead.desk, kept.root)
        if root is None:
            complete = False
        else:
            names.add(kept.root.name)
            names.update(_files(root))
    return names if complete else None


def garbage(lead: Lead, names: tuple[BlobName, ...], listed: set[BlobName]) -> list[BlobName]:
    """Classify ``names`` (any order); pure, and in rising order."""
    return [name for name in sorted(names) if _is_garbage(lead, name, listed)]


def _is_garbage(lead: Lead, name: BlobName, listed: set[BlobName]) -> bool:
    parts = parse_name(name)
    if parts is None:
        return False
    if name in listed:
        return False
    if parts.members:
        current = lead.latest.members
        return parts.term <= lead.term and (current is None or name != current.name)
    if lead.latest.finished:
        return True  # nothing will ever be committed again
    return parts.epoch <= lead.latest.epoch


def _files(root: RootManifest) -> list[BlobName]:
    return [f.blob.name for task in root.tasks for f in task.files]
