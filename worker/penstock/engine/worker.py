"""One worker's engine: carries out the keeper's commands and reports the results.

Commands come in order, on the main thread. Tasks report on their own threads. The leader repeats each
order until its effect shows, so every order may come twice.

The tasks are threads (:class:`EngineTasks`): the engine's core decides when they are made, told and ended. The state
of the engine is sent to the keeper at each change, and repeatedly as a heartbeat.
"""

import itertools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.base.errors import (
    ConfigError,
    ConnectorError,
    PenstockError,
    StateError,
    UserCodeError,
    is_storage_away,
)
from penstock.base.limits import RESET_DEADLINE_S
from penstock.base.threads import Event, Thread, ThreadPoolExecutor, end_process, monotonic
from penstock.base.user_code import named, user_traceback
from penstock.contract import control_messages as c
from penstock.contract.control_messages import STREAM_BROKE, EngineStatus
from penstock.contract.ids import Attempt, ChannelId, Epoch, Incarnation, Ordinal, TaskId, Term
from penstock.contract.ids import Attempt as AttemptId
from penstock.contract.manifest import SinkHandle, StateFile, StepRows, TaskManifest
from penstock.contract.status import EngineProgress
from penstock.contract.trust import OF_ONE_USER, IngestPlace
from penstock.engine.build import JobParts
from penstock.engine.checkpoint_files import Preloader, SnapshotWriter, read_base, read_root
from penstock.engine.input_watch import LOOKS, InputWatch, known_splits
from penstock.engine.output_publisher import OutputPublisher, PublishJob, Staging
from penstock.engine.progress_reporter import ProgressCounters, ProgressReporter
from penstock.engine.task_runtime import Stop, TaskRuntime
from penstock.engine.task_thread import TaskThread
from penstock.engine.unlisted_sources import UnlistedSources
from penstock.model.elements import Barrier
from penstock.ports import BlobStore, Clock
from penstock.protocol.engine import engine_messages as em
from penstock.protocol.engine.engine_core import EngineCore
from penstock.protocol.task import task_messages as ev
from penstock.transport.exchange import Exchange, Peer, Wiring
from penstock.transport.input import TaskInput, Wakeup
from penstock.transport.output import Output
from penstock.transport.stream import LOOPBACK, FlightEndpoint
from penstock.transport.transport_events import OrphansExceeded, TransportEvent

log = logging.getLogger(__name__)

EXIT_STUCK = 70  # a task did not end: the process does


# Errors that come again however often the job goes back: the user must act.
_FATAL = (UserCodeError, ConfigError, StateError)
_STORER_THREADS = 4


class StatusReporter(Thread):
    """Sends the status when it has changed, and again after each interval without a change."""

    def __init__(
        self,
        draw: Callable[[], EngineStatus],
        send: Callable[[EngineStatus], None],
        interval_s: float,
    ) -> None:
        """Get the status from ``draw``, on this thread only, and send it with ``send``."""
        super().__init__(name="status", daemon=True)
        self._draw = draw
        self._send = send
        self._interval_s = interval_s
        self._changed = Event()
        self._over = False

    def changed(self) -> None:
        """Check the status soon. From any thread; never blocks."""
        self._changed.set()

    def stop(self) -> None:
        """End the thread after the present message."""
        self._over = True
        self._changed.set()

    def run(self) -> None:
        """Send until stopped."""
        sent: EngineStatus | None = None
        while not self._over:
            changed_now = self._changed.wait(self._interval_s)
            self._changed.clear()
            status = self._draw()
            if status != sent or not changed_now:
                sent = status
                self._send(status)


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    """What the tasks need of their worker."""

    ordinal: Ordinal
    job: JobParts
    exchange: Exchange
    host: TaskRuntime


class EngineTasks:
    """The threads of this engine's tasks, and the actions of the engine's core on tasks.

    For the worker's main thread; :meth:`inject` may be called from any thread.
    """

    def __init__(self, place: TaskPlacement) -> None:
        """Begin without tasks."""
        self.threads: dict[TaskId, TaskThread] = {}
        self._place = place
        self._wakeups: dict[TaskId, Wakeup] = {}

    def make(self, order: em.MakeTasks, attempt: Attempt) -> None:
        """Make and start the threads; they load, and say when they are ready or prepared."""
        for task in order.tasks:
            self.threads[task] = self._thread(task, order, attempt)
        for task in order.tasks:
            self.threads[task].start()

    def tell(self, event: ev.Event | Stop) -> None:
        """Put an event into the inbox of every task."""
        for thread in self.threads.values():
            thread.inbox.put(event)

    def inject(self, barrier: Barrier) -> None:
        """Give a barrier to the source tasks."""
        for thread in tuple(self.threads.values()):
            if thread.core.state.splits is not None:
                thread.inbox.put(ev.Injected(barrier))

    def drop(self, tasks: Iterable[TaskId]) -> None:
        """Forget tasks that were made for a cancelled table. They end by themselves."""
        for task in tasks:
            self.threads.pop(task).inbox.put(ev.ResetTo(Epoch(0)))

    def retire(self, tasks: Iterable[TaskId]) -> None:
        """Wait for tasks whose work has ended."""
        self._end([self.threads[task] for task in tasks if task in self.threads], Stop())

    def end(self, order: ev.ResetTo | Stop) -> None:
        """End all tasks. A task that has not ended within the deadline ends the process.

        Only a reset says what was not committed. So only a reset discards prepared output.
        """
        self._end(list(self.threads.values()), order)
        self._wakeups.clear()

    def open(self, order: em.OpenStreams, attempt: Attempt) -> None:
        """Open channels. Each element that arrives wakes its task."""
        peers = {o: Peer(m.incarnation, m.flight) for o, m in order.members.items()}
        wakeups = {task: w for task, w in self._wakeups.items() if task in self.threads}
        job = self._place.job
        wiring = Wiring(peers, order.channels, job.schemas, wakeups, order.version, job.prompt_edges)
        self._place.exchange.open_attempt(attempt, wiring)

    def _end(self, threads: list[TaskThread], order: ev.ResetTo | Stop) -> None:
        for thread in threads:
            thread.inbox.put(order)
        deadline = monotonic() + RESET_DEADLINE_S
        for thread in threads:
            thread.join(max(0.0, deadline - monotonic()))
            if thread.is_alive():
                log.critical("event=task_stuck task=%s deadline_s=%g", thread.task, RESET_DEADLINE_S)
                end_process(EXIT_STUCK)
            del self.threads[thread.task]

    def _thread(self, task: TaskId, order: em.MakeTasks, attempt: Attempt) -> TaskThread:
        # A task id has one wakeup, also when a cancelled table made that task before. The input of the
        # task exists already, and sets this wakeup.
        wakeup = self._wakeups.setdefault(task, Wakeup())
        parts = self._place.job.parts(task, order, attempt)
        return TaskThread(parts, self._place.host, wakeup)


class Worker:
    """The engine of one worker. ``say`` sends a report to the keeper, from any thread."""

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
        warmed: Event,
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
        self._publisher = OutputPublisher(job.publishers, self._publish_failed, self.clock.wall_us)
        self._preloader = Preloader(blobs, warmed)
        self._exchange = Exchange(job.identity, job.shuffle, self._on_transport, endpoint)
        self._tasks = EngineTasks(TaskPlacement(ordinal, job, self._exchange, self))
        self._core = EngineCore(ordinal, job.plan, lambda: tuple(self._tasks.threads.values()))
        self._broken: AttemptId | None = None
        self._failures = itertools.count(1)  # taking a number is atomic
        self._unlisted = UnlistedSources(clock.wall_us)
        self._progress = ProgressCounters(job.plan, lambda: job.sinks, lambda: self._unlisted.told)
        self._told = AttemptId(0)
        self._inputs = InputWatch(job.watched() if ordinal == LOOKS else ())
        self._inputs.start()
        self._counting = ProgressReporter(self._say_progress)
        self._counting.start()
        self._teller = StatusReporter(self._core.status, self._say_status, heartbeat_interval_s)
        self._teller.start()
        job.listen(self._want_checkpoint, ingest)
        job.held_up = lambda: bool(self._publisher.held_up)

    @property
    def address(self) -> str:
        """Return where peers find the Flight server."""
        return self._exchange.location

    def close(self) -> bool:
        """Stop everything. Return False if threads remain that only the end of the process stops."""
        self._teller.stop()
        self._counting.stop()
        self._inputs.stop()
        self._tasks.end(Stop())
        self._publisher.close()
        self._preloader.close()
        self.snapshot_writer.close()
        return self._exchange.close()

    def renew(self) -> None:
        """Use renewed certificates for new connections; open streams go on. From any thread.

        If the worker loses its address, no peer can reach it: the process ends, and the keeper
        starts another.
        """
        try:
            self._exchange.renew()
        except ConfigError as error:
            log.critical("event=address_lost reason=%s", error)
            end_process(EXIT_STUCK)

    def _want_checkpoint(self) -> None:
        self._say(c.CheckpointWanted(self._core.attempt))

    # --- Commands -----------------------------------------------------------------------------

    def command(self, term: Term, order: c.Command) -> None:
        """Carry out one order. A failure is reported as a broken attempt, and never raised."""
        attempt = getattr(order, "attempt", self._core.attempt)
        try:
            self._carry_out(term, order)
        except (PenstockError, OSError) as error:  # an error of the system is tried again
            log.error("event=order_failed order=%s reason=%s", type(order).__name__, error)
            self._say_failed(attempt, str(error), error)
        self.changed()

    def _carry_out(self, term: Term, order: c.Command) -> None:
        if isinstance(order, c.Reset) and order.attempt > self._core.attempt:
            log.info("event=reset attempt=%d epoch=%d", order.attempt, order.epoch)
        self._do(em.OrderReceived(term, order, self.clock.wall_us()))

    def _do(self, event: em.Event) -> None:
        """Perform the actions of the core in order. An answer that the core waits for comes at once."""
        for action in self._core.step(event):
            match action:
                case em.TellTasks(told):
                    self._tasks.tell(told)
                case em.InjectBarrier(barrier):
                    self._tasks.inject(barrier)
                case em.MakeTasks():
                    self._tasks.make(action, self._core.attempt)
                case em.OpenStreams():
                    self._tasks.open(action, self._core.attempt)
                case em.ForgetStreams(channels):
                    self._exchange.retire(channels)
                case em.PublishFor():
                    self._publish_for(action)
                case _:
                    self._do_seldom(action)

    def _do_seldom(self, action: em.Action) -> None:
        """Perform an action that begins or ends an attempt or a rescale."""
        match action:
            case em.EndTasks(order):
                self._tasks.end(order)
            case em.RetireTasks(tasks):
                self._tasks.retire(tasks)
            case em.DropTasks(tasks):
                self._tasks.drop(tasks)
            case em.ResetStreams(attempt):
                self._unlisted.clear()
                self._publisher.begin(attempt)
                self._exchange.reset(attempt)
            case em.ListSplits(order):
                self._list_splits(order)
            case em.ClaimOutput(order, root):
                self._job.claim(fresh=action.fresh, origin=action.origin)
                self._do(em.OutputClaimed(order, root))
            case em.ReadManifest(order, ref, optional):
                read = read_base if optional else read_root
                self._do(em.ManifestRead(order, read(self.blobs, ref, self._job.plan)))
            case em.SweepStaging(attempt):
                self._job.sweep(attempt)
            case em.ClearStaging():
                self._clear_staging(action)
            case em.WatchInputs(root, splits):
                self._inputs.begin(known_splits(root, self._job.plan, splits))

    def _list_splits(self, order: c.Enumerate) -> None:
        try:
            first = self._job.first_splits(order.stages, self._unlisted.listing)
        finally:
            self._counting.report_now()  # a user sees at once which source cannot be listed
        self._say(c.Splits(order.attempt, first, self._job.plan.fingerprint))

    def _publish_for(self, order: em.PublishFor) -> None:
        def done(left_out: tuple[StepRows, ...]) -> None:
            self._core.published(order, left_out)
            self.changed()

        self._publisher.publish(PublishJob(order.attempt, order.epoch, order.handles, done, order.sinks))

    def _clear_staging(self, order: em.ClearStaging) -> None:
        def clear() -> None:
            try:
                self._job.sweep(Attempt(order.attempt + 1))
            except (PenstockError, OSError) as error:  # what is left takes space and does no other harm
                log.warning("event=staging_left reason=%s", error)
            self._core.cleared(order)
            self.changed()

        self._publisher.call(clear)

    def _say_status(self, status: c.EngineStatus) -> None:
        if status.ended:
            self._inputs.look()  # a short job may end before the first look
            self._say_progress()  # the last counters go before the report that ends the engine
        elif status.running not in (0, self._told):
            self._told = status.running
            self._counting.report_now()  # a user sees at once that the job runs
        self._say(status)

    def _say_progress(self) -> None:
        self._say(
            self._progress.draw(
                self._core.attempt,
                tuple(self._tasks.threads.values()),
                self._exchange.stats(),
                self._inputs.seen,
                self._publisher.held_up,
            )
        )

    # --- For tasks (TaskRuntime) ---------------------------------------------------------------------

    def work_clock(self) -> float:
        """Return the monotonic seconds of this machine."""
        return monotonic()

    def input(self, task: TaskId) -> TaskInput:
        """Return the input of a task."""
        return self._exchange.input(task)

    def output(self, channel: ChannelId) -> Output:
        """Return an output channel; KeyError when it is not open."""
        return self._exchange.output(channel)

    def preload(self, files: tuple[StateFile, ...], done: Callable[[], None], wanted: Callable[[], bool]) -> None:
        """Read files in the background while they are ``wanted``, so that they are cached."""
        self._preloader.preload(files, done, wanted)

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Do something slow on a thread of its own."""
        self._preloader.run_in_background(work)

    def spread(self, barrier: Barrier) -> None:
        """Give a barrier to the source tasks. The caller's attempt is not over, so they are of the same attempt."""
        self._tasks.inject(barrier)

    def ack(self, term: Term, epoch: Epoch, manifest: TaskManifest) -> None:
        """Report a snapshot."""
        self._say(c.TaskAck(self._core.attempt, term, epoch, manifest))

    def epoch_failed(self, task: TaskId, term: Term, epoch: Epoch, reason: str) -> None:
        """Report that an epoch cannot be completed."""
        log.warning("event=epoch_failed epoch=%d task=%s reason=%s", epoch, task, reason)
        self._say(c.EpochFailed(self._core.attempt, term, epoch, task, reason))

    def publish(self, epoch: Epoch, handles: tuple[SinkHandle, ...], done: Callable[[], None]) -> None:
        """Make output visible in the background."""
        self._publisher.publish(PublishJob(self._core.attempt, epoch, handles, lambda _: done()))

    def clear(self, handles: tuple[SinkHandle, ...], *, discard: bool) -> None:
        """Remove staged files in the background."""
        if handles:
            self._publisher.clear(Staging(handles, discard))

    def changed(self) -> None:
        """Note that the status has changed: it is sent soon."""
        self._teller.changed()

    def broken(self, task: TaskId, error: BaseException) -> None:
        """Report that a task cannot continue. The attempt is rolled back, or the job fails if that cannot help."""
        if isinstance(error, PenstockError):
            reason = str(error)
            log.error("event=task_failed task=%s reason=%s", task, reason)
        else:  # an error of a source or sink, of the user or of ours: the log shows every frame
            log.error("event=task_failed task=%s", task, exc_info=error)
            trace = user_traceback(error)
            reason = f"task {task}: {named(error)}" + (f"\n{trace}" if trace else "")
        self._say_failed(self._core.attempt, reason, error)

    def _say_failed(self, attempt: AttemptId, reason: str, error: BaseException) -> None:
        """Report an error that ends an attempt. An error of code, unlike one of storage, probably comes again."""
        fatal = isinstance(error, _FATAL)
        again = isinstance(error, ConnectorError) or not isinstance(error, PenstockError)
        self._say(c.Broken(attempt, reason, fatal, next(self._failures) if again and not fatal else 0))

    # --- Trouble ------------------------------------------------------------------------------

    def _on_transport(self, event: TransportEvent) -> None:
        if isinstance(event, OrphansExceeded):
            # Only the end of the process stops these threads. Its keeper starts another engine.
            log.critical("event=orphans count=%d", event.count)
            end_process(EXIT_STUCK)
        if event.attempt != self._core.attempt or self._broken == event.attempt:
            return
        if self._core.may_close(event.peer):
            return
        self._broken = event.attempt
        log.warning("event=stream_broken reason=%s", event)
        self._say(c.Broken(event.attempt, f"{STREAM_BROKE}{event}"))

    def _publish_failed(self, job: PublishJob, error: Exception, reason: str) -> None:
        fatal = isinstance(error, _FATAL)
        if fatal or is_storage_away(error):
            self._say(c.PublishFailed(self._core.attempt, job.epoch, reason, fatal))
        else:
            self._say_failed(job.attempt, reason, error)
