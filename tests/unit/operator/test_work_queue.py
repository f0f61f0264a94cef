"""The queue holds a key once, gives it to one worker, and delays it longer after each failure."""

import asyncio

from penstock_operator.cluster.store import JobKey
from penstock_operator.handlers.work_queue import BACKOFF_MAX_S, PAUSE_S, WorkQueue

A, B = JobKey("n", "a"), JobKey("n", "b")


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_key_is_in_it_once_and_oldest_goes_first() -> None:
    async def conversation() -> None:
        clock = Clock()
        queue = WorkQueue(clock)
        queue.add(A, 0.0)
        clock.now += 1
        queue.add(B)
        queue.add(A)
        assert queue.depth() == 2
        assert [await queue.take(), await queue.take()] == [A, B]
        assert queue.depth() == 0

    asyncio.run(conversation())


def test_what_comes_meanwhile_waits_for_the_one_at_work() -> None:
    async def conversation() -> None:
        clock = Clock()
        queue = WorkQueue(clock)
        queue.add(A)
        assert await queue.take() == A
        queue.add(A)
        assert queue.depth() == 0
        queue.done(A, None)
        assert queue.depth() == 0
        clock.now += PAUSE_S
        assert await queue.take() == A

    asyncio.run(conversation())


def test_failures_wait_longer_and_events_do_not_hurry_them() -> None:
    async def conversation() -> None:
        clock = Clock()
        queue = WorkQueue(clock)
        waits = []
        for _ in range(12):
            queue.add(A)
            clock.now += 1000
            await queue.take()
            waits.append(queue.failed(A))
            queue.add(A)
            assert queue.depth() == 0
        assert waits == sorted(waits)
        assert waits[0] < 1 < waits[-1] == BACKOFF_MAX_S
        assert queue.depth() == 0

    asyncio.run(conversation())


def test_the_age_of_the_head_is_seen() -> None:
    clock = Clock()
    queue = WorkQueue(clock)
    queue.add(A)
    clock.now += 7
    assert queue.head_age_s() == 7


def test_a_pause_holds_every_key_and_ends() -> None:
    async def conversation() -> None:
        clock = Clock()
        queue = WorkQueue(clock)
        queue.add(A)
        queue.pause(7.0)
        taking = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        assert not taking.done()
        clock.now += 7.0
        queue.add(B, -10.0)  # a new head wakes the waiting worker
        assert await taking == B
        assert await queue.take() == A

    asyncio.run(conversation())
