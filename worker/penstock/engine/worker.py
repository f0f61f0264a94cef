"""One worker's engine: carries out the keeper's commands and reports what becomes of them.

Commands come in order, on the main thread; tasks report on their own threads. Orders are
repeated by the leader until their effect shows, so every one of them may come twice.
"""

import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.base.errors import (
    ConfigError,
    PenstockError,
    StateError,
    UserCodeError,
)
from penstock.base.user_code import named, user_traceback
from penstock.contract import control as c
from penstock.contract.ids import Attempt as AttemptId
from penstock.contract.ids import ChannelId, Epoch, Incarnation, Ordinal, TaskId, Term
from penstock.contract.manifest import BlobRef, RootManifest, SinkHandle, StateFile, TaskManifest
from penstock.contract.progress import EngineProgress
from penstock.contract.reports import STREAM_BROKE
from penstock.contract.trust import OF_ONE_USER, IngestPlace
from penstock.engine.attempt import EXIT_STUCK, Attempt, TaskPlacement
from penstock.engine.attempt_status import AttemptMarks, StatusTeller, status_of
from penstock.engine.build import JobParts
from penstock.engine.checkpoint_reader import Preloader, read_base, read_root
from penstock.engine.input_watch import LOOKS, InputWatch, known_splits
from penstock.engine.output_publisher import OutputPublisher, PublishJob, Staging
from penstock.engine.progress_reporter import Progress, ProgressTeller
from penstock.engine.snapshot_writer import SnapshotWriter
from penstock.engine.task_inbox import Stop
from penstock.model.elements import Barrier, BarrierKind
from penstock.ports import BlobStore, Clock
from penstock.protocol.task import task_events as ev
from penstock.transport.events import OrphansExceeded, TransportEvent
from penstock.transport.exchange import Exchange
from penstock.transport.flight_endpoint import LOOPBACK, FlightEndpoint
from penstock.transport.input import TaskInput
from penstock.transport.output import Output

log = logging.getLogger(__name__)

# Errors that come again however often the job goes back: the user must act.
_FATAL = (UserCodeError, ConfigError, StateError)
_STORER_THREADS = 4


class Worker:
    """See the module. ``say`` sends a report to the keeper, from any thread."""

    def __init__(
        self,
        ordinal: Ordinal,
        incarnation: Incarnation,
        job: JobParts,
        blobs: BlobStore,
        *,
        say: Callable[[c.EngineReport | EngineProgress], None],
        clock: Clock,
        heartbeat_interval_s: float,
        warmed: threading.Event,
        endpoint: FlightEndpoint = LOOPBACK,
        ingest: IngestPlace = OF_ONE_USER,
    ) -> None:
        """Be ready for the first command; ``warmed`` is set when all kernels are loaded."""
        self.blobs = blobs
        storers = ThreadPoolExecutor(_STORER_THREADS, thread_name_prefix="storer")
        self.snapshot_writer = SnapshotWriter(blobs, incarnation, storers)
        self._job = job
        self._say = say
        self.clock = clock
        self._term = Term(0)
        self._publisher = OutputPublisher(job.publishers, self._publish_failed)
        self._preloader = Preloader(blobs, warmed)
        self._exchange = Exchange(job.identity, job.shuffle, self._on_transport, endpoint)
        self._place = TaskPlacement(ordinal, job, self._exchange, self)
        self._attempt = Attempt(self._place, AttemptMarks())
        self._broken: AttemptId | None = None
        self._progress = Progress(job.plan, job.guarantees)
        self._told = AttemptId(0)
        self._inputs = InputWatch(job.watched() if ordinal == LOOKS else ())
        self._inputs.start()
        self._counting = ProgressTeller(self._say_progress)
        self._counting.start()
        self._teller = StatusTeller(self._status, self._say_status, heartbeat_interval_s)
        self._teller.start()
        job.listen(self._want_checkpoint, ingest)

    @property
    def address(self) -> str:
        """Return where peers find the Flight server."""
        return self._exchange.location

    def close(self) -> bool:
        """Stop everything; False when threads are left that only the end of the process ends."""
        self._teller.stop()
        self._counting.stop()
        self._inputs.stop()
        self._attempt.end(Stop())
        self._publisher.close()
        self._preloader.close()
        self.snapshot_writer.close()
        return self._exchange.close()

    def renew(self) -> None:
        """Show the certificates of now to all who dial; no stream that is open ends. Any thread.

        A worker that lost its address by it can be reached by nobody: its process ends, and its
        keeper starts another.
        """
        try:
            self._exchange.renew()
        except ConfigError as error:
            log.critical("event=address_lost reason=%s", error)
            os._exit(EXIT_STUCK)

    def _want_checkpoint(self) -> None:
        self._say(c.CheckpointWanted(self._attempt.marks.attempt))

    # --- Commands -----------------------------------------------------------------------------

    def command(self, term: Term, order: c.Command) -> None:
        """Carry out one order. What fails is reported as a broken attempt, never raised."""
        self._term = term
        attempt = getattr(order, "attempt", self._attempt.marks.attempt)
        try:
            self._carry_out(order)
        except PenstockError as error:
            log.error("event=order_failed order=%s reason=%s", type(order).__name__, error)
            self._say(c.Broken(attempt, str(error), isinstance(error, _FATAL)))
        self.changed()

    def _carry_out(self, order: c.Command) -> None:
        mine = self._attempt.marks.attempt
        match order:
            case c.Enumerate():
                first = self._job.first_splits(order.stages)
                self._say(c.Splits(order.attempt, first, self._job.plan.fingerprint))
            case c.Reset():
                if order.attempt > mine:
                    self._reset(order)
            case c.Prepare():
                self._prepare(order)
            case c.Announce(epoch=epoch, version=version):
                self._attempt.tell(ev.TermAnnounced(self._term, epoch, version))
            case c.Shutdown():
                raise AssertionError("the main loop ends at a shutdown")
            case _ if order.attempt == mine:
                self._within(order)
            case _:
                log.info("event=order_of_other_attempt order=%s", type(order).__name__)

    def _within(self, order: Any) -> None:
        attempt = self._attempt
        match order:
            case c.Publish():
                self._republish(order)
            case c.Start():
                attempt.start()
            case c.Inject():
                attempt.inject(self._barrier(order))
            case c.Hurry():
                attempt.tell(ev.Hurried(order.epoch))
            case c.Commit():
                attempt.tell(ev.EpochCommitted(order.epoch, order.version))
            case c.Abort():
                attempt.tell(ev.Aborted(self._term, order.epoch))
            case c.CancelRescale():
                attempt.cancel(order.version)
            case c.Adopt():
                attempt.adopt(order, lambda: self._root(order.root))
            case c.Settled():
                attempt.settle(order)
            case c.EndStreams():
                attempt.marks.ending = True
                attempt.tell(ev.EndAll())

    def _barrier(self, order: c.Inject) -> Barrier:
        kind = BarrierKind(order.kind)
        now = self.clock.wall_us()
        return Barrier(self._term, order.epoch, order.version, kind, order.committed, now)

    def _reset(self, order: c.Reset) -> None:
        log.info("event=reset attempt=%d epoch=%d", order.attempt, order.epoch)
        self._attempt.end(ev.ResetTo(order.epoch))
        self._exchange.reset(order.attempt)
        marks = AttemptMarks(order.attempt, order.epoch)
        self._attempt = Attempt(self._place, marks)
        root = self._root(order.root) if order.root is not None else None
        self._job.claim(fresh=root is None, origin=None if root is None else root.origin)
        self._attempt.build(order, root)
        self._inputs.begin(known_splits(root, self._job.plan, order.splits))

    def _prepare(self, order: c.Prepare) -> None:
        if order.attempt < self._attempt.marks.attempt:
            return
        joins = order.attempt > self._attempt.marks.attempt
        if joins:
            self._attempt.end(ev.ResetTo(order.epoch))
            self._exchange.reset(order.attempt)
            self._job.claim(fresh=order.root is None)
            marks = AttemptMarks(order.attempt, order.epoch, joined=True)
            self._attempt = Attempt(self._place, marks)
        root = read_base(self.blobs, order.root, self._job.plan, joins=joins)
        self._attempt.prepare(order, root)

    def _root(self, ref: BlobRef) -> RootManifest:
        root = read_root(self.blobs, ref, self._job.plan)
        assert root is not None, "a reference names a manifest"
        return root

    def _republish(self, order: c.Publish) -> None:
        marks = self._attempt.marks

        def done() -> None:
            marks.republished = max(marks.republished, order.epoch)
            self.changed()

        self._publisher.publish(PublishJob(order.epoch, order.handles, done))

    def _status(self) -> c.EngineStatus:
        attempt = self._attempt
        return status_of(attempt.marks, list(attempt.tasks.values()))

    def _say_status(self, status: c.EngineStatus) -> None:
        if status.ended:
            self._inputs.look()  # also in a job that ended before it was time to
            self._say_progress()  # the last counters go before the word that ends the engine
        elif status.running not in (0, self._told):
            self._told = status.running
            self._counting.hurry()  # who shows the job need not wait to say that it runs
        self._say(status)

    def _say_progress(self) -> None:
        self._say(self._progress.draw(self._attempt, self._exchange.stats(), self._inputs.seen))

    # --- For tasks (Host) ---------------------------------------------------------------------

    def input(self, task: TaskId) -> TaskInput:
        """Return the input of a task."""
        return self._exchange.input(task)

    def output(self, channel: ChannelId) -> Output:
        """Return an output channel; KeyError when it is not open."""
        return self._exchange.output(channel)

    def preload(self, files: tuple[StateFile, ...], done: Callable[[], None]) -> None:
        """Bring files near in the background."""
        self._preloader.preload(files, done)

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Do something slow on a thread of its own."""
        self._preloader.run_in_background(work)

    def spread(self, barrier: Barrier) -> None:
        """Give a barrier to the sources: to those of the caller's attempt, which is not over."""
        self._attempt.inject(barrier)

    def ack(self, term: Term, epoch: Epoch, manifest: TaskManifest) -> None:
        """Report a snapshot."""
        self._say(c.TaskAck(self._attempt.marks.attempt, term, epoch, manifest))

    def epoch_failed(self, task: TaskId, term: Term, epoch: Epoch, reason: str) -> None:
        """Report that an epoch cannot be completed."""
        log.warning("event=epoch_failed epoch=%d task=%s reason=%s", epoch, task, reason)
        self._say(c.EpochFailed(self._attempt.marks.attempt, term, epoch, task, reason))

    def publish(
        self, epoch: Epoch, handles: tuple[SinkHandle, ...], done: Callable[[], None]
    ) -> None:
        """Make output visible in the background."""
        self._publisher.publish(PublishJob(epoch, handles, done))

    def clear(self, handles: tuple[SinkHandle, ...], *, discard: bool) -> None:
        """Remove staged files in the background."""
        if handles:
            self._publisher.clear(Staging(handles, discard))

    def changed(self) -> None:
        """Hear that something stands elsewhere now."""
        self._teller.changed()

    def broken(self, task: TaskId, error: BaseException) -> None:
        """Report that a task cannot go on: the job goes back, or fails when that cannot help."""
        fatal = isinstance(error, _FATAL)
        if isinstance(error, PenstockError):
            reason = str(error)
            log.error("event=task_failed task=%s reason=%s", task, reason)
        else:  # of a source or sink of the user's, or of ours: the log shows every frame
            log.error("event=task_failed task=%s", task, exc_info=error)
            trace = user_traceback(error)
            reason = f"task {task}: {named(error)}" + (f"\n{trace}" if trace else "")
        self._say(c.Broken(self._attempt.marks.attempt, reason, fatal))

    # --- Trouble ------------------------------------------------------------------------------

    def _on_transport(self, event: TransportEvent) -> None:
        if isinstance(event, OrphansExceeded):
            # Threads that nothing here can end: the process does, and its keeper starts another.
            log.critical("event=orphans count=%d", event.count)
            os._exit(EXIT_STUCK)
        attempt = self._attempt
        if event.attempt != attempt.marks.attempt or self._broken == event.attempt:
            return
        if attempt.has_left(event.peer):
            return
        self._broken = event.attempt
        log.warning("event=stream_broken reason=%s", event)
        self._say(c.Broken(event.attempt, f"{STREAM_BROKE}{event}"))

    def _publish_failed(self, epoch: Epoch, reason: str, fatal: bool) -> None:
        self._say(c.PublishFailed(self._attempt.marks.attempt, epoch, reason, fatal))
