"""Performs the actions of a task's core: steps, channels, snapshots, state, reports.

Everything here runs on the task's thread. Only sending may wait. While it waits, it reacts to a reset
and to events that do not depend on the order of rows.
"""

from collections.abc import Callable, Collection
from sys import maxsize
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.base.limits import CREDIT_FIRST_CHANNEL_BYTES_MIN, SOURCE_JOINED_READ_BYTES
from penstock.base.threads import monotonic, monotonic_ns
from penstock.contract.ids import ChannelId
from penstock.contract.plan import routes
from penstock.engine.checkpoint_files import Captured, Outcome, SinkRaised
from penstock.engine.router import EdgeRouter
from penstock.engine.task_runtime import FetchedState, RescaleTimings, TaskInbox, TaskParts, TaskProgress, TaskRuntime
from penstock.model.elements import BarrierKind, Data, LatencyMarker
from penstock.protocol.channel.pace import AnswerRate
from penstock.protocol.engine.engine_core import TaskMarks
from penstock.protocol.task import task_messages as ev
from penstock.transport.input import TaskInput, Wakeup
from penstock.transport.output import Output

if TYPE_CHECKING:
    from penstock.keyed_state.state_files import StateSnapshot

T = TypeVar("T")
ROWS = (Data, LatencyMarker)  # the elements that a full channel refuses
REST_S = 1.0  # the timeout of a wait that every event interrupts


class TaskStopped(Exception):
    """The attempt is over: the thread stops what it is doing."""


class TaskEffects:
    """Performs the actions of one task. ``over`` is set when the attempt has ended."""

    def __init__(self, parts: TaskParts, host: TaskRuntime, wakeup: Wakeup) -> None:
        """Own ``parts``; sleep on ``wakeup``."""
        self.core = parts.core
        self.task = parts.core.state.task
        self.inbox = TaskInbox(wakeup)
        self.progress = TaskProgress()
        self.marks = TaskMarks()
        self.over = False
        self.input: TaskInput | None = None
        self._parts = parts
        self._host = host
        self._now = host.clock.monotonic
        self._work_clock = host.work_clock
        self._wakeup = wakeup
        self._outputs: dict[ChannelId, Output] = {}
        self._filling: dict[Output, None] = {}  # given rows since they were last flushed
        self._given: dict[Output, None] = {}  # given rows in this pass
        self._routers: list[EdgeRouter] = []
        self._routed_by: tuple[Any, Any] = (None, None)
        self._markers = 0
        self._waited_s = 0.0  # for credit, by rows since the steps were given theirs
        self._answers = AnswerRate()
        self._captured: Captured | None = None  # while state of it is not copied
        self._cut: StateSnapshot | None = None  # the newest
        self.timings = RescaleTimings(self.task)
        self._perform_one: dict[type, Callable[[Any], None]] = self._performers()

    def step(self, event: ev.Event) -> None:
        """Pass an event to the core, and perform its actions in order."""
        perform = self._perform_one
        for action in self.core.step(event, self._now()):
            perform[type(action)](action)

    def tell(self) -> None:
        """Report the task's progress to the worker."""
        self.marks.exhausted = self.core.exhausted
        self.marks.published = self.core.state.sinks.published
        self._host.changed()

    def open_up(self) -> None:
        """Get the input and open the sinks: rows may flow now."""
        if self._parts.source is None and self.input is None:
            self.input = self._host.input(self.task)
        for sink in self._parts.sinks.values():
            sink.open()

    def output(self, channel: ChannelId) -> Output | None:
        """Return an output channel; None while it is not open."""
        try:
            output = self._outputs[channel] = self._host.output(channel)
        except KeyError:
            return None
        return output

    def read_bytes_max(self) -> int:
        """Return how many bytes may be read at once: half of what may wait at an edge's receivers.

        More would wait in the buffers before a barrier.
        """
        waiting: dict[int, int] = {}
        for channel in self.core.state.outputs:
            output = self._outputs.get(channel)
            window = CREDIT_FIRST_CHANNEL_BYTES_MIN if output is None else output.window
            waiting[channel.edge] = waiting.get(channel.edge, 0) + window
        return min(waiting.values(), default=2 * SOURCE_JOINED_READ_BYTES) // 2

    def outstanding(self, edges: Collection[int], queue: int) -> int:
        """Send what the steps have emitted, and return how many rows wait: see :class:`OutstandingRows`.

        Rows that a rescale holds back are outstanding, too.
        """
        self._flush()
        self.wake_receivers()
        most = 0
        for channel in self.core.state.outputs:
            output = self._outputs.get(channel) if channel.edge in edges else None
            if output is None:
                continue
            rows = output.outstanding_rows()
            if output.full or rows >= queue:
                output.flush()
            most = max(most, maxsize if output.full else rows)
        return most + self.core.state.buffer.held_rows

    # --- Steps and their rows -----------------------------------------------------------------

    def _process(self, action: ev.ProcessRows) -> None:
        since, self._waited_s = self._work_clock(), 0.0
        rows, origin = action.data.rows, action.origin
        self.progress.rows_in += rows
        slot, source, chain = self._parts.in_flight, self._parts.source, self._parts.chain
        take = chain.entry(origin.edge) if isinstance(origin, ChannelId) else chain.on_batch
        if slot is None:
            take(action.data.payload)
        else:
            slot.enter(None if source is None else source.where(), rows)
            try:
                take(action.data.payload)
            finally:
                slot.leave()
        self._flush()
        now = self._work_clock()
        if source is None:
            if self.input is not None:
                self.input.worked(action.data, now - since, self._waited_s, now)
            return
        source.worked(rows, now - since, self._waited_s)
        for origin_ns in source.marks():
            self._forward_marker(LatencyMarker(self.task, origin_ns))

    def follow_answers(self, full: bool) -> None:
        """Let reads and credit follow the answers that the steps wait for; ``full``: they take no rows now."""
        now = self._work_clock()
        if not self._answers.seen(full, self.progress.rows_in, now):
            return
        if self._parts.source is not None:
            self._parts.source.bound(self._answers.rows_per_s)
        elif self.input is not None:
            self.input.bound(self._answers.rows_per_s, now)

    def _advance(self, action: ev.AdvanceWatermark) -> None:
        reached = self._firing(lambda: self._parts.chain.on_watermark(action.time_us))
        self._flush()
        self.step(ev.Fired(reached))

    def _advance_clock(self) -> None:
        self._firing(self._parts.chain.on_clock)
        self._flush()

    def _take_answers(self) -> None:
        """Let rows leave whose answers have come. The steps may reach a later time by that."""
        self._firing(self._parts.chain.on_answers)
        self._flush()
        if self.core.fires:
            self.step(ev.FireOn())

    def _firing(self, fire: Callable[[], T]) -> T:
        """Let the steps fire. If the process dies meanwhile, others know that no row was in flight."""
        slot = self._parts.in_flight
        if slot is None:
            return fire()
        slot.enter(None, 0)
        try:
            return fire()
        finally:
            slot.leave()

    def _flush(self) -> None:
        """Route what the steps have emitted since the last time."""
        for index, edge in enumerate(self._parts.edges):
            if not edge.rows:
                continue
            batches, edge.rows[:] = tuple(edge.rows), ()
            for batch in batches:
                if batch.num_rows:
                    self.progress.rows_out += batch.num_rows
                    pieces = self._router(index).pieces(batch)
                    self.step(ev.Produced(tuple(pieces)))

    def flush(self) -> None:
        """Send rows that wait for more rows: the task is about to sleep."""
        for output in {**self._filling, **self._given}:
            output.flush()
        self._filling.clear()
        self._given.clear()

    def wake_receivers(self) -> None:
        """Wake the threads that continue with what was sent in this pass, at its end.

        If they were woken earlier, each would wait for the interpreter lock of this thread.
        """
        for output in self._given:
            output.wake_receiver()
        self._filling.update(self._given)
        self._given.clear()

    def _router(self, index: int) -> EdgeRouter:
        old, new = self.core.state.routing
        if old is not self._routed_by[0] or new is not self._routed_by[1]:
            self._routed_by = (old, new)
            plan = self.core.state.setup.plan
            self._routers = [
                EdgeRouter(routes(plan, e.plan, self.task, old, new), e.keys, e.custom, e.load)
                for e in self._parts.edges
            ]
        return self._routers[index]

    def _send(self, action: ev.Send) -> None:
        output = self._outputs.get(action.channel) or self.output(action.channel)
        assert output is not None, f"no stream for {action.channel}"
        element = action.element
        if not isinstance(element, ROWS):
            output.put(element)
            return
        self._given[output] = None
        if output.try_send(element, more=True):
            return
        self.wake_receivers()  # the receiver must empty the channel while this thread waits
        since = self._work_clock()
        while not output.try_send(element):
            if self.copy_on():
                self.progress.block(lambda: self._wakeup.wait(REST_S))
            self._while_waiting()
        self._waited_s += self._work_clock() - since
        self._wakeup.set()  # what ended the wait may be an order or input: the task must not sleep before it has looked
        self.core.step(ev.ReadBlocked(), 0.0)

    def _while_waiting(self) -> None:
        """React to a reset and to events that do not depend on the order of rows; others wait."""
        if self.inbox.reset is not None:
            raise TaskStopped
        while self.core.state.waiting is None:
            event = self.inbox.take_harmless(self.core.state.aligner.begins)
            if event is None:
                return
            self.take_event(event)
            self.tell()

    def _mark(self, action: ev.SendMark) -> None:
        self._forward_marker(action.marker)

    def _forward_marker(self, marker: LatencyMarker) -> None:
        """Send a marker to the receivers in turn; a task with sinks measures its age instead."""
        if self.core.state.outputs:
            self._markers += 1
            channel = self.core.state.outputs[self._markers % len(self.core.state.outputs)]
            self._send(ev.Send(channel, marker))
            return
        for sink in self._parts.sinks.values():
            sink.mark(monotonic_ns() - marker.origin_ns)

    # --- Checkpoints --------------------------------------------------------------------------

    def _snapshot(self, action: ev.Snapshot) -> None:
        while not self.copy_on():
            pass
        barrier, parts, snapshot_writer = action.barrier, self._parts, self._host.snapshot_writer
        term, epoch = barrier.term, barrier.epoch
        moves = barrier.kind is BarrierKind.RESCALE  # rows of moved groups wait for it
        state = parts.state.flip(epoch, merges=not moves) if parts.state is not None else None
        self._cut = state
        self._captured = Captured(
            term,
            epoch,
            state,
            tuple(
                sink.seal(epoch, barrier.committed, snapshot_writer.name(term, epoch, f"-{self.task}"))
                for sink in parts.sinks.values()
            ),
            parts.source.states(epoch) if parts.source is not None else (),
            parts.chain.digests(),
            tuple(found for edge in parts.edges if edge.load is not None for found in edge.load.take()),
        )
        self.copy_on()
        if moves:
            self.timings.cut(monotonic())
            windows = {c: o.window for c, o in self._outputs.items()}
            self.core.step(ev.Paced(windows), 0.0)

    def expedite(self) -> None:
        """Store the present snapshot without pauses."""
        if self._cut is not None:
            self._cut.expedite.set()

    def copy_on(self) -> bool:
        """Copy more of the cut state for about a millisecond; store it when all is copied.

        Returns whether nothing is left to copy. At the end of an attempt the rest is never stored.
        """
        captured, state = self._captured, self._parts.state
        if captured is None:
            return True
        if state is not None and not state.copy_on():
            return False
        self._captured = None
        self._host.snapshot_writer.store(captured, self._stored)
        return True

    def _spread(self, action: ev.RelayBarrier) -> None:
        self._host.spread(action.barrier)

    def _stored(self, outcome: Outcome) -> None:
        """Take the outcome of storing. After the attempt, prepared output is discarded."""
        if not self.over:
            self.inbox.put(outcome)
            return
        told = outcome.failed if isinstance(outcome, SinkRaised) else outcome
        handles = told.handles if isinstance(told, ev.StoreFailed) else told.parts.handles
        self._host.clear(handles, discard=True)

    def take_event(self, event: ev.Event | SinkRaised) -> None:
        """Perform what an event of the inbox asks for. Raises what a sink has raised in the background."""
        if isinstance(event, SinkRaised):
            self.core.step(event.failed, self._now())  # the reset discards what other sinks have prepared
            raise event.error
        self.step(event)

    def _confirm(self, action: ev.ConfirmCommitted) -> None:
        if self._parts.state is not None:
            self._parts.state.committed(action.epoch)
        if self._parts.source is not None:
            self._parts.source.committed(action.epoch)

    def _publish(self, action: ev.PublishOutput) -> None:
        epoch = action.epoch
        self._host.publish(epoch, action.handles, lambda: self.inbox.put(ev.Published(epoch)))

    # --- Load and rescale ---------------------------------------------------------------------

    def _load(self, action: ev.LoadState) -> None:
        """Fetch state in the background; rows that stay flow on meanwhile."""
        state = self._parts.state
        if state is None or not action.files:
            self.take(FetchedState(action, None))
            return

        def fetch() -> None:
            try:
                answer = FetchedState(action, state.fetch(action.files, self._host.blobs, action.migrated))
            except Exception as error:  # raised on the task's thread, with its ids
                answer = FetchedState(action, None, error)
            self.inbox.put(answer)
            if self.over:
                self.close_fetched()

        self._host.run_in_background(fetch)

    def take(self, answer: FetchedState) -> None:
        """Load the fetched state into the task."""
        if answer.error is not None:
            raise answer.error
        parts, order, since = self._parts, answer.order, monotonic()
        if parts.state is not None and answer.fetched is not None:
            parts.state.take(answer.fetched)
        if parts.source is not None:
            parts.source.open(order.splits)
        if parts.state is not None:
            for fired in order.fired:
                parts.chain.on_groups_gained(fired.groups, fired.time_us)
            parts.chain.on_loaded()
        self.timings.load_s = monotonic() - since
        self.step(ev.Loaded(order.version))

    def close_fetched(self) -> None:
        """Close state that was fetched for an attempt that is over."""
        while (event := self.inbox.take()) is not None:
            if isinstance(event, FetchedState) and event.fetched is not None:
                event.fetched.close()

    def forget_streams(self) -> None:
        """Forget outputs that the version does not have; later versions may open new streams."""
        keep = self.core.state.outputs
        self._outputs = {c: o for c, o in self._outputs.items() if c in keep}

    def _preload(self, action: ev.Preload) -> None:
        version, state = action.version, self.core.state

        def wanted() -> bool:
            return not self.over and state.prepares(version)

        self._host.preload(action.files, lambda: self.inbox.put(ev.Preloaded(version)), wanted)

    def _announce(self, action: ev.AnnounceVersion) -> None:
        self.open_up()
        if self.input is not None:
            self.input.announce(action.version)

    def _close_splits(self, action: ev.CloseSplits) -> None:
        assert self._parts.source is not None, "only a source task has splits"
        self._parts.source.close(action.splits)

    def _drop(self, action: ev.DropGroups) -> None:
        if self._parts.state is not None:
            self._parts.state.drop_groups(action.share)
            self._parts.chain.on_groups_lost(action.share)

    # --- Reports ------------------------------------------------------------------------------

    def _ready(self, _: ev.ReportReady) -> None:
        self.marks.ready = True
        self.marks.resumed = self.core.state.assignment.version
        self.tell()

    def _prepared(self, action: ev.Prepared) -> None:
        self.marks.prepared = action.version
        self.tell()

    def _resumed(self, action: ev.Resumed) -> None:
        # First: a task that resumed and has gained unread splits must not look exhausted.
        self.marks.exhausted = self.core.exhausted
        self.marks.resumed = action.version
        self.timings.resumed(action.version)
        self.tell()

    def _finished(self, _: ev.ReportFinished) -> None:
        self.marks.finished = True
        self.tell()

    def _ack(self, action: ev.Ack) -> None:
        self._host.ack(action.term, action.epoch, action.manifest)

    def _failed(self, action: ev.Failed) -> None:
        self._host.epoch_failed(self.task, action.term, action.epoch, action.reason)

    def _performers(self) -> dict[type, Callable[[Any], None]]:
        return {
            ev.ProcessRows: self._process,
            ev.Send: self._send,
            ev.AdvanceWatermark: self._advance,
            ev.AdvanceAside: lambda a: self._parts.chain.on_aside(a.edge, a.time_us),
            ev.AdvanceClock: lambda _: self._advance_clock(),
            ev.TakeAnswers: lambda _: self._take_answers(),
            ev.SendMark: self._mark,
            ev.RelayBarrier: self._spread,
            ev.Snapshot: self._snapshot,
            ev.ExpediteSnapshot: lambda _: self.expedite(),
            ev.Ack: self._ack,
            ev.Failed: self._failed,
            ev.ConfirmCommitted: self._confirm,
            ev.PublishOutput: self._publish,
            ev.Forget: lambda a: self._host.clear(a.handles, discard=False),
            ev.Discard: lambda a: self._host.clear(a.handles, discard=True),
            ev.LoadState: self._load,
            ev.Preload: self._preload,
            ev.ReportReady: self._ready,
            ev.Prepared: self._prepared,
            ev.CloseSplits: self._close_splits,
            ev.DropGroups: self._drop,
            ev.AnnounceVersion: self._announce,
            ev.Resumed: self._resumed,
            ev.ReportFinished: self._finished,
        }
