"""What a task does when an epoch is committed, and with output that is visible."""

from penstock.contract.ids import Epoch
from penstock.protocol.task import task_events as ev
from penstock.protocol.task.task_state import TaskState


def commit(state: TaskState, epoch: Epoch, version: int) -> list[ev.Action]:
    """Hear, perhaps again, that ``epoch`` is committed and ``version`` holds."""
    actions: list[ev.Action] = []
    if state.snapshots.confirm(epoch):
        actions.append(ev.ConfirmCommitted(epoch))
    if state.proposed is not None and version == state.proposed.version:
        state.buffer.commit()
    handles = state.sinks.commit(epoch)
    if handles is None:
        return actions
    old = state.sinks.forget(epoch)
    if old:
        actions.append(ev.Forget(old))
    if handles:
        actions.append(ev.PublishOutput(epoch, handles))
    else:
        state.sinks.done(epoch)
    return actions


def forget_published(state: TaskState) -> list[ev.Action]:
    """Remove the staging of what is visible: no later commit comes to this task.

    Only when the leader orders the end: the object then says that all of it is published.
    """
    published = state.sinks.forget(Epoch(state.sinks.published + 1))
    return [ev.Forget(published)] if published else []
