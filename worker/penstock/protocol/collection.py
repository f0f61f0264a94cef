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
from penstock.protocol.actions import DeleteBlobs, ListBlobs
from penstock.protocol.events import BlobsListed
from penstock.protocol.lead import Lead
from penstock.protocol.shelf import Shelf


@dataclass(slots=True)
class Collection:
    """``token``: the listing under way. ``done``: the epoch after which was last collected."""

    token: int | None = None
    next_at: float = 0.0
    done: Epoch = Epoch(0)
    names: tuple[BlobName, ...] | None = None

    def absorb(self, lead: Lead, event: BlobsListed) -> None:
        """Keep a listing until it can be judged."""
        if event.token == self.token:
            self.token = None
            self.names = event.names
            self.next_at = lead.desk.now + lead.settings.collect_interval_s

    def pursue(self, lead: Lead, shelf: Shelf, draft: BlobName | None) -> None:
        """List, judge, delete: never while a swap is undecided, it may retain more than we know."""
        at = lead.latest
        if lead.swaps.busy:
            return
        if self.names is not None:
            listed = listed_names(lead, shelf)
            if listed is not None:
                if draft is not None:
                    listed.add(draft)
                self._delete(lead, garbage(lead, self.names, listed))
                self.names = None
                self.done = at.epoch
        elif self.token is None and self.done < at.epoch and lead.desk.due(self.next_at):
            self.token = lead.desk.number()
            lead.desk.do(ListBlobs(self.token))

    def _delete(self, lead: Lead, names: list[BlobName]) -> None:
        for i in range(0, len(names), COLLECT_BATCH_MAX):
            lead.desk.do(DeleteBlobs(tuple(names[i : i + COLLECT_BATCH_MAX])))
        if names:
            lead.desk.note(f"event=collected files={len(names)} epoch={lead.latest.epoch}")


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
    return parts.epoch <= lead.latest.epoch


def _files(root: RootManifest) -> list[BlobName]:
    return [f.blob.name for task in root.tasks for f in task.files]
