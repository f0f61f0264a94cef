"""Output of whole sinks: one worker publishes that of all tasks, and nothing goes on before it has."""

from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.plan import StepState
from tests.support.in_memory_control_plane import InMemoryControlPlane
from tests.support.running_jobs import sent
from tests.support.stub_engine import PLAN

TABLE = replace(PLAN, states=(*PLAN.states[:-1], StepState("out", "sink", "table")))


def tables() -> InMemoryControlPlane:
    plane = InMemoryControlPlane(2)
    plane.plan = TABLE
    return plane


def orders(plane: InMemoryControlPlane) -> list[control.PublishWhole]:
    return [order for order in sent(plane, control.PublishWhole) if isinstance(order, control.PublishWhole)]


def test_the_first_member_publishes_what_all_tasks_have_prepared() -> None:
    plane = tables()
    plane.until(lambda: plane.latest.published_through >= 2)
    assert {(order.epoch, len(order.handles)) for order in orders(plane)} >= {(1, 4), (2, 4)}
    assert "PublishWhole" in plane.engine(0).commands
    assert "PublishWhole" not in plane.engine(1).commands


def test_no_epoch_begins_before_a_table_has_the_one_before_it() -> None:
    plane = tables()
    plane.until(lambda: plane.latest.epoch == 1)
    plane.engine(0).mute = ["PublishWhole"]
    plane.until(lambda: plane.latest.epoch == 2)
    plane.run(5.0)
    assert (plane.latest.epoch, plane.latest.published_through) == (2, 1)
    plane.engine(0).mute = []
    for ordinal in (0, 1):
        plane.kill(ordinal)
        plane.start(ordinal)
    plane.until(lambda: plane.latest.epoch > 2)


def test_after_a_loss_the_output_is_published_before_the_start_by_one_worker() -> None:
    plane = tables()
    plane.until(lambda: plane.latest.epoch == 1)
    plane.engine(0).mute = ["PublishWhole"]
    plane.until(lambda: plane.latest.epoch == 2)
    plane.kill(0)
    plane.start(0)
    plane.until(lambda: plane.latest.epoch > 2)
    (again,) = {order for order in orders(plane) if order.epoch == 2 and order.attempt == 2}
    assert len(again.handles) == 4
    shares = [order for order in sent(plane, control.Publish) if isinstance(order, control.Publish)]
    assert not any(order.handles for order in shares), "no worker publishes its own part of a table"
