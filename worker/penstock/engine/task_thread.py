"""One thread per task: takes input where the core allows it and performs the core's actions.

    inbox, input or split --event--> core.step --actions--> steps, outputs, storer, publisher

Every wait sleeps on the task's one wakeup, which the inbox, arriving elements and credit set.
:class:`TaskLoop` is the loop, without a thread: ``penstock.inprocess`` gives the loops of all tasks
their turns on one thread, with wakeups that never sleep.
"""

import threading
import time
from collections.abc import Callable

from penstock.base.errors import RowNotSentError, Where
from penstock.base.limits import OUTPUT_FLUSH_INTERVAL_S_DEFAULT
from penstock.contract.ids import ChannelId, Version
from penstock.engine.source_reader import SourceReader
from penstock.engine.task_effects import REST_S, ROWS, TaskEffects, TaskStopped
from penstock.engine.task_inbox import FetchedState, Stop
from penstock.engine.task_runtime import TaskParts, TaskRuntime
from penstock.model.elements import Barrier, BarrierKind
from penstock.protocol.task import task_events as ev
from penstock.protocol.task.rescale_buffer import BufferPhase
from penstock.transport.wakeup import Wakeup

POLL_S = 0.002  # of what cannot wake a task: a sink that has no room


class TaskLoop:
    """Drives one task from its build to the end of the attempt: begin, turns, end."""

    def __init__(self, parts: TaskParts, host: TaskRuntime, wakeup: Wakeup) -> None:
        """Prepare to run; ``wakeup`` is the one that transport sets for this task."""
        self.core = parts.core
        self.task = parts.core.state.task
        self._hands = TaskEffects(parts, host, wakeup)
        self.inbox = self._hands.inbox
        self.progress = self._hands.progress
        self.marks = self._hands.marks
        self._parts = parts
        self._sinks = tuple(parts.sinks.values())
        self._host = host
        self._wakeup = wakeup
        self._quiet_at = 0.0
        self._said_quiet = False
        self._drained = False  # the last input was rows, and there are no more now

    def counters(self) -> dict[tuple[str, str], int]:
        """Return counters by (step, name). From any thread: a number may be a batch behind."""
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

    # --- The loop -----------------------------------------------------------------------------

    def run(self) -> None:
        """Run until the attempt is over. An error is told to the worker, which rolls back."""
        try:
            self.begin()
            while True:
                self.turn()
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
        self._hands.step(ev.Build())

    def _placed(self, error: BaseException) -> BaseException:
        """Say of a row that cannot be sent in which read it was, where this task reads a source."""
        source = self._parts.source
        reading = None if source is None else source.where()
        if source is None or reading is None or not isinstance(error, RowNotSentError):
            return error
        return RowNotSentError(f"{Where(source.name, *reading)} or behind it: {error}")

    def turn(self) -> None:
        """Do one thing of each kind; sleep if there was none, or it is known to be the last.

        Raises what a step, a source or a sink raises, and TaskStopped when the attempt is over.
        """
        controlled = self._control()
        if controlled:
            self._hands.wake_receiver()  # the steps may take long over what is read now
        worked = self._read() or controlled
        copied = self._hands.copy_on()
        drained = self._drained and not controlled and self._may_sleep()
        idle = copied and (drained or not worked)
        now = time.monotonic()
        if now - self._quiet_at >= OUTPUT_FLUSH_INTERVAL_S_DEFAULT or idle:
            if worked or not self._said_quiet:
                self._quiet_at = now
                self._said_quiet = idle
                if self.core.state.has_marks:
                    self._hands.step(ev.InputIdle())
        else:
            self._said_quiet = False
        if idle:
            self._sleep()
        else:
            self._hands.wake_receiver()

    def handle_orders(self) -> bool:
        """Do what a turn does, but read nothing. Return whether something was done or is left.

        Raises as :meth:`turn`.
        """
        heard = self._control()
        self._hands.wake_receiver()
        return not self._hands.copy_on() or heard

    def _may_sleep(self) -> bool:
        """Say whether nothing but input, credit or an order can make work: all of them wake."""
        return self.inbox.empty and self.core.state.buffer.phase is BufferPhase.NONE

    def _sleep(self) -> None:
        self._hands.flush()
        self.progress.sleep(self._wakeup.wait, self._rest_s())

    def _rest_s(self) -> float:
        """Say how long to sleep at most. Input, credit and orders wake; sinks and splits do not."""
        if not self.room():
            return POLL_S
        source = self._parts.source
        return source.rest_s() if source is not None and not self.core.exhausted else REST_S

    def room(self) -> bool:
        """Say whether every sink of the task takes rows now; nothing wakes the task when one does."""
        for sink in self._sinks:  # noqa: SIM110 - all() makes a generator for every batch
            if not sink.room():
                return False
        return True

    def _read(self) -> bool:
        """Take one input if there is one and it may be taken; say whether it was."""
        self._drained = False
        core, room = self.core, self.room()
        if self._parts.source is None:
            # The streams of tasks that have left still bring their end, whatever else is full.
            return self._read_channel(core.reads if room else core.state.retired.__contains__)
        if room and core.takes_input:
            return self._read_split(self._parts.source)
        self.core.step(ev.ReadBlocked(), 0.0)
        return False

    def _read_split(self, source: SourceReader) -> bool:
        event = source.next(self.core.reads_split, self._hands.turn_bytes())
        if event is None:
            return False
        self._hands.step(event)
        self._drained = isinstance(event, ev.RowsRead) and source.resting
        if isinstance(event, ev.SplitEnded):
            self._hands.tell()
        return not (isinstance(event, ev.SplitEmpty) and source.dry)

    def _read_channel(self, reads: Callable[[ChannelId], bool]) -> bool:
        if self._hands.input is None:
            return False
        received = self._hands.input.poll(reads, self.core.joins)
        if received is None:
            return False
        channel, element = received
        if type(element) is Barrier and element.kind is BarrierKind.RESCALE:
            self._hands.timings.barrier(time.monotonic())
        self._hands.step(ev.ElementReceived(channel, element))
        self._drained = type(element) in ROWS and self._hands.input.empty
        return True

    def _control(self) -> bool:
        moving = self.core.state.buffer.phase is not BufferPhase.NONE
        if self.inbox.empty and not moving:
            return False
        if self.inbox.reset is not None:
            raise TaskStopped
        event = self.inbox.take()
        if moving:
            self._hear_peers()
        if event is None or isinstance(event, Stop):
            return False
        if isinstance(event, FetchedState):
            self._hands.take(event)
            self._hands.tell()
            return True
        if isinstance(event, ev.Started):
            self._hands.open_up()
        elif isinstance(event, ev.RescaleSettled):
            self.marks.settled = event.version
        self._hands.step(event)
        if isinstance(event, ev.RescaleSettled):
            self._hands.forget_streams()
        self._hands.tell()
        return True

    def _hear_peers(self) -> None:
        wanted = self._routing_version()
        for channel in self.core.state.buffer.awaited:
            output = self._hands.output(channel)
            if output is not None and output.receiver_version >= wanted:
                self._hands.step(ev.PeerVersion(channel, output.receiver_version))
                self._hands.wake_receiver()
        if self.core.state.buffer.phase is BufferPhase.NONE:
            self._hands.timings.released(wanted, time.monotonic())

    def _routing_version(self) -> Version:
        old, new = self.core.state.routing
        return (new or old).version

    def end(self) -> None:
        """Let go of all that the task owns; after a reset, drop what will never be committed."""
        self._hands.over = True
        self._hands.hurry()
        reset = self.inbox.reset
        if isinstance(reset, ev.ResetTo):
            for action in self.core.step(reset, 0.0):
                if isinstance(action, ev.Discard):
                    self._host.clear(action.handles, discard=True)
        self._hands.drop_near()
        parts = self._parts
        if parts.source is not None:
            parts.source.close()
        for sink in parts.sinks.values():
            sink.close()
        if parts.state is not None:
            parts.state.close()
        if parts.in_flight is not None:
            parts.in_flight.free()


class TaskThread(threading.Thread):
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
        self.marks = loop.marks
