"""Restores: a job begins from the newest checkpoint, a retained one, a savepoint, or nothing.

::

    newest ── (say what happens with its unpublished output) ──────────┐
    retained epoch ── read its manifest ── check ──────────────────────┼─> one swap: root, restored
    folder ── read its manifest ── check ── import as a new epoch ─────┤
    nothing ── the committed output is visible, or given up ───────────┘

A job that begins from nothing names no checkpoint any more. Its sources list their splits again,
and all output is written again. So that needs the user's permission, like the restore of any epoch
that is older than the newest one.
"""

from dataclasses import dataclass

from penstock.base.limits import LOST_OUTPUT_MAX
from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.ids import ROOT_SUFFIX, BlobName, Epoch
from penstock.contract.latest import Latest, OutputRestore, Restore, Retained
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.protocol.keeper_core_messages import Imported, ImportFailed, ImportSnapshot, ReadSnapshot, SnapshotRead
from penstock.protocol.leader.checkpoint_coordinator import retain
from penstock.protocol.leader.leader_state import LeaderState
from penstock.protocol.leader.leader_storage import ManifestCache
from penstock.protocol.state_matching import incompatible, match, refusal, without
from penstock.protocol.unpublished_output import misplaced

RestoreEvent = SnapshotRead | Imported | ImportFailed


def unfit(state: LeaderState) -> str | None:
    """Return why the job cannot go on from the committed checkpoint, None when it can."""
    root, plan = state.root, state.plan
    if root is None or plan is None:
        return None
    why = incompatible(root, plan)
    if why is not None or state.published():
        return why
    return misplaced(root, plan, state.latest.handling())


def log_evolution(state: LeaderState) -> None:
    """Log which fields of states have changed since the committed checkpoint."""
    if state.root is not None and state.plan is not None:
        evolved = match(state.root, state.plan).evolved
        if evolved:
            state.log_once("state-evolves", f"epoch={state.root.epoch} changes={'; '.join(evolved)!r}")


def pending(state: LeaderState) -> Restore | None:
    """Return the restore that is requested and not done yet."""
    wanted = state.desired.restore if state.desired is not None else None
    if wanted is None or wanted.nonce == state.latest.restored:
        return None
    return wanted


def owes_output(state: LeaderState, wanted: Restore) -> bool:
    """Return whether the committed output must become visible before the restore.

    That is so when the job begins from nothing. A restored checkpoint leads to the same output
    again. A job that reads its input again may have changed, and may not write that output again.
    To give all of it up needs no publisher: such a restore allows that output is repeated.
    """
    dropped = wanted.drop_unpublished and not wanted.unpublished
    return wanted.empty and not dropped and not state.published()


def is_publishing(state: LeaderState, wanted: Restore) -> bool:
    """Return whether the attempt makes the committed output visible before the restore, as that asks for it."""
    return owes_output(state, wanted) and state.latest.handling() == wanted.handling()


@dataclass(slots=True)
class JobRestore:
    """The restore ``nonce``.

    - ``manifest``: of the savepoint's folder, read and checked.
    - ``imported``: the copy of the savepoint, which is committed next.
    - ``name``: a manifest that is being written, because state of the checkpoint is given up.
    """

    nonce: str = ""
    token: int | None = None
    retry_at: float = 0.0
    manifest: RootManifest | None = None
    imported: Imported | None = None
    name: BlobName | None = None

    def on_event(self, state: LeaderState, event: RestoreEvent) -> None:
        """Take the answer to the read or import under way."""
        if event.token != self.token:
            return
        self.token = None
        match event:
            case SnapshotRead(_, manifest):
                self.manifest = manifest
            case Imported():
                self.imported = event
            case ImportFailed(_, reason, damaged):
                self.retry_at = state.context.now + state.settings.meta_retry_interval_s
                state.log_once("restore-failed", f"reason={reason!r}")
                if damaged:
                    state.failure = f"StateError: the savepoint cannot be restored: {reason}"

    def reconcile(self, state: LeaderState, manifests: ManifestCache) -> bool:
        """Go one step on with the restore; True when no restore keeps the attempt from starting."""
        wanted = pending(state)
        if wanted is None:
            return True
        if state.plan is None or state.cas.busy:
            return False
        if wanted.nonce != self.nonce:
            self.nonce, self.token = wanted.nonce, None
            self.manifest = self.imported = self.name = None
        if wanted.empty:
            return _empty(state, wanted)
        if wanted.path is not None:
            self._folder(state, manifests, wanted, wanted.path)
        elif wanted.epoch is not None:
            self._retained(state, manifests, wanted, wanted.epoch)
        else:
            self._newest(state, manifests, wanted)
        return False

    def _newest(self, state: LeaderState, manifests: ManifestCache, wanted: Restore) -> None:
        """Go on from the committed checkpoint, without the state that is given up."""
        at = _handled(state, replace(state.latest, restored=wanted.nonce), wanted)
        if at.root is None or not wanted.drop_state:
            state.propose(at)
            return
        root = manifests.root(state.context, at.root)
        if at.root.name in manifests.damaged:
            state.failure = f"checkpoint {at.epoch} cannot be read: {manifests.damaged[at.root.name]}"
        elif root is not None and state.plan is not None:
            state.failure = refusal(root, state.plan, wanted.drop_state)
            if state.failure is None:
                self._swap(state, manifests, wanted, at, root)

    def _swap(
        self,
        state: LeaderState,
        manifests: ManifestCache,
        wanted: Restore,
        at: Latest,
        root: RootManifest,
    ) -> bool:
        """Swap to ``at``, whose root is ``root``; return whether the swap was begun.

        When state is given up, a new manifest without that state is written first. So a later
        restore of this checkpoint, in this attempt or after a crash, finds only state that is kept.
        """
        assert state.plan is not None
        left = without(root, state.plan, wanted.drop_state)
        if left != root:
            ref = self._written(state, manifests, left)
            if ref is None:
                return False
            # The table may be that of other sources. The new manifest lists the files.
            kept = retain(at.retained, Retained(at.epoch, ref), state)
            at = replace(at, root=ref, members=None, retained=kept)
            state.root = None  # two manifests have this epoch's number; the object names one
        else:
            state.root = root
        self.name = None
        state.propose(at)
        return True

    def _written(self, state: LeaderState, manifests: ManifestCache, root: RootManifest) -> BlobRef | None:
        """Write a manifest. Return its reference, None until it is written."""
        if self.name is None and state.context.due_or_wake(self.retry_at):
            self.name = state.context.file_name(state.term, root.epoch, ROOT_SUFFIX)
            manifests.write(state.context, self.name, root)
        elif self.name in manifests.failed:
            self.name = None
            self.retry_at = state.context.now + state.settings.meta_retry_interval_s
        return manifests.written.get(self.name) if self.name is not None else None

    def _retained(self, state: LeaderState, manifests: ManifestCache, wanted: Restore, epoch: Epoch) -> None:
        kept = [r for r in state.latest.retained if r.epoch == epoch]
        if not kept:
            names = [int(r.epoch) for r in state.latest.retained]
            state.failure = f"StateError: epoch {epoch} is not retained; retained are {names}"
            return
        root = manifests.root(state.context, kept[-1].root)
        if kept[-1].root.name in manifests.damaged:
            state.failure = f"StateError: epoch {epoch}: {manifests.damaged[kept[-1].root.name]}"
        elif root is not None and self._allowed(state, wanted, root):
            older = epoch < state.latest.max_epoch
            at = _dropped(state.latest, wanted) if older else _handled(state, state.latest, wanted)
            at = replace(
                at,
                epoch=epoch,
                root=kept[-1].root,
                restored=wanted.nonce,
                replayed=state.latest.replayed or older,
            )
            self._swap(state, manifests, wanted, at, root)

    def _folder(self, state: LeaderState, manifests: ManifestCache, wanted: Restore, path: str) -> None:
        if self.token is not None or not state.context.due_or_wake(self.retry_at):
            return
        if self.manifest is None:
            self.token = state.context.number()
            state.context.do(ReadSnapshot(self.token, path))
        elif not self._allowed(state, wanted, self.manifest):
            self.manifest = None
        else:
            self._import(state, manifests, wanted, self.manifest)

    def _import(self, state: LeaderState, manifests: ManifestCache, wanted: Restore, manifest: RootManifest) -> None:
        """Import under an epoch above all epochs of this job and of the savepoint's line.

        Output sorts by epoch, so the output of this job follows that of the savepoint's job.
        """
        newest = max(state.latest.max_epoch, manifest.epoch)
        epoch = Epoch(newest + 1)
        if self.imported is None or self.imported.manifest.epoch != epoch:
            assert wanted.path is not None, "its manifest was read there"
            self.token = state.context.number()
            life = state.me.incarnation
            state.context.do(ImportSnapshot(self.token, wanted.path, state.term, epoch, life))
        else:
            self._commit(state, manifests, wanted, self.imported)

    def _commit(self, state: LeaderState, manifests: ManifestCache, wanted: Restore, imported: Imported) -> None:
        """Commit the imported files as a new epoch that has no output."""
        assert self.manifest is not None, "a savepoint is read and checked before it is imported"
        at = state.latest
        if self.manifest.job_uid != at.job_uid and not state.published():
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
            unpublished=ABSENT,
            retained=(*at.retained, Retained(epoch, imported.root)),
            replayed=at.replayed or at.max_epoch > 0,
        )
        if self._swap(state, manifests, wanted, at, imported.manifest):
            self.manifest = self.imported = None

    def _allowed(self, state: LeaderState, wanted: Restore, root: RootManifest) -> bool:
        """Refuse a checkpoint that does not fit, or that would repeat output without permission."""
        assert state.plan is not None
        why = refusal(root, state.plan, wanted.drop_state, wanted.path)
        newest = root.job_uid == state.latest.job_uid and root.epoch >= state.latest.max_epoch
        if why is None and state.latest.max_epoch > 0 and not newest and not wanted.allow_output_replay:
            why = (
                f"StateError: epoch {root.epoch} is older than the newest committed one, "
                f"{state.latest.max_epoch}: output since then would be repeated; "
                "restore.allowOutputReplay accepts that"
            )
        state.failure = state.failure or why
        return why is None


def _empty(state: LeaderState, wanted: Restore) -> bool:
    """Begin from nothing by one swap; True while the attempt has to publish its output first."""
    at = state.latest
    if at.max_epoch > 0 and not wanted.allow_output_replay:
        state.failure = (
            f"StateError: {at.max_epoch} epochs are committed: to begin without state reads all "
            "input and writes all output again; restore.allowOutputReplay accepts that"
        )
    elif owes_output(state, wanted):
        handled = _handled(state, at, wanted)
        if handled != at:
            state.propose(handled)
            return False
        why = unfit(state)
        if why is None:
            return True  # a rollback follows as soon as the output is visible
        state.failure = (
            why
            if wanted.unpublished
            else (
                f"StateError: nobody knows that the output of epoch {at.epoch} is all visible, and the "
                "changed job cannot publish it: run the job as it was and stop it, or give "
                "restore.unpublished: Drop to lose what is not"
            )
        )
    else:
        dropped = _dropped(state.let_go(at), wanted)
        state.propose(
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
    """Give up the unpublished output of the newest epoch if the restore asks for that.

    Nobody is fenced: the job goes back to before that output, and may write it again.
    """
    if not wanted.drop_unpublished or at.published_through >= at.epoch:
        return replace(at, unpublished=ABSENT)
    return _given_up(at)


def _handled(state: LeaderState, at: Latest, wanted: Restore) -> Latest:
    """Record what the next publication does with the output of the newest epoch, if it is not visible."""
    sinks = () if state.published() else wanted.handling()
    return replace(at, unpublished=OutputRestore(at.epoch, sinks) if sinks else ABSENT)


def _given_up(at: Latest) -> Latest:
    """Record that output of the newest epoch may be lost, so that no leader waits for it."""
    lost = (*at.lost_output, at.epoch)[-LOST_OUTPUT_MAX:]
    return replace(at, published_through=at.epoch, lost_output=lost, unpublished=ABSENT)
