"""One thread per task: takes input where the core allows it and performs the core's actions.

    inbox, input or split --event--> core.step --actions--> steps, outputs, storer, publisher

Every wait sleeps on the task's one wakeup, which the inbox, arriving elements and credit set.
:class:`TaskLoop` is the loop, without a thread: ``penstock.inprocess`` gives the loops of all tasks
their passes on one thread, with wakeups that never sleep.
"""

from collections.abc import Callable
from contextlib import ExitStack

from penstock.base.errors import RowNotSentError, Where
from penstock.base.limits import OUTPUT_FLUSH_INTERVAL_S_DEFAULT
from penstock.base.threads import Thread, monotonic
from penstock.contract.ids import ChannelId, Version
from penstock.contract.status import SplitStatus
from penstock.engine.source_reader import SourceReader
from penstock.engine.task_calls import TaskCalls
from penstock.engine.task_effects import REST_S, ROWS, TaskEffects, TaskStopped
from penstock.engine.task_runtime import FetchedState, Stop, TaskParts, TaskRuntime
from penstock.model.elements import Barrier, BarrierKind
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.rescale_buffer import BufferPhase
from penstock.steps.enrich.async_calls import AsyncCalls
from penstock.steps.lookup.table_calls import TableWait
from penstock.transport.input import Wakeup

POLL_S = 0.002  # how often to check a sink without room, which cannot wake the task


class TaskLoop:
    """Drives one task from its build to the end of the attempt: begin, passes, end."""

    def __init__(self, parts: TaskParts, host: TaskRuntime, wakeup: Wakeup, calls: AsyncCalls | None = None) -> None:
        """Prepare to run; ``wakeup`` is the one that transport sets for this task.

        ``calls`` makes the asynchronous calls of the steps; None: a thread of the task's own.
        """
        self._calls: AsyncCalls = TaskCalls(wakeup.set) if calls is None else calls
        self.core = parts.core
        self.task = parts.core.state.task
        self._effects = TaskEffects(parts, host, wakeup)
        self.inbox = self._effects.inbox
        self.progress = self._effects.progress
        self.marks = self._effects.marks
        self._parts = parts
        self._sinks = tuple(parts.sinks.values())
        self._host = host
        self._wakeup = wakeup
        self._idle_at = 0.0
        self._idle_reported = False
        self._drained = False  # whether the last input was rows, and no more are queued

    def counters(self) -> dict[tuple[str, str], int]:
        """Return counters by (step, name). From any thread; a number may be one batch old."""
        steps = self.core.state.setup.plan.stages[self.task.stage].steps
        counted = {
            (step, name): value
            for step, values in self._parts.chain.counters().items()
            for name, value in values.items()
        }
        counted.setdefault((steps[0], "rows_in"), self.progress.rows_in)
        for name, sink in self._parts.sinks.items():
            counted[name, "rows_in"] = sink.rows
        rest = [s for s in steps if s not in self._parts.sinks]
        if rest and self._parts.edges:
            counted.setdefault((rest[-1], "rows_out"), self.progress.rows_out)
        return counted

    def waiting_for(self) -> dict[str, TableWait]:
        """Return the steps whose tables do not answer, and why. From any thread."""
        return self._parts.chain.waits()

    def full_sinks(self) -> dict[str, float]:
        """Return the sinks that have no room, and since when (monotonic seconds). From any thread."""
        seen = ((name, sink.full_since) for name, sink in self._parts.sinks.items())
        return {name: since for name, since in seen if since is not None}

    def pending(self) -> tuple[SplitStatus, ...]:
        """Return what the splits of a source had left to read, and have the task measure again. From any thread."""
        source = self._parts.source
        if source is None:
            return ()
        source.asked = True
        return source.pending

    # --- The loop -----------------------------------------------------------------------------

    def run(self) -> None:
        """Run until the attempt is over. An error is reported to the worker, which rolls back."""
        try:
            self.begin()
            while True:
                self.run_pass()
        except TaskStopped:
            pass
        except BaseException as error:
            self._host.broken(self.task, self._placed(error))
            while self.inbox.reset is None:
                self._wakeup.wait(REST_S)
        finally:
            self.end()

    def begin(self) -> None:
        """Ask for the task's state."""
        self._parts.chain.follow_clock(self._host.clock.wall_us)
        self._parts.chain.ask_through(self._calls)
        self._parts.chain.shed_by(self._effects.outstanding)
        self._effects.step(ev.Build())

    def _placed(self, error: BaseException) -> BaseException:
        """Add the source position to the error of a row that cannot be sent, if there is a source."""
        source = self._parts.source
        reading = None if source is None else source.where()
        if source is None or reading is None or not isinstance(error, RowNotSentError):
            return error
        return RowNotSentError(f"{Where(source.name, *reading)} or behind it: {error}")

    def run_pass(self) -> None:
        """Do one thing of each kind; sleep if there was none, or it is known to be the last.

        Raises what a step, a source or a sink raises, and TaskStopped when the attempt is over.
        """
        controlled = self._control()
        if controlled:
            self._effects.wake_receivers()  # the steps may need long for the rows that are read next
        worked = self._read() or controlled
        worked = self._fire_on() or worked
        worked = self._fire_by_clock() or worked
        worked = self._take_answers() or worked
        copied = self._effects.copy_on()
        drained = self._drained and not controlled and self._may_sleep()
        idle = copied and (drained or not worked)
        now = monotonic()
        if now - self._idle_at >= OUTPUT_FLUSH_INTERVAL_S_DEFAULT or idle:
            if worked or not self._idle_reported:
                self._idle_at = now
                self._idle_reported = idle
                if self.core.state.has_marks:
                    self._effects.step(ev.InputIdle())
        else:
            self._idle_reported = False
        if idle:
            self._sleep()
        else:
            self._effects.wake_receivers()

    def handle_orders(self) -> bool:
        """Do what a pass does, but read nothing. Return whether something was done or is left.

        Raises as :meth:`run_pass`.
        """
        heard = self._control()
        heard = self._fire_on() or heard
        self._effects.wake_receivers()
        return not self._effects.copy_on() or heard

    def _may_sleep(self) -> bool:
        """Return whether only input, credit or an order can make work; each of them wakes the task."""
        fires = self.core.fires and not self._parts.chain.waiting
        due = fires or (self._parts.chain.ready and self.core.takes_answers)
        return self.inbox.empty and self.core.state.buffer.phase is BufferPhase.NONE and not due

    def _sleep(self) -> None:
        self._effects.flush()
        self.progress.sleep(self._wakeup.wait, self._rest_s())

    def _rest_s(self) -> float:
        """Return the longest time to sleep: sinks and splits do not wake the task."""
        if not self.room():
            return POLL_S
        source = self._parts.source
        rest_s = REST_S if source is None or self.core.exhausted else source.rest_s(self.core.reads_split)
        ticks_in_s = self.ticks_in_s()
        return rest_s if ticks_in_s is None else min(rest_s, max(ticks_in_s, POLL_S))

    def room(self) -> bool:
        """Return whether every sink takes rows now; nothing wakes the task when one begins to."""
        for sink in self._sinks:  # noqa: SIM110 - all() makes a generator for every batch
            if not sink.room():
                return False
        return True

    def _fire_on(self) -> bool:
        """Let the steps fire their next slice, if a watermark has left something to fire. Return whether they did."""
        if not self.core.fires or not self.room() or self._parts.chain.waiting:
            return False  # while rows wait, only an answer lets the steps reach a later time
        self._effects.step(ev.FireOn())
        return True

    def ticks_in_s(self) -> float | None:
        """Return in how many seconds the steps will fire by the clock; 0 or less: now. None if they will not."""
        return self._parts.chain.ticks_in_s() if self.core.follows_clock else None

    def _fire_by_clock(self) -> bool:
        """Let the steps fire what is due by the clock. Return whether something was."""
        ticks_in_s = self.ticks_in_s()
        if ticks_in_s is None or ticks_in_s > 0 or not self.room():
            return False
        self._effects.step(ev.ClockReached())
        return True

    @property
    def waits(self) -> bool:
        """Return whether rows of the steps wait for answers that are under way, or for nothing any more."""
        chain = self._parts.chain
        return chain.waiting and (chain.ready or self._calls.answered) and self.core.takes_answers

    def _take_answers(self) -> bool:
        """Let rows leave whose answers have come. Return whether answers had come."""
        if not self.waits or not self.room():
            return False
        self._effects.step(ev.AnswersCame())
        return True

    def _read(self) -> bool:
        """Take one input if there is one and it may be taken; return whether one was taken."""
        self._drained = False
        core, chain, source = self.core, self._parts.chain, self._parts.source
        full = chain.full
        if chain.asks:
            self._effects.follow_answers(full)
        room = not full and self.room()
        if source is None:
            # Without room, read only streams of tasks that have left: they still bring their end.
            return self._read_channel(core.reads if room else core.state.retired.__contains__)
        if source.asked:
            source.measure()
        if room and core.takes_input:
            return self._read_split(source)
        self.core.step(ev.ReadBlocked(), 0.0)
        return False

    def _read_split(self, source: SourceReader) -> bool:
        event = source.next(self.core.reads_split, self._effects.read_bytes_max())
        if event is None:
            return False
        self._effects.step(event)
        self._drained = isinstance(event, ev.RowsRead) and source.resting
        if isinstance(event, ev.SplitEnded):
            self._effects.tell()
        return not (isinstance(event, ev.SplitEmpty | ev.ReadBlocked) and source.dry)

    def _read_channel(self, reads: Callable[[ChannelId], bool]) -> bool:
        if self._effects.input is None:
            return False
        received = self._effects.input.poll(reads, self.core.joins)
        if received is None:
            return False
        channel, element = received
        if type(element) is Barrier and element.kind is BarrierKind.RESCALE:
            self._effects.timings.barrier(monotonic())
        self._effects.step(ev.ElementReceived(channel, element))
        self._drained = type(element) in ROWS and self._effects.input.empty
        return True

    def _control(self) -> bool:
        moving = self.core.state.buffer.phase is not BufferPhase.NONE
        if self.inbox.empty and not moving:
            return False
        if self.inbox.reset is not None:
            raise TaskStopped
        event = self.inbox.take()
        if moving:
            self._check_peer_versions()
        if event is None or isinstance(event, Stop):
            return False
        if isinstance(event, FetchedState):
            self._effects.take(event)
            self._effects.tell()
            return True
        if isinstance(event, ev.Started):
            self._effects.open_up()
        elif isinstance(event, ev.RescaleSettled):
            self.marks.settled = event.version
        self._effects.take_event(event)
        if isinstance(event, ev.RescaleSettled):
            self._effects.forget_streams()
        self._effects.tell()
        return True

    def _check_peer_versions(self) -> None:
        wanted = self._routing_version()
        for channel in self.core.state.buffer.awaited:
            output = self._effects.output(channel)
            if output is not None and output.receiver_version >= wanted:
                self._effects.step(ev.PeerVersion(channel, output.receiver_version))
                self._effects.wake_receivers()
        if self.core.state.buffer.phase is BufferPhase.NONE:
            self._effects.timings.released(wanted, monotonic())

    def _routing_version(self) -> Version:
        old, new = self.core.state.routing
        return (new or old).version

    def end(self) -> None:
        """Release everything that the task owns; after a reset, discard uncommitted output.

        Every part is closed, whatever another one raises. Raises the last of these errors.
        """
        self._effects.over = True
        self._effects.expedite()
        reset = self.inbox.reset
        if isinstance(reset, ev.ResetTo):
            for action in self.core.step(reset, 0.0):
                if isinstance(action, ev.Discard):
                    self._host.clear(action.handles, discard=True)
        parts = self._parts
        with ExitStack() as closing:  # from the last to the first
            if parts.in_flight is not None:
                closing.callback(parts.in_flight.free)
            if parts.state is not None:
                closing.callback(parts.state.close)
            for sink in parts.sinks.values():
                closing.callback(sink.close)
            if parts.source is not None:
                closing.callback(parts.source.close)
            closing.callback(parts.chain.stop)
            closing.callback(self._calls.close)
            closing.callback(self._effects.close_fetched)


class TaskThread(Thread):
    """The thread of one task's loop."""

    def __init__(self, parts: TaskParts, host: TaskRuntime, wakeup: Wakeup) -> None:
        """Prepare to run, as :class:`TaskLoop` says."""
        loop = TaskLoop(parts, host, wakeup)
        super().__init__(target=loop.run, name=f"task-{loop.task}", daemon=True)
        self.core = loop.core
        self.task = loop.task
        self.inbox = loop.inbox
        self.progress = loop.progress
        self.counters = loop.counters
        self.pending = loop.pending
        self.waiting_for = loop.waiting_for
        self.full_sinks = loop.full_sinks
        self.marks = loop.marks
