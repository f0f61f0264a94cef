"""How long checkpoints take and how large they are, observed from the actions of a leader."""

from penstock.contract.control_messages import (
    STREAM_BROKE,
    Broken,
    Command,
    EpochFailed,
    Heartbeat,
    Inject,
    PublishFailed,
    Report,
)
from penstock.contract.ids import Attempt, Epoch, Incarnation, SwapId
from penstock.contract.latest import Leader
from penstock.contract.manifest import RootManifest
from penstock.contract.status import CheckpointDone
from penstock.protocol import keeper_core_messages as km

BROKEN_TOLD = 3  # attempts in a row that streams have ended


class CheckpointWatch:
    """Only observes; no decision depends on it.

    ``newest`` is the last one committed by this keeper, ``trouble`` why nothing was committed after
    it and ``failures`` how many have failed; one that timed out is seen to have failed when the
    next begins. A file or record of the leader's that cannot be written, output that cannot be
    published and an attempt that a failed task ended are trouble, too: no epoch has failed then,
    and none begins. A stream that broke is none: it follows from a death, which is told by itself. It is
    trouble if streams end several attempts without a checkpoint between them. Nor is a source that cannot be
    listed for the next attempt: its engine tells of it.
    ``waits_since`` is when this keeper last committed one, or began to lead; None: it does not.
    """

    def __init__(self) -> None:
        self.newest: CheckpointDone | None = None
        self.trouble: str | None = None
        self.waits_since: float | None = None
        self._attempt = Attempt(0)
        self._epoch = Epoch(0)
        self._began = 0.0
        self._bytes = 0
        self._swaps: dict[SwapId, Epoch] = {}
        self._failed: set[Epoch] = set()
        self._broken: set[Attempt] = set()  # by a stream, since the newest checkpoint

    def saw_leader(self, leader: Leader | None, me: Incarnation, now: float) -> None:
        """Forget the checkpoints of this leader when another keeper leads: the new leader reports its own."""
        if leader is None:
            return
        if leader.incarnation == me:
            self.waits_since = now if self.waits_since is None else self.waits_since
            return
        self.waits_since = None
        self.newest, self.trouble = None, None
        self._epoch = Epoch(0)
        self._swaps.clear()
        self._failed.clear()
        self._broken.clear()

    @property
    def failures(self) -> int:
        """Count the checkpoints that failed since the newest one was committed."""
        return len(self._failed)

    def saw_action(self, action: km.Action, now: float) -> None:
        """Note the barrier, the manifest and the swap of an epoch."""
        match action:
            case km.SendCommand(envelope=envelope) if isinstance(envelope.body, Inject):
                self._attempt = envelope.body.attempt
                if envelope.body.epoch != self._epoch:
                    if self._epoch > (self.newest.epoch if self.newest is not None else 0):
                        self._failed.add(self._epoch)
                    self._epoch, self._began, self._bytes = envelope.body.epoch, now, 0
            case km.WriteBlob(value=RootManifest() as root) if root.epoch == self._epoch:
                self._bytes = _new_bytes(root)
            case km.SwapLatest(latest=latest) if (latest.attempt, latest.epoch) == (
                self._attempt,  # the swap of a rollback names the epoch that is committed already
                self._epoch,
            ):
                self._swaps = {latest.swap_id: latest.epoch}

    def saw_event(self, event: object, now: float) -> None:
        """Note that a step of an epoch failed, or that its swap was done."""
        if isinstance(event, km.ReportArrived):
            self._heard(event.envelope.body)
            return
        if isinstance(event, km.BlobNotWritten):
            self.trouble = f"{event.name} was not written: {event.reason}"
            return
        if isinstance(event, km.RootFileFailed):
            self.trouble = f"the folder of checkpoints cannot be taken: {event.reason}"
            return
        if isinstance(event, km.SwapUnknown):
            self.trouble = f"the record of the newest checkpoint was not written: {event.reason}"
            return
        if not isinstance(event, km.SwapDone) or event.swap_id not in self._swaps:
            return
        epoch = self._swaps.pop(event.swap_id)
        self.trouble = None
        self.waits_since = now
        self._failed.clear()
        self._broken.clear()
        if self.newest is None or self.newest.epoch != epoch:
            self.newest = CheckpointDone(epoch, self._bytes, round(now - self._began, 3))

    def _heard(self, report: Command | Report) -> None:
        match report:
            case EpochFailed(epoch=epoch, reason=reason) if not self._is_old(epoch):
                self.trouble = f"checkpoint {epoch} failed: {reason}"
                self._failed.add(epoch)
            case PublishFailed(epoch=epoch, reason=reason):
                self.trouble = f"output of epoch {epoch} cannot be published: {reason}"
            case Heartbeat(status=status, broken=Broken(attempt, reason)) if attempt <= status.attempt:
                if reason.startswith(STREAM_BROKE):
                    self._broken.add(attempt)
                if not reason.startswith(STREAM_BROKE) or len(self._broken) >= BROKEN_TOLD:
                    self.trouble = f"attempt {attempt} ended, the job goes back and tries again: {reason}"

    def _is_old(self, epoch: Epoch) -> bool:
        """A report is repeated until its sender knows the decision."""
        return self.newest is not None and epoch <= self.newest.epoch


def _new_bytes(root: RootManifest) -> int:
    files = {f.blob.name: f.blob.size for t in root.tasks for f in t.files if f.epoch == root.epoch}
    return sum(files.values())
