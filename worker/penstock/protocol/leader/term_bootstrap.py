"""The first things a new leader does: the file ROOT, then what its record names.

ROOT on the volume holds the uid of the object -latest that owns the volume's checkpoints. It is
created by the first leader, before any file. So an object that was deleted and created again, or
a wrong volume, is refused; nothing ever starts from nothing beside existing checkpoints.

::

    read ROOT ── absent, nothing committed ──> create it ──> read again
       │ ── torn, nothing committed ──> remove it ──> read again
       │ ── absent or torn, something committed ──> failed
       │ ── another uid ──> failed
       └── ours ──> closed? CLOSED : read root manifest and members file ──> GATHERING | RESETTING
"""

from dataclasses import dataclass, replace

from penstock.contract.ids import BlobName
from penstock.protocol.control_actions import DeleteBlobs, ReadRootFile, WriteRootFile
from penstock.protocol.control_events import RootFileFailed, RootFileRead, RootFileWritten
from penstock.protocol.leader.job_restore import pending
from penstock.protocol.leader.leader_state import Lead, Phase
from penstock.protocol.leader.manifest_cache import Shelf

REMEDY = "nothing starts from nothing: restore a savepoint in an empty folder, or put it back"
ROOT_FILE = BlobName("ROOT")
COMPLETE = "\n"  # ends the text: without it the write was cut short

RootFileEvent = RootFileRead | RootFileWritten | RootFileFailed


@dataclass(slots=True)
class Opening:
    """``checked``: ROOT is ours. ``text``: what was read and is not yet judged."""

    token: int | None = None
    retry_at: float = 0.0
    checked: bool = False

    def absorb(self, lead: Lead, event: RootFileEvent) -> None:
        """Take the answer to the one read or write of ROOT under way."""
        if event.token != self.token:
            return
        self.token = None
        match event:
            case RootFileRead(_, text):
                self._judge(lead, text)
            case RootFileWritten():
                pass  # read it again: who owns the volume is what it says, not what was written
            case RootFileFailed(_, reason):
                lead.say("root-file-failed", f"reason={reason!r}")
                self.retry_at = lead.desk.now + lead.settings.meta_retry_interval_s

    def _judge(self, lead: Lead, text: str | None) -> None:
        if text is not None and text.endswith(COMPLETE):
            owner = text.removesuffix(COMPLETE)
            self.checked = owner == lead.uid
            if not self.checked:
                self._refuse(lead, f"the volume belongs to object {owner}, not to {lead.uid}")
        elif lead.latest.max_epoch > 0:
            self._refuse(lead, f"epoch {lead.latest.epoch} is committed, the volume has no ROOT")
        elif text is not None:  # torn: whoever wrote it has never read it, and so begun nothing
            lead.desk.do(DeleteBlobs((ROOT_FILE,)))
            self.retry_at = lead.desk.now + lead.settings.meta_retry_interval_s
        else:
            self.token = lead.desk.number()
            lead.desk.do(WriteRootFile(self.token, lead.uid + COMPLETE))

    def _refuse(self, lead: Lead, why: str) -> None:
        """Fail this run, and touch nothing: not even collection may run on a foreign volume."""
        self.retry_at = lead.desk.now + lead.settings.lease_retry_s
        text = f"StateError: MetadataMissing: {why}; {REMEDY}"
        lead.say("refused", f"reason={text!r}")
        if lead.desired is not None and not lead.swaps.busy:
            failed = replace(lead.latest, failure=text, run=lead.desired.run)
            if failed != lead.latest:
                lead.propose(failed)

    def pursue(self, lead: Lead, shelf: Shelf) -> None:
        """Go on to the phase that the object's content asks for."""
        if not self.checked:
            if self.token is None and lead.desk.due(self.retry_at):
                self.token = lead.desk.number()
                lead.desk.do(ReadRootFile(self.token))
        elif lead.latest.closed():
            lead.enter(Phase.CLOSED)
        elif load(lead, shelf):
            goes_on = lead.file is not None and not lead.rollback
            lead.enter(Phase.RESETTING if goes_on else Phase.GATHERING)


def load(lead: Lead, shelf: Shelf) -> bool:
    """Read what the object names; True when all is there. A damaged root manifest fails the job."""
    at = lead.latest
    if at.root is not None:
        lead.root = shelf.root(lead.desk, at.root)
        if at.root.name in shelf.damaged and not _goes_elsewhere(lead):
            lead.failure = f"checkpoint {at.epoch} cannot be read: {shelf.damaged[at.root.name]}"
            return False
        if lead.root is None and at.root.name not in shelf.damaged:
            return False
    if at.members is not None:
        lead.file = shelf.members(lead.desk, at.members)
        if lead.file is None and at.members.name not in shelf.damaged:
            return False
    return True


def _goes_elsewhere(lead: Lead) -> bool:
    """Say whether another checkpoint was asked for: only then a damaged one is passed over."""
    wanted = pending(lead)
    if wanted is None:
        return False
    return wanted.path is not None or wanted.epoch is not None or wanted.empty
