"""The last checkpoint of a worker that is about to be ended, so that little is done twice.

It is asked for, never forced: an epoch that does not come in time is replayed by the others. When
all workers go together the leader may go first, and nobody is left to tell the others: a worker
waits only while something leads to its last epoch. With a deleted job go the rights of its workers:
nobody commits anything then, and nobody can say so.
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
    """What a worker that goes sees; any change of it may lead to its last epoch.

    ``told``: the newest command of each kind. ``committed``: the newest epoch known to be so.
    ``undecided``: an epoch of the newest term began here and its end was not heard. ``broken``:
    the attempt can take no other epoch. ``unread_since``: when -latest could not be read for the
    first time; None when it could the last time.
    """

    status: EngineStatus
    told: tuple[tuple[str, int], ...]
    committed: Epoch
    undecided: bool
    broken: bool
    unread_since: float | None


@dataclass(slots=True)
class LastCheckpointWait:
    """``after`` is the newest epoch known to have begun here before: only a later one is the last.

    ``moved_at``: when ``seen`` was new; ``committed_at``: when the last epoch was seen committed.
    ``over``: there is nothing to wait for.
    """

    after: Epoch
    ask_at: float = 0.0
    seen: DrainView | None = None
    moved_at: float = 0.0
    committed_at: float | None = None
    over: bool = False

    def asks(self, context: StepContext, view: DrainView) -> bool:
        """Return whether the leader is to be asked now: again and again, a new one has not heard."""
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
        """Return whether the last epoch is committed and its output visible, or none will come."""
        status = view.status
        if status.running == 0 or status.left or status.ended or status.published > self.after:
            return True
        if self.committed_at is not None:  # whoever recovers makes the output visible
            return context.due_or_wake(self.committed_at + DRAIN_PUBLISH_S)
        if view.broken and not view.undecided:
            return True  # the attempt goes back to what is committed: nothing here is kept
        if view.unread_since is not None and context.due_or_wake(
            view.unread_since + DRAIN_UNREAD_S
        ):
            return True
        if view.undecided and not view.broken:
            return False  # whoever leads commits it or says that it is aborted
        return context.due_or_wake(self.moved_at + DRAIN_STILL_S)
