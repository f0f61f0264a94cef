"""The last checkpoint of a worker that is about to end: with it the others repeat little work.

The worker asks for the checkpoint and does not force it. If the epoch does not come in time, the
others replay its input. When all workers end together, the leader may end first, and then no leader
tells the others the outcome. So a worker waits only while its last epoch can still come. The rights
of the workers end with a deleted job: then nothing can be committed, and no message says so.
"""

from dataclasses import dataclass

from penstock.base.limits import (
    DRAIN_PUBLISH_S,
    DRAIN_STILL_S,
    DRAIN_UNREAD_S,
    RESEND_INTERVAL_S,
)
from penstock.contract.control_messages import EngineStatus
from penstock.contract.ids import Epoch
from penstock.protocol.step_context import StepContext


@dataclass(frozen=True, slots=True)
class DrainView:
    """What a worker that ends knows. A change of it means that the last epoch may still come.

    - ``told``: the number of the newest command of each kind.
    - ``committed``: the newest epoch that is known to be committed.
    - ``undecided``: an epoch of the newest term has begun here, and its outcome is not known.
    - ``broken``: the attempt can take no further epoch.
    - ``unread_since``: since when -latest cannot be read; None when the last read succeeded.
    """

    status: EngineStatus
    told: tuple[tuple[str, int], ...]
    committed: Epoch
    undecided: bool
    broken: bool
    unread_since: float | None


@dataclass(slots=True)
class LastCheckpointWait:
    """The wait for the last epoch: one that is later than ``after``, the newest one begun before.

    - ``seen``: the newest view; ``moved_at``: when it last changed.
    - ``committed_at``: when the last epoch was found committed.
    - ``over``: there is nothing to wait for.
    """

    after: Epoch
    ask_at: float = 0.0
    seen: DrainView | None = None
    moved_at: float = 0.0
    committed_at: float | None = None
    over: bool = False

    def asks(self, context: StepContext, view: DrainView) -> bool:
        """Return whether to ask the leader now. It is asked repeatedly, because it may change."""
        if view != self.seen:
            self.seen, self.moved_at = view, context.now
        if self.committed_at is None and view.committed > self.after:
            self.committed_at = context.now
        self.over = self._over(context, view)
        if self.over or not context.due_or_wake(self.ask_at):
            return False
        self.ask_at = context.now + RESEND_INTERVAL_S
        context.due_or_wake(self.ask_at)
        return True

    def _over(self, context: StepContext, view: DrainView) -> bool:
        """Return whether the last epoch is committed and visible, or none can come any more."""
        status = view.status
        if status.running == 0 or status.left or status.ended or status.published > self.after:
            return True
        if self.committed_at is not None:  # a recovery makes the output visible in any case
            return context.due_or_wake(self.committed_at + DRAIN_PUBLISH_S)
        if view.broken and not view.undecided:
            return True  # the attempt goes back to the committed epoch: no new epoch is kept
        if view.unread_since is not None and context.due_or_wake(view.unread_since + DRAIN_UNREAD_S):
            return True
        if view.undecided and not view.broken:
            return False  # the leader commits the epoch or reports that it is aborted
        return context.due_or_wake(self.moved_at + DRAIN_STILL_S)
