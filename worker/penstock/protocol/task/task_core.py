"""The core of one task: events in, actions out. Rows are opaque, and the state of steps is in the shell.

The state is :class:`TaskState`, whose module has the table of the lifecycle. It holds small machines:
:mod:`input_progress` (barriers, and watermarks of inputs or of splits), :mod:`rescale_buffer` (rows
that move) and :mod:`snapshot_ledger` (epochs and prepared output). The part of a task in a rescale is
in :mod:`task_rescale`. While a task is FROZEN, rows of the groups that stay flow, but no time passes:
there is no watermark and no idle mark.

The shell takes input only where :meth:`TaskCore.reads` and :meth:`TaskCore.reads_split` allow it.
It performs the actions in their order, and gives the rows that the steps emit back as Produced
before it takes the next input.
"""

from collections.abc import Callable
from typing import Any

from penstock.contract.codec import ABSENT
from penstock.contract.ids import NO_EPOCH, ChannelId, Epoch, SplitId
from penstock.contract.manifest import RootManifest, TaskManifest
from penstock.model.elements import (
    Active,
    Barrier,
    Control,
    Data,
    EndOfStream,
    Idle,
    LatencyMarker,
    Watermark,
)
from penstock.model.elements import BarrierKind as Kind
from penstock.protocol.state_entries import fired_until
from penstock.protocol.state_matching import migrated_steps
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.snapshot_ledger import SnapshotInProgress
from penstock.protocol.task.task_rescale import TaskRescale
from penstock.protocol.task.task_state import TaskLifecycle, TaskSetup, TaskState

__all__ = ["TaskCore", "TaskLifecycle", "TaskSetup"]

Handler = Callable[["TaskCore", Any, float], list[ev.Action]]
_PROGRESS = (Watermark, Idle, Active)


class TaskCore:
    """The protocol of one task in one attempt. Deep-copyable; a reset makes a new one."""

    __slots__ = ("rescale", "state")

    def __init__(self, setup: TaskSetup, root: RootManifest | None = None) -> None:
        """Build a task as ``root`` left it (None: from nothing, or one that joins)."""
        self.state = TaskState(setup, root)
        self.rescale = TaskRescale(self.state)

    def step(self, event: ev.Event, now: float) -> list[ev.Action]:
        """Take one event at ``now`` (monotonic seconds). Return the actions, in order."""
        return _HANDLERS[type(event)](self, event, now)

    def reads(self, channel: ChannelId) -> bool:
        """Return whether the next element of an input channel may be taken."""
        state = self.state
        if state.retired and channel in state.retired:
            return True
        return self.takes_input and state.aligner.reads(channel)

    def joins(self, channel: ChannelId) -> bool:
        """Return whether rows of a channel may join those of another: not when they end idleness."""
        return not self.state.time.is_idle(channel)

    def reads_split(self, split: SplitId) -> bool:
        """Return whether rows of a split may be read."""
        return self.takes_input and self.state.splits is not None and self.state.splits.reads(split)

    @property
    def takes_input(self) -> bool:
        """Return whether any input may be taken: not while a barrier waits or the buffer is full."""
        state = self.state
        alive = state.life is TaskLifecycle.RUNNING or state.life is TaskLifecycle.FROZEN
        return alive and state.waiting is None and not state.buffer.full

    @property
    def fires(self) -> bool:
        """Return whether the steps may fire their next slice: not when the buffer for held rows is full."""
        return self.state.is_firing and not self.state.buffer.full

    @property
    def follows_clock(self) -> bool:
        """Return whether the steps may fire by the clock: not in a rescale, nor when rows or a barrier wait.

        In a rescale the next owner of a key group has its timers already, and would fire them again.
        """
        return self.state.life is TaskLifecycle.RUNNING and self.takes_input

    @property
    def takes_answers(self) -> bool:
        """Return whether rows may leave that wait for answers: not in a rescale.

        In a rescale the next owner of a key group asks for its rows already.
        """
        return self.state.life is TaskLifecycle.RUNNING and not self.state.buffer.full

    @property
    def exhausted(self) -> bool:
        """Return whether a source task has read all its splits. True for every other task."""
        return self.state.splits is None or self.state.splits.exhausted

    def wakes_at(self) -> float | None:
        """Return when the core has to be stepped again even without an event, None if never."""
        return None if self.state.splits is None else self.state.splits.wakes_at()

    # --- Life ---------------------------------------------------------------------------------

    def _build(self, _: ev.Build, __: float) -> list[ev.Action]:
        """Ask for the task's state. A task that joins only pre-loads its files."""
        state = self.state
        share = state.assignment.share_of(state.task)
        files = state.entries(state.root, share, copies=True) if state.root else ()
        if state.life is TaskLifecycle.JOINING:
            return [ev.Preload(state.assignment.version, files)]
        assert state.life is TaskLifecycle.BUILDING, "a task is built once"
        splits = state.stored_splits(state.root, state.assignment.splits_of(state.task))
        fired = fired_until(state.root, state.setup.plan, state.task, share) if state.root else ()
        version, mark = state.assignment.version, state.time.task_us
        migrated = migrated_steps(state.root, state.setup.plan) if state.root else ()
        state.loading = ev.LoadState(version, share, files, splits, mark, fired, migrated)
        return [state.loading]

    def _loaded(self, event: ev.Loaded, _: float) -> list[ev.Action]:
        """The state is loaded: wait for Started, or go on under the new version."""
        state = self.state
        load, state.loading = state.loading, None
        if load is None or load.version != event.version:
            return []
        if state.life is not TaskLifecycle.BUILDING:
            return self.rescale.resume(load)
        state.fired.gain((), load.fired)
        if state.splits is not None:
            state.splits.load(load.splits, ())
        state.enter(TaskLifecycle.READY)
        return [ev.ReportReady()]

    def _started(self, _: ev.Started, __: float) -> list[ev.Action]:
        state = self.state
        if state.life is not TaskLifecycle.READY:
            return []
        state.enter(TaskLifecycle.RUNNING)
        return state.advance_and_send()

    def _reset(self, event: ev.ResetTo, _: float) -> list[ev.Action]:
        self.state.enter(TaskLifecycle.ENDED)
        handles = self.state.sinks.discard(event.epoch)
        return [ev.Discard(handles)] if handles else []

    def _end_all(self, _: ev.EndAll, __: float) -> list[ev.Action]:
        actions = self.state.forget_published()
        if self.state.splits is None or self.state.life is TaskLifecycle.ENDED:
            return actions
        return actions + self._end()

    def _end(self) -> list[ev.Action]:
        """Send the last watermark and end every output. The task is over."""
        state = self.state
        actions: list[ev.Action] = []
        if state.said_us is not None:
            actions += state.marks.watermark(state.outputs, state.said_us)
        actions += [ev.Send(channel, EndOfStream()) for channel in state.outputs]
        state.enter(TaskLifecycle.ENDED)
        actions.append(ev.ReportFinished())
        return actions

    # --- Input --------------------------------------------------------------------------------

    def _arrived(self, event: ev.ElementReceived, now: float) -> list[ev.Action]:
        state = self.state
        element = event.element
        if state.retired and event.channel in state.retired:
            return self.rescale.retire(event.channel, element)
        if type(element) in _PROGRESS and state.is_aside(event.channel):
            return self._aside(event.channel, element)
        if type(element) is Data:
            actions = self._active(event.channel)
            actions.append(ev.ProcessRows(event.channel, element))
            return actions
        match element:
            case Watermark(time_us):
                state.time.note(event.channel, time_us)
                return state.activate() + state.advance()
            case Barrier():
                return self._barrier(event.channel, element)
            case Idle():
                state.time.idle(event.channel)
                return state.advance_and_send() if state.time.all_idle else state.advance()
            case Active():
                return self._active(event.channel)
            case EndOfStream():
                return self._ended(event.channel)
            case LatencyMarker():
                return [ev.SendMark(event.channel, element)]
        raise AssertionError(f"no such element: {element}")

    def _aside(self, channel: ChannelId, element: Data[Any] | Control) -> list[ev.Action]:
        """Take in how far an input has come that does not hold the task's time back."""
        aside = self.state.aside[channel.edge]
        match element:
            case Watermark(time_us):
                aside.note(channel, time_us)
            case Idle():
                aside.idle(channel)
            case _:
                aside.active(channel)
        return self.state.advance_aside()

    def _active(self, channel: ChannelId) -> list[ev.Action]:
        state = self.state
        if state.time.any_idle and state.time.active(channel):
            return state.activate()
        return []

    def _ended(self, channel: ChannelId) -> list[ev.Action]:
        state = self.state
        state.time.end(channel)
        if state.is_aside(channel):
            state.aside[channel.edge].end(channel)
        cut = state.aligner.end(channel)
        actions = state.advance() if cut is None else self._cut(cut)
        return actions + self._end_if_over()

    def _end_if_over(self) -> list[ev.Action]:
        """End when all inputs have ended and nothing is left to fire."""
        state = self.state
        over = state.splits is None and state.aligner.all_ended and not state.is_firing
        return self._end() if over and state.life is not TaskLifecycle.ENDED else []

    def _quiet(self, _: ev.InputIdle, __: float) -> list[ev.Action]:
        return self.state.send_marks()

    def _rows(self, event: ev.RowsRead, _: float) -> list[ev.Action]:
        state = self.state
        assert state.splits is not None, "only a source task reads splits"
        state.splits.rows(event.split, event.data.max_ts)
        actions = state.activate()
        actions.append(ev.ProcessRows(event.split, event.data))
        return actions + state.advance()

    def _empty(self, event: ev.SplitEmpty, now: float) -> list[ev.Action]:
        state = self.state
        assert state.splits is not None, "only a source task reads splits"
        if state.splits.reached(event.split, event.max_ts):
            return state.activate() + state.advance_and_send()
        state.splits.empty(event.split, now)
        return state.advance_and_send() if state.time.all_idle else state.advance()

    def _split_ended(self, event: ev.SplitEnded, _: float) -> list[ev.Action]:
        state = self.state
        assert state.splits is not None, "only a source task reads splits"
        state.splits.ended(event.split)
        return state.advance_and_send() if state.splits.exhausted else state.advance()

    def _waited(self, _: ev.ReadBlocked, __: float) -> list[ev.Action]:
        if self.state.splits is not None:
            self.state.splits.waited()
        return []

    # --- Output -------------------------------------------------------------------------------

    def _produced(self, event: ev.Produced, _: float) -> list[ev.Action]:
        return list(self.state.buffer.offer(event.pieces))

    def _fire_on(self, _: ev.FireOn, __: float) -> list[ev.Action]:
        return self.state.advance() if self.fires else []

    def _clock_reached(self, _: ev.ClockReached, __: float) -> list[ev.Action]:
        """Fire by the clock. Outputs that are idle become active first, and the next mark ends that again."""
        return [*self.state.marks.activate(), ev.AdvanceClock()] if self.follows_clock else []

    def _answers_came(self, _: ev.AnswersCame, __: float) -> list[ev.Action]:
        """Let rows leave that have waited. Outputs that are idle become active first."""
        return [*self.state.marks.activate(), ev.TakeAnswers()] if self.takes_answers else []

    def _fired(self, event: ev.Fired, _: float) -> list[ev.Action]:
        """Take in what the steps have reached. What waited for the last slice goes on."""
        state = self.state
        state.time.reach(event.time_us)
        if state.is_firing:
            return []
        actions = state.send_marks() if state.marks_owed else []
        if state.waiting is not None and not state.snapshots.busy:
            actions += self._cut_waiting()
        return actions + self._end_if_over()

    def _paced(self, event: ev.Paced, _: float) -> list[ev.Action]:
        self.state.buffer.bound(event.windows)
        return []

    # --- Checkpoints --------------------------------------------------------------------------

    def _barrier(self, channel: ChannelId, barrier: Barrier) -> list[ev.Action]:
        """Align. The sources of this worker may begin at once: a barrier in band can come first."""
        actions: list[ev.Action] = [ev.RelayBarrier(barrier)] if self.state.aligner.begins(barrier) else []
        cut = self.state.aligner.barrier(channel, barrier)
        return actions + self._cut(cut) if cut else actions

    def _injected(self, event: ev.Injected, _: float) -> list[ev.Action]:
        state = self.state
        if state.splits is None or state.life not in {
            TaskLifecycle.RUNNING,
            TaskLifecycle.FROZEN,
        }:
            return []
        cut = state.aligner.barrier(None, event.barrier)
        return self._cut(cut) if cut else []

    def _cut(self, barrier: Barrier) -> list[ev.Action]:
        """Take a snapshot, then send the barrier on all outputs. No input is read before that."""
        state = self.state
        if state.snapshots.busy:
            state.waiting = barrier
            return [ev.ExpediteSnapshot()]
        rescale = barrier.kind is Kind.RESCALE
        if rescale and (state.proposed is None or state.proposed.version != barrier.version):
            state.aligner.late += 1  # the rescale was cancelled while its barrier was under way
            return []
        actions = self.rescale.before_cut(barrier)
        if barrier.kind is Kind.FINAL and (firing := state.advance()):
            state.waiting = barrier  # what fires behind the last epoch would be lost
            return actions + firing
        actions += state.send_marks()  # pending watermarks go before the barrier
        since = state.snapshots.cut(self._begun(barrier))
        actions.append(ev.Snapshot(barrier, since, state.time.task_us))
        if barrier.kind is not Kind.CHECKPOINT or barrier.epoch <= state.expedited:
            actions.append(ev.ExpediteSnapshot())
        actions += [ev.Send(channel, barrier) for channel in state.outputs]
        if rescale:
            self.rescale.freeze(barrier)
        return actions + state.advance()

    def _begun(self, barrier: Barrier) -> SnapshotInProgress:
        state = self.state
        firing = state.fired.beyond(state.time.task_us, state.assignment.share_of(state.task))
        return SnapshotInProgress(barrier, state.time.task_us, self.exhausted, firing)

    def _stored(self, event: ev.SnapshotStored, now: float) -> list[ev.Action]:
        self.state.sinks.prepare(event.parts.handles)
        cut = self.state.snapshots.close(event.term, event.epoch)
        actions: list[ev.Action] = []
        if cut is not None:
            manifest = self._manifest(cut, event.parts)
            actions.append(ev.Ack(event.term, event.epoch, manifest))
        return actions + self._cut_waiting()

    def _manifest(self, cut: SnapshotInProgress, parts: ev.SnapshotParts) -> TaskManifest:
        return TaskManifest(
            self.state.task,
            parts.files,
            parts.splits,
            self.state.sinks.manifest(cut.barrier.epoch),
            cut.watermark_us,
            parts.lists,
            cut.exhausted,
            cut.firing or ABSENT,
            parts.copies or ABSENT,
            parts.load or ABSENT,
        )

    def _store_failed(self, event: ev.StoreFailed, now: float) -> list[ev.Action]:
        self.state.sinks.prepare(event.handles)
        cut = self.state.snapshots.close(event.term, event.epoch)
        failed: list[ev.Action] = []
        if cut is not None:
            failed.append(ev.Failed(event.term, event.epoch, event.reason))
        return failed + self._cut_waiting()

    def _cut_waiting(self) -> list[ev.Action]:
        barrier, self.state.waiting = self.state.waiting, None
        return self._cut(barrier) if barrier else []

    def _expedite(self, event: ev.Expedited, _: float) -> list[ev.Action]:
        """Expedite the snapshot that is being stored. One of an older epoch delays the next one."""
        state = self.state
        state.expedited = max(state.expedited, event.epoch)
        return [ev.ExpediteSnapshot()] if state.snapshots.busy else []

    def _committed(self, event: ev.EpochCommitted, _: float) -> list[ev.Action]:
        return self.state.commit(event.epoch, event.version)

    def _aborted(self, event: ev.Aborted, _: float) -> list[ev.Action]:
        return self.rescale.give_up(event.term, event.epoch)

    def _announced(self, event: ev.TermAnnounced, _: float) -> list[ev.Action]:
        self.state.expedited = NO_EPOCH  # a new term may use the numbers again
        actions = self.state.commit(event.epoch, event.version)  # goes forward if it was a rescale
        return actions + self.rescale.give_up(event.term, Epoch(0))

    def _published(self, event: ev.Published, _: float) -> list[ev.Action]:
        self.state.sinks.done(event.epoch)
        return []


_HANDLERS: dict[type, Handler] = {
    ev.Build: TaskCore._build,
    ev.Loaded: TaskCore._loaded,
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
    ev.Produced: TaskCore._produced,
    ev.Fired: TaskCore._fired,
    ev.FireOn: TaskCore._fire_on,
    ev.ClockReached: TaskCore._clock_reached,
    ev.AnswersCame: TaskCore._answers_came,
    ev.PeerVersion: lambda core, event, _: core.rescale.peer_version(event),
    ev.Paced: TaskCore._paced,
    ev.SnapshotStored: TaskCore._stored,
    ev.StoreFailed: TaskCore._store_failed,
    ev.Expedited: TaskCore._expedite,
    ev.EpochCommitted: TaskCore._committed,
    ev.Aborted: TaskCore._aborted,
    ev.TermAnnounced: TaskCore._announced,
    ev.Published: TaskCore._published,
    ev.Proposed: lambda core, event, _: core.rescale.propose(event),
    ev.Preloaded: lambda core, event, _: core.rescale.preloaded(event),
    ev.Cancelled: lambda core, event, _: core.rescale.cancel(event),
    ev.RescaleCommitted: lambda core, event, _: core.rescale.adopt(event),
    ev.RescaleSettled: lambda core, event, _: core.rescale.settle(event),
}
