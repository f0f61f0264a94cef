"""What the hands of a task do for checkpoints, restores and rescales, and while rows wait for credit."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from penstock.base.errors import StateError
from penstock.contract.ids import Epoch, SplitId, Term, Version
from penstock.contract.keygroups import Range, Share
from penstock.contract.manifest import GroupsTime, SinkHandle
from penstock.engine.checkpoint_files import Captured, SinkRaised
from penstock.engine.group_load import GroupLoad
from penstock.engine.task_effects import TaskEffects, TaskStopped
from penstock.engine.task_runtime import FetchedState, OutEdge, Stop, TaskParts, TaskRuntime
from penstock.model.elements import Data
from penstock.protocol.task import task_messages as ev
from penstock.transport.input import Wakeup
from tests.support.fakes import FakeClock
from tests.support.task_harness import (
    COUNT,
    PLAN,
    SOURCE,
    THREE,
    Rig,
    barrier,
    handle,
    rescale,
    rig,
    to_count,
    to_out,
)

BATCH = pa.record_batch({"word": ["a", "b", "c", "d", "e", "f", "g", "h"]})
SHARE: Share = (Range(0, 2),)
LOAD = ev.LoadState(Version(1), SHARE, (), (), None, (GroupsTime(SHARE, 7),))


class State:
    """Keyed state that notes what it is told, and copies a cut in as many pieces as the test says."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.pieces = 0

    def flip(self, epoch: Epoch, *, merges: bool) -> Any:
        self.told.append(("flip", epoch, merges))
        return SimpleNamespace(expedite=threading.Event(), epoch=epoch)

    def copy_on(self) -> bool:
        self.pieces -= 1
        return self.pieces < 0

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.told.append((name, *given))


class Room:
    """An output that refuses rows so often, and calls something each time."""

    window = 0
    receiver_version = Version(0)

    def __init__(self, refusals: int = 0, between: Any = lambda: None) -> None:
        self.refusals, self.between = refusals, between
        self.sent: list[object] = []

    def try_send(self, element: object, *, more: bool = False) -> bool:
        if self.refusals:
            self.refusals -= 1
            self.between()
            return False
        self.sent.append(element)
        return True

    def put(self, element: object) -> None:
        self.sent.append(element)

    def wake_receiver(self) -> None:
        """Nobody sleeps here."""


class Hands:
    """The effects of a real core, with everything around them in the hands of the test."""

    def __init__(self, driven: Rig, *, source: Any = None, keys: tuple[str, ...] | None = None) -> None:
        self.core = driven.core
        self.state = State()
        self.outputs: dict[Any, Room] = {c: Room() for c in self.core.state.outputs}
        self.stored: list[Captured] = []
        self.cleared: list[tuple[tuple[SinkHandle, ...], bool]] = []
        writer = SimpleNamespace(name=lambda *_: "name", store=lambda captured, _: self.stored.append(captured))
        host = SimpleNamespace(
            clock=FakeClock(),
            work_clock=float,
            snapshot_writer=writer,
            spread=lambda _: None,
            changed=lambda: None,
            ack=lambda *_: None,
            output=self.outputs.__getitem__,
            clear=lambda handles, discard: self.cleared.append((handles, discard)),
        )
        edge = OutEdge(PLAN.edges[0], keys or (), {}, [], GroupLoad("count", 16))
        edges: tuple[OutEdge, ...] = () if keys is None else (edge,)
        parts = TaskParts(self.core, cast(Any, self.state), edges, {}, cast(Any, self.state), source)
        self.effects = TaskEffects(parts, cast(TaskRuntime, host), Wakeup())
        self.edges = edges

    def arrive(self, *elements: tuple[Any, Any]) -> None:
        for channel, element in elements:
            self.effects.step(ev.ElementReceived(channel, element))


def aligned(element: Any) -> list[tuple[Any, Any]]:
    return [(to_count(sender, 0), element) for sender in (0, 1)]


def test_a_task_whose_state_cannot_be_fetched_does_not_go_on_without_it() -> None:
    hands = Hands(rig(COUNT))
    with pytest.raises(StateError, match="missing"):
        hands.effects.take(FetchedState(LOAD, None, StateError("it is missing")))
    assert hands.state.told == []


def test_fetched_state_is_loaded_before_the_steps_hear_of_its_groups() -> None:
    hands = Hands(rig(COUNT))
    hands.effects.take(FetchedState(LOAD, "fetched"))
    assert hands.state.told == [("take", "fetched"), ("on_groups_gained", SHARE, 7), ("on_loaded",)]


def test_state_and_source_hear_of_a_commit_and_of_what_leaves() -> None:
    counter, reader = Hands(rig(COUNT)), Hands(rig(SOURCE), source=State())
    counter.effects._confirm(ev.ConfirmCommitted(Epoch(3)))
    counter.effects._drop(ev.DropGroups(SHARE))
    assert counter.state.told == [("committed", Epoch(3)), ("drop_groups", SHARE), ("on_groups_lost", SHARE)]
    source = cast(Any, reader.effects._parts.source)
    reader.effects._confirm(ev.ConfirmCommitted(Epoch(3)))
    reader.effects._close_splits(ev.CloseSplits((SplitId("a"),)))
    assert source.told == [("committed", Epoch(3)), ("close", (SplitId("a"),))]


def test_a_new_version_is_announced_on_the_input() -> None:
    hands, announced = Hands(rig(COUNT)), list[Version]()
    hands.effects.input = cast(Any, SimpleNamespace(announce=announced.append))
    hands.effects._announce(ev.AnnounceVersion(Version(2)))
    assert announced == [Version(2)]


def test_a_snapshot_is_stored_when_its_rows_are_copied_and_the_next_cut_waits_for_that() -> None:
    hands = Hands(rig(COUNT))
    hands.state.pieces = 2
    hands.arrive(*aligned(barrier(1)))
    assert hands.stored == []
    while not hands.effects.copy_on():
        pass
    assert [captured.epoch for captured in hands.stored] == [1]
    hands.state.pieces = 2
    first = ev.Snapshot(barrier(2), Epoch(0), None)
    hands.effects._snapshot(first)
    hands.effects._snapshot(ev.Snapshot(barrier(3), Epoch(0), None))
    assert [captured.epoch for captured in hands.stored] == [1, 2, 3]


def test_a_rescale_does_not_wait_for_a_merge() -> None:
    for cut, merges in ((barrier(1), True), (rescale(1), False)):
        driven = rig(COUNT)
        driven(ev.Proposed(THREE, None))
        hands = Hands(driven)
        hands.arrive(*aligned(cut))
        assert ("flip", Epoch(1), merges) in hands.state.told


def test_what_is_stored_after_the_end_of_the_attempt_is_discarded() -> None:
    hands = Hands(rig(COUNT))
    parts = ev.SnapshotParts(handles=(handle(1),))
    hands.effects._stored(ev.SnapshotStored(Term(1), Epoch(1), parts))
    assert hands.effects.inbox.take() == ev.SnapshotStored(Term(1), Epoch(1), parts)
    hands.effects.over = True
    hands.effects._stored(ev.SnapshotStored(Term(1), Epoch(1), parts))
    hands.effects._stored(ev.StoreFailed(Term(1), Epoch(1), "full", (handle(2),)))
    raised = SinkRaised(ev.StoreFailed(Term(1), Epoch(1), "no bucket", (handle(3),)), KeyError("no bucket"))
    hands.effects._stored(raised)
    assert hands.cleared == [((handle(n),), True) for n in (1, 2, 3)]
    assert hands.effects.inbox.empty


@pytest.mark.parametrize(
    "meet",
    [
        lambda effects: effects.take_event(effects.inbox.take()),
        lambda effects: effects._while_waiting(),  # while it sends
    ],
)
def test_a_sink_that_raised_ends_the_task_and_what_others_prepared_is_discarded(
    meet: Callable[[TaskEffects], None],
) -> None:
    hands = Hands(rig(COUNT))
    hands.arrive(*aligned(barrier(1)))
    error = KeyError("no bucket")
    hands.effects._stored(SinkRaised(ev.StoreFailed(Term(1), Epoch(1), "no bucket", (handle(1),)), error))
    with pytest.raises(KeyError) as raised:
        meet(hands.effects)
    assert raised.value is error
    assert ev.Discard((handle(1),)) in hands.core.step(ev.ResetTo(Epoch(0)), 0.0)


def test_rows_leave_once_and_by_the_table_that_holds_then() -> None:
    driven = rig(SOURCE)
    hands = Hands(driven, source=State(), keys=("word",))
    (edge,) = hands.edges
    edge.rows.append(BATCH)
    hands.effects._flush()
    hands.effects._flush()
    sent = [e for output in hands.outputs.values() for e in output.sent if isinstance(e, Data)]
    assert sum(data.rows for data in sent) == BATCH.num_rows
    driven(ev.Proposed(THREE, None))
    driven(ev.Injected(rescale(1)))
    edge.rows.append(BATCH)
    hands.effects._flush()
    held = hands.core.state.buffer._held
    assert {piece.new for piece in held} == {to_count(0, 2)}, "rows of moving groups wait for their new owner"


def test_a_snapshot_tells_the_rows_of_each_key_group() -> None:
    hands = Hands(rig(SOURCE), source=State(), keys=("word",))
    hands.edges[0].rows.append(BATCH)
    hands.effects._flush()
    hands.effects.step(ev.Injected(barrier(1)))
    (told,) = hands.stored[0].load
    assert (told.step, sum(told.rows)) == ("count", BATCH.num_rows)
    assert len(told.groups) > 1


def test_a_task_that_waits_for_credit_hears_of_the_end_of_its_attempt() -> None:
    hands = Hands(rig(COUNT))
    channel = to_out(0, 0)
    hands.outputs[channel] = Room(5, lambda: hands.effects.inbox.put(Stop()))
    with pytest.raises(TaskStopped):
        hands.effects._send(ev.Send(channel, Data(BATCH, 8, 8, None, None)))
    assert hands.outputs[channel].sent == []


def test_orders_wait_behind_a_barrier_that_waits_itself() -> None:
    hands = Hands(rig(COUNT))
    hands.arrive(*aligned(barrier(1)))
    hands.effects.inbox.put(ev.EpochCommitted(Epoch(1), Version(1)))
    hands.core.state.waiting = barrier(2)
    hands.effects._while_waiting()
    assert hands.effects.inbox.take() == ev.EpochCommitted(Epoch(1), Version(1))
    hands.core.state.waiting = None
    hands.effects.inbox.put(ev.EpochCommitted(Epoch(1), Version(1)))
    hands.effects._while_waiting()
    assert hands.effects.inbox.empty


def test_a_stream_that_a_version_ends_is_not_used_when_its_name_comes_back() -> None:
    hands = Hands(rig(COUNT))
    keeps, ends = to_out(0, 0), to_out(0, 1)
    old = {channel: hands.effects.output(channel) for channel in (keeps, ends)}
    hands.core.state.outputs = (keeps,)
    hands.effects.forget_streams()
    hands.outputs[ends] = Room()
    hands.core.state.outputs = (keeps, ends)
    for channel in (keeps, ends):
        hands.effects._send(ev.Send(channel, barrier(1)))
    assert cast(Any, old[keeps]).sent == [barrier(1)]
    assert cast(Any, old[ends]).sent == []
    assert hands.outputs[ends].sent == [barrier(1)]
