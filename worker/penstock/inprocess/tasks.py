"""Runs the tasks of a job in one thread: starts them, takes checkpoints, restarts and ends them.

::

    start ──> settle ──> checkpoint ──> settle ──> ... ──> finish ──> close
      ^                                   |
      +──────────── restart <─────────────+   from the newest checkpoint, as after a death

This module replaces the worker and the leader of a cluster. The tasks, their channels, state,
snapshots and sinks are the classes of the engine.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from penstock.base.errors import ConfigError, StorageError
from penstock.base.limits import HELD_BYTES_MAX
from penstock.base.suggest import unknown
from penstock.base.threads import sleep, uuid4
from penstock.contract.codec import encode
from penstock.contract.control_messages import StageSplits
from penstock.contract.ids import (
    NO_EPOCH,
    ROOT_SUFFIX,
    Attempt,
    ChannelId,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    TaskId,
    Term,
)
from penstock.contract.manifest import (
    BlobRef,
    RootManifest,
    SinkHandle,
    StateFile,
    TaskManifest,
)
from penstock.contract.plan import Assignment, channels_of
from penstock.engine.build import JobParts
from penstock.engine.checkpoint_reader import read_root
from penstock.engine.snapshot_writer import SnapshotWriter
from penstock.engine.task_thread import POLL_S, TaskLoop
from penstock.graph.compiled import CompiledJob
from penstock.inprocess.scheduler import (
    CooperativeWakeup,
    DeferredExecutor,
    ScheduledTask,
    TaskScheduler,
)
from penstock.model.elements import Barrier, BarrierKind
from penstock.ports import BlobStore, Clock
from penstock.protocol.leader.attempt_assignment import (
    deal_anew,
    deals_all,
    stages_to_list,
    table_of,
)
from penstock.protocol.task import task_events as ev
from penstock.protocol.task.task_core import TaskCore
from penstock.protocol.task.task_state import TaskSetup
from penstock.steps.base import KeepingStep
from penstock.storage.memory import MemoryBlobStore
from penstock.transport.exchange import Identity
from penstock.transport.input import TaskInput
from penstock.transport.local import join_locally
from penstock.transport.output import LocalOutput, Output

TERM = Term(1)
COUNTED = ("rows_in", "rows_out", "late", "late_after_idle", "without_time", "dead_letters")
Counts = Counter[tuple[str, str]]


class Stored(NamedTuple):
    """A checkpoint: the job's id, the files, the root manifest, and the counts up to its epoch."""

    uid: JobUid
    blobs: MemoryBlobStore
    root: BlobRef
    epoch: Epoch
    counts: Counts


class InProcessTasks:
    """All tasks of one job. For them it is the :class:`penstock.engine.task_runtime.TaskRuntime`."""

    def __init__(self, job: CompiledJob, workers: int, clock: Clock, stored: Stored | None = None) -> None:
        """Prepare the job, from the checkpoint ``stored`` if it is given. :meth:`start` builds the tasks.

        Raises ConfigError when a connector cannot be opened.
        """
        self.clock = clock
        self._files = MemoryBlobStore() if stored is None else stored.blobs.copy()
        self.blobs: BlobStore = self._files
        self.restarts = 0
        self._plan = job.plan
        self._workers = workers
        uid = JobUid(str(uuid4())) if stored is None else stored.uid
        life = Incarnation(str(uuid4()))
        self._scratch = tempfile.TemporaryDirectory(prefix="penstock-")
        try:
            self.job = JobParts(job, Identity(uid, Ordinal(0), life), Path(self._scratch.name))
        except BaseException:
            self._scratch.cleanup()
            raise
        self._scheduler = TaskScheduler()
        self.snapshot_writer = SnapshotWriter(self.blobs, life, DeferredExecutor(self._scheduler.deferred))
        self._stored = stored
        self._before: Counts = Counter()  # the counts at the start of this attempt
        self._epoch = NO_EPOCH if stored is None else stored.epoch
        self._attempt = Attempt(0)
        self._tasks: dict[TaskId, ScheduledTask] = {}
        self._inputs: dict[TaskId, TaskInput] = {}
        self._outputs: dict[ChannelId, LocalOutput] = {}
        self._acks: dict[TaskId, TaskManifest] = {}
        self._root: RootManifest | None = None
        self._table: Assignment | None = None

    # --- Start, work and end --------------------------------------------------------------------

    def start(self) -> None:
        """Build the tasks from the newest checkpoint, publish its output, and start them."""
        self._attempt = Attempt(self._attempt + 1)
        ref = None if self._stored is None else self._stored.root
        self._before = Counter() if self._stored is None else self._stored.counts
        root = self._root = None if ref is None else read_root(self.blobs, ref, self._plan)
        self.job.claim(fresh=root is None)
        listed = self.job.first_splits(stages_to_list(root, self._plan))
        table = self._table = self._deal(root, listed)
        for name in table.tasks():
            self._tasks[name] = self._make(name, table, root, listed)
        self._scheduler.schedule(self._tasks.values())
        wakeups = {name: task.wakeup for name, task in self._tasks.items()}
        self._inputs = {name: TaskInput(name, wakeup) for name, wakeup in wakeups.items()}
        channels = channels_of(self._plan, table)
        ends = (self._inputs, wakeups)
        self._outputs = join_locally(channels, ends, self.job.shuffle, table.version)
        for task in self._tasks.values():
            task.loop.begin()
        self._scheduler.settle()
        assert all(s.loop.marks.ready for s in self._tasks.values()), "state is fetched at once"
        if root is not None:
            for manifest in root.tasks:
                self._show(root.epoch, manifest.handles)
        self.job.sweep(self._attempt)
        self._tell(ev.Started())

    def _deal(self, root: RootManifest | None, listed: tuple[StageSplits, ...]) -> Assignment:
        table = None if root is None else table_of(root, self._plan)
        fits = table is not None and table.workers == self._workers
        if table is not None and fits and deals_all(table, root, self._plan, listed):
            return table
        return deal_anew(root, self._plan, self._workers, listed)

    def _make(
        self,
        task: TaskId,
        table: Assignment,
        root: RootManifest | None,
        listed: tuple[StageSplits, ...],
    ) -> ScheduledTask:
        idle_after_s, disorder_us = self.job.event_time(task.stage)
        first = tuple(s for group in listed if group.stage == task.stage for s in group.splits)
        setup = TaskSetup(self._plan, task, table, HELD_BYTES_MAX, idle_after_s, disorder_us, first)
        parts = self.job.parts(TaskCore(setup, root), self._attempt, fresh=root is None)
        wakeup = CooperativeWakeup(self._scheduler.run_others)
        return ScheduledTask(TaskLoop(parts, self, wakeup), parts, wakeup)

    def restart(self) -> None:
        """Drop the tasks with all work after the newest checkpoint, and start from that checkpoint."""
        self.restarts += 1
        self._drop()
        self.start()

    def work(self) -> bool:
        """Run one piece of work. Return False if there was none; the next call asks the sources again."""
        if self._scheduler.run_one():
            return True
        if not all(task.loop.room() for task in self._tasks.values()):
            sleep(POLL_S)  # a sink is full until its own thread has written rows to disk
            return True
        self._scheduler.ask_sources()
        return False

    def settle(self) -> None:
        """Read and process all rows that the sources have now."""
        while self.work():
            pass

    def rest(self) -> None:
        """Sleep until a source may have rows. Some sources follow the clock of the machine."""
        sources = [s.parts.source for s in self._tasks.values() if s.parts.source is not None]
        sleep(min((source.rest_s() for source in sources), default=0.0))

    @property
    def exhausted(self) -> bool:
        """Return whether every source has been read to its end."""
        return all(task.loop.core.exhausted for task in self._tasks.values())

    def checkpoint(self, kind: BarrierKind = BarrierKind.CHECKPOINT) -> Stored:
        """Take a checkpoint, commit it and publish its output. It has exactly the rows read before.

        Raises StorageError when a task cannot store its part or a sink cannot publish.
        """
        assert self._table is not None, "started before"
        epoch = self._epoch = Epoch(self._epoch + 1)
        committed = NO_EPOCH if self._root is None else self._root.epoch
        version = self._table.version
        barrier = Barrier(TERM, epoch, version, kind, committed, self.clock.wall_us())
        self._acks.clear()
        self._tell(ev.Hurried(epoch))
        self.spread(barrier)
        self._scheduler.settle()
        manifests = tuple(self._acks[task] for task in self._table.tasks())
        stored = self._commit(epoch, kind, manifests)
        self._tell(ev.EpochCommitted(epoch, version))
        self._scheduler.settle()
        return stored

    def _commit(self, epoch: Epoch, kind: BarrierKind, manifests: tuple[TaskManifest, ...]) -> Stored:
        assert self._table is not None, "started before"
        plan, uid = self._plan, self.job.identity.job_uid
        root = self._root = RootManifest(
            uid,
            epoch,
            TERM,
            self._attempt,
            kind.name,
            plan.max_key_groups,
            plan.fingerprint,
            self._table,
            manifests,
            plan.states,
            plan.steps,
        )
        name = self.snapshot_writer.name(TERM, epoch, ROOT_SUFFIX)
        ref = self.blobs.put(name, encode(root))
        self._files.keep_only({name, *(f.blob.name for m in manifests for f in m.files)})
        self._stored = Stored(uid, self._files, ref, epoch, self.counts())
        return self._stored

    def finish(self) -> None:
        """Take the final checkpoint and end all streams. Every source must be :attr:`exhausted`."""
        self.checkpoint(BarrierKind.FINAL)
        self._tell(ev.EndAll())
        self._scheduler.settle()
        assert all(s.loop.marks.finished for s in self._tasks.values()), "all streams end"

    def close(self) -> None:
        """Release everything but the counts; idempotent."""
        self._before = self.counts()
        self._drop()
        self.job.close()
        self._scratch.cleanup()

    def _drop(self) -> None:
        for task in self._tasks.values():
            task.loop.end()
        self._tasks.clear()
        self._scheduler.schedule(())
        self._scheduler.deferred.clear()

    def _tell(self, event: ev.Event) -> None:
        for task in self._tasks.values():
            task.loop.inbox.put(event)

    # --- Results --------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """Return the counts of the steps since the job began, by (step, name of the count).

        Work that a restart has undone is not counted.
        """
        counts = Counter(self._before)
        for task in self._tasks.values():
            for key, number in task.loop.counters().items():
                if key[1] in COUNTED:
                    counts[key] += number
        return counts

    def rows_taken(self) -> int:
        """Return how many rows the sinks have taken since the newest start."""
        return sum(sink.rows for task in self._tasks.values() for sink in task.parts.sinks.values())

    def state(self, step: str) -> tuple[pa.RecordBatch, ...]:
        """Return the keys and values that each task keeps for ``step``.

        Raises ConfigError for a step without state, StateError when rows of the state are on disk.
        """
        found = [
            (each, task.parts.state)
            for task in self._tasks.values()
            for each in task.parts.chain.steps
            if isinstance(each, KeepingStep) and task.parts.state is not None
        ]
        if step not in {each.name for each, _ in found}:
            raise ConfigError(unknown("step with state", step, {each.name for each, _ in found}))
        return tuple(each.contents(state.live_rows(step)) for each, state in found if each.name == step)

    # --- For tasks ------------------------------------------------------------------------------

    def input(self, task: TaskId) -> TaskInput:
        """Return the input of a task."""
        return self._inputs[task]

    def output(self, channel: ChannelId) -> Output:
        """Return an output channel."""
        return self._outputs[channel]

    def preload(self, files: tuple[StateFile, ...], done: Callable[[], None]) -> None:
        """Call ``done`` between two turns: the files need no reading in advance."""
        self._scheduler.deferred.append(done)

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Do the work between two turns of tasks."""
        self._scheduler.deferred.append(work)

    def spread(self, barrier: Barrier) -> None:
        """Give a barrier to the source tasks."""
        for task in self._tasks.values():
            if task.is_source:
                task.loop.inbox.put(ev.Injected(barrier))

    def ack(self, term: Term, epoch: Epoch, manifest: TaskManifest) -> None:
        """Keep the manifest of one task until the checkpoint is committed."""
        self._acks[manifest.task] = manifest

    def epoch_failed(self, task: TaskId, term: Term, epoch: Epoch, reason: str) -> None:
        """Raise StorageError. In an engine the leader would abort this epoch and start another one."""
        raise StorageError(f"checkpoint {epoch}: task {task}: {reason}")

    def publish(self, epoch: Epoch, handles: tuple[SinkHandle, ...], done: Callable[[], None]) -> None:
        """Make output visible between two turns of tasks, then call ``done``."""

        def publish() -> None:
            self._show(epoch, handles)
            done()

        self._scheduler.deferred.append(publish)

    def _show(self, epoch: Epoch, handles: tuple[SinkHandle, ...]) -> None:
        for handle in handles:
            self.job.publishers[handle.sink].publish(handle, epoch)

    def clear(self, handles: tuple[SinkHandle, ...], *, discard: bool) -> None:
        """Remove staged files: of visible output, or with ``discard`` of output never to be committed."""
        for handle in handles:
            publisher = self.job.publishers[handle.sink]
            (publisher.discard if discard else publisher.forget)(handle)

    def changed(self) -> None:
        """Do nothing. In an engine this reports a changed status; here the caller reads it when needed."""

    def broken(self, task: TaskId, error: BaseException) -> None:
        """Raise the error of a task in the caller's thread."""
        raise error
