"""One task's protocol: events in, actions out; rows are opaque and state lives in the shell.

    BUILDING --Loaded--> READY --Started--> RUNNING --EOS on all inputs, or EndAll--> ENDED
    RUNNING  --barrier E of kind rescale--> FROZEN --Loaded(version + 1)--> RUNNING
    FROZEN   --abort--> RUNNING             FROZEN (leaving) --Settled--> ENDED
    JOINING  --Loaded(version)--> RUNNING

Composed of small machines: :mod:`align` (barriers), :mod:`watermark` (time), :mod:`holding`
(rows that move), :mod:`ledger` (epochs), :mod:`sinks` (prepared output), :mod:`source` (splits).
The rescale's half of the class is :mod:`switch`. While FROZEN rows of staying groups flow, but
no time passes: no watermark, no idle mark, no timer of a moving group.

The shell takes input only where ``reads`` and ``reads_split`` say so, performs actions in their
order, and gives what the steps emit back as Produced before it takes the next input.
"""

from collections.abc import Callable
from typing import Any

from penstock.contract.ids import NO_EPOCH, ChannelId, Epoch, SplitId
from penstock.contract.manifest import RootManifest, TaskManifest
from penstock.model.elements import (
    Active,
    Barrier,
    Data,
    EndOfStream,
    Idle,
    LatencyMarker,
    Watermark,
)
from penstock.model.elements import BarrierKind as Kind
from penstock.protocol.task import task_events as ev
from penstock.protocol.task.snapshot_ledger import SnapshotInProgress
from penstock.protocol.task.task_rescale import TaskRescale
from penstock.protocol.task.task_state import TaskLifecycle, TaskSetup

__all__ = ["TaskCore", "TaskLifecycle", "TaskSetup"]

Handler = Callable[["TaskCore", Any, float], list[ev.Action]]


class TaskCore(TaskRescale):
    """The protocol of one task in one attempt. Deep-copyable; a reset makes a new one."""

    __slots__ = ()

    def __init__(self, setup: TaskSetup, root: RootManifest | None = None) -> None:
        """Build a task as ``root`` left it (None: from nothing, or one that joins)."""
        super().__init__(setup, root)

    def step(self, event: ev.Event, now: float) -> list[ev.Action]:
        """Take one event at ``now`` (monotonic seconds); return what is to be done, in order."""
        return _HANDLERS[type(event)](self, event, now)

    def reads(self, channel: ChannelId) -> bool:
        """Say whether the next element of an input channel may be taken."""
        if self.retired and channel in self.retired:
            return True
        return self.takes_input and self.aligner.reads(channel)

    def joins(self, channel: ChannelId) -> bool:
        """Say whether rows of a channel may be taken as another's: not if they end its idleness."""
        return not self.time.is_idle(channel)

    def reads_split(self, split: SplitId) -> bool:
        """Say whether rows of a split may be read."""
        return self.takes_input and self.splits is not None and self.splits.reads(split)

    @property
    def takes_input(self) -> bool:
        """Say whether any input may be taken: not while a cut waits or held rows are full."""
        alive = self.life is TaskLifecycle.RUNNING or self.life is TaskLifecycle.FROZEN
        return alive and self.waiting is None and not self.buffer.full

    @property
    def exhausted(self) -> bool:
        """Say whether a source task has read all its splits; true for every other task."""
        return self.splits is None or self.splits.exhausted

    def wakes_at(self) -> float | None:
        """Return when the core wants to be asked again though nothing happened."""
        return None if self.splits is None else self.splits.wakes_at()

    # --- Life ---------------------------------------------------------------------------------

    def _build(self, _: ev.Build, __: float) -> list[ev.Action]:
        return self.build()

    def _started(self, _: ev.Started, __: float) -> list[ev.Action]:
        if self.life is not TaskLifecycle.READY:
            return []
        self.life = TaskLifecycle.RUNNING
        return self.advance() + self.say()

    def _reset(self, event: ev.ResetTo, _: float) -> list[ev.Action]:
        self.life = TaskLifecycle.ENDED
        handles = self.sinks.discard(event.epoch)
        return [ev.Discard(handles)] if handles else []

    def _end_all(self, _: ev.EndAll, __: float) -> list[ev.Action]:
        actions = self.forget_published()
        if self.splits is None or self.life is TaskLifecycle.ENDED:
            return actions
        return actions + self.end()

    # --- Input --------------------------------------------------------------------------------

    def _arrived(self, event: ev.ElementReceived, now: float) -> list[ev.Action]:
        element = event.element
        if type(element) is Data:
            actions = self._active(event.channel)
            actions.append(ev.ProcessRows(event.channel, element))
            return actions
        if event.channel in self.retired:
            return self.retire(event.channel, element)
        match element:
            case Watermark(time_us):
                self.time.say(event.channel, time_us)
                return self.activate() + self.advance()
            case Barrier():
                return self._barrier(event.channel, element)
            case Idle():
                self.time.idle(event.channel)
                return self.advance() + (self.say() if self.time.all_idle else [])
            case Active():
                return self._active(event.channel)
            case EndOfStream():
                return self._ended(event.channel)
            case LatencyMarker():
                return [ev.SendMark(event.channel, element)]
        raise AssertionError(f"no such element: {element}")

    def _active(self, channel: ChannelId) -> list[ev.Action]:
        if self.time.any_idle and self.time.active(channel):
            return self.activate()
        return []

    def _ended(self, channel: ChannelId) -> list[ev.Action]:
        self.time.end(channel)
        cut = self.aligner.end(channel)
        actions = self.advance()
        if cut is not None:
            actions += self._cut(cut)
        return actions + self.end() if self.aligner.all_ended else actions

    def _quiet(self, _: ev.InputIdle, __: float) -> list[ev.Action]:
        return self.say()

    def _rows(self, event: ev.RowsRead, _: float) -> list[ev.Action]:
        assert self.splits is not None, "only a source task reads splits"
        self.splits.rows(event.split, event.data.max_ts)
        actions = self.activate()
        actions.append(ev.ProcessRows(event.split, event.data))
        return actions + self.advance()

    def _empty(self, event: ev.SplitEmpty, now: float) -> list[ev.Action]:
        assert self.splits is not None, "only a source task reads splits"
        self.splits.empty(event.split, now)
        return self.advance() + (self.say() if self.time.all_idle else [])

    def _split_ended(self, event: ev.SplitEnded, _: float) -> list[ev.Action]:
        assert self.splits is not None, "only a source task reads splits"
        self.splits.ended(event.split)
        return self.advance() + (self.say() if self.splits.exhausted else [])

    def _waited(self, _: ev.ReadBlocked, __: float) -> list[ev.Action]:
        if self.splits is not None:
            self.splits.waited()
        return []

    def _timer(self, event: ev.TimerDue, _: float) -> list[ev.Action]:
        return [] if event.group in self.moving else [ev.Fire(event.group)]

    # --- Output -------------------------------------------------------------------------------

    def _produced(self, event: ev.Produced, _: float) -> list[ev.Action]:
        return list(self.buffer.offer(event.pieces))

    def _paced(self, event: ev.Paced, _: float) -> list[ev.Action]:
        self.buffer.bound(event.windows)
        return []

    # --- Checkpoints --------------------------------------------------------------------------

    def _barrier(self, channel: ChannelId, barrier: Barrier) -> list[ev.Action]:
        """Align. Sources beside this task may begin at once: the leader's word takes longer."""
        actions: list[ev.Action] = (
            [ev.RelayBarrier(barrier)] if self.aligner.begins(barrier) else []
        )
        cut = self.aligner.barrier(channel, barrier)
        return actions + self._cut(cut) if cut else actions

    def _injected(self, event: ev.Injected, _: float) -> list[ev.Action]:
        if self.splits is None or self.life not in {TaskLifecycle.RUNNING, TaskLifecycle.FROZEN}:
            return []
        cut = self.aligner.barrier(None, event.barrier)
        return self._cut(cut) if cut else []

    def _cut(self, barrier: Barrier) -> list[ev.Action]:
        """Snapshot, then the barrier on all outputs, before anything else is read."""
        if self.snapshots.busy:
            self.waiting = barrier
            return [ev.ExpediteSnapshot()]
        rescale = barrier.kind is Kind.RESCALE
        if rescale and (self.proposed is None or self.proposed.version != barrier.version):
            self.aligner.late += 1  # cancelled while its barrier was under way
            return []
        actions = self.before_cut(barrier)
        actions += self.say()  # pending watermarks go before the barrier
        since = self.snapshots.cut(SnapshotInProgress(barrier, self.time.task_us, self.exhausted))
        actions.append(ev.Snapshot(barrier, since, self.time.task_us))
        if barrier.kind is not Kind.CHECKPOINT or barrier.epoch <= self.hurried:
            actions.append(ev.ExpediteSnapshot())
        actions += [ev.Send(channel, barrier) for channel in self.outputs]
        if rescale:
            self.freeze(barrier)
        return actions

    def _stored(self, event: ev.SnapshotStored, now: float) -> list[ev.Action]:
        self.sinks.prepare(event.parts.handles)
        cut = self.snapshots.close(event.term, event.epoch)
        actions: list[ev.Action] = []
        if cut is not None:
            manifest = self._manifest(cut, event.parts)
            actions.append(ev.Ack(event.term, event.epoch, manifest))
        return actions + self._cut_waiting()

    def _manifest(self, cut: SnapshotInProgress, parts: ev.SnapshotParts) -> TaskManifest:
        return TaskManifest(
            self.task,
            parts.files,
            parts.splits,
            self.sinks.manifest(cut.barrier.epoch),
            cut.watermark_us,
            parts.lists,
            cut.exhausted,
        )

    def _store_failed(self, event: ev.StoreFailed, now: float) -> list[ev.Action]:
        self.sinks.prepare(event.handles)
        cut = self.snapshots.close(event.term, event.epoch)
        failed: list[ev.Action] = []
        if cut is not None:
            failed.append(ev.Failed(event.term, event.epoch, event.reason))
        return failed + self._cut_waiting()

    def _cut_waiting(self) -> list[ev.Action]:
        barrier, self.waiting = self.waiting, None
        return self._cut(barrier) if barrier else []

    def _hurry(self, event: ev.Hurried, _: float) -> list[ev.Action]:
        """Hurry what is being stored; of an older epoch it would delay the next one."""
        self.hurried = max(self.hurried, event.epoch)
        return [ev.ExpediteSnapshot()] if self.snapshots.busy else []

    def _committed(self, event: ev.EpochCommitted, _: float) -> list[ev.Action]:
        return self.commit(event.epoch, event.version)

    def _aborted(self, event: ev.Aborted, _: float) -> list[ev.Action]:
        return self.give_up(event.term, event.epoch)

    def _announced(self, event: ev.TermAnnounced, _: float) -> list[ev.Action]:
        self.hurried = NO_EPOCH  # numbers recur
        actions = self.commit(event.epoch, event.version)  # goes forward if it was a rescale
        return actions + self.give_up(event.term, Epoch(0))

    def _published(self, event: ev.Published, _: float) -> list[ev.Action]:
        self.sinks.done(event.epoch)
        return []


_HANDLERS: dict[type, Handler] = {
    ev.Build: TaskCore._build,
    ev.Loaded: TaskCore.loaded,
    ev.Started: TaskCore._started,
    ev.ResetTo: TaskCore._reset,
    ev.EndAll: TaskCore._end_all,
    ev.ElementReceived: TaskCore._arrived,
    ev.InputIdle: TaskCore._quiet,
    ev.RowsRead: TaskCore._rows,
    ev.SplitEmpty: TaskCore._empty,
    ev.SplitEnded: TaskCore._split_ended,
    ev.ReadBlocked: TaskCore._waited,
    ev.Injected: TaskCore._injected,
    ev.TimerDue: TaskCore._timer,
    ev.Produced: TaskCore._produced,
    ev.PeerVersion: TaskCore.peer_version,
    ev.Paced: TaskCore._paced,
    ev.SnapshotStored: TaskCore._stored,
    ev.StoreFailed: TaskCore._store_failed,
    ev.Hurried: TaskCore._hurry,
    ev.EpochCommitted: TaskCore._committed,
    ev.Aborted: TaskCore._aborted,
    ev.TermAnnounced: TaskCore._announced,
    ev.Published: TaskCore._published,
    ev.Proposed: TaskCore.propose,
    ev.Preloaded: TaskCore.preloaded,
    ev.Cancelled: TaskCore.cancel,
    ev.RescaleCommitted: TaskCore.adopt,
    ev.RescaleSettled: TaskCore.settle,
}
