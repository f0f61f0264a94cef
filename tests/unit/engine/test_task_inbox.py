"""A task hears of a reset at once, and while it sends only of what changes no order."""

import pytest

from penstock.base.errors import StorageError
from penstock.base.limits import TASK_INBOX_MAX
from penstock.contract.ids import Epoch, Term, Version
from penstock.engine.task_runtime import TaskInbox
from penstock.model.elements import Barrier, BarrierKind
from penstock.protocol.task import task_messages as ev
from penstock.transport.input import Wakeup


class CountingWakeup(Wakeup):
    def __init__(self) -> None:
        super().__init__()
        self.times_set = 0

    def set(self) -> None:
        self.times_set += 1


def every(_: Barrier) -> bool:
    return True


def test_every_event_wakes_the_task() -> None:
    wakeup = CountingWakeup()
    inbox = TaskInbox(wakeup)
    inbox.put(ev.Started())
    inbox.put(ev.Published(Epoch(1)))
    assert wakeup.times_set == 2
    assert inbox.take() == ev.Started()


def test_nothing_overtakes_an_event_that_changes_the_order() -> None:
    inbox = TaskInbox(CountingWakeup())
    inbox.put(ev.EpochCommitted(Epoch(1), Version(1)))
    inbox.put(ev.Aborted(Term(1), Epoch(2)))
    inbox.put(ev.Published(Epoch(1)))
    assert inbox.take_harmless(every) == ev.EpochCommitted(Epoch(1), Version(1))
    assert inbox.take_harmless(every) is None
    assert inbox.take() == ev.Aborted(Term(1), Epoch(2))
    assert inbox.take_harmless(every) == ev.Published(Epoch(1))


def test_a_known_barrier_blocks_no_later_event() -> None:
    inbox, barrier = (
        TaskInbox(CountingWakeup()),
        Barrier(Term(1), Epoch(1), Version(1), BarrierKind.FINAL, Epoch(0), 0),
    )
    inbox.put(ev.Injected(barrier))
    inbox.put(ev.Published(Epoch(1)))
    assert inbox.take_harmless(every) is None
    assert inbox.take_harmless(lambda brought: brought is not barrier) == ev.Injected(barrier)
    assert inbox.take_harmless(every) == ev.Published(Epoch(1))


def test_a_reset_is_seen_whatever_else_waits() -> None:
    inbox = TaskInbox(CountingWakeup())
    inbox.put(ev.Started())
    before = inbox.reset
    inbox.put(ev.ResetTo(Epoch(3)))
    assert (before, inbox.reset) == (None, ev.ResetTo(Epoch(3)))
    assert inbox.take() == ev.Started()


def test_more_orders_than_the_bound_are_refused_and_the_end_and_answers_are_not() -> None:
    inbox = TaskInbox(CountingWakeup())
    for _ in range(TASK_INBOX_MAX):
        inbox.put(ev.Started())
    with pytest.raises(StorageError, match=f"has not taken {TASK_INBOX_MAX} orders: Aborted"):
        inbox.put(ev.Aborted(Term(1), Epoch(2)))
    inbox.put(ev.Published(Epoch(1)))
    inbox.put(ev.ResetTo(Epoch(1)))
    assert inbox.reset == ev.ResetTo(Epoch(1))
    waiting = 0
    while inbox.take() is not None:
        waiting += 1
    assert waiting == TASK_INBOX_MAX + 2
    inbox.put(ev.Started())
