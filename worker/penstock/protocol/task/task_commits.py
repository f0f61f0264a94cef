"""The reaction of a task to a committed epoch, and to output that is visible."""

from penstock.contract.ids import Epoch
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_state import TaskState


def commit(state: TaskState, epoch: Epoch, version: int) -> list[ev.Action]:
    """Take in that ``epoch`` is committed and ``version`` holds. This may be known already."""
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
    """Remove the staged files of visible output: no later commit comes to this task.

    This happens only when the leader orders the end. The object then records all output as published.
    """
    published = state.sinks.forget(Epoch(state.sinks.published + 1))
    return [ev.Forget(published)] if published else []
