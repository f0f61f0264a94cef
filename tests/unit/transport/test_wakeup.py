"""A wake-up is never lost, and two are one."""

from threading import Thread

from penstock.transport.input import Wakeup


def test_a_wakeup_set_before_the_wait_is_not_lost_and_is_consumed() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    assert wakeup.wait(0)
    assert not wakeup.wait(0)
    assert not wakeup.wait(-1)


def test_many_threads_may_set_it_at_once() -> None:
    wakeup, rounds = Wakeup(), 2000

    def set_often() -> None:
        for _ in range(rounds):
            wakeup.set()

    threads = [Thread(target=set_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wakeup.wait(0)
    assert not wakeup.wait(0)
