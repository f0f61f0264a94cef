"""The first steps of a new leader: it checks the file ROOT, then reads what the object names.

The file ROOT on the volume holds the uid of the object -latest that owns the checkpoints of the
volume. The first leader creates it before any other file. So an object that was deleted and
created again is refused, and a wrong volume is refused. A job never starts from nothing beside
existing checkpoints.

::

    read ROOT ── absent, nothing committed ──> create it ──> read again
       │ ── torn, nothing committed ──> remove it ──> read again
       │ ── absent or torn, something committed ──> failed
       │ ── another uid ──> failed
       └── ours ──> closed? CLOSED : read root manifest and members file ──> GATHERING | RESETTING
"""

from dataclasses import dataclass

from penstock.base.values import replace
from penstock.contract.ids import BlobName
from penstock.protocol.keeper_core_messages import (
    DeleteBlobs,
    ReadRootFile,
    RootFileFailed,
    RootFileRead,
    RootFileWritten,
    WriteRootFile,
)
from penstock.protocol.leader.job_restore import pending
from penstock.protocol.leader.leader_state import LeaderPhase, LeaderState
from penstock.protocol.leader.leader_storage import ManifestCache

REMEDY = "nothing starts from nothing: restore a savepoint in an empty folder, or put it back"
ROOT_FILE = BlobName("ROOT")
COMPLETE = "\n"  # the last character of the text; it is missing when the write was cut short

RootFileEvent = RootFileRead | RootFileWritten | RootFileFailed


@dataclass(slots=True)
class TermBootstrap:
    """``checked``: the volume belongs to the object of this job."""

    token: int | None = None
    retry_at: float = 0.0
    checked: bool = False

    def on_event(self, state: LeaderState, event: RootFileEvent) -> None:
        """Take the answer to the one read or write of ROOT under way."""
        if event.token != self.token:
            return
        self.token = None
        match event:
            case RootFileRead(_, text):
                self._judge(state, text)
            case RootFileWritten():
                pass  # ROOT is read again: only its content tells who owns the volume
            case RootFileFailed(_, reason):
                state.log_once("root-file-failed", f"reason={reason!r}")
                self.retry_at = state.context.now + state.settings.meta_retry_interval_s

    def _judge(self, state: LeaderState, text: str | None) -> None:
        if text is not None and text.endswith(COMPLETE):
            owner = text.removesuffix(COMPLETE)
            self.checked = owner == state.uid
            if not self.checked:
                self._refuse(state, f"the volume belongs to object {owner}, not to {state.uid}")
        elif state.latest.max_epoch > 0:
            self._refuse(state, f"epoch {state.latest.epoch} is committed, the volume has no ROOT")
        elif text is not None:  # torn: its writer has not read it, and so has begun nothing
            state.context.do(DeleteBlobs((ROOT_FILE,)))
            self.retry_at = state.context.now + state.settings.meta_retry_interval_s
        else:
            self.token = state.context.number()
            state.context.do(WriteRootFile(self.token, state.uid + COMPLETE))

    def _refuse(self, state: LeaderState, why: str) -> None:
        """Fail this run and touch no file of the volume, which belongs to another object."""
        self.retry_at = state.context.now + state.settings.lease_retry_s
        text = f"StateError: MetadataMissing: {why}; {REMEDY}"
        state.log_once("refused", f"reason={text!r}")
        if state.desired is not None and not state.cas.busy:
            failed = replace(state.latest, failure=text, run=state.desired.run)
            if failed != state.latest:
                state.propose(failed)

    def reconcile(self, state: LeaderState, manifests: ManifestCache) -> None:
        """Check ROOT, then enter the phase that follows from the content of the object."""
        if not self.checked:
            if self.token is None and state.context.due_or_wake(self.retry_at):
                self.token = state.context.number()
                state.context.do(ReadRootFile(self.token))
        elif state.latest.closed():
            state.enter(LeaderPhase.CLOSED)
        elif load(state, manifests):
            goes_on = state.file is not None and not state.rollback
            state.enter(LeaderPhase.RESETTING if goes_on else LeaderPhase.GATHERING)


def load(state: LeaderState, manifests: ManifestCache) -> bool:
    """Read the files that the object names; True when all are known.

    A damaged root manifest fails the job, unless another checkpoint is to be restored.
    """
    at = state.latest
    if at.root is not None:
        state.root = manifests.root(state.context, at.root)
        if at.root.name in manifests.damaged and not _goes_elsewhere(state):
            state.failure = f"checkpoint {at.epoch} cannot be read: {manifests.damaged[at.root.name]}"
            return False
        if state.root is None and at.root.name not in manifests.damaged:
            return False
    if at.members is not None:
        state.file = manifests.members(state.context, at.members)
        if state.file is None and at.members.name not in manifests.damaged:
            return False
    return True


def _goes_elsewhere(state: LeaderState) -> bool:
    """Return whether a restore of another checkpoint is requested."""
    wanted = pending(state)
    if wanted is None:
        return False
    return wanted.path is not None or wanted.epoch is not None or wanted.empty
