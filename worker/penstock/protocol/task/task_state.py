"""The state of one task's protocol: one value, and the table of its lifecycle.

:mod:`task_core` and :mod:`task_rescale` change this state. The smaller machines that it holds
decide about barriers, watermarks, snapshots, prepared output, splits and held rows.

::

    BUILDING ──> READY, ENDED
    READY    ──> RUNNING, ENDED
    RUNNING  ──> FROZEN, ENDED
    FROZEN   ──> RUNNING, LEAVING, ENDED
    JOINING  ──> RUNNING, ENDED
    LEAVING  ──> ENDED
    ENDED    ──> ENDED

A task begins in BUILDING, or in JOINING when its worker joins by a rescale. FROZEN begins with the
barrier of a rescale and ends when the task has resumed.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.contract.codec import ABSENT
from penstock.contract.ids import NO_EPOCH, NO_TERM, ChannelId, Epoch, SplitId, TaskId, Version
from penstock.contract.keygroups import Share, subtract
from penstock.contract.manifest import RootManifest, SplitState, StateFile
from penstock.contract.plan import Assignment, PhysicalPlan, StagePlan, channels_of
from penstock.model.elements import Barrier
from penstock.protocol.core_context import checked
from penstock.protocol.state_entries import copies_of, entries_of, splits_of, watermark_of
from penstock.protocol.state_matching import sources_to_list
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.group_times import GroupTimes
from penstock.protocol.task.input_progress import (
    BEGIN_OF_TIME,
    END_OF_TIME,
    BarrierAligner,
    OutputMarks,
    SourceSplits,
    WatermarkMerge,
)
from penstock.protocol.task.rescale_buffer import BufferPhase, RescaleBuffer
from penstock.protocol.task.snapshot_ledger import SinkLedger, SnapshotLedger


class TaskLifecycle(Enum):
    """The phases of a task."""

    BUILDING = 0
    READY = 1
    RUNNING = 2
    FROZEN = 3
    JOINING = 4
    LEAVING = 5
    ENDED = 6


TRANSITIONS: dict[TaskLifecycle, tuple[TaskLifecycle, ...]] = {
    TaskLifecycle.BUILDING: (TaskLifecycle.READY, TaskLifecycle.ENDED),
    TaskLifecycle.READY: (TaskLifecycle.RUNNING, TaskLifecycle.ENDED),
    TaskLifecycle.RUNNING: (TaskLifecycle.FROZEN, TaskLifecycle.ENDED),
    TaskLifecycle.FROZEN: (TaskLifecycle.RUNNING, TaskLifecycle.LEAVING, TaskLifecycle.ENDED),
    TaskLifecycle.JOINING: (TaskLifecycle.RUNNING, TaskLifecycle.ENDED),
    TaskLifecycle.LEAVING: (TaskLifecycle.ENDED,),
    TaskLifecycle.ENDED: (TaskLifecycle.ENDED,),  # a command to end may be repeated
}


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """What a task is made of. ``first_splits``: first states of splits that no checkpoint knows.

    ``joining``: the assignment is a proposed one, and the task runs from its commit on.
    """

    plan: PhysicalPlan
    task: TaskId
    assignment: Assignment
    held_bytes_max: int
    idle_after_s: float | None = None
    out_of_orderness_us: int | None = None
    first_splits: tuple[SplitState, ...] = ()
    joining: bool = False


class TaskState:
    """The state of one task's protocol. It can be copied deeply."""

    __slots__ = (
        "aligner",
        "aside",
        "assignment",
        "buffer",
        "dropped",
        "epoch_frozen",
        "expedited",
        "fired",
        "heard_us",
        "life",
        "loading",
        "marks",
        "marks_owed",
        "outputs",
        "previous",
        "proposed",
        "retired",
        "root",
        "setup",
        "sinks",
        "snapshots",
        "splits",
        "task",
        "time",
        "waiting",
    )

    def __init__(self, setup: TaskSetup, root: RootManifest | None) -> None:
        """Build every machine from the checkpoint."""
        self.setup = setup
        self.task = setup.task
        self.root = root
        self.assignment = setup.assignment
        self.previous: Assignment | None = None
        self.proposed: Assignment | None = None
        self.loading: ev.LoadState | None = None
        self.life = TaskLifecycle.JOINING if setup.joining else TaskLifecycle.BUILDING
        epoch = root.epoch if root else NO_EPOCH
        self.snapshots = SnapshotLedger(epoch)
        self.sinks = SinkLedger(epoch)
        self.buffer = RescaleBuffer(setup.held_bytes_max)
        self.marks = OutputMarks()
        self.marks_owed = False  # marks were asked for while the steps were firing
        self.heard_us: int | None = None
        self.fired = GroupTimes()
        self.waiting: Barrier | None = None
        self.expedited = NO_EPOCH  # the newest epoch that somebody waits for
        self.epoch_frozen = (NO_TERM, NO_EPOCH)
        self.retired: dict[ChannelId, None] = {}
        self.dropped: tuple[ChannelId, ...] = ()
        inputs, self.outputs = self.channels(self.assignment)
        self.aligner = BarrierAligner(inputs)
        share = self.assignment.share_of(self.task)
        watermark = watermark_of(root, setup.plan, self.task, share) if root else None
        self.splits = self._make_splits(watermark)
        timed, aside = self.apart(inputs)
        self.time: WatermarkMerge[Any] = self.splits.time if self.splits else WatermarkMerge(timed, watermark)
        edges = () if self.stage.aside is ABSENT else self.stage.aside
        self.aside = {edge: WatermarkMerge([c for c in aside if c.edge == edge], None) for edge in edges}

    @property
    def routing(self) -> tuple[Assignment, Assignment | None]:
        """Return the tables by which rows are routed: the one that holds, and the next or None."""
        if self.life is TaskLifecycle.FROZEN:
            return self.assignment, self.proposed
        if self.previous is not None and self.buffer.phase is not BufferPhase.NONE:
            return self.previous, self.assignment
        return self.assignment, None

    @property
    def stage(self) -> StagePlan:
        """Return the stage of the plan that this task is an instance of."""
        return self.setup.plan.stages[self.task.stage]

    def is_aside(self, channel: ChannelId) -> bool:
        """Return whether an input does not hold the task's time back."""
        return self.stage.aside is not ABSENT and channel.edge in self.stage.aside

    def apart(self, inputs: tuple[ChannelId, ...]) -> tuple[list[ChannelId], list[ChannelId]]:
        """Return the inputs that hold the task's time back, and the others."""
        return [c for c in inputs if not self.is_aside(c)], [c for c in inputs if self.is_aside(c)]

    def entries(self, root: RootManifest, share: Share, *, copies: bool) -> tuple[StateFile, ...]:
        """Return the state files of key groups, and with ``copies`` those of side tables."""
        return (*entries_of(root, self.stage.steps, share), *(copies_of(root, self.stage) if copies else ()))

    def enter(self, life: TaskLifecycle) -> None:
        """Move on to ``life``. Raises AssertionError when the table has no such transition."""
        self.life = checked(TRANSITIONS, self.life, life)

    # --- Time ---------------------------------------------------------------------------------

    def advance(self) -> list[ev.Action]:
        """Let the steps fire if they have not reached the time heard. Fired changes the time: no action may follow."""
        if self.life is not TaskLifecycle.RUNNING:
            return []  # no time passes from a rescale barrier until the task has resumed
        low = self.time.low_us
        if low is not None:
            self.heard_us = low
        heard = self.heard_us
        if heard is None or not self.is_firing:
            return []
        self.fired.tell(heard)
        return [ev.AdvanceWatermark(heard)]

    def advance_aside(self) -> list[ev.Action]:
        """Tell the steps how far the edges aside have come. A rescale does not take back what they were told."""
        told: list[ev.Action] = []
        for edge, merge in self.aside.items() if self.life is TaskLifecycle.RUNNING else ():
            low, known = merge.low_us, merge.task_us
            if low is not None and (known is None or low > known):
                merge.reach(low)
                told.append(ev.AdvanceAside(edge, low))
        return told

    def advance_and_send(self) -> list[ev.Action]:
        """Let the steps fire, and send the marks: now what was reached before, the rest when they have fired."""
        aside, advance = self.advance_aside(), self.advance()
        return aside + self.send_marks() + advance

    @property
    def is_firing(self) -> bool:
        """Return whether the steps have not reached the time heard. No time passes over a rescale."""
        heard, reached = self.heard_us, self.time.task_us
        return heard is not None and (reached is None or reached < heard) and self.life is TaskLifecycle.RUNNING

    @property
    def has_marks(self) -> bool:
        """Return whether there is a mark to send. Without event time there never is one."""
        return self.heard_us is not None or self.time.all_idle

    @property
    def said_us(self) -> int | None:
        """Return the time that the outputs may be told: that reached, less what the steps hold it back."""
        reached, held = self._reached_us, self.stage.held_us
        if reached is None or held is ABSENT or reached == END_OF_TIME:
            return reached
        return max(reached - held, BEGIN_OF_TIME)

    @property
    def _reached_us(self) -> int | None:
        """Return the time that the steps have reached, and never more than was heard."""
        heard, reached = self.heard_us, self.time.task_us
        return None if heard is None or reached is None else min(heard, reached)

    def send_marks(self) -> list[ev.Action]:
        """Send to the outputs what they do not know yet: the watermark, then idleness."""
        if self.life is not TaskLifecycle.RUNNING:
            return []  # no mark leaves from a rescale barrier until the task has resumed
        if not self.has_marks:
            return []
        channels = [c for c in self.outputs if self.buffer.open(c)]
        actions: list[ev.Action] = []
        self.marks_owed = self.is_firing
        said = self.said_us
        if said is not None:
            actions += self.marks.watermark(channels, said)
        if self.time.all_idle and not self.marks_owed:  # rows still come, and must not be late
            actions += self.marks.idle(channels)
        return actions

    def activate(self) -> list[ev.Action]:
        """End the idle marks that were sent, unless the task is still idle."""
        return [] if self.time.all_idle else list(self.marks.activate())

    # --- What a rescale moves ---------------------------------------------------------------------------

    def commit(self, epoch: Epoch, version: int) -> list[ev.Action]:
        """Take in that ``epoch`` is committed and ``version`` holds. This may be known already."""
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
        own = tuple(handle for handle in handles if handle.whole is not True)
        if own:
            actions.append(ev.PublishOutput(epoch, own))
        else:
            self.sinks.done(epoch)
        return actions

    def forget_published(self) -> list[ev.Action]:
        """Remove the staged files of visible output: no later commit comes to this task.

        This happens only when the leader orders the end. The object then records all output as published.
        """
        published = self.sinks.forget(Epoch(self.sinks.published + 1))
        return [ev.Forget(published)] if published else []

    def gained(self) -> Share:
        """Return the key groups that the proposed table adds to this task's."""
        assert self.proposed is not None, "asked only while a table is proposed"
        mine = self.assignment.share_of(self.task)
        return subtract(self.proposed.share_of(self.task), mine)

    def lost(self) -> Share:
        """Return the key groups that the proposed table takes from this task."""
        assert self.proposed is not None, "asked only while a table is proposed"
        mine = self.assignment.share_of(self.task)
        return subtract(mine, self.proposed.share_of(self.task))

    def lost_splits(self) -> tuple[SplitId, ...]:
        """Return the splits that the proposed table takes from this task."""
        assert self.proposed is not None, "asked only while a table is proposed"
        kept = self.proposed.splits_of(self.task)
        return tuple(s for s in self.assignment.splits_of(self.task) if s not in kept)

    def prepares(self, version: Version) -> bool:
        """Return whether a version is the one that the task prepares for, or has. From any thread."""
        proposed = self.proposed
        return version == (self.assignment if proposed is None else proposed).version

    def channels(self, assignment: Assignment) -> tuple[tuple[ChannelId, ...], tuple[ChannelId, ...]]:
        """Return the task's input and output channels under a table."""
        channels = channels_of(self.setup.plan, assignment)
        inputs = tuple(c for c in channels if c.receiver == self.task)
        return inputs, tuple(c for c in channels if c.sender == self.task)

    def stored_splits(self, root: RootManifest | None, names: tuple[SplitId, ...]) -> tuple[SplitState, ...]:
        """Return the states of splits in a checkpoint, or their first ones."""
        plan, source = self.setup.plan, self.stage.source
        if root is not None and source not in sources_to_list(root, plan):
            return () if source is None else splits_of(root, plan, source, names)
        first = {s.split: s for s in self.setup.first_splits}
        return tuple(first[name] for name in names)

    def _make_splits(self, watermark_us: int | None) -> SourceSplits | None:
        if self.stage.source is None:
            return None
        return SourceSplits(
            bounded=self.stage.bounded,
            idle_after_s=self.setup.idle_after_s,
            out_of_orderness_us=self.setup.out_of_orderness_us,
            watermark_us=watermark_us,
        )
