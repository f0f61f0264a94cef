"""Who writes a snapshot rests now and then, unless somebody waits for it."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.contract.ids import Epoch, StageIndex, TaskId, Term, Version
from penstock.engine.task_effects import TaskEffects
from penstock.model.elements import Barrier, BarrierKind
from penstock.protocol.task import task_messages as ev
from penstock.transport.input import Wakeup
from tests.support.fakes import FakeClock

TASK = TaskId(StageIndex(0), 0, 0)  # type: ignore[arg-type]


class State:
    """Its cuts are copied at once; each says whether somebody waits for it."""

    def __init__(self) -> None:
        self.cuts: list[Any] = []

    def flip(self, epoch: Epoch, *, merges: bool = True) -> Any:
        self.cuts.append(SimpleNamespace(epoch=epoch, merges=merges, expedite=threading.Event()))
        return self.cuts[-1]

    def copy_on(self) -> bool:
        return True


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def performer(state: State) -> TaskEffects:
    # The core asks for what it is told.
    core = SimpleNamespace(state=SimpleNamespace(task=TASK), step=lambda event, now: [event])
    chain = SimpleNamespace(digests=tuple)
    parts: Any = SimpleNamespace(core=core, state=state, sinks={}, source=None, edges=[], chain=chain)
    host: Any = SimpleNamespace(
        snapshot_writer=SimpleNamespace(store=lambda *_: None), clock=FakeClock(), work_clock=float
    )
    return TaskEffects(parts, host, Wakeup())


def snapshot(kind: BarrierKind) -> Any:
    return ev.Snapshot(Barrier(Term(1), Epoch(1), Version(1), kind, Epoch(0), 0), Epoch(0), None)


def test_a_snapshot_rests_until_somebody_waits_for_it(performer: TaskEffects, state: State) -> None:
    performer.step(snapshot(BarrierKind.CHECKPOINT))
    assert not state.cuts[0].expedite.is_set()
    performer.step(ev.ExpediteSnapshot())  # type: ignore[arg-type]
    assert state.cuts[0].expedite.is_set()


@pytest.mark.parametrize("kind", list(BarrierKind))
def test_a_rescale_merges_nothing(performer: TaskEffects, state: State, kind: BarrierKind) -> None:
    performer.step(snapshot(kind))
    (cut,) = state.cuts
    assert cut.merges is (kind is not BarrierKind.RESCALE)
