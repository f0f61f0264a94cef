"""A task's part in a rescale: from the table that holds (version v) to the proposed one (v + 1).

propose    remember the table, pre-load files                    Preload -> Prepared
freeze     barrier E is cut: hold moving rows, stop moving splits, let no time pass,
           require the watermark of every input again
undo       E is aborted: release rows to the old owners, let time pass again
commit     one swap has committed E and v + 1: from now on only forward
adopt      load what the task gains                              LoadState -> Loaded
resume     channels, splits and groups of v + 1; announce it     Resumed
settle     all have resumed: end the streams that v + 1 does not have
"""

from typing import Any

from penstock.base.errors import PeerError
from penstock.contract.ids import ChannelId, Epoch, Term
from penstock.contract.plan import Assignment
from penstock.model.elements import Barrier, Control, Data, EndOfStream
from penstock.protocol.state_entries import entries_of, fired_until, watermark_of
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.rescale_buffer import BufferPhase
from penstock.protocol.task.task_state import TaskLifecycle, TaskState


class TaskRescale:
    """The transitions of a rescale at one task. It shares the task's state with the core."""

    __slots__ = ("state",)

    def __init__(self, state: TaskState) -> None:
        """Take part in the rescales of the task of ``state``."""
        self.state = state

    def propose(self, event: ev.Proposed) -> list[ev.Action]:
        """Step 1: remember the next table, and pre-load the files of gained groups."""
        state = self.state
        if event.assignment.version <= state.assignment.version:
            return []
        state.proposed = event.assignment
        state.retired.clear()  # the version before is settled: its channel names may recur
        root, steps = event.root, state.stage.steps
        files = entries_of(root, steps, state.gained()) if root is not None else ()
        return [ev.Preload(event.assignment.version, files)]

    def preloaded(self, event: ev.Preloaded) -> list[ev.Action]:
        """The files are local (or will be fetched later): report that the table is known."""
        state = self.state
        return [ev.Prepared(event.version)] if state.prepares(event.version) else []

    def cancel(self, event: ev.Cancelled) -> list[ev.Action]:
        """The proposed version is cancelled: a joiner ends, others return to the old table."""
        state = self.state
        if state.life is TaskLifecycle.JOINING:
            state.enter(TaskLifecycle.ENDED)
            return []
        if state.proposed is None or state.proposed.version != event.version:
            return []
        if state.buffer.phase is BufferPhase.FORWARD:
            return []  # the version is committed meanwhile: the order is out of date
        actions = self._undo_and_advance() if state.life is TaskLifecycle.FROZEN else []
        state.proposed = None
        return actions

    def before_cut(self, barrier: Barrier) -> list[ev.Action]:
        """Take in what a new barrier implies about the epoch and the rescale before it.

        Raises PeerError when the barrier has a version that this task does not know.
        """
        state = self.state
        rescale = state.proposed is not None and barrier.version == state.proposed.version
        actions = state.commit(barrier.committed, state.assignment.version)
        if state.buffer.phase is BufferPhase.UNDECIDED:
            if not rescale and barrier.version != state.assignment.version:
                raise PeerError(
                    f"barrier {barrier.epoch} of version {barrier.version} came to {state.task}, "
                    f"which knows version {state.assignment.version}: others resumed without it"
                )
            actions += self._undo()
        elif state.buffer.phase is BufferPhase.FORWARD:
            # No epoch starts before all have resumed. Their credit may still be under way.
            actions += state.buffer.forward()
        return actions

    def freeze(self, barrier: Barrier) -> None:
        """Hold rows that move: barrier E of kind rescale was cut and sent on all outputs."""
        state = self.state
        assert state.proposed is not None, "a rescale barrier needs a proposed table"
        state.enter(TaskLifecycle.FROZEN)
        state.epoch_frozen = (barrier.term, barrier.epoch)
        state.buffer.begin(barrier.version, state.channels(state.proposed)[1])
        state.marks.restart()
        if state.splits is not None:
            state.splits.stop(state.lost_splits())
        else:
            state.heard_us = None
            state.time.restart()
            for merge in state.aside.values():
                merge.restart()

    def give_up(self, term: Term, epoch: Epoch) -> list[ev.Action]:
        """Give up all epochs up to (term, epoch) that are not committed: they never will be."""
        state = self.state
        state.aligner.off(term, epoch)
        state.snapshots.off(term, epoch)
        if state.waiting is not None and (
            state.waiting.term,
            state.waiting.epoch,
        ) <= (term, epoch):
            state.waiting = None
        undecided = state.buffer.phase is BufferPhase.UNDECIDED
        return self._undo_and_advance() if undecided and state.epoch_frozen <= (term, epoch) else []

    def adopt(self, event: ev.RescaleCommitted) -> list[ev.Action]:
        """Step 4: the version is committed. Ask for the state that the task gains."""
        state = self.state
        if event.version == state.assignment.version and state.life is not TaskLifecycle.JOINING:
            return [ev.Resumed(event.version)]
        if state.loading is not None:
            return []
        actions = state.commit(event.root.epoch, event.version)
        joins = state.life is TaskLifecycle.JOINING
        if not joins and (state.life is not TaskLifecycle.FROZEN or state.proposed is None):
            return actions
        table = state.assignment if joins else state.proposed
        assert table is not None, "checked above"
        if not table.has(state.task):
            return actions + self._leave(table)
        share = table.share_of(state.task) if joins else state.gained()
        names = table.splits_of(state.task)
        held = () if joins else state.assignment.splits_of(state.task)
        gained = state.stored_splits(event.root, tuple(s for s in names if s not in held))
        files = state.entries(event.root, share, copies=joins)  # others have the copies already
        follows = event.root, state.setup.plan, state.task, share
        mark, fired = watermark_of(*follows), fired_until(*follows)
        # Each cut writes migrated state, so the files of a rescale have it.
        state.loading = ev.LoadState(event.version, share, files, gained, mark, fired)
        return [*actions, state.loading]

    def resume(self, load: ev.LoadState) -> list[ev.Action]:
        """Go on under the version whose state is loaded now."""
        if self.state.life is TaskLifecycle.JOINING:
            return self._join(load)
        return self._switch(load)

    def peer_version(self, event: ev.PeerVersion) -> list[ev.Action]:
        """A receiver has loaded a version: release the rows held for it, then send the marks."""
        state = self.state
        actions: list[ev.Action] = list(state.buffer.announced(event.channel, event.version))
        actions += state.send_marks()
        if state.buffer.settled() and state.life is TaskLifecycle.RUNNING:
            state.previous = None
        return actions

    def settle(self, event: ev.RescaleSettled) -> list[ev.Action]:
        """All tasks have resumed: end the streams that this version does not have."""
        state = self.state
        if event.version != state.assignment.version:
            return []
        leaving = state.life is TaskLifecycle.LEAVING
        ends = state.outputs if leaving else state.dropped
        actions: list[ev.Action] = [ev.Send(channel, EndOfStream()) for channel in ends]
        state.dropped = ()
        if leaving:
            actions += state.forget_published()
            state.outputs = ()
            if not state.retired:
                state.enter(TaskLifecycle.ENDED)
                actions.append(ev.ReportFinished())
        return actions

    def retire(self, channel: ChannelId, element: Data[Any] | Control) -> list[ev.Action]:
        """Take what still comes on a channel that the version does not have: marks and its end.

        Raises PeerError on rows: the sender has sent them after the barrier of the rescale.
        """
        state = self.state
        if isinstance(element, Data):
            raise PeerError(f"rows on {channel}, which version {state.assignment.version} ends")
        if not isinstance(element, EndOfStream):
            return []
        del state.retired[channel]
        if state.life is not TaskLifecycle.LEAVING or state.retired or state.outputs:
            return []
        state.enter(TaskLifecycle.ENDED)
        return [ev.ReportFinished()]

    def _undo(self) -> list[ev.Action]:
        state = self.state
        state.enter(TaskLifecycle.RUNNING)
        if state.splits is not None:
            state.splits.go_on()
        return list(state.buffer.abort())

    def _undo_and_advance(self) -> list[ev.Action]:
        actions = self._undo()
        return actions + self.state.advance_and_send()

    def _join(self, load: ev.LoadState) -> list[ev.Action]:
        state = self.state
        state.enter(TaskLifecycle.RUNNING)
        state.time.task_us = load.watermark_us
        state.fired.gain((), load.fired)
        if state.splits is not None:
            state.splits.load(load.splits, ())
        resumed: list[ev.Action] = [
            ev.AnnounceVersion(load.version),
            ev.Resumed(load.version),
        ]
        return resumed + state.advance_and_send()

    def _switch(self, load: ev.LoadState) -> list[ev.Action]:
        state = self.state
        assert state.proposed is not None, "only a proposed table is adopted"
        lost, lost_splits = state.lost(), state.lost_splits()
        if load.share:
            state.fired.gain(state.assignment.share_of(state.task), load.fired)
            state.time.go_back(load.watermark_us)  # its windows and timers have fired up to there only
        before, _ = state.channels(state.assignment)
        state.previous, state.assignment, state.proposed = (
            state.assignment,
            state.proposed,
            None,
        )
        inputs, outputs = state.channels(state.assignment)
        state.aligner.replace(inputs)
        state.retired = {c: None for c in before if c not in inputs}
        state.dropped = tuple(c for c in state.outputs if c not in outputs)
        state.outputs = outputs
        if state.splits is not None:
            state.splits.load(load.splits, lost_splits)
            state.heard_us = state.time.low_us  # a split that was gained may be behind what was said
        else:
            timed, aside = state.apart(inputs)  # those that stay were restarted at the barrier
            state.time.replace(timed)
            for edge, merge in state.aside.items():
                merge.replace([channel for channel in aside if channel.edge == edge])
        state.enter(TaskLifecycle.RUNNING)
        if state.buffer.settled():
            state.previous = None
        actions: list[ev.Action] = [ev.CloseSplits(lost_splits)] if lost_splits else []
        if lost:
            actions.append(ev.DropGroups(lost))
        actions += [ev.AnnounceVersion(load.version), ev.Resumed(load.version)]
        return actions + state.advance_and_send()

    def _leave(self, table: Assignment) -> list[ev.Action]:
        state = self.state
        share, splits = (
            state.assignment.share_of(state.task),
            state.assignment.splits_of(state.task),
        )
        inputs, _ = state.channels(state.assignment)
        state.retired = dict.fromkeys(inputs)
        state.assignment, state.proposed = table, None
        state.enter(TaskLifecycle.LEAVING)
        actions: list[ev.Action] = [ev.CloseSplits(splits)] if splits else []
        if share:
            actions.append(ev.DropGroups(share))
        return [*actions, ev.Resumed(table.version)]
