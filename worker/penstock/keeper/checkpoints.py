"""How long checkpoints take and how large they are, observed from the actions of a leader."""

from penstock.contract.control import EpochFailed, Inject
from penstock.contract.ids import Epoch, Incarnation, SwapId
from penstock.contract.latest import Leader
from penstock.contract.manifest import RootManifest
from penstock.contract.progress import CheckpointDone
from penstock.protocol import actions, events


class CheckpointWatch:
    """Looks on; nothing depends on it.

    ``newest`` is the last one committed by this keeper, ``trouble`` why one after it failed and
    ``failures`` how many have; one that timed out is seen to have failed when the next begins.
    """

    def __init__(self) -> None:
        self.newest: CheckpointDone | None = None
        self.trouble: str | None = None
        self._epoch = Epoch(0)
        self._began = 0.0
        self._bytes = 0
        self._swaps: dict[SwapId, Epoch] = {}
        self._failed: set[Epoch] = set()

    def saw_leader(self, leader: Leader | None, me: Incarnation) -> None:
        """Forget what was done as leader when another leads: it says so, and this grows old."""
        if leader is None or leader.incarnation == me:
            return
        self.newest, self.trouble = None, None
        self._epoch = Epoch(0)
        self._swaps.clear()
        self._failed.clear()

    @property
    def failures(self) -> int:
        """Count the checkpoints that failed since the newest one was committed."""
        return len(self._failed)

    def saw_action(self, action: actions.Action, now: float) -> None:
        """Note the barrier, the manifest and the swap of an epoch."""
        match action:
            case actions.SendCommand(envelope=envelope) if isinstance(envelope.body, Inject):
                if envelope.body.epoch != self._epoch:
                    if self._epoch > (self.newest.epoch if self.newest is not None else 0):
                        self._failed.add(self._epoch)
                    self._epoch, self._began, self._bytes = envelope.body.epoch, now, 0
            case actions.WriteBlob(value=RootManifest() as root) if root.epoch == self._epoch:
                self._bytes = _new_bytes(root)
            case actions.SwapLatest(latest=latest) if latest.epoch == self._epoch:
                self._swaps = {latest.swap_id: latest.epoch}

    def saw_event(self, event: object, now: float) -> None:
        """Note that a step of an epoch failed, or that its swap was done."""
        if isinstance(event, events.ReportArrived):
            if isinstance(event.envelope.body, EpochFailed):
                failed = event.envelope.body
                if self.newest is not None and failed.epoch <= self.newest.epoch:
                    return  # late: repeated before its sender heard the decision
                self.trouble = f"checkpoint {failed.epoch} failed: {failed.reason}"
                self._failed.add(failed.epoch)
            return
        if not isinstance(event, events.SwapDone) or event.swap_id not in self._swaps:
            return
        epoch = self._swaps.pop(event.swap_id)
        self.trouble = None
        self._failed.clear()
        if self.newest is None or self.newest.epoch != epoch:
            self.newest = CheckpointDone(epoch, self._bytes, round(now - self._began, 3))


def _new_bytes(root: RootManifest) -> int:
    files = {f.blob.name: f.blob.size for t in root.tasks for f in t.files if f.epoch == root.epoch}
    return sum(files.values())
