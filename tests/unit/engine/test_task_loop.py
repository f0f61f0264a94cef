"""The loop of one task: what it reads, when it tells the time, and how it ends."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.limits import ANSWER_RATE_S, SINK_STAGED_BYTES_MAX
from penstock.contract.ids import ChannelId, Epoch, SplitId, TaskId, Version
from penstock.contract.manifest import SinkHandle
from penstock.engine.task_effects import TaskStopped
from penstock.engine.task_runtime import SinkSlot, Stop, TaskParts, TaskRuntime
from penstock.engine.task_thread import TaskLoop
from penstock.model.elements import Data, EndOfStream, Watermark
from penstock.protocol.channel.flow_control import ReceiveChannel
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskCore
from penstock.transport.batches import measure
from penstock.transport.input import InputChannel, TaskInput, Wakeup
from tests.support.fakes import FakeClock
from tests.support.task_harness import (
    COUNT,
    ONE,
    OUT,
    SOURCE,
    THREE,
    barrier,
    handle,
    rescale,
    rig,
    root,
    rows,
    to_count,
    to_out,
)

BATCH = pa.record_batch({"word": ["w"]})
ROWS = Data(BATCH, 1, measure(BATCH), None, None)


class Carrier:
    """Gives credit at once."""

    def owe(self, channel: InputChannel, urgent: bool) -> None:
        channel.credit()


class Writer:
    """A sink whose room the test decides."""

    def __init__(self) -> None:
        self.full = False
        self.batches: list[pa.RecordBatch] = []

    def room(self) -> bool:
        return not self.full

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def seal(self, epoch: Epoch, name: str) -> None:
        """Nothing is staged."""

    def close(self) -> None:
        """Nothing is open."""


class Chain:
    """Steps that put rows into the sink, and note the time."""

    def __init__(self, sink: SinkSlot) -> None:
        self.on_batch = sink.write
        self.times: list[int] = []
        self.full = self.asks = False

    def entry(self, edge: int) -> Any:
        return self.on_batch

    def on_watermark(self, time_us: int) -> int:
        self.times.append(time_us)
        return time_us

    def follow_clock(self, wall_us: Any) -> None:
        """Has nothing that fires by the clock."""

    def ticks_in_s(self) -> None:
        """Return None: nothing is due by the clock."""

    waiting = ready = False

    def ask_through(self, calls: Any) -> None:
        """Asks nobody."""

    def shed_by(self, outstanding: Any) -> None:
        """Sheds nothing."""

    def digests(self) -> tuple[()]:
        """Has no copies."""
        return ()

    def stop(self) -> None:
        """Has nothing to stop."""


class Outputs:
    """Output channels that keep what they are given. Their receivers have a version."""

    def __init__(self) -> None:
        self.sent: list[tuple[ChannelId, object]] = []
        self.receiver_version = Version(1)

    def of(self, channel: ChannelId) -> Any:
        return Output(channel, self)


class Output:
    """One of them, which always has room."""

    window = 0

    def __init__(self, channel: ChannelId, outputs: Outputs) -> None:
        self._channel, self._outputs = channel, outputs

    @property
    def receiver_version(self) -> Version:
        return self._outputs.receiver_version

    def put(self, element: object) -> None:
        self._outputs.sent.append((self._channel, element))

    def try_send(self, element: object, *, more: bool = False) -> bool:
        self.put(element)
        return True

    def flush(self) -> None:
        """Nothing waits."""

    def wake_receiver(self) -> None:
        """Nobody sleeps here."""


@dataclass
class Task:
    """A loop over a real core, inbox and input, with a sink, steps and outputs that the test looks at."""

    core: TaskCore
    source: Any = None
    writer: Writer = field(default_factory=Writer)
    outputs: Outputs = field(default_factory=Outputs)
    broken: list[tuple[TaskId, BaseException]] = field(default_factory=list)
    cleared: list[tuple[tuple[SinkHandle, ...], bool]] = field(default_factory=list)
    sequence: dict[ChannelId, int] = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        wakeup = Wakeup()
        self.input = TaskInput(self.core.state.task, wakeup)
        self.slot = SinkSlot(lambda: cast(Any, self.writer))
        self.chain = Chain(self.slot)
        parts = TaskParts(self.core, cast(Any, self.chain), (), {"out": self.slot}, None, self.source)
        host = SimpleNamespace(
            clock=FakeClock(),
            work_clock=lambda: self.seconds,
            input=lambda _: self.input,
            output=self.outputs.of,
            changed=lambda: None,
            spread=lambda _: None,
            broken=lambda name, error: self.broken.append((name, error)),
            clear=lambda handles, discard: self.cleared.append((handles, discard)),
        )
        self.loop = TaskLoop(parts, cast(TaskRuntime, host), wakeup)
        self.loop._effects.open_up()
        inputs = [self.input.add(self._state(c), None) for c in self.core.state.channels(self.core.state.assignment)[0]]
        self.inputs = {made.channel: made for made in inputs}
        for made in inputs:
            made.begin(Carrier())

    def _state(self, channel: ChannelId) -> ReceiveChannel:
        return ReceiveChannel(channel, 1 << 23, 1 << 22, Version(1))

    def arrive(self, channel: ChannelId, element: Any) -> None:
        self.sequence[channel] = number = self.sequence.get(channel, 0) + 1
        self.inputs[channel].push(number, element)

    def passes(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop._wakeup.set()  # it would sleep where nothing is left to do
            self.loop.run_pass()


def test_a_full_sink_stops_the_rows_in_front_of_it() -> None:
    task = Task(rig(OUT).core)
    task.writer.full = True
    task.arrive(to_out(0, 0), ROWS)
    task.passes(3)
    assert task.writer.batches == []
    task.writer.full = False
    task.passes()
    assert task.writer.batches == [BATCH]


def test_what_waits_follows_the_rows_that_steps_take_as_answers_come() -> None:
    task = Task(rig(OUT).core)
    task.chain.asks = True
    task.arrive(to_out(0, 0), ROWS)
    task.passes()
    task.chain.full = True
    task.passes()
    task.seconds = ANSWER_RATE_S
    task.passes()
    assert task.input._pace._most == ROWS.rows / ANSWER_RATE_S
    task.chain.full = False
    for _ in range(2):
        task.seconds += ANSWER_RATE_S
        task.passes()
    assert task.input._pace._most == inf


def test_a_full_sink_takes_the_end_of_a_stream_that_a_rescale_ends() -> None:
    driven = rig(OUT)
    driven(ev.Proposed(ONE, None))
    for sender in (0, 1):
        driven.arrive(to_out(sender, 0), rescale(1))
    driven.store(1)
    task = Task(driven.core)
    driven(ev.RescaleCommitted(Version(2), root(1)))
    task.writer.full = True
    task.arrive(to_out(1, 0), EndOfStream())
    assert to_out(1, 0) in task.core.state.retired
    task.passes()
    assert to_out(1, 0) not in task.core.state.retired


def test_a_full_sink_stops_a_source_in_the_same_stage() -> None:
    asked: list[str] = []

    def following(reads: Callable[[SplitId], bool], bytes_max: int) -> None:
        asked.append("read")

    def measure() -> None:
        asked.append("measured")
        source.asked = False

    source = SimpleNamespace(next=following, rest_s=lambda *_: 0.0, where=lambda: None, resting=False, dry=True)
    source.asked, source.pending, source.measure = False, (), measure
    task = Task(rig(SOURCE).core, source)
    task.writer.full = True
    task.passes(2)
    assert asked == []
    assert task.loop.pending() == ()
    task.passes(2)
    assert asked == ["measured"], "what is left is known while a sink holds the source up"
    task.writer.full = False
    task.passes()
    assert asked == ["measured", "read"]


def test_the_receivers_are_told_the_time_without_a_barrier() -> None:
    task = Task(rig(COUNT).core)
    for sender in (0, 1):
        task.arrive(to_count(sender, 0), Watermark(7))
    task.passes(4)
    assert task.chain.times == [7]
    assert task.outputs.sent == [(to_out(0, 0), Watermark(7)), (to_out(0, 1), Watermark(7))]


def test_rows_that_a_rescale_holds_leave_when_their_receiver_has_the_version() -> None:
    driven = rig(SOURCE)
    stay, move = to_count(0, 0), to_count(0, 2)
    for event in (
        ev.Proposed(THREE, None),
        ev.Injected(rescale(1)),
        ev.Produced((ev.RoutedRows(stay, move, rows("moves")),)),
        ev.EpochCommitted(Epoch(1), Version(2)),
    ):
        driven(event)
    source = SimpleNamespace(next=lambda *_: None, rest_s=lambda *_: 0.0, resting=False, dry=True, asked=False)
    task = Task(driven.core, source)
    task.passes(2)
    assert task.outputs.sent == []
    task.outputs.receiver_version = Version(2)
    task.passes(2)
    assert (move, rows("moves")) in task.outputs.sent


@pytest.mark.parametrize("order", [Stop(), ev.ResetTo(Epoch(1))])
def test_an_order_to_end_comes_before_everything_that_waits(order: Any) -> None:
    task = Task(rig(OUT).core)
    task.loop.inbox.put(ev.EpochCommitted(Epoch(1), Version(1)))
    task.loop.inbox.put(order)
    task.arrive(to_out(0, 0), ROWS)
    with pytest.raises(TaskStopped):
        task.passes()
    assert task.writer.batches == []


def test_a_task_that_fails_says_so_and_waits_for_the_end_of_the_attempt() -> None:
    task = Task(rig(COUNT).core)  # it is built already: another Build is a fault
    task.loop.inbox.put(Stop())
    task.loop.run()
    ((name, error),) = task.broken
    assert name == task.core.state.task
    assert isinstance(error, AssertionError)


@pytest.mark.parametrize(("order", "cleared"), [(Stop(), []), (ev.ResetTo(Epoch(0)), [((handle(1),), True)])])
def test_only_a_reset_discards_what_was_prepared(order: Any, cleared: list[object]) -> None:
    driven = rig(OUT)
    for sender in (0, 1):
        driven.arrive(to_out(sender, 0), barrier(1))
    driven.store(1, handle(1))
    task = Task(driven.core)
    task.loop.inbox.put(order)
    task.loop.end()
    assert task.cleared == cleared


def test_a_part_that_cannot_be_closed_keeps_no_other_one_open() -> None:
    task = Task(rig(OUT).core)
    closed: list[str] = []

    def source() -> None:
        raise OSError("the source cannot be closed")

    task.loop._parts.source = cast(Any, SimpleNamespace(close=source))
    task.loop._parts.state = cast(Any, SimpleNamespace(close=lambda: closed.append("state")))
    task.writer.close = lambda: closed.append("sink")  # type: ignore[method-assign]
    with pytest.raises(OSError, match="the source cannot be closed"):
        task.loop.end()
    assert closed == ["sink", "state"]


def test_a_sink_asks_for_the_first_checkpoint_once_and_says_whether_it_has_room() -> None:
    asked: list[int] = []
    writer = Writer()
    slot = SinkSlot(lambda: cast(Any, writer), lambda: asked.append(len(writer.batches)))
    slot.open()
    for _ in range(3):
        slot.write(BATCH)
    assert asked == [1], "behind the first rows"
    seen = []
    for full in (False, True, True, False):
        writer.full = full
        assert slot.room() is not full
        seen.append(slot.full_since)
    assert seen[1] is not None
    assert seen == [None, seen[1], seen[1], None]


def test_what_is_staged_has_a_bound_while_output_cannot_be_published_and_only_then() -> None:
    writer, held_up = Writer(), [True]
    slot = SinkSlot(lambda: cast(Any, writer), held_up=lambda: held_up[0])
    slot.open()
    large = pa.record_batch({"x": np.zeros(SINK_STAGED_BYTES_MAX // 16, np.int64)})
    slot.write(large)
    assert slot.room()
    slot.write(large)
    assert not slot.room()
    held_up[0] = False
    assert slot.room(), "the next barrier comes behind rows that have to be taken"
    held_up[0] = True
    slot.seal(Epoch(2), Epoch(1), "cut")
    assert slot.room(), "behind a cut it begins anew"


def test_a_writer_learns_before_a_cut_which_epoch_is_committed() -> None:
    calls = list[object]()
    writer = SimpleNamespace(committed=calls.append, seal=lambda epoch, name: calls.append((epoch, name)))
    slot = SinkSlot(lambda: cast(Any, writer))
    slot.open()
    slot.seal(Epoch(5), Epoch(3), "cut")
    assert calls == [3, (5, "cut")]
