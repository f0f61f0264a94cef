"""Runs the tasks of a job in one thread: starts them, takes checkpoints, restarts and ends them.

::

    start ──> settle ──> checkpoint ──> settle ──> ... ──> finish ──> close
      ^                                   |
      +──────────── restart <─────────────+   from the newest checkpoint, as after a death

This module replaces the leader of a cluster. It gives its orders to one engine for each worker
(:mod:`penstock.inprocess.inprocess_engine`). The core of an engine, the tasks, their channels, state, snapshots
and sinks are the classes of a cluster.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.threads import sleep, uuid4
from penstock.contract import control_messages as c
from penstock.contract.codec import encode
from penstock.contract.ids import (
    NO_EPOCH,
    ROOT_SUFFIX,
    Attempt,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
)
from penstock.contract.manifest import BlobRef, RootManifest, TaskManifest
from penstock.contract.plan import Assignment
from penstock.engine.build import JobParts
from penstock.engine.checkpoint_files import SnapshotWriter, read_root
from penstock.engine.task_thread import POLL_S
from penstock.graph.compiled import CompiledJob
from penstock.inprocess.inprocess_engine import TERM, EngineContext, InProcessEngine
from penstock.inprocess.scheduler import DeferredExecutor, TaskScheduler
from penstock.model.elements import BarrierKind
from penstock.ports import Clock
from penstock.protocol.leader.attempt_assignment import (
    deal_anew,
    deals_all,
    stages_to_list,
    table_of,
)
from penstock.steps.base import KeepingStep
from penstock.storage.memory import MemoryBlobStore
from penstock.transport.exchange import Identity

COUNTED = ("rows_in", "rows_out", "late", "late_after_idle", "without_time", "dead_letters", "shed")
Counts = Counter[tuple[str, str]]


class Stored(NamedTuple):
    """A checkpoint: the job's id, the files, the root manifest, and the counts up to its epoch."""

    uid: JobUid
    blobs: MemoryBlobStore
    root: BlobRef
    epoch: Epoch
    counts: Counts


class InProcessTasks:
    """All tasks of one job, and the leader that they would have in a cluster."""

    def __init__(
        self,
        job: CompiledJob,
        workers: int,
        clock: Clock,
        work_clock: Callable[[], float],
        stored: Stored | None = None,
    ) -> None:
        """Prepare the job, from the checkpoint ``stored`` if it is given. :meth:`start` builds the tasks.

        How many rows a task takes at once follows how long its work takes, by ``work_clock`` (seconds).
        Raises ConfigError when a connector cannot be opened.
        """
        self.clock = clock
        self.restarts = 0
        self._files = MemoryBlobStore() if stored is None else stored.blobs.copy()
        self._plan = job.plan
        self._workers = workers
        uid = JobUid(str(uuid4())) if stored is None else stored.uid
        life = Incarnation(str(uuid4()))
        self._scratch = tempfile.TemporaryDirectory(prefix="penstock-")
        try:
            self._job = JobParts(job, Identity(uid, Ordinal(0), life), Path(self._scratch.name))
        except BaseException:
            self._scratch.cleanup()
            raise
        scheduler = self._scheduler = TaskScheduler()
        self._writer = SnapshotWriter(self._files, life, DeferredExecutor(scheduler.deferred))
        self._context = EngineContext(self._job, self._files, self._writer, clock, work_clock, scheduler)
        self._engines = [InProcessEngine(Ordinal(i), self._context) for i in range(workers)]
        self._stored = stored
        self._before: Counts = Counter()  # the counts at the start of this attempt
        self._epoch = NO_EPOCH if stored is None else stored.epoch
        self._committed = NO_EPOCH
        self._attempt = Attempt(0)
        self._table: Assignment | None = None

    # --- Start, work and end --------------------------------------------------------------------

    def start(self) -> None:
        """Build the tasks from the newest checkpoint, publish its output, and start them."""
        attempt = self._attempt = Attempt(self._attempt + 1)
        ref = None if self._stored is None else self._stored.root
        self._before = Counter() if self._stored is None else self._stored.counts
        root = None if ref is None else read_root(self._context.blobs, ref, self._plan)
        epoch = self._committed = NO_EPOCH if root is None else root.epoch
        self._engines[0].order(c.Enumerate(attempt, stages_to_list(root, self._plan)))
        listed = self._context.listed
        table = self._table = self._deal(root, listed)
        self._order(c.Reset(attempt, epoch, ref, table, (), listed))
        self._scheduler.settle()
        assert all(status.ready == attempt for status in self._statuses()), "state is fetched at once"
        if root is not None:
            handles = tuple(handle for manifest in root.tasks for handle in manifest.handles)
            self._engines[0].order(c.Publish(attempt, epoch, handles))
        self._order(c.Start(attempt))

    def _deal(self, root: RootManifest | None, listed: tuple[c.StageSplits, ...]) -> Assignment:
        table = None if root is None else table_of(root, self._plan)
        fits = table is not None and table.workers == self._workers
        if table is not None and fits and deals_all(table, root, self._plan, listed):
            return table
        return deal_anew(root, self._plan, self._workers, listed)

    def restart(self) -> None:
        """Drop the tasks with all work after the newest checkpoint, and start from that checkpoint."""
        self.restarts += 1
        self._scheduler.deferred.clear()
        self.start()

    def work(self) -> bool:
        """Run one piece of work. Return False if there was none; the next call asks the sources again."""
        if self._scheduler.run_one():
            return True
        if not all(task.loop.room() for task in self._scheduler.tasks.values()):
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
        found = [(task.parts.source, task.loop.core.reads_split) for task in self._scheduler.tasks.values()]
        rests = [source.rest_s(reads) for source, reads in found if source is not None]
        ticks = [tick for task in self._scheduler.tasks.values() if (tick := task.loop.ticks_in_s()) is not None]
        sleep(max(min((*rests, *ticks), default=0.0), 0.0))

    @property
    def exhausted(self) -> bool:
        """Return whether every source has been read to its end."""
        return all(status.exhausted for status in self._statuses())

    def checkpoint(self, kind: BarrierKind = BarrierKind.CHECKPOINT) -> Stored:
        """Take a checkpoint, commit it and publish its output. It has exactly the rows read before.

        Raises StorageError when a task cannot store its part or a sink cannot publish.
        """
        assert self._table is not None, "started before"
        attempt, version = self._attempt, self._table.version
        epoch = self._epoch = Epoch(self._epoch + 1)
        manifests = self._context.manifests
        manifests.clear()
        self._order(c.Expedite(attempt, epoch))
        self._order(c.Inject(attempt, epoch, version, kind, self._committed))
        self._scheduler.settle()
        stored = self._commit(epoch, kind, tuple(manifests[task] for task in self._table.tasks()))
        self._order(c.Commit(attempt, epoch, version))
        whole = tuple(h for task in self._table.tasks() for h in manifests[task].handles if h.whole is True)
        if whole:
            self._engines[0].order(c.PublishWhole(attempt, epoch, whole))
        self._scheduler.settle()
        assert all(status.published == epoch for status in self._statuses()), "output is visible"
        return stored

    def _commit(self, epoch: Epoch, kind: BarrierKind, manifests: tuple[TaskManifest, ...]) -> Stored:
        assert self._table is not None, "started before"
        plan, uid = self._plan, self._job.identity.job_uid
        root = RootManifest(
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
        name = self._writer.name(TERM, epoch, ROOT_SUFFIX)
        ref = self._files.put(name, encode(root))
        self._files.keep_only({name, *(f.blob.name for m in manifests for f in m.files)})
        self._committed = epoch
        self._stored = Stored(uid, self._files, ref, epoch, self.counts())
        return self._stored

    def finish(self) -> None:
        """Take the final checkpoint and end all streams. Every source must be :attr:`exhausted`."""
        self.checkpoint(BarrierKind.FINAL)
        self._order(c.EndStreams(self._attempt))
        self._scheduler.settle()
        assert all(status.ended for status in self._statuses()), "all streams end"

    def close(self) -> None:
        """Release everything but the counts; idempotent."""
        self._before = self.counts()
        for engine in self._engines:
            engine.close()
        self._scheduler.deferred.clear()
        self._job.close()
        self._scratch.cleanup()

    def _order(self, order: c.Command) -> None:
        for engine in self._engines:
            engine.order(order)

    def _statuses(self) -> list[c.EngineStatus]:
        return [engine.status for engine in self._engines]

    # --- Results --------------------------------------------------------------------------------

    def counts(self) -> Counts:
        """Return the counts of the steps since the job began, by (step, name of the count).

        Work that a restart has undone is not counted.
        """
        counts = Counter(self._before)
        for task in self._scheduler.tasks.values():
            for key, number in task.loop.counters().items():
                if key[1] in COUNTED:
                    counts[key] += number
        return counts

    def rows_taken(self) -> int:
        """Return how many rows the sinks have taken since the newest start."""
        return sum(sink.rows for task in self._scheduler.tasks.values() for sink in task.parts.sinks.values())

    def state(self, step: str) -> tuple[pa.RecordBatch, ...]:
        """Return the keys and values that each task keeps for ``step``.

        Raises ConfigError for a step without state, StateError when rows of the state are on disk.
        """
        found = [
            (each, task.parts.state)
            for task in self._scheduler.tasks.values()
            for each in task.parts.chain.steps
            if isinstance(each, KeepingStep) and task.parts.state is not None
        ]
        if step not in {each.name for each, _ in found}:
            raise ConfigError(unknown("step with state", step, {each.name for each, _ in found}))
        return tuple(each.contents(state.live_rows(step)) for each, state in found if each.name == step)
