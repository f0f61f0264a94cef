"""The engine of one worker, without a thread: it performs the actions of an :class:`EngineCore` at once.

    InProcessTasks ── orders ──> EngineCore ── actions ──> InProcessEngine ──> tasks of one worker

``penstock.engine.worker`` does the same with threads and Flight streams. All engines of a job share one
:class:`EngineContext`, because all of them are in one thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.base.errors import StorageError
from penstock.contract import control_messages as c
from penstock.contract.ids import ChannelId, Epoch, Ordinal, TaskId, Term, Version
from penstock.contract.manifest import SinkHandle, StateFile, TaskManifest
from penstock.engine.build import JobParts
from penstock.engine.checkpoint_files import SnapshotWriter, read_root
from penstock.engine.output_publisher import publications, publish_these
from penstock.engine.task_runtime import Stop
from penstock.engine.task_thread import TaskLoop
from penstock.inprocess.inline_calls import InlineCalls
from penstock.inprocess.scheduler import CooperativeWakeup, ScheduledTask, TaskScheduler
from penstock.model.elements import Barrier
from penstock.ports import BlobStore, Clock
from penstock.protocol.engine import engine_messages as em
from penstock.protocol.engine.engine_core import EngineCore
from penstock.protocol.task import task_messages as ev
from penstock.transport.input import TaskInput
from penstock.transport.output import LocalOutput, Output, join_locally

TERM = Term(1)  # there is one leader, and it never changes


@dataclass(slots=True)
class EngineContext:
    """What the engines of a job share: its parts, its files, the scheduler, and the open channels.

    ``manifests`` has what the tasks have stored for the checkpoint that is being taken.
    """

    job: JobParts
    blobs: BlobStore
    snapshot_writer: SnapshotWriter
    clock: Clock
    work_clock: Callable[[], float]
    scheduler: TaskScheduler
    inputs: dict[TaskId, TaskInput] = field(default_factory=dict)
    outputs: dict[ChannelId, LocalOutput] = field(default_factory=dict)
    listed: tuple[c.StageSplits, ...] = ()
    manifests: dict[TaskId, TaskManifest] = field(default_factory=dict)

    def open(self, channels: Sequence[ChannelId], version: Version) -> None:
        """Open the channels that are not open. The tasks of both ends have been made."""
        new = [channel for channel in channels if channel not in self.outputs]
        wakeups = {name: task.wakeup for name, task in self.scheduler.tasks.items()}
        for name in {channel.receiver for channel in new} - self.inputs.keys():
            self.inputs[name] = TaskInput(name, wakeups[name])
        self.outputs |= join_locally(new, (self.inputs, wakeups), self.job.shuffle, version)

    def close_channels(self) -> None:
        """Forget all channels, with the rows in them."""
        self.inputs.clear()
        self.outputs.clear()


class InProcessEngine:
    """One worker's engine. For its tasks it is the :class:`penstock.engine.task_runtime.TaskRuntime`."""

    def __init__(self, ordinal: Ordinal, context: EngineContext) -> None:
        """Begin without tasks."""
        self.tasks: dict[TaskId, ScheduledTask] = {}
        self.blobs = context.blobs
        self.snapshot_writer = context.snapshot_writer
        self.clock = context.clock
        self._context = context
        self._job = context.job
        self._core = EngineCore(ordinal, self._job.plan, lambda: [task.loop for task in self.tasks.values()])

    @property
    def status(self) -> c.EngineStatus:
        """Return what an engine would report to its leader."""
        return self._core.status()

    def close(self) -> None:
        """End the tasks. Output that they have prepared stays."""
        self._end(Stop())

    # --- Orders ---------------------------------------------------------------------------------

    def order(self, order: c.Command) -> None:
        """Carry out an order of the leader. Raises what a connector or a file raises."""
        self._do(em.OrderReceived(TERM, order, self.clock.wall_us()))

    def _do(self, event: em.Event) -> None:
        """Perform the actions of the core in order. An answer that the core waits for comes at once."""
        for action in self._core.step(event):
            match action:
                case em.EndTasks(order):
                    self._end(order)
                case em.ResetStreams():
                    self._context.close_channels()
                case em.ReadManifest(order, ref):
                    self._do(em.ManifestRead(order, read_root(self.blobs, ref, self._job.plan)))
                case em.ClaimOutput(order, root):
                    self._job.claim(fresh=action.fresh, origin=action.origin)
                    self._do(em.OutputClaimed(order, root))
                case em.MakeTasks():
                    self._make(action)
                case em.OpenStreams(_, channels, version):
                    self._context.open(channels, version)
                case _:
                    self._do_often(action)

    def _do_often(self, action: em.Action) -> None:
        """Perform an action that neither begins nor ends an attempt."""
        match action:
            case em.TellTasks(event):
                self._tell(event)
            case em.InjectBarrier(barrier):
                self.spread(barrier)
            case em.ListSplits(order):
                self._context.listed = self._job.first_splits(order.stages)
            case em.PublishFor(epoch=epoch, handles=handles):
                self._show(epoch, handles)
                self._core.published(action)
            case em.SweepStaging(attempt):
                self._job.sweep(attempt)
            case em.ClearStaging():
                self._core.cleared(action)  # the tasks have forgotten what they had staged
            case em.WatchInputs():
                pass  # nobody looks at the inputs again
            case _:
                raise AssertionError(f"only a rescale of a running job needs {action}")

    def _make(self, order: em.MakeTasks) -> None:
        scheduler = self._context.scheduler
        for name in order.tasks:
            parts = self._job.parts(name, order, self._core.attempt)
            wakeup = CooperativeWakeup(scheduler.run_others)
            self.tasks[name] = ScheduledTask(TaskLoop(parts, self, wakeup, InlineCalls()), parts, wakeup)
        scheduler.add(self.tasks)
        for name in order.tasks:
            self.tasks[name].loop.begin()

    def _end(self, order: ev.ResetTo | Stop) -> None:
        for task in self.tasks.values():
            task.loop.inbox.put(order)
            task.loop.end()
        self._context.scheduler.remove(self.tasks)
        self.tasks.clear()

    def _tell(self, event: ev.Event) -> None:
        for task in self.tasks.values():
            task.loop.inbox.put(event)

    # --- For tasks ------------------------------------------------------------------------------

    def work_clock(self) -> float:
        """Return the seconds by which work is measured."""
        return self._context.work_clock()

    def input(self, task: TaskId) -> TaskInput:
        """Return the input of a task."""
        return self._context.inputs[task]

    def output(self, channel: ChannelId) -> Output:
        """Return an output channel; KeyError when it is not open."""
        return self._context.outputs[channel]

    def preload(self, files: tuple[StateFile, ...], done: Callable[[], None], wanted: Callable[[], bool]) -> None:
        """Call ``done`` between two passes of tasks: the files need no reading in advance."""
        self._context.scheduler.deferred.append(done)

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Do the work between two passes of tasks."""
        self._context.scheduler.deferred.append(work)

    def spread(self, barrier: Barrier) -> None:
        """Give a barrier to the source tasks of this worker."""
        for task in self.tasks.values():
            if task.is_source:
                task.loop.inbox.put(ev.Injected(barrier))

    def ack(self, term: Term, epoch: Epoch, manifest: TaskManifest) -> None:
        """Keep the manifest of one task until the checkpoint is committed."""
        self._context.manifests[manifest.task] = manifest

    def epoch_failed(self, task: TaskId, term: Term, epoch: Epoch, reason: str) -> None:
        """Raise StorageError. In a cluster the leader would abort this epoch and start another one."""
        raise StorageError(f"checkpoint {epoch}: task {task}: {reason}")

    def publish(self, epoch: Epoch, handles: tuple[SinkHandle, ...], done: Callable[[], None]) -> None:
        """Make output visible between two passes of tasks, then call ``done``."""

        def publish() -> None:
            self._show(epoch, handles)
            done()

        self._context.scheduler.deferred.append(publish)

    def _show(self, epoch: Epoch, handles: tuple[SinkHandle, ...]) -> None:
        publishers = self._job.publishers
        for those in publications(publishers, handles):
            publish_these(publishers[those[0].sink], those, epoch)

    def clear(self, handles: tuple[SinkHandle, ...], *, discard: bool) -> None:
        """Remove staged files: of visible output, or with ``discard`` of output never to be committed."""
        for handle in handles:
            publisher = self._job.publishers[handle.sink]
            (publisher.discard if discard else publisher.forget)(handle)

    def changed(self) -> None:
        """Do nothing: :attr:`status` is computed when it is needed."""

    def broken(self, task: TaskId, error: BaseException) -> None:
        """Raise the error of a task in the caller's thread."""
        raise error
