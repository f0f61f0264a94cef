import threading

import pytest

from penstock.base.errors import StorageError
from penstock.base.limits import KEEPER_INBOX_MAX
from penstock.keeper.keeper_messages import EngineCrashed, ForCoordinator, ForMember, KeeperInbox, Lane
from penstock.protocol.keeper_core_messages import Retire, Tick


def test_items_come_out_in_order_and_a_wait_ends() -> None:
    inbox = KeeperInbox()
    inbox.put(ForCoordinator(Tick()))
    inbox.put(ForMember(Tick()))
    assert inbox.take(None) == ForCoordinator(Tick())
    assert inbox.take(0) == ForMember(Tick())
    assert inbox.take(0) is None
    assert inbox.take(0.001) is None


def test_a_flood_is_refused_at_the_door() -> None:
    inbox = KeeperInbox()
    for _ in range(KEEPER_INBOX_MAX):
        inbox.offer(ForMember(Tick()))
    with pytest.raises(StorageError, match="inbox is full"):
        inbox.offer(ForMember(Tick()))


def test_a_lane_does_jobs_in_order_on_its_own_thread() -> None:
    inbox, threads = KeeperInbox(), set()
    lane = Lane("test", inbox)

    def job(answer: ForCoordinator | None) -> ForCoordinator | None:
        threads.add(threading.current_thread().name)
        return answer

    lane.do(lambda: job(ForCoordinator(Tick())))
    lane.do(lambda: job(None))
    lane.do(lambda: job(ForCoordinator(Retire())))
    assert inbox.take(10) == ForCoordinator(Tick())
    assert inbox.take(10) == ForCoordinator(Retire())
    assert threads == {"test"}


def test_an_error_nobody_expected_ends_the_process() -> None:
    inbox = KeeperInbox()
    error = ZeroDivisionError("a bug")

    def bug() -> None:
        raise error

    Lane("test", inbox).do(bug)
    assert inbox.take(10) == EngineCrashed(error)
