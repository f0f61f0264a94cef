"""Makes committed output visible in one thread, one handle after the other.

A publication is tried again while storage is away. Every other error ends the work on its epoch, and
``failed`` decides what follows. The next attempt publishes what is committed and not visible.
Staged files are removed in the same thread, so in the order of the calls.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from penstock.base.errors import ConnectorError, PenstockError, is_storage_away
from penstock.base.limits import RESTART_BACKOFF_FIRST_S, RESTART_BACKOFF_MAX_S
from penstock.base.threads import Event, SimpleQueue, Thread
from penstock.contract.ids import Attempt, Epoch
from penstock.contract.latest import SinkRestore, Unpublished, how_of
from penstock.contract.manifest import SinkHandle, StepRows
from penstock.ports import RestoringPublisher, WholePublisher

if TYPE_CHECKING:
    from penstock.ports import SinkPublisher

log = logging.getLogger(__name__)

ITS_SINK = "{SINK: "  # in a remedy: a publisher does not know the name of its step


@dataclass(frozen=True, slots=True)
class PublishJob:
    """The handles of one committed epoch, published for an attempt; ``done`` is called when all are visible.

    A restore may want something else for some ``sinks``. ``done`` gets the rows that were refused and left out.
    """

    attempt: Attempt
    epoch: Epoch
    handles: tuple[SinkHandle, ...]
    done: Callable[[tuple[StepRows, ...]], None]
    sinks: tuple[SinkRestore, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Since when (microseconds since 1970) the output of a sink cannot be published, and why."""

    since_us: int
    because: str


@dataclass(frozen=True, slots=True)
class Staging:
    """Handles whose staged files are to be removed.

    Their output is visible. With ``discard``, it will never be committed.
    """

    handles: tuple[SinkHandle, ...]
    discard: bool


def publications(sinks: "Mapping[str, SinkPublisher]", handles: Iterable[SinkHandle]) -> list[tuple[SinkHandle, ...]]:
    """Divide handles into those that one call publishes: each one, or all of a task or sink where that wants it."""
    found: dict[object, tuple[SinkHandle, ...]] = {}
    for number, handle in enumerate(handles):
        of_task = (handle.sink, handle.task) if isinstance(sinks[handle.sink], WholePublisher) else number
        place = handle.sink if handle.whole is True else of_task
        found[place] = (*found.get(place, ()), handle)
    return list(found.values())


def publish_these(
    publisher: "SinkPublisher", handles: Sequence[SinkHandle], epoch: Epoch, how: Unpublished = Unpublished.FAIL
) -> int:
    """Make the handles of one of :func:`publications` visible, or do what a restore says of them.

    Return how many rows were refused and left out. Raises what the publisher raises.
    """
    if how is not Unpublished.FAIL and isinstance(publisher, RestoringPublisher):
        return publisher.publish_restored(handles, epoch, how)
    if how is Unpublished.DROP:
        for handle in handles:
            publisher.discard(handle)
    elif isinstance(publisher, WholePublisher):
        publisher.publish_all(handles, epoch)
    else:
        for handle in handles:
            publisher.publish(handle, epoch)
    return 0


class OutputPublisher:
    """The publisher of all sinks of an engine. It calls ``failed`` with each error and its reason in words."""

    def __init__(
        self,
        sinks: "Mapping[str, SinkPublisher]",
        failed: Callable[[PublishJob, Exception, str], None],
        wall_us: Callable[[], int],
    ) -> None:
        """Start the thread. ``sinks`` has a publisher for each sink, by the name of the sink's step."""
        self.held_up: Mapping[str, HeldUp] = {}  # by sink; those whose newest try has failed
        self._wall_us = wall_us
        self._sinks = sinks
        self._failed = failed
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._stop = Event()
        self._attempt = Attempt(0)
        self._thread = Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def publish(self, job: PublishJob) -> None:
        """Publish in the background, in the order of the calls. Does not block."""
        self.call(partial(self._publish, job))

    def begin(self, attempt: Attempt) -> None:
        """Give up what older attempts have not published: a newer one publishes it, maybe on another worker."""
        if attempt > self._attempt:
            self.held_up = {}
        self._attempt = max(self._attempt, attempt)

    def clear(self, staging: Staging) -> None:
        """Remove staged files in the background, after all earlier work."""
        self.call(partial(self._clear, staging))

    def call(self, work: Callable[[], None]) -> None:
        """Do ``work`` in the background, after all earlier work. It must not raise. Does not block."""
        self._queue.put(work)

    def close(self) -> None:
        """Ask the thread to end. The next attempt publishes committed output that is not visible yet."""
        self._stop.set()
        self._queue.put(None)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None and not self._stop.is_set():
            work()

    def _publish(self, job: PublishJob) -> None:
        refused: list[StepRows] = []
        for handles in publications(self._sinks, job.handles):
            left_out = self._publish_these(handles, job)
            if left_out is None:
                return
            if left_out:
                refused.append(StepRows(handles[0].sink, left_out))
        job.done(tuple(refused))

    def _publish_these(self, handles: tuple[SinkHandle, ...], job: PublishJob) -> int | None:
        """Return how many rows were refused and left out, None when the job is given up."""
        pause, handle = RESTART_BACKOFF_FIRST_S, handles[0]
        how = how_of(handle.sink, job.sinks)
        while not self._stop.is_set() and job.attempt >= self._attempt:
            try:
                left_out = publish_these(self._sinks[handle.sink], handles, job.epoch, how)
            except Exception as error:
                named = isinstance(error, ConnectorError)  # it names its sink
                said = str(error).replace(ITS_SINK, f"{{{handle.sink}: ")
                self._hold_up(job, handle.sink, said)
                self._failed(job, error, said if named else f"sink {handle.sink!r}: {said}")
                if not is_storage_away(error):
                    log.exception("event=publish_failed sink=%s epoch=%d", handle.sink, job.epoch)
                    return None
                self._stop.wait(pause)
                pause = min(2 * pause, RESTART_BACKOFF_MAX_S)
            else:
                self.held_up = {sink: why for sink, why in self.held_up.items() if sink != handle.sink}
                if how is not Unpublished.FAIL:
                    rows = sum(each.rows for each in handles)
                    log.warning(
                        "event=output_restored sink=%s task=%s epoch=%d how=%s rows=%d left_out=%d",
                        *(handle.sink, handle.task, job.epoch, how, rows, left_out),
                    )
                return left_out
        return None

    def _hold_up(self, job: PublishJob, sink: str, because: str) -> None:
        if job.attempt < self._attempt:
            return
        before = self.held_up.get(sink)
        since_us = self._wall_us() if before is None else before.since_us
        self.held_up = {**self.held_up, sink: HeldUp(since_us, because)}

    def _clear(self, staging: Staging) -> None:
        for handle in staging.handles:
            sink = self._sinks[handle.sink]
            try:
                if staging.discard:
                    sink.discard(handle)
                else:
                    sink.forget(handle)
            except (PenstockError, OSError) as error:  # what is left takes space and does no other harm
                log.warning("event=staging_left sink=%s reason=%s", handle.sink, error)
