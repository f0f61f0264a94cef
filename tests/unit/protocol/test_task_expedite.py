"""Expedited snapshots of a task: those that somebody waits for are written at full speed."""

import pytest

from penstock.contract.ids import Epoch, Term, Version
from penstock.model.elements import BarrierKind
from penstock.protocol.task import task_messages as ev
from tests.support.task_harness import SOURCE, THREE, barrier, rescale, rig


@pytest.mark.parametrize("kind", [k for k in BarrierKind if k is not BarrierKind.RESCALE])
def test_only_a_periodic_checkpoint_is_not_expedited(kind: BarrierKind) -> None:
    actions = rig(SOURCE)(ev.Injected(barrier(1, kind=kind)))
    assert (ev.ExpediteSnapshot() in actions) is (kind is not BarrierKind.CHECKPOINT)


def test_rows_of_moved_groups_wait_for_a_rescale() -> None:
    source = rig(SOURCE)
    source(ev.Proposed(THREE, None))
    assert ev.ExpediteSnapshot() in source(ev.Injected(rescale(1)))


def test_a_checkpoint_that_somebody_waits_for_is_expedited() -> None:
    source = rig(SOURCE)
    source(ev.Injected(barrier(1)))
    assert source(ev.Expedited(Epoch(1))) == [ev.ExpediteSnapshot()], "while it is being stored"
    source.store(1)
    assert source(ev.Expedited(Epoch(2))) == [], "before its barrier is here"
    actions = source(ev.Injected(barrier(2)))
    assert actions.index(ev.ExpediteSnapshot()) == 1 + [type(a) for a in actions].index(ev.Snapshot)
    source.store(2)
    assert ev.ExpediteSnapshot() not in source(ev.Injected(barrier(3))), "nobody waits for the next one"


def test_a_number_that_recurs_under_another_term_is_not_expedited() -> None:
    source = rig(SOURCE)
    source(ev.Expedited(Epoch(1)))
    source(ev.TermAnnounced(Term(2), Epoch(0), Version(1)))
    assert ev.ExpediteSnapshot() not in source(ev.Injected(barrier(1, term=2)))
