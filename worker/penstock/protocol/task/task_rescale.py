"""The half of a task's protocol that changes its life: build, commit, abort, rescale, end.

A rescale at one task, from the table that holds (version v) to the proposed one (v + 1):

    propose  know the table, bring files near                        Preload -> Prepared
    freeze   barrier E is cut: hold moving rows, stop moving splits, let no time pass,
             let every input say its watermark again
    undo     E is off: release to the old owners, let time pass again
    commit   E and v + 1 are committed by one swap: from now on only forward
    adopt    load what was gained                                    Load -> Loaded
    switch   channels, splits and groups of v + 1; announce it       Resumed
    settle   all have resumed: end the streams that v + 1 does not have
"""

from typing import Any

from penstock.contract.assignment import Assignment
from penstock.contract.ids import ChannelId, Epoch, Term
from penstock.contract.keygroups import groups_of
from penstock.model.elements import Barrier, Control, Data, EndOfStream
from penstock.protocol.state_entries import emitted_until, entries_of, watermark_of
from penstock.protocol.task import task_events as ev
from penstock.protocol.task.rescale_buffer import BufferPhase
from penstock.protocol.task.task_state import TaskLifecycle, TaskState


class TaskRescale(TaskState):
    """Every transition of a task's protocol that is not about one element."""

    __slots__ = ()

    # --- Build and end ------------------------------------------------------------------------

    def build(self) -> list[ev.Action]:
        """Ask for the task's state; a joiner only brings it near."""
        share = self.assignment.share_of(self.task)
        files = entries_of(self.root, self.stage.steps, share) if self.root else ()
        if self.life is TaskLifecycle.JOINING:
            return [ev.Preload(self.assignment.version, files)]
        assert self.life is TaskLifecycle.BUILDING, "a task is built once"
        splits = self.stored_splits(self.root, self.assignment.splits_of(self.task))
        until = emitted_until(self.root, self.setup.plan, self.task) if self.root else None
        version, mark = self.assignment.version, self.time.task_us
        self.loading = ev.LoadState(version, share, files, splits, mark, until)
        return [self.loading]

    def loaded(self, event: ev.Loaded, _: float) -> list[ev.Action]:
        """The state is there: wait for Started, or go on under the new version."""
        load, self.loading = self.loading, None
        if load is None or load.version != event.version:
            return []
        if self.life is TaskLifecycle.BUILDING:
            if self.splits is not None:
                self.splits.load(load.splits, ())
            self.life = TaskLifecycle.READY
            return [ev.ReportReady()]
        if self.life is TaskLifecycle.JOINING:
            return self._join(load)
        return self._switch(load)

    def end(self) -> list[ev.Action]:
        """Say the last watermark and end every output. The task is over."""
        actions: list[ev.Action] = []
        if self.low_us is not None:
            actions += self.marks.watermark(self.outputs, self.low_us)
        actions += [ev.Send(channel, EndOfStream()) for channel in self.outputs]
        self.life = TaskLifecycle.ENDED
        actions.append(ev.ReportFinished())
        return actions

    def forget_published(self) -> list[ev.Action]:
        """Remove the staging of what is visible: no later commit comes to this task.

        Only when the leader orders the end: the object then says that all of it is published.
        """
        published = self.sinks.forget(Epoch(self.sinks.published + 1))
        return [ev.Forget(published)] if published else []

    # --- Time ---------------------------------------------------------------------------------

    def advance(self) -> list[ev.Action]:
        """Let the steps know if the task's watermark rose; what is said about it may wait."""
        if self.life is not TaskLifecycle.RUNNING:
            return []  # no time passes from a rescale barrier until the task has resumed
        low = self.time.low_us
        if low is None:
            return []
        self.low_us = low
        risen = self.time.advance()
        return [] if risen is None else [ev.AdvanceWatermark(risen)]

    @property
    def has_marks(self) -> bool:
        """Say whether there is anything to say about time: without event time there never is."""
        return self.low_us is not None or self.time.all_idle

    def say(self) -> list[ev.Action]:
        """Put on the outputs what they have not been told: the watermark, then idleness."""
        if self.life is not TaskLifecycle.RUNNING:
            return []  # no mark leaves from a rescale barrier until the task has resumed
        if not self.has_marks:
            return []
        channels = [c for c in self.outputs if self.buffer.open(c)]
        actions: list[ev.Action] = []
        if self.low_us is not None:
            actions += self.marks.watermark(channels, self.low_us)
        if self.time.all_idle:
            actions += self.marks.idle(channels)
        return actions

    def activate(self) -> list[ev.Action]:
        """End the idle marks that were sent, unless the task is still idle."""
        return [] if self.time.all_idle else list(self.marks.activate())

    # --- Commit and abort ---------------------------------------------------------------------

    def commit(self, epoch: Epoch, version: int) -> list[ev.Action]:
        """Hear, perhaps again, that ``epoch`` is committed and ``version`` holds."""
        actions: list[ev.Action] = []
        if self.snapshots.confirm(epoch):
            actions.append(ev.ConfirmCommitted(epoch))
        if self.proposed is not None and version == self.proposed.version:
            self.buffer.commit()
        handles = self.sinks.commit(epoch)
        if handles is None:
            return actions
        old = self.sinks.forget(epoch)
        if old:
            actions.append(ev.Forget(old))
        if handles:
            actions.append(ev.PublishOutput(epoch, handles))
        else:
            self.sinks.done(epoch)
        return actions

    def give_up(self, term: Term, epoch: Epoch) -> list[ev.Action]:
        """Hear that everything up to (term, epoch) that is not committed never will be."""
        self.aligner.off(term, epoch)
        self.snapshots.off(term, epoch)
        if self.waiting is not None and (self.waiting.term, self.waiting.epoch) <= (term, epoch):
            self.waiting = None
        undecided = self.buffer.phase is BufferPhase.UNDECIDED
        return self._undo() if undecided and self.epoch_frozen <= (term, epoch) else []

    def before_cut(self, barrier: Barrier) -> list[ev.Action]:
        """Draw what a new barrier says about the epoch and the rescale before it."""
        rescale = self.proposed is not None and barrier.version == self.proposed.version
        actions = self.commit(barrier.committed, self.assignment.version)
        if self.buffer.phase is BufferPhase.UNDECIDED:
            assert rescale or barrier.version == self.assignment.version, "resumed without us"
            actions += self._undo()
        elif self.buffer.phase is BufferPhase.FORWARD:
            # No epoch starts before all have resumed; their credit may still be on its way.
            actions += self.buffer.forward()
        return actions

    # --- Rescale ------------------------------------------------------------------------------

    def propose(self, event: ev.Proposed, _: float) -> list[ev.Action]:
        """Step 1: know the next table, and bring the files of gained groups near."""
        if event.assignment.version <= self.assignment.version:
            return []
        self.proposed = event.assignment
        self.retired.clear()  # the version before is settled; the names may be used again
        root, steps = event.root, self.stage.steps
        files = entries_of(root, steps, self.gained()) if root is not None else ()
        return [ev.Preload(event.assignment.version, files)]

    def preloaded(self, event: ev.Preloaded, _: float) -> list[ev.Action]:
        """The files are near (or will be fetched later): say that the table is known."""
        version = self.proposed.version if self.proposed else self.assignment.version
        return [ev.Prepared(version)] if event.version == version else []

    def cancel(self, event: ev.Cancelled, _: float) -> list[ev.Action]:
        """The proposed version is off; a joiner is not needed, others return to the old table."""
        if self.life is TaskLifecycle.JOINING:
            self.life = TaskLifecycle.ENDED
            return []
        if self.proposed is None or self.proposed.version != event.version:
            return []
        if self.buffer.phase is BufferPhase.FORWARD:
            return []  # committed meanwhile: the order is out of date
        actions = self._undo() if self.life is TaskLifecycle.FROZEN else []
        self.proposed = None
        return actions

    def freeze(self, barrier: Barrier) -> None:
        """Barrier E of kind rescale was cut and put on all outputs: hold what moves."""
        assert self.proposed is not None, "a rescale barrier needs a proposed table"
        self.life = TaskLifecycle.FROZEN
        self.epoch_frozen = (barrier.term, barrier.epoch)
        self.buffer.begin(barrier.version, self.channels(self.proposed)[1])
        self.marks.restart()
        self.moving = dict.fromkeys(groups_of(self.lost()))
        if self.splits is not None:
            self.splits.stop(self.lost_splits())
        else:
            self.low_us = None
            self.time.restart()

    def adopt(self, event: ev.RescaleCommitted, _: float) -> list[ev.Action]:
        """Step 4: the version is committed; ask for what the task gains."""
        if event.version == self.assignment.version and self.life is not TaskLifecycle.JOINING:
            return [ev.Resumed(event.version)]
        if self.loading is not None:
            return []
        actions = self.commit(event.root.epoch, event.version)
        joins = self.life is TaskLifecycle.JOINING
        if not joins and (self.life is not TaskLifecycle.FROZEN or self.proposed is None):
            return actions
        table = self.assignment if joins else self.proposed
        assert table is not None, "checked above"
        if self.task not in table.tasks():
            return actions + self._leave(table)
        share = table.share_of(self.task) if joins else self.gained()
        names = table.splits_of(self.task)
        held = () if joins else self.assignment.splits_of(self.task)
        gained = self.stored_splits(event.root, tuple(s for s in names if s not in held))
        files = entries_of(event.root, self.stage.steps, share)
        follows = event.root, self.setup.plan, self.task
        mark, until = watermark_of(*follows), emitted_until(*follows)
        self.loading = ev.LoadState(event.version, share, files, gained, mark, until)
        return [*actions, self.loading]

    def peer_version(self, event: ev.PeerVersion, _: float) -> list[ev.Action]:
        """A receiver has loaded a version: release what was held for it, then the marks."""
        actions: list[ev.Action] = list(self.buffer.announced(event.channel, event.version))
        actions += self.say()
        if self.buffer.settled() and self.life is TaskLifecycle.RUNNING:
            self.previous = None
        return actions

    def settle(self, event: ev.RescaleSettled, _: float) -> list[ev.Action]:
        """All have resumed: end the streams that this version does not have."""
        if event.version != self.assignment.version:
            return []
        leaving = self.life is TaskLifecycle.LEAVING
        ends = self.outputs if leaving else self.dropped
        actions: list[ev.Action] = [ev.Send(channel, EndOfStream()) for channel in ends]
        self.dropped = ()
        if leaving:
            actions += self.forget_published()
            self.outputs = ()
            if not self.retired:
                self.life = TaskLifecycle.ENDED
                actions.append(ev.ReportFinished())
        return actions

    def retire(self, channel: ChannelId, element: Data[Any] | Control) -> list[ev.Action]:
        """Take what still comes on a channel that the version does not have: its end."""
        assert not isinstance(element, Data), f"rows on {channel} after a rescale barrier"
        if not isinstance(element, EndOfStream):
            return []
        del self.retired[channel]
        if self.life is not TaskLifecycle.LEAVING or self.retired or self.outputs:
            return []
        self.life = TaskLifecycle.ENDED
        return [ev.ReportFinished()]

    def _undo(self) -> list[ev.Action]:
        self.life = TaskLifecycle.RUNNING
        self.moving = {}
        if self.splits is not None:
            self.splits.go_on()
        actions: list[ev.Action] = list(self.buffer.abort())
        return actions + self.advance() + self.say()

    def _join(self, load: ev.LoadState) -> list[ev.Action]:
        self.life = TaskLifecycle.RUNNING
        self.time.task_us = load.watermark_us
        if self.splits is not None:
            self.splits.load(load.splits, ())
        resumed: list[ev.Action] = [
            ev.AnnounceVersion(load.version),
            ev.Resumed(load.version),
        ]
        return resumed + self.advance() + self.say()

    def _switch(self, load: ev.LoadState) -> list[ev.Action]:
        assert self.proposed is not None, "only a proposed table is adopted"
        lost, lost_splits = self.lost(), self.lost_splits()
        before, _ = self.channels(self.assignment)
        self.previous, self.assignment, self.proposed = self.assignment, self.proposed, None
        inputs, outputs = self.channels(self.assignment)
        self.aligner.replace(inputs)
        self.retired = {c: None for c in before if c not in inputs}
        self.dropped = tuple(c for c in self.outputs if c not in outputs)
        self.outputs = outputs
        if self.splits is not None:
            self.splits.load(load.splits, lost_splits)
        else:
            self.time.replace(inputs)  # those that stay began anew at the barrier, not now
        self.life = TaskLifecycle.RUNNING
        self.moving = {}
        if self.buffer.settled():
            self.previous = None
        actions: list[ev.Action] = [ev.CloseSplits(lost_splits)] if lost_splits else []
        if lost:
            actions.append(ev.DropGroups(lost))
        actions += [ev.AnnounceVersion(load.version), ev.Resumed(load.version)]
        return actions + self.advance() + self.say()

    def _leave(self, table: Assignment) -> list[ev.Action]:
        share, splits = self.assignment.share_of(self.task), self.assignment.splits_of(self.task)
        inputs, _ = self.channels(self.assignment)
        self.retired = dict.fromkeys(inputs)
        self.assignment, self.proposed = table, None
        self.life = TaskLifecycle.LEAVING
        actions: list[ev.Action] = [ev.CloseSplits(splits)] if splits else []
        if share:
            actions.append(ev.DropGroups(share))
        return [*actions, ev.Resumed(table.version)]
