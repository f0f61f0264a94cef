"""What the hands of a task do beside sending: watermarks and loaded groups reach the steps."""

import threading
from collections.abc import Callable
from sys import maxsize
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from penstock.contract.ids import ChannelId, Ordinal, StageIndex, TaskId, Version
from penstock.contract.keygroups import Range, Share
from penstock.contract.manifest import GroupsTime
from penstock.engine.task_effects import TaskEffects
from penstock.engine.task_runtime import FetchedState, OutEdge, TaskParts, TaskRuntime
from penstock.model.elements import Data
from penstock.protocol.task import task_messages as ev
from penstock.transport.input import Wakeup
from tests.support.fakes import FakeClock

TASK = TaskId(StageIndex(1), Ordinal(0), 0)
BATCH = pa.record_batch({"end": pa.array([10, 20])})


def runtime() -> TaskRuntime:
    """Return as much of a worker as these tests need."""
    return cast(TaskRuntime, SimpleNamespace(clock=FakeClock(), work_clock=float))


class Core:
    """A core that wants nothing and remembers what it was told."""

    state = SimpleNamespace(task=TASK, waiting=None, aligner=SimpleNamespace(begins=lambda _: True))

    def __init__(self, told: list[object]) -> None:
        self._told = told

    def step(self, event: object, now: float) -> tuple[()]:
        self._told.append(event)
        return ()


class Chain:
    """A chain that has so many slices due at a watermark, and tells the order of what happens."""

    def __init__(self, told: list[object], rows: list[pa.RecordBatch], slices: int) -> None:
        self._told, self._rows, self._left = told, rows, slices

    def on_watermark(self, time_us: int) -> int:
        assert not self._rows, "the slice before has left"
        self._rows.append(BATCH)
        self._left -= 1
        self._told.append(f"fired at {time_us}")
        return time_us - self._left

    def on_clock(self) -> None:
        self._rows.append(BATCH)
        self._told.append("fired by the clock")

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        self._told.append((share, fired_us))

    def on_loaded(self) -> None:
        self._told.append("loaded")


class State:
    """Keyed state that takes what was fetched."""

    def __init__(self, told: list[object]) -> None:
        self.take: Callable[[object], None] = told.append


class FullOutput:
    """An output without room at first. While the task waits for it, a barrier comes."""

    def __init__(self) -> None:
        self.inbox: Any = None

    def try_send(self, element: object, more: bool = False) -> bool:
        if more:
            return False
        if self.inbox.empty:
            self.inbox.put(ev.Injected(cast(Any, None)))
            return False
        return True

    def wake_receiver(self) -> None:
        """Nobody waits."""


class Router:
    """Cuts nothing."""

    def pieces(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [batch]


class Hands(TaskEffects):
    """A performer whose rows all go one way."""

    def _router(self, index: int) -> Any:
        return Router()


def hands(told: list[object], slices: int = 0) -> tuple[TaskEffects, list[pa.RecordBatch]]:
    rows: list[pa.RecordBatch] = []
    edge = OutEdge(cast(Any, None), (), {}, rows)
    parts = TaskParts(
        cast(Any, Core(told)),
        cast(Any, Chain(told, rows, slices)),
        (edge,),
        {},
        cast(Any, State(told)),
    )
    return Hands(parts, runtime(), cast(Any, threading.Event())), rows


def test_the_rows_of_a_slice_are_sent_before_anything_else_and_no_second_slice_fires() -> None:
    told: list[object] = []
    performer, rows = hands(told, slices=2)
    performer._advance(ev.AdvanceWatermark(7))
    assert told == ["fired at 7", ev.Produced((BATCH,)), ev.Fired(6)]
    assert not rows, "what stays here would leave behind the next barrier"


def test_an_order_that_comes_while_the_task_waits_for_room_keeps_it_awake() -> None:
    """Rows that a rescale has held may leave at the end of a pass that has looked for orders already."""
    wakeup, output, channel = Wakeup(), FullOutput(), ChannelId(0, TASK, TASK)
    parts = TaskParts(cast(Any, Core([])), cast(Any, None), (), {}, None)
    performer = TaskEffects(parts, runtime(), wakeup)
    performer._outputs[channel], output.inbox = cast(Any, output), performer.inbox
    performer._send(ev.Send(channel, Data(BATCH, 2, 2)))
    assert not performer.inbox.empty
    assert wakeup.wait(0.0), "it would sleep though an order waits"


def test_rows_of_the_clock_are_sent_before_anything_else() -> None:
    told: list[object] = []
    performer, rows = hands(told)
    performer._advance_clock()
    assert told == ["fired by the clock", ev.Produced((BATCH,))]
    assert not rows, "what stays here would leave behind the next barrier"


class Behind:
    """An output channel on which so many rows wait."""

    def __init__(self, rows: int, *, full: bool = False) -> None:
        self._rows, self.full = rows, full
        self.flushed = 0

    def outstanding_rows(self) -> int:
        return self._rows

    def flush(self) -> None:
        self.flushed += 1


def test_the_fullest_channel_of_the_edges_says_what_is_outstanding_with_what_a_rescale_holds() -> None:
    told: list[object] = []
    performer, rows = hands(told)
    names = [ChannelId(edge, TASK, TaskId(StageIndex(2), Ordinal(n), 0)) for edge, n in ((3, 0), (3, 1), (4, 0))]
    outputs = [Behind(7), Behind(90), Behind(500, full=True)]
    performer._outputs = cast(Any, dict(zip(names, outputs, strict=True)))
    held = SimpleNamespace(held_rows=5)
    unopened = ChannelId(3, TASK, TaskId(StageIndex(2), Ordinal(2), 0))
    performer.core = cast(Any, SimpleNamespace(step=performer.core.step))
    performer.core.state = cast(Any, SimpleNamespace(outputs=[*names, unopened], buffer=held))
    rows.append(BATCH)
    assert performer.outstanding({3}, 90) == 95
    assert told == [ev.Produced((BATCH,))], "rows that were emitted are sent first"
    assert [output.flushed for output in outputs] == [0, 1, 0], "no further rows come for the second"
    assert performer.outstanding({3, 4}, 1_000) >= maxsize, "the task would wait"


def test_steps_get_the_loaded_groups_and_their_watermark() -> None:
    told: list[object] = []
    performer, _ = hands(told)
    share: Share = (Range(0, 4),)
    fired = (GroupsTime((Range(0, 1),), 20), GroupsTime((Range(1, 4),), 15))
    load = ev.LoadState(Version(3), share, (), (), 15, fired)
    performer.take(FetchedState(load, cast(Any, "fetched")))
    assert told == ["fetched", ((Range(0, 1),), 20), ((Range(1, 4),), 15), "loaded", ev.Loaded(Version(3))]
