"""What a job may begin from: checks of a checkpoint, and restores that were asked for.

::

    newest ── (drop its unpublished output) ───────────────────────────┐
    retained epoch ── read its manifest ── check ──────────────────────┼─> one swap: root, restored
    folder ── read its manifest ── check ── import as a new epoch ─────┤
    nothing ── what is committed is visible, or given up ──────────────┘

To begin from nothing names no checkpoint any more: the sources list their splits anew and all
output is written again. So it needs leave, like any epoch that is older than the newest one.
"""

from dataclasses import dataclass, replace

from penstock.base.limits import LOST_OUTPUT_MAX
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.latest import Latest, Restore, Retained
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.contract.names import ROOT_SUFFIX
from penstock.protocol.control_actions import ImportSnapshot, ReadSnapshot
from penstock.protocol.control_events import Imported, ImportFailed, SnapshotRead
from penstock.protocol.leader.checkpoint_coordinator import retain
from penstock.protocol.leader.leader_state import Lead
from penstock.protocol.leader.manifest_cache import Shelf
from penstock.protocol.state_matching import incompatible, refusal, unpublishable, without

RestoreEvent = SnapshotRead | Imported | ImportFailed


def unfit(lead: Lead) -> str | None:
    """Return why the job cannot go on from the committed checkpoint, None when it can."""
    root, plan = lead.root, lead.plan
    if root is None or plan is None:
        return None
    why = incompatible(root, plan)
    gone = () if lead.published() else unpublishable(root, plan)
    if why is not None or not gone:
        return why
    return (
        f"StateError: nobody knows that the output of epoch {root.epoch} is all visible, and the "
        f"job cannot publish it: sinks {list(gone)} are gone or of another kind: run the job as it "
        "was and stop it, or give restore.unpublished: Drop to lose what is not"
    )


def pending(lead: Lead) -> Restore | None:
    """Return the restore that was asked for and not yet done."""
    wanted = lead.desired.restore if lead.desired is not None else None
    if wanted is None or wanted.nonce == lead.latest.restored:
        return None
    return wanted


def owes_output(lead: Lead, wanted: Restore) -> bool:
    """Say whether committed output must become visible first: nothing would ever write it again.

    A checkpoint that is restored leads to the same output once more; the input read anew, by a
    job that has perhaps changed, need not.
    """
    return wanted.empty and not wanted.drop_unpublished and not lead.published()


@dataclass(slots=True)
class Restoring:
    """``manifest``: of the folder, read and checked. ``imported``: its copy, to be committed.

    ``name``: the manifest that is written because state of the checkpoint is given up. All is
    about the restore ``nonce``.
    """

    nonce: str = ""
    token: int | None = None
    retry_at: float = 0.0
    manifest: RootManifest | None = None
    imported: Imported | None = None
    name: BlobName | None = None

    def absorb(self, lead: Lead, event: RestoreEvent) -> None:
        """Take the answer to the one read or import under way."""
        if event.token != self.token:
            return
        self.token = None
        match event:
            case SnapshotRead(_, manifest):
                self.manifest = manifest
            case Imported():
                self.imported = event
            case ImportFailed(_, reason, damaged):
                self.retry_at = lead.desk.now + lead.settings.meta_retry_interval_s
                lead.say("restore-failed", f"reason={reason!r}")
                if damaged:
                    lead.failure = f"StateError: the savepoint cannot be restored: {reason}"

    def pursue(self, lead: Lead, shelf: Shelf) -> bool:
        """Do what was asked for; True when there is nothing (more) to restore, or not yet."""
        wanted = pending(lead)
        if wanted is None:
            return True
        if lead.plan is None or lead.swaps.busy:
            return False
        if wanted.nonce != self.nonce:
            self.nonce, self.token = wanted.nonce, None
            self.manifest = self.imported = self.name = None
        if wanted.empty:
            return _empty(lead, wanted)
        if wanted.path is not None:
            self._folder(lead, shelf, wanted, wanted.path)
        elif wanted.epoch is not None:
            self._retained(lead, shelf, wanted, wanted.epoch)
        else:
            self._newest(lead, shelf, wanted)
        return False

    def _newest(self, lead: Lead, shelf: Shelf, wanted: Restore) -> None:
        """Go on from where the job is, without what is given up."""
        at = _dropped(replace(lead.latest, restored=wanted.nonce), wanted)
        if at.root is None or not wanted.drop_state:
            lead.propose(at)
            return
        root = shelf.root(lead.desk, at.root)
        if at.root.name in shelf.damaged:
            lead.failure = f"checkpoint {at.epoch} cannot be read: {shelf.damaged[at.root.name]}"
        elif root is not None and lead.plan is not None:
            lead.failure = refusal(root, lead.plan, wanted.drop_state)
            if lead.failure is None:
                self._swap(lead, shelf, wanted, at, root)

    def _swap(
        self, lead: Lead, shelf: Shelf, wanted: Restore, at: Latest, root: RootManifest
    ) -> bool:
        """Swap to ``at``, whose root is ``root``; without dropped state it is written anew first.

        What is given up is given up in the manifest itself: whoever restores it later, in this
        attempt or after any crash, finds nothing to ask about. False while it is not swapped.
        """
        assert lead.plan is not None
        left = without(root, lead.plan, wanted.drop_state)
        if left != root:
            ref = self._written(lead, shelf, left)
            if ref is None:
                return False
            # The table is that of other sources; the files are listed by the new manifest.
            kept = retain(at.retained, Retained(at.epoch, ref), lead)
            at = replace(at, root=ref, members=None, retained=kept)
            lead.root = None  # two manifests have this epoch's number: the object says which
        else:
            lead.root = root
        self.name = None
        lead.propose(at)
        return True

    def _written(self, lead: Lead, shelf: Shelf, root: RootManifest) -> BlobRef | None:
        """Have a manifest written; None until it is."""
        if self.name is None and lead.desk.due(self.retry_at):
            self.name = lead.desk.file_name(lead.term, root.epoch, ROOT_SUFFIX)
            shelf.write(lead.desk, self.name, root)
        elif self.name in shelf.failed:
            self.name = None
            self.retry_at = lead.desk.now + lead.settings.meta_retry_interval_s
        return shelf.written.get(self.name) if self.name is not None else None

    def _retained(self, lead: Lead, shelf: Shelf, wanted: Restore, epoch: Epoch) -> None:
        kept = [r for r in lead.latest.retained if r.epoch == epoch]
        if not kept:
            names = [int(r.epoch) for r in lead.latest.retained]
            lead.failure = f"StateError: epoch {epoch} is not retained; retained are {names}"
            return
        root = shelf.root(lead.desk, kept[-1].root)
        if kept[-1].root.name in shelf.damaged:
            lead.failure = f"StateError: epoch {epoch}: {shelf.damaged[kept[-1].root.name]}"
        elif root is not None and self._allowed(lead, wanted, root):
            older = epoch < lead.latest.max_epoch
            at = replace(
                _dropped(lead.latest, wanted),
                epoch=epoch,
                root=kept[-1].root,
                restored=wanted.nonce,
                replayed=lead.latest.replayed or older,
            )
            self._swap(lead, shelf, wanted, at, root)

    def _folder(self, lead: Lead, shelf: Shelf, wanted: Restore, path: str) -> None:
        if self.token is not None or not lead.desk.due(self.retry_at):
            return
        if self.manifest is None:
            self.token = lead.desk.number()
            lead.desk.do(ReadSnapshot(self.token, path))
        elif not self._allowed(lead, wanted, self.manifest):
            self.manifest = None
        else:
            self._import(lead, shelf, wanted, self.manifest)

    def _import(self, lead: Lead, shelf: Shelf, wanted: Restore, manifest: RootManifest) -> None:
        """Import under an epoch above all of this job's and all of the savepoint's line.

        Output sorts by epoch: what this job adds to a folder follows what its parent has written.
        """
        newest = max(lead.latest.max_epoch, manifest.epoch)
        epoch = Epoch(newest + 1)
        if self.imported is None or self.imported.manifest.epoch != epoch:
            assert wanted.path is not None, "its manifest was read there"
            self.token = lead.desk.number()
            life = lead.me.incarnation
            lead.desk.do(ImportSnapshot(self.token, wanted.path, lead.term, epoch, life))
        else:
            self._commit(lead, shelf, wanted, self.imported)

    def _commit(self, lead: Lead, shelf: Shelf, wanted: Restore, imported: Imported) -> None:
        """Commit the imported files as a new epoch without output of its own."""
        assert self.manifest is not None, "read and checked before it was imported"
        at = lead.latest
        if self.manifest.job_uid != at.job_uid and not lead.published():
            at = _given_up(at)  # another job's state does not lead to this one's output
        epoch = imported.manifest.epoch
        at = replace(
            at,
            epoch=epoch,
            max_epoch=epoch,
            root=imported.root,
            members=None,  # the table and the splits are those of the savepoint
            published_through=epoch,
            restored=wanted.nonce,
            retained=(*at.retained, Retained(epoch, imported.root)),
            replayed=at.replayed or at.max_epoch > 0,
        )
        if self._swap(lead, shelf, wanted, at, imported.manifest):
            self.manifest = self.imported = None

    def _allowed(self, lead: Lead, wanted: Restore, root: RootManifest) -> bool:
        """Refuse what does not fit, and what would repeat output unless that is allowed."""
        assert lead.plan is not None
        why = refusal(root, lead.plan, wanted.drop_state)
        newest = root.job_uid == lead.latest.job_uid and root.epoch >= lead.latest.max_epoch
        if (
            why is None
            and lead.latest.max_epoch > 0
            and not newest
            and not wanted.allow_output_replay
        ):
            why = (
                f"StateError: epoch {root.epoch} is older than the newest committed one, "
                f"{lead.latest.max_epoch}: output since then would be repeated; "
                "restore.allowOutputReplay accepts that"
            )
        lead.failure = lead.failure or why
        return why is None


def _empty(lead: Lead, wanted: Restore) -> bool:
    """Forget every checkpoint in one swap; True while the attempt has to go on before that."""
    at = lead.latest
    if at.max_epoch > 0 and not wanted.allow_output_replay:
        lead.failure = (
            f"StateError: {at.max_epoch} epochs are committed: to begin without state reads all "
            "input and writes all output again; restore.allowOutputReplay accepts that"
        )
    elif owes_output(lead, wanted):
        if unfit(lead) is None:
            return True  # a rollback follows as soon as the output is visible
        lead.failure = (
            f"StateError: nobody knows that the output of epoch {at.epoch} is all visible, and the "
            "changed job cannot publish it: run the job as it was and stop it, or give "
            "restore.unpublished: Drop to lose what is not"
        )
    else:
        through = lead.published_through() if lead.published() else at.published_through
        dropped = _dropped(replace(at, published_through=through), wanted)
        lead.propose(
            replace(
                dropped,
                epoch=Epoch(0),
                root=None,
                members=None,
                restored=wanted.nonce,
                replayed=at.replayed or at.max_epoch > 0,
            )
        )
    return False


def _dropped(at: Latest, wanted: Restore) -> Latest:
    """Give up the unpublished output of the newest epoch where that was asked for."""
    if not wanted.drop_unpublished or at.published_through >= at.epoch:
        return at
    return _given_up(at)


def _given_up(at: Latest) -> Latest:
    """Name the newest epoch as one whose output may be lost, so that nobody waits for it."""
    lost = (*at.lost_output, at.epoch)[-LOST_OUTPUT_MAX:]
    return replace(at, published_through=at.epoch, lost_output=lost)
