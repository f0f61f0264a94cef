"""Rules for the moment at which no thread can run: nothing may wait for a call that nobody makes.

Most waits of the engine have a time limit. So a wake-up that is lost costs time and breaks no promise,
and no comparison of outputs would show it. Here it shows: when all threads wait, time is about to pass,
and there is work that needs no time.

W  a task sleeps, and its inbox has an event
W  an output has an element that it may send, and its sender waits and was not called

The rules read private state of the engine, because what they check is no result that the engine shows.
"""

from typing import Any

from penstock.engine.worker import Worker
from penstock.transport.output import RemoteOutput
from sim.kernel.kernel import Violation


def check_rest(worker: Worker) -> None:
    """Check one engine. Raises Violation."""
    for task, thread in worker._tasks.threads.items():
        if thread.progress.asleep_at is not None and not thread.inbox.empty:
            raise Violation("W", f"task {task} sleeps, and its inbox has an event")
    for channel, output in worker._exchange._current.outputs.items():
        if isinstance(output, RemoteOutput) and _uncalled(output):
            raise Violation("W", f"channel {channel} has an element to send, and its sender was not called")


def _uncalled(output: RemoteOutput) -> bool:
    state = output._state
    sends = state.closed and state._accepted and not output._closed
    calls: Any = getattr(output._schedule, "__self__")._calls  # noqa: B009 - of its SenderThread
    return sends and bool(calls._waiting) and not output._starved and not output._scheduled
